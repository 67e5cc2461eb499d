"""The HTTP door: every route of the hub in one ASGI application."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Protocol, cast

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from kho.doors.auth.credentials import FRESH, Auth
from kho.doors.auth.revocation import Revocation
from kho.doors.http import pages
from kho.doors.http.actions import Actions
from kho.doors.http.asgi import BareEndpoint, counted, error_body, read_body, send_bytes, send_error, send_json
from kho.doors.http.discovery import capabilities_of, health, servers
from kho.doors.http.event_stream import HEARTBEAT, EventStreams
from kho.doors.http.gc_tuning import GcFreezer
from kho.doors.http.guard import Guard, loopback_hosts, loopback_origins, refusal_of, refuse
from kho.doors.http.jsonrpc import JsonRpc, failure
from kho.doors.http.openapi import openapi
from kho.doors.http.slice_channel import request_of
from kho.doors.http.slice_routes import WebDoor
from kho.doors.http.uvicorn_protocols import STOP
from kho.doors.logs import shown_path
from kho.doors.mcp.http import PRINCIPAL, McpHttp
from kho.doors.mcp.server import Context, McpDoor
from kho.doors.metrics import Metrics
from kho.kernel import Background, Call, Hub, KhoError, Principal, TooManyRequests
from kho.kernel.access import METRICS
from kho.kernel.call import Rights
from kho.kernel.capability import Gauge
from kho.kernel.errors import Forbidden
from kho.kernel.limits.limiter import Limiter
from kho.lib.dataclass import dataclass

MAX_WARNINGS, MAX_HEADER = 5, 1_000
"""Warnings that an answer over HTTP carries, and bytes of each."""
DESCRIPTIONS = 16
"""Descriptions of what is served that are kept: many callers, few combinations of rights."""
Handler = Callable[[Scope, Receive, Send, Principal], Awaitable[None]]


class HttpDoorSettings(Protocol):
    """The part of the settings that this door reads."""

    @property
    def max_body(self) -> int: ...
    @property
    def allowed_hosts(self) -> list[str]: ...
    @property
    def allowed_origins(self) -> list[str]: ...
    @property
    def other_accounts(self) -> bool: ...


class McpSettings(Protocol):
    @property
    def tools(self) -> list[str]: ...
    @property
    def page_size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Authenticated:
    """An endpoint that requires an authenticated caller."""

    auth: Auth
    revocation: Revocation
    limiter: Limiter
    handler: Handler
    speaks_jsonrpc: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            principal = await self.auth.principal(scope)
            self.limiter.request(principal)
        except KhoError as error:
            self.auth.refused(scope, error)
            await send_error(send, error, self._told(error))
            return
        if scope["method"] != "POST":
            await self._answer(scope, receive, send, principal)
            return
        try:
            with self.limiter.body(principal) as count:
                await self._answer(scope, counted(receive, count), send, principal)
            return
        except TooManyRequests as error:  # the body was not read to its end, so nothing was sent yet
            self.auth.refused(scope, error)
            refusal = refusal_of(error, error_body(error, self._told(error)))
        await refuse(receive, send, refusal, close=True)  # only now: the error holds on to what was read

    def _told(self, error: KhoError) -> Any:
        """Clients of JSON-RPC then read why, and tell their model. That there is no credential they know by the 401."""
        if self.speaks_jsonrpc and isinstance(error, TooManyRequests):
            return failure(None, error, contract=False)
        return None

    async def _answer(self, scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        async with self.revocation.watched(scope, send, principal) as send:
            await self.handler(scope, receive, send, principal)


class Application:
    """Opens the hub when the server starts, closes it when the server stops."""

    def __init__(
        self,
        open_hub: Callable[[], AbstractAsyncContextManager[Hub]],
        http: HttpDoorSettings,
        mcp: McpSettings,
        customise: Callable[[McpDoor], None] = lambda door: None,
        *,
        answer_without_id: bool = False,
        fresh: float = FRESH,
        heartbeat: float = HEARTBEAT,
    ) -> None:
        self._open_hub = open_hub
        self._http = http
        self._mcp = mcp
        self._customise = customise
        self._answer_without_id = answer_without_id
        self._fresh = fresh
        self._heartbeat = heartbeat
        inner = Starlette(lifespan=self._lifespan, exception_handlers={HTTPException: _no_route})
        inner.router.redirect_slashes = False
        self._routes: list[BaseRoute] = inner.router.routes
        self._guard = Guard(
            inner,
            hosts=[*loopback_hosts(), *http.allowed_hosts],
            origins=[*loopback_origins(), *http.allowed_origins],
            max_body=http.max_body,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guard(scope, receive, send)

    @asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncGenerator[dict[str, Any], None]:
        async with self._open_hub() as hub:
            background = Background()
            metrics = Metrics()
            hub.registry.observers.append(metrics.observe)
            hub.limiter.observers.append(metrics.refused)
            selection = hub.registry.select(self._mcp.tools)
            door = McpDoor(hub, background, _principal_of, selection, self._mcp.page_size)
            self._customise(door)
            streams = EventStreams(self._heartbeat)
            auth = Auth(hub, self._fresh, other_accounts=self._http.other_accounts)
            revocation = Revocation(auth, background)
            mcp = McpHttp(door, self._http.max_body, streams, revocation, metrics, hub.limiter)
            gc_freezer = GcFreezer()
            served = [served for capability in hub.registry.capabilities for served in capability.web]
            web = WebDoor(auth, hub.registry.checkpoint, served, gc_freezer, revocation, streams, hub.limiter)
            rpc = JsonRpc(hub.registry, hub.limiter, answer_without_id=self._answer_without_id)
            endpoint = partial(Authenticated, auth, revocation, hub.limiter)
            self._routes.extend([*_routes(hub, endpoint, rpc, mcp, metrics), *web.routes()])
            self._guard.uploads.extend(web.uploads)
            self._guard.count = hub.refusals.turned_away

            def stop() -> None:
                door.notices.close()
                streams.stopping.set()

            gc_freezer.start()
            try:
                async with mcp.run():
                    yield {STOP: stop}
            finally:
                gc_freezer.close()
                revocation.close()
                await background.drain()


async def _no_route(request: Request, problem: Exception) -> Response:
    """Answer in JSON, as all other errors: callers parse the response."""
    refused = cast(HTTPException, problem)
    why = (
        f"There is nothing at {shown_path(request.url.path)}."
        if refused.status_code == 404
        else f"{request.method} is not served here."
    )
    allowed = f" Use {refused.headers['Allow']}." if refused.headers and "Allow" in refused.headers else ""
    message = f"{why}{allowed} GET /openapi.json lists what is served."
    error = {"code": HTTPStatus(refused.status_code).name, "message": message}
    return Response(orjson.dumps({"error": error}), refused.status_code, refused.headers, media_type="application/json")


def _warned(warnings: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Return the headers that say what a contract leaves no room for in the body."""
    return [(b"kho-warning", one.encode("ascii", "backslashreplace")[:MAX_HEADER]) for one in warnings[:MAX_WARNINGS]]


