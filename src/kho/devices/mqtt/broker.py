"""Embedded MQTT broker, for boards only (`kho serve --mqtt-broker`).

A board connects with the credentials from `/xiaozhi/ota/` and is identified by them from then on, whatever its messages
claim. What it publishes goes to the hub only; messages for it are pushed whether it subscribed or not, since newer
firmware never subscribes. amqtt implements the protocol. The sockets are ours, so that clients that are silent, or send
too much, are disconnected.
"""

# pyright: reportMissingTypeStubs=false

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from kho.devices.mqtt import topics
from kho.devices.mqtt.board import MqttConversation, MqttHub
from kho.devices.store import Device
from kho.lib.dataclass import dataclass
from kho.lib.mqtt_client import Address

if TYPE_CHECKING:
    from amqtt.broker import Broker
    from amqtt.session import Session

log = logging.getLogger("kho.devices.broker")

PLUGIN = "kho.devices.mqtt.broker_plugin.Gatekeeper"
LISTENER = "boards"
KEEP_ALIVE = 240
"""Keep-alive in seconds, as in the firmware."""
MOST_CONNECTIONS = 10_000
BACKLOG = 1024

MAX_PACKET = 64 * 1024
"""Maximum bytes of a packet. Boards send 8 KB."""
FIRST_WITHIN = 10.0
"""Seconds until a client must have sent its credentials."""
SLOWEST = 1800.0
"""Maximum seconds of silence, whatever keep-alive a client requests."""
BOARD = "kho.board"
TALK = "kho.conversation"
"""Keys in a client's session: its board, and its conversation."""


class Limited:
    """Reader of a client's data. Ends after `patience` seconds without data, or at a packet that is too large."""

    def __init__(self, reader: asyncio.StreamReader, patience: float) -> None:
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._over = False
        self.patience = patience
        self.room: Callable[[], Awaitable[None]] | None = None
        """Awaited before more is read."""

    async def read(self, n: int = -1) -> bytes:
        if 0 <= n <= MAX_PACKET and not self._over:
            if self.room is not None:
                before = self._loop.time()
                await self.room()
                self._last += self._loop.time() - before  # it was we who kept it waiting
            with suppress(TimeoutError):
                # Counted from the last data: the broker restarts its reads now and then.
                async with asyncio.timeout_at(self._last + self.patience):
                    found = await self._reader.readexactly(n)
                self._last = self._loop.time()
                return found
        self.feed_eof()
        return b""

    def feed_eof(self) -> None:
        """Discards buffered data, too: it is unknown where a packet begins in it."""
        self._over = True
        self._reader.feed_eof()


