"""A board over MQTT, whichever broker brings it: its wire, and the order of what it says.

Over MQTT a board is reached while it is idle, too, and may then never have said hello: it is asked at once. There is
no sound here: a board that asks for a UDP channel is given one that leads nowhere.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from kho.devices.connections.connection import SHUT_OUT, BoardConnection, Wire
from kho.devices.errors import NotApproved
from kho.devices.protocol import frames
from kho.devices.protocol.session import Photos, Session
from kho.devices.store import Device
from kho.kernel.errors import KhoError

log = logging.getLogger("kho.devices.mqtt")

MAX_MESSAGE = 8192
"""Bytes. Boards take no more in one message."""
MAX_UNREAD = 256
"""Messages of one board that nobody has looked at yet; more are dropped."""
DISCARD = 9
"""The port at which everything is thrown away."""

Deliver = Callable[[str], Awaitable[None]]


class Boards(Protocol):
    """Who keeps the boards that are connected."""

    def attach(self, tenant: str, device: str, wire: Wire, session: Session) -> BoardConnection: ...

    async def connected(self, tenant: str, device: str, link: BoardConnection) -> None: ...


async def _nothing() -> None:
    return None


class MqttWire:
    name = "mqtt"

    def __init__(self, deliver: Deliver, session_id: str, hang_up: Callable[[], Awaitable[None]] = _nothing) -> None:
        """`deliver` puts a text on its way and raises OSError when there is none; `hang_up` ends the connection, where
        there is one of this board alone."""
        self._deliver = deliver
        self._session_id = session_id
        self._hang_up = hang_up
        self.refuse: Deliver | None = None
        """Told the answer that a board would give to a message which is too long for it."""

    async def send(self, text: str) -> None:
        if len(text.encode()) <= MAX_MESSAGE:
            await self._deliver(text)
        elif self.refuse is not None:
            await self.refuse(_too_long(text))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """A board shows on its display why it is shut out."""
        try:
            if code == SHUT_OUT:
                await self._deliver(alert(reason))
            await self._deliver(frames.dump({"type": "goodbye", "session_id": self._session_id, "reason": reason}))
        finally:
            await self._hang_up()


class Conversation:
    """One board's link, and what the board said that was not looked at yet. Messages are looked at one by one: the
    first waits for the database, and none may overtake it."""

    def __init__(
        self,
        boards: Boards,
        device: Device,
        deliver: Deliver,
        *,
        udp_host: str,
        vision: Callable[[], Photos | None] | None = None,
        hang_up: Callable[[], Awaitable[None]] = _nothing,
        refused: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """`refused` is told of a board that turns out not to be approved any more."""
        self.device = device
        session = Session(vision=vision, server_hello=lambda hello: answer(hello, udp_host))
        wire = MqttWire(deliver, session.session_id, hang_up)
        self.link = boards.attach(device.tenant, device.id, wire, session)
        wire.refuse = self.link.received
        self._boards = boards
        self._refused = refused
        self._unread: deque[str | None] = deque(maxlen=MAX_UNREAD)
        self._reader: asyncio.Task[None] | None = None
        self._known = False

    def arrived(self) -> None:
        """The board is there."""
        self._read(None)

    def heard(self, text: str) -> None:
        self._read(text)

    async def ask(self) -> None:
        """Asks a board that may be there. It counts as connected when it answers."""
        await self.link.opened()

    async def end(self, reason: str) -> None:
        await self.link.close(reason)
        await self.settled()

    async def settled(self) -> None:
        if self._reader is not None:
            await asyncio.wait({self._reader})
        await self.link.settled()

    def _read(self, text: str | None) -> None:
        self._unread.append(text)
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read_all())

    async def _read_all(self) -> None:
        while self._unread and not self.link.closed:
            text = self._unread.popleft()
            if not self._known:
                await self._connect()
                if text is None or not _is_hello(text):
                    await self.link.opened()  # does nothing if the board was asked before
            if text is not None:
                await self.link.received(text)

    async def _connect(self) -> None:
        self._known = True
        try:
            await self._boards.connected(self.device.tenant, self.device.id, self.link)
        except NotApproved:
            await self.link.close("This board is not approved.")
            await self._refused()
        except KhoError as problem:
            log.warning("%s cannot be taken in: %s", self.device.id, problem.message)
            await self.link.close(problem.message)


def answer(hello: dict[str, Any], udp_host: str) -> dict[str, Any]:
    """What this transport adds to the hub's hello: firmware asks for `udp` and takes no other word, the contract has
    `mqtt`. Whatever is sent to that address is lost: Kho is no speech server."""
    if hello.get("transport") != "udp":
        return {"transport": "mqtt"}
    channel = {
        "server": udp_host,
        "port": DISCARD,
        "encryption": "aes-128-ctr",
        "key": secrets.token_hex(16),
        "nonce": "01" + "00" * 15,
    }
    return {"transport": "udp", "udp": channel}


def alert(why: str) -> str:
    """Boards show it on their display."""
    return frames.dump({"type": "alert", "status": "Kho", "message": why, "emotion": "sad"})


def _is_hello(text: str) -> bool:
    return (frames.parse(text) or {}).get("type") == "hello"


def _too_long(text: str) -> str:
    match frames.parse(text):
        case {"payload": {"id": int() as id}}:
            message = f"Boards take {MAX_MESSAGE} bytes at once over MQTT, and this call is longer."
            return frames.wrap({"jsonrpc": "2.0", "id": id, "error": {"message": message}}, "")
        case _:
            return "{}"
