"""MCP over streamable HTTP at /mcp, both eras, safe on any number of workers.

Clients of the handshake era may get a session. Nothing depends on it: a request whose session this process does not
hold (another worker made it, the hub was restarted, or it is another caller's) is served without one, where the SDK
alone would answer 404 and leave the client stuck.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from kho.doors.auth.revocation import Revocation
from kho.doors.http.asgi import header, read_body, send_error, send_json
from kho.doors.http.event_stream import Events, EventStreams
from kho.doors.mcp.notifications import SESSION_ID, Notice, for_handshake, to_notification
from kho.doors.mcp.server import INSTRUCTIONS, TOOLSET, McpDoor
from kho.doors.mcp.sessions import Sessions
from kho.doors.metrics import Metrics
from kho.kernel import Principal, TooManyRequests, validation
from kho.kernel.errors import KhoError
from kho.kernel.limits.limiter import Limiter
from kho.kernel.toolset import Selection
from kho.lib import jsonrpc
from kho.lib.jsonrpc import InvalidMessage, RpcRequest, RpcResponse

PRINCIPAL = "kho.principal"
"""Key of the caller in the scope of a request."""


class McpHttp:
    def __init__(
        self,
        door: McpDoor,
        max_body: int,
        streams: EventStreams,
        revocation: Revocation,
        metrics: Metrics,
        limiter: Limiter,
    ) -> None:
        self._door = door
        self._limiter = limiter
        self._streams = streams
        self._stateless = StreamableHTTPSessionManager(
            door.server, stateless=True, json_response=False, max_request_body_size=max_body
        )
        self._sessions = Sessions(door.server, max_body, revocation, metrics.sessions.set, limiter.settings.sessions)

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        async with self._stateless.run(), self._sessions.run():
            yield

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if scope["method"] == "POST":
            body = await read_body(receive)
            refusal = await validation.read_large(len(body), partial(_refusal, body))
            if refusal is not None:
                await send_json(send, 400, refusal)
                return
            receive = _replay(body, receive)
        try:
            selection = self._choose(scope)
        except KhoError as error:
            await self._door.redact(error)
            await send_json(send, 400, jsonrpc.error(None, jsonrpc.INVALID_PARAMS, error.message))
            return
        version = header(scope, b"mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._stateless.handle_request(scope, receive, send)  # 2026-07-28 has no sessions
        elif scope["method"] == "GET":
            if "text/event-stream" not in (header(scope, b"accept") or ""):
                why = "This is an MCP endpoint: POST a message, or GET a stream with 'Accept: text/event-stream'."
                await send_json(send, 406, {"error": {"code": "NOT_ACCEPTABLE", "message": why}})
                return
            await self._stream(scope, receive, send, selection)
        else:
            await self._handshake_era(scope, receive, send, body)

    def _choose(self, scope: Scope) -> Selection:
        """Read the tools that the address chooses, and keep them for whoever answers the request."""
        given = parse_qs(scope["query_string"].decode("latin-1")).get("tools")
        if not given:
            return self._door.own_selection
        chosen = self._door.select(given)
        scope[TOOLSET] = chosen
        INSTRUCTIONS.set(self._door.instructions(chosen))
        return chosen

    async def _handshake_era(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        session, caller = header(scope, SESSION_ID.encode()), scope[PRINCIPAL]
        if session is not None and self._sessions.has(session, caller):
            await self._sessions.answer(session, caller, scope, receive, send)
        elif session is None and b'"initialize"' in body and not self._sessions.full_for(caller):
            await self._sessions.open(caller, scope, receive, send)
        else:
            await self._stateless.handle_request(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send, selection: Selection) -> None:
        """Serve the handshake era's long-lived GET stream, which notifies of changes to the list of tools or
        resources."""
        principal = scope[PRINCIPAL]
        try:
            held = self._limiter.hold("streams", principal)
        except TooManyRequests as error:
            await send_error(send, error, jsonrpc.error(None, error.rpc, error.message, error.as_dict()))
            return
        with held:
            await self._notify(principal, scope, receive, send, selection)

    async def _notify(
        self, principal: Principal, scope: Scope, receive: Receive, send: Send, selection: Selection
    ) -> None:
        events: asyncio.Queue[Notice] = asyncio.Queue(maxsize=256)
        notices = self._door.notices
        session = header(scope, SESSION_ID.encode())

        def put(event: Notice) -> None:
            wanted = for_handshake(event) and notices.levels.session_wants(principal.tenant, session, event)
            if wanted and not events.full():
                events.put_nowait(event)  # a client that does not read misses only repetitions

        with notices.audience(principal, selection) as audience:
            unsubscribe = audience.subscribe(put)
            try:
                await self._streams.serve(_messages(events), receive, send)
            finally:
                unsubscribe()


async def _messages(events: "asyncio.Queue[Notice]") -> Events:
    while True:
        message = to_notification(await events.get()).model_dump(by_alias=True, mode="json", exclude_none=True)
        yield "message", {"jsonrpc": "2.0", **message}


def _refusal(body: bytes) -> dict[str, Any] | None:
    """Return the error for an invalid message, None if it is valid. The SDK would report it in the words of its
    library, with its URLs, and accepts what cannot be answered (a lone surrogate, NaN)."""
    try:
        messages, batch = jsonrpc.parse(body)
    except jsonrpc.ParseError as problem:
        return jsonrpc.error(None, jsonrpc.PARSE_ERROR, "Parse error", str(problem))
    match messages[0]:
        case _ if batch:
            why = "Send one message at a time."
        case InvalidMessage(reply):
            return reply
        case RpcRequest(params=list()):
            why = "'params' must be an object."
        case RpcRequest(id=float() | None, is_notification=False) | RpcResponse(id=float() | None):
            why = "'id' must be a string or a whole number of 64 bits."
        case RpcResponse(error=None, result=value) if not isinstance(value, dict):
            why = "'result' must be an object."
        case _:
            return None
    return jsonrpc.error(None, jsonrpc.INVALID_REQUEST, "Invalid Request", why)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives the body already read, then continues with the connection's own."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
