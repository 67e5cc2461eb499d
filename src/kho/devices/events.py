"""Event bus for boards: live events for listeners in this process, and over `/devices/events` (SSE)."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Literal

from kho.kernel import Call, Hint, Op, Stream, WebRequest
from kho.lib.clock import iso
from kho.lib.dataclass import dataclass

Kind = Literal["connected", "disconnected", "tools_changed", "notification", "call", "warning"]
WAITING = 256
"""Maximum events buffered per listener. A listener that falls further behind is notified and disconnected."""
SCOPE = "devices:read"


@dataclass(frozen=True, slots=True)
class Event:
    kind: Kind
    device: str
    at: int
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    def as_dict(self) -> dict[str, Any]:
        return {"device": self.device, "at": iso(self.at), **self.data}


class Listener:
    """A subscription to the events of a tenant's boards, or of one board."""

    def __init__(self, device: str | None, waiting: int) -> None:
        self._device = device
        self._most = waiting
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.missed = 0

    def put(self, event: Event) -> None:
        if self._device not in (None, event.device):
            return
        if self.missed or self._queue.qsize() >= self._most:
            if not self.missed:
                self._queue.put_nowait(None)
            self.missed += 1
        else:
            self._queue.put_nowait(event)

    async def next(self) -> Event | None:
        """Return the next event; None when the listener fell behind and has read all that was buffered before that."""
        return await self._queue.get()


class Events:
    def __init__(self, waiting: int = WAITING) -> None:
        self._waiting = waiting
        self.listeners: dict[str, set[Listener]] = {}

    def publish(self, tenant: str, event: Event) -> None:
        """Publish an event without waiting for slow listeners."""
        for listener in self.listeners.get(tenant, ()):
            listener.put(event)

    @contextmanager
    def listen(self, tenant: str, device: str | None = None) -> Generator[Listener, None, None]:
        listener = Listener(device, self._waiting)
        self.listeners.setdefault(tenant, set()).add(listener)
        try:
            yield listener
        finally:
            others = self.listeners[tenant]
            others.discard(listener)
            if not others:
                del self.listeners[tenant]


def stream(events: Events, normal: Callable[[str], str]) -> Stream:
    """Return the SSE stream. `normal` normalizes a device id."""

    async def happening(call: Call, request: WebRequest) -> AsyncGenerator[tuple[str, Any], None]:
        wanted = request.query.get("device")
        with events.listen(call.tenant, normal(wanted) if wanted else None) as listener:
            while (event := await listener.next()) is not None:
                yield event.kind, event.as_dict()
            missed = Op("device_notifications")
            why = Hint(
                "This client read too slowly and missed events. Connect again; ",
                missed,
                " has the missed notifications.",
            )
            yield "dropped", {"missed": listener.missed, "message": why}

    return Stream("/devices/events", happening, "Events of the caller's boards, as they happen.", scope=SCOPE)
