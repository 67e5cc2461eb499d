"""Boards over a broker that is there already, such as Mosquitto or EMQX (`KHO_DEVICES__MQTT_URL`).

Such a broker does not tell who published a message, so each board has a topic of its own, to which the broker's rules
must confine it. The gateway's topic that all boards share is listened to as well; there a board is known by what its
messages say, which is good enough where nobody has to be approved, and not elsewhere. The broker also does not tell
when a board goes away: one that is silent is asked, and given up when it does not answer.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from uuid import uuid4

from kho.devices import store
from kho.devices.mqtt import topics
from kho.devices.mqtt.board import Boards, Conversation, alert
from kho.devices.pairing.rate_limit import RateLimit
from kho.devices.pairing.registrations import Approving, Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol import frames
from kho.devices.protocol.session import Photos
from kho.devices.store import Device
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database
from kho.lib import mqtt_client
from kho.lib.clock import Clock
from kho.lib.mqtt_client import Address, Client

log = logging.getLogger("kho.devices.mqtt")

QUIET = 300.0
"""Seconds of silence after which a board is asked whether it is there."""
GRACE = 60.0
"""Seconds that it then has to say anything."""
LOOK = 20.0
"""Seconds between two looks at who is silent, or away."""
LEAVING = 10.0
"""Seconds for a board that said goodbye. Firmware does so at the end of a conversation, and stays; a board whose
connection ends may do so, too, or have the broker do it: it is asked, and that it answers tells."""
UNANSWERED = 75.0
"""Seconds after which a board that was here before, and has not answered, is asked anew: a session asks three times."""


@dataclass(slots=True)
class _Met:
    conversation: Conversation
    heard: float
    """When it last said something, or was first asked."""
    answered: bool = False
    asked: bool = False
    until: float | None = None
    """When it is given up: set once there is a reason to believe that it is gone."""

    def patience(self) -> float:
        return QUIET + GRACE if self.answered else UNANSWERED


class MqttDoor:
    def __init__(
        self,
        where: Address,
        db: Database,
        boards: Boards,
        registrations: Registrations,
        tokens: Tokens,
        clock: Clock,
        *,
        approval: Approving,
        vision: Callable[[Device], Photos | None],
        udp_host: str,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._where = where
        self._db = db
        self._boards = boards
        self._registrations = registrations
        self._tokens = tokens
        self._clock = clock
        self._approval = approval
        self._vision = vision
        self._udp_host = udp_host
        self._now = now
        self._newcomers = RateLimit()
        self._met: dict[str, _Met] = {}
        self._sessions: dict[str, str] = {}
        """The board of each session."""
        self._client: Client | None = None
        self._doubted = asyncio.Event()
        self.unknown = 0
        """Messages of which nobody knows who sent them."""

    @property
    def name(self) -> str:
        return str(self._where)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
        await self._tokens.ready()
        everything = (topics.SHARED, topics.EVERYBODY)
        async with mqtt_client.connected(self._where, f"kho-{uuid4().hex[:12]}", everything) as client:
            self._client = client
            try:
                yield partial(self._work, client)
            finally:
                self._client = None
                met, self._met, self._sessions = self._met, {}, {}
                await asyncio.gather(*(one.conversation.end("The broker is away.") for one in met.values()))

    async def _work(self, client: Client) -> None:
        looking = asyncio.ensure_future(self._look())
        try:
            async for topic, content in client.messages():
                await self._heard(topic, content)
        finally:
            looking.cancel()
            await asyncio.wait({looking})

    # -- who says something ---------------------------------------------------------------------------------------

    async def _heard(self, topic: str, content: bytes) -> None:
        text = content.decode("utf-8", "replace")
        device = topics.by_topic(topic)
        if device is None:
            device = await self._sender(text)
        if device is None:
            self.unknown += 1
            log.debug("a message at %s does not say whose it is", topic)
            return
        met = self._met.get(device)
        if met is None or met.conversation.link.closed:
            met = await self._meet(device)
        if met is not None:
            met.heard, met.answered, met.asked, met.until = self._now(), True, False, None
            met.conversation.heard(text)
            if (frames.parse(text) or {}).get("type") == "goodbye":
                self._doubt(device, LEAVING)

    async def _sender(self, text: str) -> str | None:
        """Of a message at the shared topic: by the session that the board was given, or by what it says."""
        frame = frames.parse(text) or {}
        session = frame.get("session_id")
        if isinstance(session, str) and session in self._sessions:
            return self._sessions[session]
        return topics.by_message(frame) if await self._approval() == "auto" else None

    async def _meet(self, device: str) -> _Met | None:
        try:
            board = await self._admitted(device)
        except KhoError as problem:
            log.warning("%s is not taken in: %s", device, problem.message)
            return None
        if board.approved:
            return self._begin(board)
        why = "This board was revoked." if board.code is None else f"kho devices approve {board.code}"
        await self._deliver(device, alert(why))
        return None

    async def _admitted(self, device: str) -> Device:
        known = await self._registrations.find(device)
        if known is None and await self._approval() == "code":
            self._newcomers.admit(self._where.host, self._clock())
        # Once it is approved it is asked by its transport: it may have nothing to say.
        info = {**(known.info if known else {}), "transport": "mqtt"}
        return await self._registrations.register(device, known.client if known else "", info)

    def _begin(self, board: Device) -> _Met:
        conversation = Conversation(
            self._boards,
            board,
            partial(self._deliver, board.id),
            udp_host=self._udp_host,
            vision=partial(self._vision, board),
            refused=partial(self._refused, board.id),
        )
        conversation.link.on_unanswered = lambda: self._doubt(board.id, GRACE)
        self._forget(board.id)
        met = self._met[board.id] = _Met(conversation, self._now())
        self._sessions[conversation.link.session.session_id] = board.id
        return met

    async def _refused(self, device: str) -> None:
        """It was forgotten or revoked while nobody knew that it is there: it is met anew."""
        self._forget(device)
        await self._meet(device)

    def _forget(self, device: str) -> None:
        met = self._met.pop(device, None)
        if met is not None:
            self._sessions.pop(met.conversation.link.session.session_id, None)

    async def _deliver(self, device: str, text: str) -> None:
        if self._client is None:
            raise mqtt_client.Disconnected("The broker is away.")
        await self._client.publish(topics.down(device), text)

    # -- who says nothing -----------------------------------------------------------------------------------------

    def _doubt(self, device: str, patience: float) -> None:
        """There is a reason to believe that the board is gone: it is asked at once."""
        met = self._met.get(device)
        if met is not None and met.until is None:
            met.until = self._now() + patience
            self._doubted.set()

    async def _look(self) -> None:
        while True:
            self._doubted.clear()
            try:
                await self.look()
            except KhoError as problem:
                log.warning("boards: the database is away: %s", problem.message)
            due = min((met.until for met in self._met.values() if met.until is not None), default=inf)
            with suppress(TimeoutError):
                async with asyncio.timeout(max(min(LOOK, due - self._now()), 0.0)):
                    await self._doubted.wait()

    async def look(self) -> None:
        """Asks boards that were here before, and those that are silent; gives up those that stay so."""
        for device, met in list(self._met.items()):
            now = self._now()
            silent, doubted = now - met.heard, met.until is not None
            if met.conversation.link.closed or silent > met.patience() or (met.until or inf) <= now:
                self._forget(device)
                await met.conversation.end("The board no longer answers.")
            elif (doubted or silent > QUIET) and not met.asked:
                met.asked = True
                await met.conversation.link.refresh()
        for board in await self._db.read(lambda tx: store.last_over(tx, "mqtt")):
            if board.id not in self._met:
                await self._begin(board).conversation.ask()
