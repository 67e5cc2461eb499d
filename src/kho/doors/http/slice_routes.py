"""Routes of pages, streams and sockets that slices serve beside operations (`kernel/web.py`), on ASGI."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial

from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from kho.doors.auth.credentials import Auth, peer
from kho.doors.auth.revocation import Revocation
from kho.doors.http.asgi import BareEndpoint, counted, error_headers, send_bytes, send_error
from kho.doors.http.event_stream import EventStreams
from kho.doors.http.gc_tuning import GcFreezer
from kho.doors.http.guard import BodyTooLarge, refusal_of, refuse
from kho.doors.http.slice_channel import AsgiChannel, encoded, request_of, told
from kho.kernel import (
    Call,
    Forbidden,
    KhoError,
    Page,
    Principal,
    Served,
    Socket,
    Stream,
    TooManyRequests,
    Unauthorized,
    WebReply,
    WebRequest,
)
from kho.kernel.access import Open
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.limits.bodies import Count
from kho.kernel.limits.limiter import Limiter
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_no_tenant, in_tenant


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
            counting = await self._counting(page, scope, principal)
        except KhoError as error:
            self.auth.refused(scope, error)
            await _send(send, refused(error))
            return
        try:
            with counting as count:
                body = await _body(scope, counted(receive, count), page.max_body)
                await _send(send, await self._reply(page, request_of(scope, body, principal), scope))
            return
        except (BodyTooLarge, TooManyRequests) as error:
            refusal = refusal_of(error, refused(error).body)
        await refuse(receive, send, refusal, close=True)  # only now: the error holds on to what was read

    async def _reply(self, page: Page, request: WebRequest, scope: Scope) -> WebReply:
        try:
            return await self.checkpoint.answer(page, request)
        except KhoError as error:
            if isinstance(error, Unauthorized):  # from a credential that the page itself checks
                self.auth.refused(scope, error)
            return _refusal(page, error)

    async def _counting(self, page: Page, scope: Scope, principal: Principal | None) -> AbstractContextManager[Count]:
        """Return what counts the body, once the page itself has admitted who sends it."""
        if principal is not None:
            return self.limiter.body(principal)
        owner = peer(scope)
        if page.admits is not None:
            with in_no_tenant():
                owner = await page.admits(request_of(scope, b"", None))
        return self.limiter.bodies.held(owner)

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


async def _send(send: Send, reply: WebReply) -> None:
    await send_bytes(send, reply.status, reply.body, reply.mime_type.encode(), encoded(reply))


async def _body(scope: Scope, receive: Receive, limit: int) -> bytes:
    """Read the whole body, up to the limit. The guard has checked that a Content-Length is a number."""
    stated = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    if int(stated) <= limit:
        body, more = bytearray(), True
        while more and len(body) <= limit:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        if len(body) <= limit:
            return bytes(body)
    raise BodyTooLarge(f"Send at most {limit} bytes here.")


def _refusal(page: Page, error: KhoError) -> WebReply:
    """In the form of the page, with the headers that go with the error at any door."""
    reply = (page.refused or told)(error)
    return replace(reply, headers={**error_headers(error), **reply.headers})
