"""Routes of pages, streams and sockets that slices serve beside operations (`kernel/web.py`), on ASGI."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from kho.doors.auth.credentials import Auth
from kho.doors.auth.revocation import Revocation
from kho.doors.http.asgi import BareEndpoint, error_headers, send_bytes, send_error
from kho.doors.http.event_stream import EventStreams
from kho.doors.http.gc_tuning import GcFreezer
from kho.doors.http.guard import BodyTooLarge, Refusal, refuse
from kho.doors.http.slice_channel import AsgiChannel, encoded, request_of, told
from kho.kernel import Call, Forbidden, KhoError, Page, Principal, Served, Socket, Stream, Unauthorized, WebReply
from kho.kernel.access import Open
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.limits.limiter import Limiter
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_tenant


@dataclass(slots=True)
class WebDoor:
    auth: Auth
    checkpoint: Checkpoint
    served: Sequence[Served]
    gc_freezer: GcFreezer
    revocation: Revocation
    streams: EventStreams
    limiter: Limiter

    @property
    def uploads(self) -> list[str]:
        return [page.path.rstrip("/") for page in self.served if isinstance(page, Page) and page.upload]

    def routes(self) -> list[BaseRoute]:
        return [route for served in self.served for path in _paths(served) for route in [self._route(served, path)]]

    def _route(self, served: Served, path: str) -> BaseRoute:
        match served:
            case Page():
                return Route(path, BareEndpoint(partial(self._page, served)), methods=list(served.methods))
            case Stream():
                return Route(path, BareEndpoint(partial(self._stream, served)), methods=["GET"])
            case Socket():
                return WebSocketRoute(path, BareEndpoint(partial(self._socket, served)))

    async def _page(self, page: Page, scope: Scope, receive: Receive, send: Send) -> None:
        refused = partial(_refusal, page)
        try:
            principal = await self._caller(scope, page)
            body = await _body(scope, receive, page.max_body)
        except BodyTooLarge as error:
            reply = refused(error)
            await refuse(receive, send, Refusal(reply.status, error.code, error.message, reply.body), close=True)
            return
        except KhoError as error:
            self.auth.refused(scope, error)
            reply = refused(error)
        else:
            try:
                reply = await self.checkpoint.answer(page, request_of(scope, body, principal))
            except KhoError as error:
                if isinstance(error, Unauthorized):  # from a credential that the page itself checks
                    self.auth.refused(scope, error)
                reply = refused(error)
        await send_bytes(send, reply.status, reply.body, reply.mime_type.encode(), encoded(reply))

    async def _stream(self, stream: Stream, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self._caller(scope, stream)
            assert principal is not None, "a stream always asks for a credential"
            held = self.limiter.hold("streams", principal)
        except KhoError as error:
            self.auth.refused(scope, error)
            await send_error(send, error)
            return
        with held:
            events = stream.events(Call(principal, "http"), request_of(scope, b"", principal))
            async with self.revocation.watched(scope, send, principal) as send:
                with in_tenant(principal.tenant):
                    await self.streams.serve(events, receive, send)

    async def _socket(self, socket: Socket, scope: Scope, receive: Receive, send: Send) -> None:
        channel = AsgiChannel(scope, receive, send, socket.max_message, self.streams.send_timeout, self.auth.refused)
        try:
            await self._caller(scope, socket)
        except KhoError as error:
            await channel.refuse(error)
            return
        self.gc_freezer.came()
        try:
            await socket.serve(channel)
        finally:
            self.gc_freezer.went()
            await channel.close(1000)

    async def _caller(self, scope: Scope, served: Served) -> Principal | None:
        self.checkpoint.admit_method(served, scope.get("method", ""))
        if isinstance(served.scope, Open):
            await self.auth.admit(scope)
            return None
        principal = await self.auth.principal(scope)
        self.limiter.request(principal)
        call = self.checkpoint.visit(served, principal)
        try:
            self.checkpoint.admit(served, call)
        except Forbidden as error:
            self.auth.forbidden(call, error)
            raise
        return principal


def _paths(served: Served) -> list[str]:
    """Serve a path that ends in a slash without the slash, too."""
    return (
        [served.path, served.path.rstrip("/")] if served.path.endswith("/") and len(served.path) > 1 else [served.path]
    )


async def _body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read the whole body, up to the limit. The guard has checked that a Content-Length is a number."""
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


def _refusal(page: Page, error: KhoError) -> WebReply:
    """In the form of the page, with the headers that go with the error at any door."""
    reply = (page.refused or told)(error)
    return replace(reply, headers={**error_headers(error), **reply.headers})
