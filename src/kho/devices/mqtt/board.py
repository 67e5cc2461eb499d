"""A board over MQTT, at either kind of broker: its wire, and the order of its messages.

Over MQTT an idle board is reachable, too, and may never have said hello: so the hub starts the handshake. There is no
audio: a board that requests a UDP channel gets one that leads nowhere.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from kho.devices.connections.boards import ConnectedBoards
from kho.devices.connections.connection import SHUT_OUT
from kho.devices.errors import NotApproved
from kho.devices.http.ota import HUB
from kho.devices.http.vision import PATH as VISION_PATH
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol import frames
from kho.devices.protocol.session import Photos, Session
from kho.devices.store import Device
from kho.kernel.errors import KhoError
from kho.lib.dataclass import dataclass
from kho.lib.mqtt_client import Address

log = logging.getLogger("kho.devices.mqtt")

MAX_MESSAGE = 8192
"""Maximum bytes of a message that boards accept."""
MAX_UNREAD = 256
"""Maximum unprocessed messages of a board; more are dropped, where a broker is shared by all boards."""
FULL = MAX_UNREAD // 2
"""Unprocessed messages above which no more is read of a board that has a connection of its own."""
DISCARD = 9
"""UDP discard port: everything sent there is thrown away."""

EVERYWHERE = ("0.0.0.0", "::")

Deliver = Callable[[str], Awaitable[None]]


async def _nothing() -> None:
    return None


@dataclass(slots=True)
class MqttWire:
    """Wire over MQTT. `deliver` publishes a text and raises OSError if the broker is unreachable; `hang_up` closes the
    board's own connection, if it has one."""

    deliver: Deliver
    session_id: str
    hang_up: Callable[[], Awaitable[None]]
    refuse: Deliver | None = None
    """Receives the error answer that the board would give to a message that is too long for it."""
    name: str = "mqtt"

    async def send(self, text: str) -> None:
        if len(text.encode()) <= MAX_MESSAGE:
            await self.deliver(text)
        elif self.refuse is not None:
            await self.refuse(_too_long(text))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        """Send goodbye and hang up. A board that is shut out first gets an alert with the reason for its display."""
        try:
            if code == SHUT_OUT:
                await self.deliver(frames.alert(reason))
            await self.deliver(frames.dump({"type": "goodbye", "session_id": self.session_id, "reason": reason}))
        finally:
            await self.hang_up()


@dataclass(slots=True, kw_only=True)
class MqttHub:
    """Services that both kinds of broker share."""

    live: ConnectedBoards
    registrations: Registrations
    tokens: Tokens
    public_url: str

    def photos(self, board: Device) -> Photos | None:
        """Return the address and token for photos: at the configured URL, or at the one where the board requested its
        settings."""
        hub = self.public_url or board.info.get(HUB)
        if not hub:
            return None
        token = self.tokens.issue(board.tenant, board.id, board.client, "vision", self.registrations.clock())
        return hub + VISION_PATH, token

    def host(self, where: Address) -> str:
        """Return the hub's host as boards of the broker at `where` reach it."""
        return urlsplit(self.public_url).hostname or ("127.0.0.1" if where.host in EVERYWHERE else where.host)


class MqttConversation:
    """A board's connection and its unprocessed messages. Messages are processed one by one: the first waits for the
    database, and none may overtake it."""

    def __init__(
        self,
        hub: MqttHub,
        where: Address,
        device: Device,
        deliver: Deliver,
        *,
        hang_up: Callable[[], Awaitable[None]] = _nothing,
        refused: Callable[[], Awaitable[None]] = _nothing,
        most_unread: int | None = MAX_UNREAD,
    ) -> None:
        """`refused` is called if the board turns out not to be approved any more. `most_unread` is None for a board
        with a connection of its own: that is not read while too much waits, and what was read by then is kept."""
        udp_host = hub.host(where)
        session = Session(vision=lambda: hub.photos(device), server_hello=lambda hello: answer(hello, udp_host))
        wire = MqttWire(deliver, session.session_id, hang_up)
        self.device = device
        self.link = hub.live.attach(device.tenant, device.id, wire, session)
        wire.refuse = self.link.received
        self._boards = hub.live
        self._refused = refused
        self._unread: deque[str | None] = deque(maxlen=most_unread)
        self._reader: asyncio.Task[None] | None = None
        self._known = False
        self._room = asyncio.Event()
        self._room.set()

    async def room(self) -> None:
        """Return when a further message can be taken."""
        await self._room.wait()

    def heard(self, text: str | None) -> None:
        """Queue a message; None means that the board is there but has not said anything yet."""
        self._unread.append(text)
        if len(self._unread) > FULL:
            self._room.clear()
        if self._reader is None or self._reader.done():
            self._reader = asyncio.get_running_loop().create_task(self._read_all())

    async def ask(self) -> None:
        """Start the handshake with a board that may be there. It counts as connected when it answers."""
        await self.link.opened()

    async def end(self, reason: str) -> None:
        await self.link.close(reason)
        if self._reader is not None:
            await asyncio.wait({self._reader})
        await self.link.settled()

    async def _read_all(self) -> None:
        try:
            while self._unread and not self.link.closed:
                await self._read(self._unread.popleft())
                if len(self._unread) <= FULL:
                    self._room.set()
        finally:
            self._room.set()

    async def _read(self, text: str | None) -> None:
        await self.link.pace.turn()
        if not self._known:
            await self._connect()
            if text is None or not _is_hello(text):
                await self.link.opened()  # no effect if the handshake has started already
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
    """Return what this transport adds to the hub's hello: firmware requests `udp` and accepts no other value, the
    contract has `mqtt`. Whatever is sent to that address is lost: Kho is not a speech server."""
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


def _is_hello(text: str) -> bool:
    return (frames.parse(text) or {}).get("type") == "hello"


def _too_long(text: str) -> str:
    match frames.parse(text):
        case {"payload": {"id": int() as id}}:
            message = f"Boards take {MAX_MESSAGE} bytes at once over MQTT, and this call is longer."
            return frames.wrap({"jsonrpc": "2.0", "id": id, "error": {"message": message}}, "")
        case _:
            return "{}"
