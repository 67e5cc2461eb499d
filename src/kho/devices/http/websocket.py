"""The WebSocket of boards: `/xiaozhi/v1/`, and `/devices/ws` for those that are told an address of ours.

A board that shows a token must be the one that the token names. One without is taken in where all are (a hub that
serves its own machine); elsewhere it may say hello, and is told what to do. Kho is no speech server: audio is counted
and otherwise ignored.
"""

import asyncio
from typing import Protocol

from kho.devices.connections.connection import BoardConnection, Wire
from kho.devices.errors import NotApproved
from kho.devices.http.ota import PATH as OTA_PATH
from kho.devices.http.ota import SOCKET_PATH
from kho.devices.http.vision import PATH as VISION_PATH
from kho.devices.pairing.headers import BoardHeaders, base, stated
from kho.devices.pairing.rate_limit import RateLimit
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol import frames
from kho.devices.protocol.session import Photos, Session
from kho.devices.store import Device
from kho.kernel.access import OWN_CREDENTIALS
from kho.kernel.errors import KhoError, Unauthorized
from kho.kernel.web import Channel, ChannelClosed, Socket
from kho.lib.clock import Clock

PATHS = (SOCKET_PATH, "/devices/ws")
HELLO_WITHIN = 10.0
NOT_APPROVED = 4403
NO_HELLO = 4408
TRY_LATER = 1013


class Boards(Protocol):
    """Who keeps the boards that are connected."""

    def attach(self, tenant: str, device: str, wire: Wire, session: Session) -> BoardConnection: ...

    async def connected(self, tenant: str, device: str, link: BoardConnection) -> None: ...


class SocketWire:
    name = "websocket"

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.audio = 0
        """Frames of sound that were thrown away."""

    async def send(self, text: str) -> None:
        await self._channel.send(text)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._channel.close(code, reason)


class WebSocketDoor:
    def __init__(
        self,
        registrations: Registrations,
        tokens: Tokens,
        boards: Boards,
        clock: Clock,
        newcomers: RateLimit,
        *,
        approval: Approving,
        public_url: str = "",
        hello_within: float = HELLO_WITHIN,
    ) -> None:
        self._registrations = registrations
        self._tokens = tokens
        self._boards = boards
        self._clock = clock
        self._newcomers = newcomers
        self._approval = approval
        self._public_url = public_url
        self._hello_within = hello_within

    @property
    def sockets(self) -> tuple[Socket, ...]:
        return tuple(Socket(path, self.serve, "A board's connection.", scope=OWN_CREDENTIALS) for path in PATHS)

    async def serve(self, channel: Channel) -> None:
        try:
            board = await self._admitted(stated(channel.headers, channel.query), channel.peer)
        except KhoError as error:
            await channel.refuse(error)
            return
        await channel.accept()
        hello = await self._hello(channel)
        if hello is None:
            return
        if not board.approved:
            await _turn_away(channel, board)
            return
        await self._converse(channel, board, hello)

    async def _admitted(self, asked: BoardHeaders, peer: str) -> Device:
        """The board, approved or not. Raises what the connection is to be refused with."""
        await self._tokens.ready()
        if asked.token:
            return await self._by_token(asked)
        known = await self._registrations.find(asked.named.device, asked.client)
        if await self._approval() == "code":
            if known is None:
                self._newcomers.admit(peer, self._clock())
            elif known.approved:
                raise Unauthorized(f"This board has a token: it gets it at {OTA_PATH}, and must show it.")
        return await self._registrations.register(asked.device, asked.client, known.info if known else {})

    async def _by_token(self, asked: BoardHeaders) -> Device:
        claims = self._tokens.check(asked.token, "socket", self._clock())
        if claims is None:
            raise Unauthorized(f"The token is not valid here, or no longer. The board gets a new one at {OTA_PATH}.")
        if not claims.fits(asked.device or claims.device, asked.client or claims.client):
            raise Unauthorized("The token is another board's.")
        board = await self._registrations.of(claims.tenant, claims.device)
        if board is None or not claims.holds(board.approved_at, board.revoked_at):
            raise Unauthorized("The board was revoked since it got this token.")
        return board

    async def _hello(self, channel: Channel) -> str | None:
        """The board's hello; None if the connection ended, or was ended because none came."""
        try:
            async with asyncio.timeout(self._hello_within):
                while (message := await channel.receive()) is not None:
                    if isinstance(message, str) and (frames.parse(message) or {}).get("type") == "hello":
                        return message
        except TimeoutError:
            await channel.close(NO_HELLO, f"Say hello within {self._hello_within:g} seconds.")
        return None

    async def _converse(self, channel: Channel, board: Device, hello: str) -> None:
        wire = SocketWire(channel)
        hub = base(self._public_url, channel.scheme, channel.headers)

        def photos() -> Photos:
            token = self._tokens.issue(board.tenant, board.id, board.client, "vision", self._clock())
            return hub + VISION_PATH, token

        # Firmware takes no other word for this transport, whatever its own hello says.
        session = Session(vision=photos, server_hello=lambda hello: {"transport": "websocket"})
        link = self._boards.attach(board.tenant, board.id, wire, session)
        try:
            await self._boards.connected(board.tenant, board.id, link)
            await link.received(hello)
            while (message := await channel.receive()) is not None:
                if isinstance(message, str):
                    await link.received(message)
                else:
                    wire.audio += 1
        except NotApproved:  # revoked in this very moment
            await channel.close(NOT_APPROVED, "This board is not approved.")
        except KhoError as error:
            await channel.close(TRY_LATER, error.message)
        finally:
            await link.close("The board's connection ended.")
            await link.settled()


async def _turn_away(channel: Channel, board: Device) -> None:
    """Boards show an alert on their display; the reason is for whoever reads the log of one."""
    why = "This board was revoked." if board.code is None else f"Not approved yet: kho devices approve {board.code}"
    try:
        await channel.send(frames.dump({"type": "alert", "status": "Kho", "message": why, "emotion": "sad"}))
    except ChannelClosed:
        return
    await channel.close(NOT_APPROVED, why)
