"""What happens to boards, as it happens, for whoever listens: in this process, and over `/devices/events`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from kho.kernel.call import Call
from kho.kernel.web import Request, Stream
from kho.lib.clock import iso

Kind = Literal["connected", "disconnected", "tools_changed", "notification", "call", "warning"]
WAITING = 256
"""Events that wait for one listener. One that falls further behind is told so, and let go."""
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
    """One who listens to one tenant's boards, or to one of them."""

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
        """The next event; None after the last one that it got before it fell behind."""
        return await self._queue.get()


class Events:
    def __init__(self, waiting: int = WAITING) -> None:
        self._waiting = waiting
        self.listeners: dict[str, set[Listener]] = {}

    def publish(self, tenant: str, event: Event) -> None:
        """Never waits: a slow listener is its own trouble."""
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
    """`normal` gives a device's id as it is kept."""

    async def happening(call: Call, request: Request) -> AsyncGenerator[tuple[str, Any], None]:
        wanted = request.query.get("device")
        with events.listen(call.tenant, normal(wanted) if wanted else None) as listener:
            while (event := await listener.next()) is not None:
                yield event.kind, event.as_dict()
            why = "This listener did not keep up. Listen again; device_notifications has what boards said meanwhile."
            yield "dropped", {"missed": listener.missed, "message": why}

    return Stream("/devices/events", happening, "What happens to the caller's boards, as it happens.", scope=SCOPE)
