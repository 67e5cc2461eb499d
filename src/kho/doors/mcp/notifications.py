"""Notifies the MCP clients of this process of changed tool and resource lists and of slices' announcements, as far as
the kernel's checkpoint allows by tenant and scope.

A change notification says that something changed, not what. So changes are coalesced: within 0.5 s of one notification
the next waits, and stands for all changes since. Announcements say what happened; they go to clients of the handshake
era, as log messages. If too many are queued, the rest is dropped.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, get_args
from weakref import WeakKeyDictionary

import mcp_types as types
from mcp import MCPError
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.subscriptions import event_to_notification

from kho.kernel.background import Background
from kho.kernel.call import Principal, Rights
from kho.kernel.capability import Level
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.limiter import Limiter
from kho.kernel.operation import Operation
from kho.kernel.toolset import Selection

Context = ServerRequestContext[Any, Any]
FRESH = 0.5
"""Seconds between two notifications of the same kind to the same audience."""
MOST_ANNOUNCED = 256
"""Maximum number of queued announcements per audience."""
MOST_LEVELS = 1_000
"""Maximum number of sessions over HTTP whose level is kept; of the oldest, it is forgotten."""
LEVELS: tuple[str, ...] = get_args(types.LoggingLevel)
"""From the least severe to the most."""
SESSION_ID = "mcp-session-id"
Notice = ServerEvent | types.LoggingMessageNotification
AudienceKey = tuple[str, Rights, Selection]


def for_handshake(event: Notice) -> bool:
    """True if clients of the handshake era get the event: they were promised these, and cannot choose."""
    return isinstance(event, ToolsListChanged | ResourcesListChanged | types.LoggingMessageNotification)


def to_notification(event: Notice) -> types.ServerNotification:
    if isinstance(event, types.LoggingMessageNotification):
        return event
    return event_to_notification(event, {})


def connection_of(session: ServerSession) -> Connection:
    # A session belongs to one request; the connection lasts as long as the client.
    return session._connection  # pyright: ignore[reportPrivateUsage]


class LogLevels:
    """The level that each client of the handshake era chose with `logging/setLevel`; without one it gets everything.
    Over HTTP a level belongs to a session, and is kept by the process that was told."""

    def __init__(self) -> None:
        self._of_connections: WeakKeyDictionary[Connection, str] = WeakKeyDictionary()
        self._of_sessions: OrderedDict[Hashable, str] = OrderedDict()

    def set(self, ctx: Context, tenant: str, level: str) -> None:
        if ctx.request is None:
            self._of_connections[connection_of(ctx.session)] = level
            return
        session = ctx.request.headers.get(SESSION_ID)
        if session is None:
            raise MCPError(types.INVALID_REQUEST, f"A level is kept for a session: send its {SESSION_ID} header.")
        self._of_sessions[tenant, session] = level
        self._of_sessions.move_to_end((tenant, session))
        if len(self._of_sessions) > MOST_LEVELS:
            self._of_sessions.popitem(last=False)

    def connection_wants(self, session: ServerSession, event: Notice) -> bool:
        return _severe_enough(event, self._of_connections.get(connection_of(session)))

    def session_wants(self, tenant: str, session: str | None, event: Notice) -> bool:
        return _severe_enough(event, self._of_sessions.get((tenant, session)))


def _severe_enough(event: Notice, level: str | None) -> bool:
    if level is None or not isinstance(event, types.LoggingMessageNotification):
        return True
    return LEVELS.index(event.params.level) >= LEVELS.index(level)


class Audience:
    """Clients of one tenant with the same scopes and list of tools, who may all receive the same: a `ChangeListener` of
    the checkpoint."""

    def __init__(self, background: Background, selection: Selection, levels: LogLevels) -> None:
        self._background = background
        self._selection = selection
        self._levels = levels
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self.sessions: set[ServerSession] = set()
        self.listeners = 0
        """How many streams belong to it."""
        self.end: Callable[[], None] = lambda: None
        """Stops what the checkpoint tells it."""
        self._streams: set[Callable[[Notice], None]] = set()
        self._announced: deque[types.LoggingMessageNotification] = deque()
        self._news: set[ServerEvent] = set()
        self._telling: set[ServerEvent] = set()

    def subscribe(self, listener: Callable[[Notice], None]) -> Callable[[], None]:
        """Add a listener; returns a function that removes it."""
        self._streams.add(listener)
        unsubscribe = self._bus.subscribe(listener)

        def end() -> None:
            self._streams.discard(listener)
            unsubscribe()

        return end

    def tools_changed(self, changed: Sequence[Operation]) -> None:
        if any(map(self._selection.changes_with, changed)):
            self._changed(ToolsListChanged())

    def resources_changed(self, uri: str | None) -> None:
        self._changed(ResourcesListChanged() if uri is None else ResourceUpdated(uri))

    def _changed(self, news: ServerEvent) -> None:
        self._news.add(news)
        if news not in self._telling:
            self._telling.add(news)
            self._background.add(partial(self._tell, news))

    def announced(self, level: Level, speaker: str, what: Any) -> None:
        if not (self.sessions or self._streams) or len(self._announced) >= MOST_ANNOUNCED:
            return
        params = types.LoggingMessageNotificationParams(level=level, logger=speaker, data=what)
        self._announced.append(types.LoggingMessageNotification(params=params))
        if len(self._announced) == 1:
            self._background.add(self._announce)

    async def publish(self, event: ServerEvent) -> None:
        await self._bus.publish(event)
        if for_handshake(event):
            for session in list(self.sessions):
                await session.send_notification(event_to_notification(event, {}))

    async def _tell(self, news: ServerEvent) -> None:
        try:
            while news in self._news and not self._background.stopping:
                self._news.discard(news)
                await self.publish(news)
                await self._background.pause(FRESH)
        finally:
            self._telling.discard(news)

    async def _announce(self) -> None:
        while self._announced:
            message = self._announced.popleft()
            for listener in list(self._streams):
                listener(message)
            for session in list(self.sessions):
                if self._levels.connection_wants(session, message):
                    await session.send_notification(message)


class Notices:
    def __init__(
        self,
        checkpoint: Checkpoint,
        principal_of: Callable[[Context], Principal],
        selection_of: Callable[[Context], Selection],
        background: Background,
        limiter: Limiter,
    ) -> None:
        self._checkpoint = checkpoint
        self._principal_of = principal_of
        self._selection_of = selection_of
        self._background = background
        self._limiter = limiter
        self.levels = LogLevels()
        self._audiences: dict[AudienceKey, Audience] = {}

    async def set_level(self, ctx: Context, params: types.SetLevelRequestParams) -> types.EmptyResult:
        self.levels.set(ctx, self._principal_of(ctx).tenant, params.level)
        return types.EmptyResult()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """Handle `subscriptions/listen` of 2026-07-28."""
        try:
            held = self._limiter.hold("streams", self._principal_of(ctx))
        except TooManyRequests as error:
            raise MCPError(error.rpc, error.message, error.as_dict()) from None
        with held, self.audience(self._principal_of(ctx), self._selection_of(ctx)) as audience:
            return await audience.listen(ctx, params)

    def add(self, ctx: Context) -> None:
        """Add a session of the handshake era that has no notification stream of its own."""
        self._of(self._principal_of(ctx), self._selection_of(ctx)).sessions.add(ctx.session)

    @contextmanager
    def audience(self, principal: Principal, selection: Selection) -> Generator[Audience, None, None]:
        """Yield the audience of a stream, for as long as it is open."""
        audience = self._of(principal, selection)
        audience.listeners += 1
        try:
            yield audience
        finally:
            audience.listeners -= 1
            self._forget_unused((principal.tenant, principal.rights, selection))

    def forget_sessions(self) -> None:
        """Drop the sessions when their connection has ended, for a door that outlives its connections."""
        for audience in self._audiences.values():
            audience.sessions.clear()
        self._forget_unused(*self._audiences)

    def _of(self, principal: Principal, selection: Selection) -> Audience:
        key = principal.tenant, principal.rights, selection
        if key not in self._audiences:
            audience = self._audiences[key] = Audience(self._background, selection, self.levels)
            audience.end = self._checkpoint.listen(principal, audience)
        return self._audiences[key]

    def _forget_unused(self, *keys: AudienceKey) -> None:
        """Drop audiences that nobody is left of: addresses choose tools, and there are any number of choices."""
        for key in keys:
            if not (self._audiences[key].listeners or self._audiences[key].sessions):
                self._audiences.pop(key).end()

    def close(self) -> None:
        """End the long-lived streams of 2026-07-28."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def publish(self, event: ServerEvent) -> None:
        """Send to everybody immediately, for programs that embed Kho and change what no slice serves."""
        for audience in list(self._audiences.values()):
            await audience.publish(event)
