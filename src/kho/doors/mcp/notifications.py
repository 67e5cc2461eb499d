"""Who hears, in this process, that a list of tools or resources changed, and what slices announce: those whom the
kernel's checkpoint lets hear it, by tenant and scope.

A notice says that something changed, not what. So many changes at once are few notices: while one is fresh, the next
waits, and stands for all that came meanwhile. Announcements say what happened, to clients of the handshake era, as log
messages; when there are too many at once, the rest is left out.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import mcp_types as types
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
from kho.kernel.call import Principal
from kho.kernel.capability import Level
from kho.kernel.checkpoint import Checkpoint

Context = ServerRequestContext[Any, Any]
FRESH = 0.5
"""Seconds between two notices of the same kind to the same audience."""
MOST_ANNOUNCED = 256
"""Announcements to one audience that wait to be sent."""
Notice = ServerEvent | types.LoggingMessageNotification


def for_handshake(event: Notice) -> bool:
    """Whether clients of the handshake era are told: they were promised these, and cannot choose."""
    return isinstance(event, ToolsListChanged | ResourcesListChanged | types.LoggingMessageNotification)


def to_notification(event: Notice) -> types.ServerNotification:
    if isinstance(event, types.LoggingMessageNotification):
        return event
    return event_to_notification(event, {})


class Audience:
    """Clients of one tenant with the same scopes, who may all hear the same: a `Listener` of the checkpoint."""

    def __init__(self, background: Background) -> None:
        self._background = background
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self.sessions: set[ServerSession] = set()
        self._streams: set[Callable[[Notice], None]] = set()
        self._announced: deque[types.LoggingMessageNotification] = deque()
        self._news: set[ServerEvent] = set()
        self._telling: set[ServerEvent] = set()

    def subscribe(self, listener: Callable[[Notice], None]) -> Callable[[], None]:
        """What it returns ends it."""
        self._streams.add(listener)
        unsubscribe = self._bus.subscribe(listener)

        def end() -> None:
            self._streams.discard(listener)
            unsubscribe()

        return end

    def tools_changed(self) -> None:
        self._background.add(partial(self.publish, ToolsListChanged()))

    def resources_changed(self, uri: str | None) -> None:
        news = ResourcesListChanged() if uri is None else ResourceUpdated(uri)
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
                await session.send_notification(message)


class Notices:
    def __init__(
        self, checkpoint: Checkpoint, principal_of: Callable[[Context], Principal], background: Background
    ) -> None:
        self._checkpoint = checkpoint
        self._principal_of = principal_of
        self._background = background
        self._audiences: dict[tuple[str, frozenset[str]], Audience] = {}

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen` of 2026-07-28."""
        return await self.audience(self._principal_of(ctx)).listen(ctx, params)

    def add(self, ctx: Context) -> None:
        """A session of the handshake era that has no stream of its own for notices."""
        self.audience(self._principal_of(ctx)).sessions.add(ctx.session)

    def audience(self, principal: Principal) -> Audience:
        key = principal.tenant, principal.scopes
        if key not in self._audiences:
            self._audiences[key] = Audience(self._background)
            self._checkpoint.listen(principal, self._audiences[key])
        return self._audiences[key]

    def forget_sessions(self) -> None:
        """Their connection ended. For a door that outlives its connections."""
        for audience in self._audiences.values():
            audience.sessions.clear()

    def close(self) -> None:
        """Ends the standing streams of 2026-07-28."""
        for audience in self._audiences.values():
            audience.listen.close()

    async def publish(self, event: ServerEvent) -> None:
        """To everybody, at once: for programs that embed Kho and change what no slice serves."""
        for audience in list(self._audiences.values()):
            await audience.publish(event)
