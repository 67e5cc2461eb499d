"""WebSocket for boards: `/xiaozhi/v1/`, and `/devices/ws` for boards configured with an address of ours.

A board with a token must be the one that the token names. A board without one is accepted if approval is automatic (a
hub that serves its own machine only); otherwise it may say hello and is shown what to do. Kho is not a speech server:
audio is counted and ignored.
"""

import asyncio

from kho.devices.connections.boards import ConnectedBoards
from kho.devices.connections.frame_pace import FramePace
from kho.devices.errors import NotApproved
from kho.devices.http.ota import PATH as OTA_PATH
from kho.devices.http.ota import SOCKET_PATH
from kho.devices.http.vision import PATH as VISION_PATH
from kho.devices.pairing.headers import BoardHeaders, base, stated
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol import frames
from kho.devices.protocol.session import Photos, Session
from kho.devices.store import Device
from kho.kernel import Channel, ChannelClosed, KhoError, Socket, Unauthorized
from kho.kernel.access import OWN_CREDENTIALS
from kho.lib.dataclass import dataclass

PATHS = (SOCKET_PATH, "/devices/ws")
HELLO_WITHIN = 10.0
NOT_APPROVED = 4403
NO_HELLO = 4408
TRY_LATER = 1013


@dataclass(slots=True)
class SocketWire:
    channel: Channel
    audio: int = 0
    """Audio frames that were discarded."""
    name: str = "websocket"

    async def send(self, text: str) -> None:
        await self.channel.send(text)

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self.channel.close(code, reason)


@dataclass(slots=True, kw_only=True)
class WebSocketDoor:
    registrations: Registrations
    tokens: Tokens
    boards: ConnectedBoards
    public_url: str
    hello_within: float = HELLO_WITHIN

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
        """Return the board, approved or not. Raises the error to refuse the connection with."""
        await self.tokens.ready()
        if asked.token:
            return await self._by_token(asked)
        await self.registrations.admit_anybody(peer)
        await self.registrations.need_client(asked.named.client)
        known = await self.registrations.find(asked.device, asked.client)
        if known is None:
            await self.registrations.admit_unknown(peer)
        elif known.approved and await self.registrations.approval() == "code":
            raise Unauthorized(f"This board has a token: it gets it at {OTA_PATH}, and must show it.")
        return await self.registrations.register(asked.device, asked.client, known.info if known else {})

    async def _by_token(self, asked: BoardHeaders) -> Device:
        claims = self.tokens.check(asked.token, "socket", self.registrations.clock())
        if claims is None:
            raise Unauthorized(f"The token is not valid here, or no longer. The board gets a new one at {OTA_PATH}.")
        if not claims.fits(asked.device or claims.device, asked.client or claims.client):
            raise Unauthorized("The token is another board's.")
        board = await self.registrations.of(claims.tenant, claims.device)
        if board is None or not claims.holds(board.approved_at, board.revoked_at):
            raise Unauthorized("The board was revoked since it got this token.")
        return board

    async def _hello(self, channel: Channel) -> str | None:
        """Return the board's hello; None if the connection ended, or was closed because no hello came in time."""
        pace = FramePace(self.boards.frames, pause=self.boards.pause)
        try:
            async with asyncio.timeout(self.hello_within):
                while (message := await channel.receive()) is not None:
                    await pace.turn()
                    if isinstance(message, str) and (frames.parse(message) or {}).get("type") == "hello":
                        return message
        except TimeoutError:
            await channel.close(NO_HELLO, f"Say hello within {self.hello_within:g} seconds.")
        return None

    async def _converse(self, channel: Channel, board: Device, hello: str) -> None:
        wire = SocketWire(channel)
        hub = base(self.public_url, channel.scheme, channel.headers)

        def photos() -> Photos:
            token = self.tokens.issue(board.tenant, board.id, board.client, "vision", self.registrations.clock())
            return hub + VISION_PATH, token

        # Firmware accepts no other value for this transport, whatever its own hello says.
        session = Session(vision=photos, server_hello=lambda hello: {"transport": "websocket"})
        link = self.boards.attach(board.tenant, board.id, wire, session)
        try:
            await self.boards.connected(board.tenant, board.id, link)
            await link.received(hello)
            while (message := await channel.receive()) is not None:
                await link.pace.turn()
                if isinstance(message, str):
                    await link.received(message)
                else:
                    wire.audio += 1
        except NotApproved:  # revoked just now
            await channel.close(NOT_APPROVED, "This board is not approved.")
        except KhoError as error:
            await channel.close(TRY_LATER, error.message)
        finally:
            await link.close("The board's connection ended.")
            await link.settled()


async def _turn_away(channel: Channel, board: Device) -> None:
    """Send an alert, which boards show on their display, and close; the close reason is for a board's log."""
    why = "This board was revoked." if board.code is None else f"Not approved yet: kho devices approve {board.code}"
    try:
        await channel.send(frames.alert(why))
    except ChannelClosed:
        return
    await channel.close(NOT_APPROVED, why)