@dataclass(slots=True, kw_only=True)
class BoardBroker:
    where: Address
    hub: MqttHub
    first_within: float = FIRST_WITHIN
    broker: "Broker | None" = None
    conversations: dict[str, MqttConversation] = field(default_factory=dict[str, MqttConversation])
    refused: "list[Session]" = field(default_factory=list[Any])
    visits: dict[asyncio.Task[Any], asyncio.StreamWriter] = field(
        default_factory=dict[asyncio.Task[Any], asyncio.StreamWriter]
    )
    port: int = field(init=False)
    """Port it listens on; a free one if port 0 was requested."""

    def __post_init__(self) -> None:
        self.port = self.where.port

    @property
    def name(self) -> str:
        return f"{self.where.host}:{self.port}"

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Callable[[], Awaitable[None]], None]:
        from amqtt.broker import Broker
        from amqtt.contexts import BrokerConfig, ListenerConfig, ListenerType

        await self.hub.tokens.ready()
        listeners = {
            "default": ListenerConfig(type=ListenerType.EXTERNAL),
            LISTENER: ListenerConfig(type=ListenerType.EXTERNAL),
        }
        # Sessions are not kept: a client misses what was sent while it was away.
        config = BrokerConfig(listeners=listeners, plugins={PLUGIN: {"gate": self}}, session_expiry_interval=1)
        self.broker = broker = Broker(config)
        await broker.start()
        try:
            server = await asyncio.start_server(self._visited, self.where.host, self.where.port, backlog=BACKLOG)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield server.serve_forever
            finally:
                server.close()
                self.broker = None  # new clients are turned away
                await self._close()
        finally:
            self.broker = None
            await broker.shutdown()

    async def _close(self) -> None:
        conversations, self.conversations = self.conversations, {}
        await asyncio.gather(*(one.end("The hub stops.") for one in conversations.values()))
        for writer in self.visits.values():
            writer.transport.abort()
        if self.visits:
            await asyncio.wait(self.visits)

    async def _visited(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = asyncio.current_task()
        if visit is None or self.broker is None or len(self.visits) >= MOST_CONNECTIONS:
            writer.close()
            return
        self.visits[visit] = writer
        try:
            await self._serve(reader, writer)
        finally:
            del self.visits[visit]
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from amqtt.adapters import StreamWriterAdapter

        broker = self.broker
        if broker is None:
            return
        try:
            await broker.external_connected(
                cast(Any, Limited(reader, self.first_within)), StreamWriterAdapter(writer), LISTENER
            )
        except (OSError, asyncio.IncompleteReadError) as problem:
            log.debug("a board's connection broke: %s", problem)
        finally:
            self._forget_refused(broker)

    def _forget_refused(self, broker: "Broker") -> None:
        """Delete sessions of refused clients, which the broker keeps."""
        for session in self.refused:
            kept = broker.sessions.get(session.client_id or "")
            if kept is not None and kept[0] is session:
                del broker.sessions[session.client_id or ""]
        self.refused.clear()

    # -- callbacks of the broker ---------------------------------------------------------------------------------

    async def admits(self, session: "Session") -> bool:
        board = await self._board(session)
        if board is None:
            self.refused.append(session)
            log.warning("a client from %s was refused: it does not have a board's credentials", session.remote_address)
            return False
        session.attributes[BOARD] = board
        return True

    async def _board(self, session: "Session") -> Device | None:
        claims = self.hub.tokens.check(session.password or "", "mqtt", self.hub.registrations.clock())
        if claims is None or session.client_id != topics.client_id(claims.device, claims.client):
            return None
        board = await self.hub.registrations.of(claims.tenant, claims.device)
        return board if board is not None and claims.holds(board.approved_at, board.revoked_at) else None

    def topic(self, session: "Session") -> str:
        """Return the topic of messages to the client."""
        board: Device = session.attributes[BOARD]
        return topics.down(board.id)

    def arrived(self, session: "Session") -> None:
        kept = None if self.broker is None else self.broker.sessions.get(session.client_id or "")
        if kept is None or kept[0] is not session:
            return  # it has already disconnected
        handler, board, topic = kept[1], cast(Device, session.attributes[BOARD]), self.topic(session)
        reader = cast(Limited, handler.reader)
        reader.patience = min(SLOWEST, session.keep_alive * 1.5) or SLOWEST

        async def deliver(text: str) -> None:
            await handler.mqtt_publish(topic, text.encode(), 0, retain=False)

        close = handler.handle_connection_closed
        conversation = MqttConversation(self.hub, self.where, board, deliver, hang_up=close, most_unread=None)
        session.attributes[TALK] = self.conversations[session.client_id or ""] = conversation
        reader.room = conversation.room
        conversation.heard(None)

    def heard(self, client_id: str, topic: str, content: bytes) -> None:
        conversation = self.conversations.get(client_id)
        if conversation is not None and topic in (topics.SHARED, topics.up(conversation.device.id)):
            conversation.heard(content.decode("utf-8", "replace"))

    async def left(self, session: "Session") -> None:
        """End the client's conversation. The board may already have a new one under the same client id."""
        conversation: MqttConversation | None = session.attributes.pop(TALK, None)
        if conversation is None:
            return
        if self.conversations.get(session.client_id or "") is conversation:
            del self.conversations[session.client_id or ""]
        await conversation.end("The board's connection ended.")
