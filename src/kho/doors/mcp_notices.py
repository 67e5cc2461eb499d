"""Who hears, in this process, that a list changed: of tools everybody, of resources those of their tenant only.

A notice says that something changed, not what. So many changes at once are few notices: while one is fresh, the next
waits, and stands for all that came meanwhile. Announcements say what happened, to the tenant's clients of the
handshake era, as log messages; when there are too many at once, the rest is left out.
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
from kho.kernel.capability import Level

Context = ServerRequestContext[Any, Any]
FRESH = 0.5
"""Seconds between two notices of the same kind to the same tenant."""


MOST_ANNOUNCED = 256
"""Announcements to one tenant that wait to be sent."""
Notice = ServerEvent | types.LoggingMessageNotification


def for_handshake(event: Notice) -> bool:
    """Whether clients of the handshake era are told: they were promised these, and cannot choose."""
    return isinstance(event, ToolsListChanged | ResourcesListChanged | types.LoggingMessageNotification)


def to_notification(event: Notice) -> types.ServerNotification:
    if isinstance(event, types.LoggingMessageNotification):
        return event
    return event_to_notification(event, {})


class _Room:
    """The listeners of one tenant."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self.bus)
        self.sessions: set[ServerSession] = set()
        self.streams: set[Callable[[Notice], None]] = set()
        self.announced: deque[types.LoggingMessageNotification] = deque()

    async def publish(self, event: ServerEvent) -> None:
        await self.bus.publish(event)
        if for_handshake(event):
            for session in list(self.sessions):
                await session.send_notification(event_to_notification(event, {}))

    async def announce(self) -> None:
        while self.announced:
            message = self.announced.popleft()
            for listener in list(self.streams):
                listener(message)
            for session in list(self.sessions):
                await session.send_notification(message)


class Notices:
    def __init__(self, tenant_of: Callable[[Context], str], background: Background) -> None:
        self._tenant_of = tenant_of
        self._background = background
        self._rooms: dict[str, _Room] = {}
        self._news: set[tuple[str, ServerEvent]] = set()
        self._telling: set[tuple[str, ServerEvent]] = set()

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen` of 2026-07-28."""
        return await self._room(self._tenant_of(ctx)).listen(ctx, params)

    def add(self, ctx: Context) -> None:
        """A session of the handshake era that has no stream of its own for notices."""
        self._room(self._tenant_of(ctx)).sessions.add(ctx.session)

    def forget_sessions(self) -> None:
        """Their connection ended. For a door that outlives its connections."""
        for room in self._rooms.values():
            room.sessions.clear()

    def subscribe(self, tenant: str, listener: Callable[[Notice], None]) -> Callable[[], None]:
        """What it returns ends it."""
        room = self._room(tenant)
        room.streams.add(listener)
        unsubscribe = room.bus.subscribe(listener)

        def end() -> None:
            room.streams.discard(listener)
            unsubscribe()

        return end

    def close(self) -> None:
        """Ends the standing streams of 2026-07-28."""
        for room in self._rooms.values():
            room.listen.close()

    async def publish(self, event: ServerEvent) -> None:
        """To everybody, at once."""
        for room in list(self._rooms.values()):
            await room.publish(event)

    def resources_changed(self, tenant: str, uri: str | None) -> None:
        """Which resources there are, or with `uri` what one of them says."""
        if tenant not in self._rooms:
            return
        news = tenant, ResourcesListChanged() if uri is None else ResourceUpdated(uri)
        self._news.add(news)
        if news not in self._telling:
            self._telling.add(news)
            self._background.add(partial(self._tell, news))

    def announced(self, tenant: str, level: Level, speaker: str, what: Any) -> None:
        room = self._rooms.get(tenant)
        if room is None or not (room.sessions or room.streams) or len(room.announced) >= MOST_ANNOUNCED:
            return
        params = types.LoggingMessageNotificationParams(level=level, logger=speaker, data=what)
        room.announced.append(types.LoggingMessageNotification(params=params))
        if len(room.announced) == 1:
            self._background.add(room.announce)

    async def _tell(self, news: tuple[str, ServerEvent]) -> None:
        tenant, event = news
        try:
            while news in self._news and not self._background.stopping:
                self._news.discard(news)
                await self._rooms[tenant].publish(event)
                await self._background.pause(FRESH)
        finally:
            self._telling.discard(news)

    def _room(self, tenant: str) -> _Room:
        return self._rooms.setdefault(tenant, _Room())
