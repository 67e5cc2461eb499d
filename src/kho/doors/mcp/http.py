"""MCP over streamable HTTP at /mcp, both eras, safe on any number of workers.

Clients of the handshake era may get a session, which lets a tool ask its client something in mid-call. Nothing
depends on it: a request whose session this process does not hold (another worker made it, or the hub was restarted)
is served without one, where the SDK alone would answer 404 and strand the client.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import orjson
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.types import Message, Receive, Scope, Send

from kho.doors.http.asgi import header, read_body, send_json
from kho.doors.mcp.notifications import Notice, for_handshake, to_notification
from kho.doors.mcp.server import McpDoor
from kho.kernel import large
from kho.lib import jsonrpc
from kho.lib.jsonrpc import Invalid, Request, Response

PRINCIPAL = "kho.principal"
"""Where the caller stands in the scope of a request."""
MOST_SESSIONS = 1_000
IDLE_SESSION = 600.0


class McpHttp:
    def __init__(self, door: McpDoor, max_body: int, heartbeat: float) -> None:
        self._notices = door.notices
        self._heartbeat = heartbeat
        self._stopping = asyncio.Event()
        self._stateless = StreamableHTTPSessionManager(
            door.server, stateless=True, json_response=False, max_request_body_size=max_body
        )
        self._stateful = StreamableHTTPSessionManager(
            door.server, session_idle_timeout=IDLE_SESSION, max_sessions=MOST_SESSIONS, max_request_body_size=max_body
        )

        self._ended: OrderedDict[str, None] = OrderedDict()
        """Sessions that their clients ended: these, and only these, are answered 404."""

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[None, None]:
        async with self._stateless.run(), self._stateful.run():
            yield

    def stop(self) -> None:
        """Ends the standing streams, which end of their own accord never; the server waits for them before it stops."""
        self._stopping.set()
        self._notices.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        if scope["method"] == "POST":
            body = await read_body(receive)
            refusal = await large.read(len(body), partial(_refusal, body))
            if refusal is not None:
                await send_json(send, 400, refusal)
                return
            receive = _replay(body, receive)
        version = header(scope, b"mcp-protocol-version")
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._stateless.handle_request(scope, receive, send)  # 2026-07-28 has no sessions
        elif scope["method"] == "GET":
            if "text/event-stream" not in (header(scope, b"accept") or ""):
                why = "This is an MCP endpoint: POST a message, or GET a stream with 'Accept: text/event-stream'."
                await send_json(send, 406, {"error": {"code": "NOT_ACCEPTABLE", "message": why}})
                return
            await self._stream(scope, receive, send)
        else:
            await self._handshake_era(scope, receive, send, body)

    async def _handshake_era(self, scope: Scope, receive: Receive, send: Send, body: bytes) -> None:
        session = header(scope, b"mcp-session-id")
        sessions = self._stateful._server_instances  # pyright: ignore[reportPrivateUsage]
        if session is not None:
            ours = session in sessions or session in self._ended
            if session in sessions and scope["method"] == "DELETE":
                self._ended[session] = None
                if len(self._ended) > MOST_SESSIONS:
                    self._ended.popitem(last=False)
            await (self._stateful if ours else self._stateless).handle_request(scope, receive, send)
            return
        opens = b'"initialize"' in body and len(sessions) < MOST_SESSIONS
        manager = self._stateful if opens else self._stateless
        await manager.handle_request(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The handshake era's standing stream: says when the list of tools or of resources changes."""
        events: asyncio.Queue[Notice] = asyncio.Queue(maxsize=256)

        def put(event: Notice) -> None:
            if for_handshake(event) and not events.full():
                events.put_nowait(event)  # a client that does not read misses repetitions, not the news

        unsubscribe = self._notices.audience(scope[PRINCIPAL]).subscribe(put)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform")],
                }
            )
            await send({"type": "http.response.body", "body": b": listening\n\n", "more_body": True})
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_forward, events, send, self._heartbeat)
                tasks.start_soon(_cancel_when_disconnected, tasks.cancel_scope, receive)
                await self._stopping.wait()
                tasks.cancel_scope.cancel()
            await send({"type": "http.response.body", "body": b""})
        finally:
            unsubscribe()


async def _forward(events: "asyncio.Queue[Notice]", send: Send, heartbeat: float) -> None:
    while True:
        try:
            async with asyncio.timeout(heartbeat):
                event = await events.get()
        except TimeoutError:
            frame = b": still here\n\n"
        else:
            message = to_notification(event).model_dump(by_alias=True, mode="json", exclude_none=True)
            frame = b"event: message\ndata: " + orjson.dumps({"jsonrpc": "2.0", **message}) + b"\n\n"
        await send({"type": "http.response.body", "body": frame, "more_body": True})


async def _cancel_when_disconnected(scope: anyio.CancelScope, receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


def _refusal(body: bytes) -> dict[str, Any] | None:
    """What is wrong with a message, if anything. The SDK would tell it in its library's words, with its addresses,
    and lets pass what cannot be answered (half a surrogate, NaN)."""
    try:
        messages, batch = jsonrpc.parse(body)
    except jsonrpc.ParseError as problem:
        return jsonrpc.error(None, jsonrpc.PARSE_ERROR, "Parse error", str(problem))
    match messages[0]:
        case _ if batch:
            why = "Send one message at a time."
        case Invalid(reply):
            return reply
        case Request(params=list()):
            why = "'params' must be an object."
        case Request(id=float() | None, is_notification=False) | Response(id=float() | None):
            why = "'id' must be a string or a whole number of 64 bits."
        case Response(error=None, result=value) if not isinstance(value, dict):
            why = "'result' must be an object."
        case _:
            return None
    return jsonrpc.error(None, jsonrpc.INVALID_REQUEST, "Invalid Request", why)


def _replay(body: bytes, receive: Receive) -> Receive:
    """A receive that gives the body that was read already, then goes on with the connection's own."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return waiting.pop() if waiting else await receive()

    return again
