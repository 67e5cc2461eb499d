"""What slices serve over HTTP beside operations (`kernel/web.py`), on ASGI."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import anyio
import orjson
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from kho.doors.auth.credentials import Auth
from kho.doors.auth.revocation import HEARTBEAT, Revocation
from kho.doors.http.asgi import send_bytes, send_error
from kho.doors.http.gc_tuning import Lasting
from kho.doors.http.guard import BodyTooLarge, Refusal, refuse
from kho.doors.http.slice_channel import AsgiChannel, log_refused, request_of, told
from kho.kernel.access import Open
from kho.kernel.call import Call, Principal
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import KhoError
from kho.kernel.web import Page, Served, Socket, Stream

PATIENCE = 20.0
"""Seconds that a reader may take to make room for one more message; then it is given up."""

Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]


class WebDoor:
    def __init__(
        self,
        auth: Auth,
        checkpoint: Checkpoint,
        served: Sequence[Served],
        lasting: Lasting,
        *,
        heartbeat: float = HEARTBEAT,
        patience: float = PATIENCE,
    ) -> None:
        self._auth = auth
        self._checkpoint = checkpoint
        self._revocation = Revocation(auth, heartbeat)
        self._served = served
        self._lasting = lasting
        self._heartbeat = heartbeat
        self._patience = patience
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Ends the streams, which end of their own accord never. The server itself closes the WebSockets."""
        self._stopping.set()

    @property
    def uploads(self) -> list[str]:
        return [page.path.rstrip("/") for page in self._served if isinstance(page, Page) and page.upload]

    def routes(self) -> list[BaseRoute]:
        return [route for served in self._served for path in _paths(served) for route in [self._route(served, path)]]

    def _route(self, served: Served, path: str) -> BaseRoute:
        match served:
            case Page():
                return Route(path, _Bare(partial(self._page, served)), methods=list(served.methods))
            case Stream():
                return Route(path, _Bare(partial(self._stream, served)), methods=["GET"])
            case Socket():
                return WebSocketRoute(path, _Bare(partial(self._socket, served)))

    async def _page(self, page: Page, scope: Scope, receive: Receive, send: Send) -> None:
        refused = page.refused or told

        try:
            principal = await self._caller(scope, page)
            body = await _body(scope, receive, page.max_body)
        except BodyTooLarge as error:
            reply = refused(error)
            await refuse(receive, send, Refusal(reply.status, error.code, error.message, reply.body), close=True)
            return
        except KhoError as error:
            log_refused(scope, error)
            reply = refused(error)
        else:
            try:
                reply = await page.answer(request_of(scope, body, principal))
            except KhoError as error:
                reply = refused(error)
        headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]
        await send_bytes(send, reply.status, reply.body, reply.mime_type.encode(), headers)

    async def _stream(self, stream: Stream, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self._caller(scope, stream)
        except KhoError as error:
            log_refused(scope, error)
            await send_error(send, error)
            return
        assert principal is not None, "a stream always asks for a credential"
        async with self._revocation.watched(scope, send, principal) as send:
            await self._events(stream, scope, receive, send, principal)

    async def _events(self, stream: Stream, scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        events = stream.events(Call(principal, "http"), request_of(scope, b"", principal))
        headers = [
            (b"content-type", b"text/event-stream"),
            (b"cache-control", b"no-cache, no-transform"),
            (b"x-accel-buffering", b"no"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._until_gone, receive, tasks.cancel_scope)
            tasks.start_soon(self._until_stopped, tasks.cancel_scope)
            await self._forward(events, send)
            tasks.cancel_scope.cancel()
        await send({"type": "http.response.body", "body": b""})

    async def _forward(self, events: AsyncGenerator[tuple[str, Any], None], send: Send) -> None:
        """Until the events end, or the reader stops reading. The iterator is never cancelled by a heartbeat."""
        waiting = asyncio.ensure_future(anext(events))
        frame = b": listening\n\n"
        try:
            while True:
                async with asyncio.timeout(self._patience):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
                done, _ = await asyncio.wait({waiting}, timeout=self._heartbeat)
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

    async def _until_gone(self, receive: Receive, scope: anyio.CancelScope) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def _until_stopped(self, scope: anyio.CancelScope) -> None:
        await self._stopping.wait()
        scope.cancel()

    async def _socket(self, socket: Socket, scope: Scope, receive: Receive, send: Send) -> None:
        channel = AsgiChannel(scope, receive, send, socket.max_message, self._patience)
        try:
            await self._caller(scope, socket)
        except KhoError as error:
            await channel.refuse(error)
            return
        self._lasting.came()
        try:
            await socket.serve(channel)
        finally:
            self._lasting.went()
            await channel.close(1000)

    async def _caller(self, scope: Scope, served: Served) -> Principal | None:
        if isinstance(served.scope, Open):
            await self._auth.admit(scope)
            return None
        principal = await self._auth.principal(scope)
        self._checkpoint.admit(served, principal)
        return principal


class _Bare:
    """An object, not a function: Starlette then hands it the bare ASGI call."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


def _paths(served: Served) -> list[str]:
    """Where people leave a slash off at the end, it is the same page."""
    return (
        [served.path, served.path.rstrip("/")] if served.path.endswith("/") and len(served.path) > 1 else [served.path]
    )


async def _body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """The whole body, no further than the limit. The guard has seen to it that a stated length is a number."""
    stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    parts: list[bytes] = []
    size, more = int(stated), True
    if size <= limit:
        size = 0
        while more and size <= limit:
            message = await receive()
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
    if size > limit:
        raise BodyTooLarge(f"Send at most {limit} bytes here.")
    return b"".join(parts)