def _principal_of(ctx: Context) -> Principal:
    assert ctx.request is not None
    return ctx.request.scope[PRINCIPAL]


def _routes(
    hub: Hub, endpoint: Callable[[Handler, bool], Authenticated], rpc: JsonRpc, mcp: McpHttp, metrics: Metrics
) -> list[BaseRoute]:
    actions, checkpoint = Actions(hub), hub.registry.checkpoint

    @lru_cache(maxsize=DESCRIPTIONS)
    def described(rights: Rights) -> bytes:
        return orjson.dumps(openapi(hub.version, checkpoint.visible_with(rights)))

    async def on_jsonrpc(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        warnings: list[str] = []
        answer = await rpc.answer(await read_body(receive), principal, warnings)
        if answer is None:
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})
        else:
            await send_bytes(send, 200, answer, headers=_warned(warnings))

    async def on_actions(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        reply = await actions.answer(await read_body(receive), principal)
        headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        await send_bytes(send, reply.status, reply.body, headers=[*headers, *_warned(reply.warnings)])

    async def on_mcp(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        scope[PRINCIPAL] = principal
        await mcp(scope, receive, send)

    async def on_health(scope: Scope, receive: Receive, send: Send) -> None:
        status, body = await health(hub)
        await send_json(send, status, body)

    async def on_servers(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        try:
            await send_json(send, 200, await servers(hub, principal))
        except KhoError as error:
            await send_error(send, error)

    async def on_capabilities(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        try:
            await send_json(send, 200, await capabilities_of(hub, scope["path_params"]["name"], principal))
        except KhoError as error:
            await send_error(send, error)

    async def on_openapi(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        await send_bytes(send, 200, described(principal.rights))

    async def on_metrics(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        call = Call(principal, "http", operation="/metrics")
        try:
            call.need_all_of("", METRICS)
        except Forbidden as error:
            hub.refusals.forbidden(call, error)
            await send_error(send, error)
            return
        await send_bytes(send, 200, metrics.render(await _measured(hub)), metrics.content_type)

    async def on_welcome(scope: Scope, receive: Receive, send: Send) -> None:
        await pages.welcome(send)

    async def on_open(scope: Scope, receive: Receive, send: Send, principal: Principal) -> None:
        asked = request_of(scope, b"", principal)
        await pages.open_item(send, hub.registry, scope["path_params"]["id"], asked.query.get("offset", ""), principal)

    def route(path: str, handler: Handler, *methods: str) -> Route:
        return Route(path, endpoint(handler, path in ("/jsonrpc", "/mcp")), methods=methods)

    return [
        route("/jsonrpc", on_jsonrpc, "POST"),
        route("/mcp", on_mcp, "GET", "POST", "DELETE"),
        route("/actions", on_actions, "POST"),
        Route("/health", BareEndpoint(on_health), methods=["GET"]),
        route("/servers", on_servers, "GET"),
        route("/servers/{name}/capabilities", on_capabilities, "GET"),
        route("/openapi.json", on_openapi, "GET"),
        route("/metrics", on_metrics, "GET"),
        Route("/", BareEndpoint(on_welcome), methods=["GET"]),
        route("/open/{id:path}", on_open, "GET"),
    ]


async def _measured(hub: Hub) -> Sequence[tuple[Gauge, float]]:
    """Return the figures of the store; none if it does not answer, so that the other metrics are still served."""
    try:
        return await hub.measure()
    except KhoError:
        return ()
