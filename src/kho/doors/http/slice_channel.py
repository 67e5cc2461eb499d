"""A WebSocket on ASGI as `kernel.web.Channel`, and the request and error conversion that it shares with pages."""

import asyncio
from collections.abc import Callable
from urllib.parse import parse_qsl

import orjson
from starlette.types import Message, Receive, Scope, Send

from kho.doors.http.asgi import error_headers
from kho.doors.http.guard import Refusal, refuse_websocket
from kho.kernel import ChannelClosed, KhoError, Principal, WebReply, WebRequest

OnRefusal = Callable[[Scope, KhoError], None]


class AsgiChannel:
    """A WebSocket as `kernel.web.Channel`."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, limit: int, patience: float, refused: OnRefusal
    ) -> None:
        asked = request_of(scope, b"", None)
        self.query = asked.query
        self.headers = asked.headers
        self.peer = asked.peer
        self.scheme = asked.scheme
        self._scope = scope
        self._receive = receive
        self._send = send
        self._limit = limit
        self._patience = patience
        self._refused = refused
        self._open = False
        self._reading: asyncio.Timeout | None = None

    async def accept(self) -> None:
        await self._receive()  # the connect event
        self._open = True
        await self._put({"type": "websocket.accept"})

    async def refuse(self, error: KhoError) -> None:
        self._refused(self._scope, error)
        reply = told(error)
        refusal = Refusal(reply.status, error.code, error.message, reply.body, encoded(reply))
        await refuse_websocket(self._scope, self._receive, self._send, refusal)

    async def receive(self) -> str | bytes | None:
        if not self._open:
            return None
        try:
            async with asyncio.timeout(None) as self._reading:
                message = await self._receive()
        except TimeoutError:  # the connection was given up meanwhile: no message will come
            return None
        finally:
            self._reading = None
        if message["type"] == "websocket.disconnect":
            self._open = False
            return None
        content: str | bytes = message["text"] if message.get("text") is not None else message["bytes"]
        if self._too_long(content):
            await self.close(1009, f"Send at most {self._limit} bytes in one message.")
            return None
        return content

    async def send(self, text: str) -> None:
        await self._put({"type": "websocket.send", "text": text})

    async def close(self, code: int = 1000, reason: str = "") -> None:
        if not self._open:
            return
        try:
            await self._put({"type": "websocket.close", "code": code, "reason": _short(reason)})
        except ChannelClosed:
            return
        finally:
            self._give_up()

    async def _put(self, message: Message) -> None:
        if not self._open:
            raise ChannelClosed
        try:
            async with asyncio.timeout(self._patience):
                await self._send(message)
        # The server raises OSError when the other side is gone (a timeout is one, too), and RuntimeError when it has
        # closed the connection itself (its pings went unanswered, or it is stopping) and we did not know yet.
        except (OSError, RuntimeError):
            self._give_up()
            raise ChannelClosed from None

    def _give_up(self) -> None:
        """Stop waiting for a message. The server drops the connection when the endpoint returns."""
        self._open = False
        if self._reading is not None:
            self._reading.reschedule(asyncio.get_running_loop().time())
            self._reading = None

    def _too_long(self, content: str | bytes) -> bool:
        # A character has at most four bytes, so most messages need not be encoded to be measured.
        if isinstance(content, str) and len(content) <= self._limit < 4 * len(content):
            return len(content.encode()) > self._limit
        return len(content) > self._limit


def request_of(scope: Scope, body: bytes, principal: Principal | None) -> WebRequest:
    client = scope.get("client")
    scheme: str = scope["scheme"]
    return WebRequest(
        method=scope.get("method", "GET"),
        path=scope["path"],
        query=dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
        headers={name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        body=body,
        peer=client[0] if client else "",
        scheme={"ws": "http", "wss": "https"}.get(scheme, scheme),
        principal=principal,
    )


def told(error: KhoError) -> WebReply:
    return WebReply(error.status, orjson.dumps({"error": error.as_dict()}), headers=error_headers(error))


def encoded(reply: WebReply) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers.items()]


def _short(reason: str) -> str:
    """Truncate a close reason to the 123 bytes that WebSockets allow."""
    return reason.encode()[:123].decode(errors="ignore")
