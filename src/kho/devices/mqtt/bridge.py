"""Boards over an external broker such as Mosquitto or EMQX (`KHO_DEVICES__MQTT_URL`).

Such a broker does not reveal who published a message, so each board has its own topic, to which the broker's ACL must
confine it. The gateway's shared topic is subscribed as well; there a board is identified by what its messages claim,
which is accepted only if approval is automatic. Nor does the broker report when a board goes away: a silent board is
probed, and given up if it does not answer.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from functools import partial
from math import inf
from uuid import uuid4

from kho.devices import store
from kho.devices.mqtt import topics
from kho.devices.mqtt.board import MqttConversation, MqttHub
from kho.devices.protocol import frames
from kho.devices.store import Device
from kho.kernel.errors import KhoError
from kho.lib import mqtt_client
from kho.lib.dataclass import dataclass
from kho.lib.mqtt_client import Address, Client

log = logging.getLogger("kho.devices.mqtt")

LOOK = 20.0
"""Seconds between checks for silent and absent boards."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeouts in seconds for silent boards."""

    quiet: float = 300.0
    """Silence after which a board is probed."""
    grace: float = 60.0
    """Time to answer after a probe."""
    leaving: float = 10.0
    """Time to answer for a board that said goodbye. Firmware says it at the end of a conversation, and stays; a board
    whose connection ends may say it, too, or the broker does for it (last will). So it is probed, and the answer
    decides."""
    unanswered: float = 75.0
    """Time after which the handshake with a formerly connected board that has not answered is restarted: a session asks
    three times."""


@dataclass(slots=True)
class _Met:
    conversation: MqttConversation
    heard: float
    """Time of its last message, or of the first handshake."""
    answered: bool = False
    asked: bool = False
    until: float | None = None
    """Deadline at which it is given up; set once there is a reason to think that it is gone."""


@dataclass(slots=True, kw_only=True)
class MqttDoor:
    where: Address
    hub: MqttHub
    patience: Patience = Patience()
    now: Callable[[], float] = time.monotonic
    met: dict[str, _Met] = field(default_factory=dict[str, _Met])
    sessions: dict[str, str] = field(default_factory=dict[str, str])
    """Device id by session id."""
    client: Client | None = None
    doubted: asyncio.Event = field(default_factory=asyncio.Event)
    unknown: int = 0
    """Number of messages with an unknown sender."""

    @property
    def name(self) -> str:
        return str(self.where)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
        await self.hub.tokens.ready()
        everything = (topics.SHARED, topics.EVERYBODY)
        async with mqtt_client.connected(self.where, f"kho-{uuid4().hex[:12]}", everything) as client:
            self.client = client
            try:
                yield partial(self._work, client)
            finally:
                self.client = None
                met, self.met, self.sessions = self.met, {}, {}
                await asyncio.gather(*(one.conversation.end("The broker cannot be reached.") for one in met.values()))

    async def _work(self, client: Client) -> None:
        looking = asyncio.ensure_future(self._look())
        try:
            async for topic, content in client.messages():
                await self._heard(topic, content)
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    # -- messages -------------------------------------------------------------------------------------------------

    async def _heard(self, topic: str, content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        device = topics.by_topic(topic)
        if device is None:
            device = await self._sender(text)
        if device is None:
            self.unknown += 1
            log.debug("a message at %s does not say whose it is", topic)
            return
        met = self.met.get(device)
        if met is None or met.conversation.link.closed:
            met = await self._meet(device)
        if met is not None:
            met.heard, met.answered, met.asked, met.until = self.now(), True, False, None
            met.conversation.heard(text)
            if (frames.parse(text) or {}).get("type") == "goodbye":
                self._doubt(device, self.patience.leaving)

    async def _sender(self, text: str) -> str | None:
        """Return the sender of a message at the shared topic: by its session id, or by what it claims if approval is
        automatic."""
        frame = frames.parse(text) or {}
        session = frame.get("session_id")
        if isinstance(session, str) and session in self.sessions:
            return self.sessions[session]
        return topics.by_message(frame) if await self.hub.registrations.approval() == "auto" else None

    async def _meet(self, device: str) -> _Met | None:
        try:
            board = await self._admitted(device)
        except KhoError as problem:
            log.warning("%s is not taken in: %s", device, problem.message)
            return None
        if board.approved:
            return self._begin(board)
        why = "This board was revoked." if board.code is None else f"kho devices approve {board.code}"
        await self._deliver(device, frames.alert(why))
        return None

    async def _admitted(self, device: str) -> Device:
        known = await self.hub.registrations.find(device)
        if known is None:
            await self.hub.registrations.admit_unknown(str(self.where))  # the board's own address is not known
        # Stored so that the board is contacted once it is approved: it may have nothing to say by itself.
        info = {**(known.info if known else {}), "transport": "mqtt"}
        return await self.hub.registrations.register(device, known.client if known else "", info)

    def _begin(self, board: Device) -> _Met:
        refused = partial(self._refused, board.id)
        conversation = MqttConversation(self.hub, self.where, board, partial(self._deliver, board.id), refused=refused)
        conversation.link.on_unanswered = lambda: self._doubt(board.id, self.patience.grace)
        self._forget(board.id)
        met = self.met[board.id] = _Met(conversation, self.now())
        self.sessions[conversation.link.session.session_id] = board.id
        return met

    async def _refused(self, device: str) -> None:
        """The board was forgotten or revoked while it was not known to be there: register it again."""
        self._forget(device)
        await self._meet(device)

    def _forget(self, device: str) -> None:
        met = self.met.pop(device, None)
        if met is not None:
            self.sessions.pop(met.conversation.link.session.session_id, None)

    async def _deliver(self, device: str, text: str) -> None:
        if self.client is None:
            raise mqtt_client.Disconnected("The broker cannot be reached.")
        await self.client.publish(topics.down(device), text)

    # -- silence --------------------------------------------------------------------------------------------------

    def _doubt(self, device: str, patience: float) -> None:
        """Note that the board may be gone, and probe it at once."""
        met = self.met.get(device)
        if met is not None and met.until is None:
            met.until = self.now() + patience
            self.doubted.set()

    async def _look(self) -> None:
        while True:
            self.doubted.clear()
            try:
                await self.look()
            except KhoError as problem:
                log.warning("boards: the database is away: %s", problem.message)
            due = min((met.until for met in self.met.values() if met.until is not None), default=inf)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(LOOK, due - self.now()), 0.0)):
                    await self.doubted.wait()

    async def look(self) -> None:
        """Contact boards that were connected before, probe silent ones, and give up those that stay silent."""
        for device, met in list(self.met.items()):
            now = self.now()
            silent, doubted, patience = now - met.heard, met.until is not None, self.patience
            given_up = patience.quiet + patience.grace if met.answered else patience.unanswered
            if met.conversation.link.closed or silent > given_up or (met.until or inf) <= now:
                self._forget(device)
                await met.conversation.end("The board no longer answers.")
            elif (doubted or silent > patience.quiet) and not met.asked:
                met.asked = True
                await met.conversation.link.refresh()
        for board in await self.hub.registrations.db.read(lambda tx: store.last_over(tx, "mqtt")):
            if board.id not in self.met:
                await self._begin(board).conversation.ask()
