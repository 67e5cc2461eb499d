"""A broker of our own, for boards only (`kho serve --mqtt-broker`).

A board connects with what it was given at `/xiaozhi/ota/`, and is known by that from then on, whatever its messages
say. What it publishes goes to the hub and to nobody else; what the hub has for it is pushed to it, whether it
subscribed or not: newer firmware never does. The protocol is amqtt's. The sockets are ours, so that one that says
nothing, or too much, is closed.
"""

# pyright: reportMissingTypeStubs=false

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from kho.devices.mqtt import topics
from kho.devices.mqtt.board import Boards, Conversation
from kho.devices.pairing.registrations import Registrations
from kho.devices.pairing.tokens import Tokens
from kho.devices.protocol.session import Photos
from kho.devices.store import Device
from kho.lib.clock import Clock
from kho.lib.mqtt_client import Address

if TYPE_CHECKING:
    from amqtt.broker import Broker
    from amqtt.session import Session

log = logging.getLogger("kho.devices.broker")

PLUGIN = "kho.devices.mqtt.broker_plugin.Gatekeeper"
LISTENER = "boards"
KEEP_ALIVE = 240
"""Seconds, as boards have it."""
MOST_CONNECTIONS = 10_000
BACKLOG = 1024

MAX_PACKET = 64 * 1024
"""Bytes. Boards send 8 KB."""
FIRST_WITHIN = 10.0
"""Seconds in which a client must have shown its credentials."""
SLOWEST = 1800.0
"""Seconds of silence at most, whatever a client says it needs."""
BOARD = "kho.board"
TALK = "kho.conversation"
"""Where a client's session keeps whose it is, and what is said."""


class Limited:
    """What a client sends. It ends when there is nothing for too long, or too much at once."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._over = False
        self.patience = FIRST_WITHIN

    async def read(self, n: int = -1) -> bytes:
        if 0 <= n <= MAX_PACKET and not self._over:
            with suppress(TimeoutError):
                # Since it last sent anything: the broker itself begins to read anew now and then.
                async with asyncio.timeout_at(self._last + self.patience):
                    found = await self._reader.readexactly(n)
                self._last = self._loop.time()
                return found
        self.feed_eof()
        return b""

    def feed_eof(self) -> None:
        """What has come already is not read any more, either: nobody knows where in it a packet begins."""
        self._over = True
        self._reader.feed_eof()


class BoardBroker:
    def __init__(
        self,
        where: Address,
        boards: Boards,
        registrations: Registrations,
        tokens: Tokens,
        clock: Clock,
        *,
        vision: Callable[[Device], Photos | None],
        udp_host: str,
    ) -> None:
        self._where = where
        self._boards = boards
        self._registrations = registrations
        self._tokens = tokens
        self._clock = clock
        self._vision = vision
        self._udp_host = udp_host
        self._broker: Broker | None = None
        self._conversations: dict[str, Conversation] = {}
        self._refused: list[Session] = []
        self._visits: dict[asyncio.Task[Any], asyncio.StreamWriter] = {}
        self.port = where.port
        """Where it listens; a free port if it was asked for port 0."""

    @property
    def name(self) -> str:
        return f"{self._where.host}:{self.port}"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
        from amqtt.broker import Broker
        from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType

        await self._tokens.ready()
        listeners = {
            "default": ListenerConfig(type=ListenerType.EXTERNAL),
            LISTENER: ListenerConfig(type=ListenerType.EXTERNAL),
        }
        # Whoever is away misses what was said meanwhile: sessions are not kept.
        config = BrokerConfig(listeners=listeners, plugins={PLUGIN: {"gate": self}}, session_expiry_interval=1)
        self._broker = broker = Broker(config)
        await broker.start()
        try:
            server = await asyncio.start_server(self._visited, self._where.host, self._where.port, backlog=BACKLOG)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield server.serve_forever
            finally:
                server.close()
                self._broker = None  # who comes now is sent away
                await self._close()
        finally:
            self._broker = None
            await broker.shutdown()

    async def _close(self) -> None:
        conversations, self._conversations = self._conversations, {}
        await asyncio.gather(*(one.end("The hub stops.") for one in conversations.values()))
        for writer in self._visits.values():
            writer.transport.abort()
        if self._visits:
            await asyncio.wait(self._visits)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = asyncio.current_task()
        if visit is None or self._broker is None or len(self._visits) >= MOST_CONNECTIONS:
            writer.close()
            return
        self._visits[visit] = writer
        try:
            await self._serve(reader, writer)
        finally:
            del self._visits[visit]
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from amqtt.adapters import StreamWriterAdapter

        broker = self._broker
        if broker is None:
            return
        try:
            await broker.external_connected(cast(Any, Limited(reader)), StreamWriterAdapter(writer), LISTENER)
        except (OSError, asyncio.IncompleteReadError) as problem:
            log.debug("a board's connection broke: %s", problem)
        finally:
            self._forget_refused(broker)

    def _forget_refused(self, broker: "Broker") -> None:
        """The broker keeps the sessions of clients that it refused."""
        for session in self._refused:
            kept = broker.sessions.get(session.client_id or "")
            if kept is not None and kept[0] is session:
                del broker.sessions[session.client_id or ""]
        self._refused.clear()

    # -- what the broker asks and tells ---------------------------------------------------------------------------

    async def admits(self, session: "Session") -> bool:
        board = await self._board(session)
        if board is None:
            self._refused.append(session)
            log.warning("a client from %s was refused: it does not have a board's credentials", session.remote_address)
            return False
        session.attributes[BOARD] = board
        return True

    async def _board(self, session: "Session") -> Device | None:
        claims = self._tokens.check(session.password or "", "mqtt", self._clock())
        if claims is None or session.client_id != topics.client_id(claims.device, claims.client):
            return None
        board = await self._registrations.of(claims.tenant, claims.device)
        return board if board is not None and claims.holds(board.approved_at, board.revoked_at) else None

    def topic(self, session: "Session") -> str:
        """Where the client is sent what the hub has for it."""
        board: Device = session.attributes[BOARD]
        return topics.down(board.id)

    def arrived(self, session: "Session") -> None:
        kept = None if self._broker is None else self._broker.sessions.get(session.client_id or "")
        if kept is None or kept[0] is not session:
            return  # it has left already
        handler, board, topic = kept[1], cast(Device, session.attributes[BOARD]), self.topic(session)
        cast(Limited, handler.reader).patience = min(SLOWEST, session.keep_alive * 1.5) or SLOWEST

        async def deliver(text: str) -> None:
            await handler.mqtt_publish(topic, text.encode(), 0, retain=False)

        conversation = Conversation(
            self._boards,
            board,
            deliver,
            udp_host=self._udp_host,
            vision=partial(self._vision, board),
            hang_up=handler.handle_connection_closed,
        )
        session.attributes[TALK] = self._conversations[session.client_id or ""] = conversation
        conversation.arrived()

    def heard(self, client_id: str, topic: str, content: bytes) -> None:
        conversation = self._conversations.get(client_id)
        if conversation is not None and topic in (topics.SHARED, topics.up(conversation.device.id)):
            conversation.heard(content.decode("utf-8", "replace"))

    async def left(self, session: "Session") -> None:
        """A board that is back under the same name may have taken its place already."""
        conversation: Conversation | None = session.attributes.pop(TALK, None)
        if conversation is None:
            return
        if self._conversations.get(session.client_id or "") is conversation:
            del self._conversations[session.client_id or ""]
        await conversation.end("The board's connection ended.")
