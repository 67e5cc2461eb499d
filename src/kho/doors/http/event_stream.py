"""Server-sent events on ASGI, with periodic comments so that proxies keep the stream open."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import field
from typing import Any

import anyio
import orjson
from starlette.types import Receive, Send

from kho.lib.dataclass import dataclass

HEARTBEAT = 15.0
"""Seconds between comments on an otherwise silent stream, so that proxies keep it open."""
SEND_TIMEOUT = 20.0
"""Seconds that a reader may take to accept one more event; then its stream ends."""
HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]

Events = AsyncGenerator[tuple[str, Any], None]
"""Pairs of an event name and a JSON value."""


@dataclass(slots=True)
class EventStreams:
    heartbeat: float
    """Seconds between comments on an otherwise silent stream."""
    send_timeout: float = SEND_TIMEOUT
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    """Set to end every stream: none ends by itself, and the server waits for them before it stops."""

    async def serve(self, events: Events, receive: Receive, send: Send) -> None:
        """Send events until they end, the client disconnects or stops reading, or the server stops."""
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
            tasks.start_soon(self._until_stopped, tasks.cancel_scope)
            await self._forward(events, send)
            tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _forward(self, events: Events, send: Send) -> None:
        """Send events and heartbeats. A heartbeat never cancels the pending `anext`."""
        waiting = asyncio.ensure_future(anext(events))
        frame = b": listening\n\n"
        try:
            while True:
                async with asyncio.timeout(self.send_timeout):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                done, _ = await asyncio.wait({waiting}, timeout=self.heartbeat)
                if not done:
                    frame = b": still here\n\n"
                    continue
                name, value = waiting.result()
                frame = b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(value))
                waiting = asyncio.ensure_future(anext(events))
        except (StopAsyncIteration, TimeoutError):
            return
        finally:
            waiting.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({waiting})
                await events.aclose()

    async def _until_stopped(self, scope: anyio.CancelScope) -> None:
        await self.stopping.wait()
        scope.cancel()


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
