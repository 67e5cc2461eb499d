"""Minimal helpers for ASGI endpoints: read a body, send JSON."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import orjson
from starlette.types import Message, Receive, Scope, Send

from kho.kernel.errors import KhoError, TooManyRequests, Unauthorized
from kho.lib.dataclass import dataclass

JSON = b"application/json"
Endpoint = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class BareEndpoint:
    """An object rather than a function, so that Starlette passes it the raw ASGI call and builds no unused Request."""

    endpoint: Endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.endpoint(scope, receive, send)


async def read_body(receive: Receive) -> bytes:
    """Read the whole body. The guard has limited its size."""
    message = await receive()
    body: bytes = message.get("body", b"")
    if not message.get("more_body"):
        return body
    whole = bytearray(body)  # a list of parts would take twenty times as much if they came in twos
    while message.get("more_body"):
        message = await receive()
        whole += message.get("body", b"")
    return bytes(whole)


def counted(receive: Receive, count: Callable[[int], None]) -> Receive:
    """Return a `receive` that counts the bytes of a body before they are kept."""

    async def one() -> Message:
        message = await receive()
        if message["type"] == "http.request":
            count(len(message.get("body", b"")))
        return message

    return one


async def send_bytes(send: Send, status: int, body: bytes, kind: bytes = JSON, headers: Headers = ()) -> None:
    fixed = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fixed})
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, value: Any, headers: Headers = ()) -> None:
    await send_bytes(send, status, orjson.dumps(value), headers=headers)


def error_headers(error: KhoError) -> dict[str, str]:
    """Return the headers that go with an error's status."""
    if isinstance(error, Unauthorized):
        # Without resource metadata: naming OAuth makes clients drop the header they were configured with.
        return {"www-authenticate": "Bearer"}
    if isinstance(error, TooManyRequests) and error.retry_after is not None:
        return {"retry-after": str(error.retry_after)}
    return {}


def error_body(error: KhoError, body: Any = None) -> bytes:
    """Return an error as `{"error": …}`, unless another body is given."""
    return orjson.dumps({"error": error.as_dict()} if body is None else body)


async def send_error(send: Send, error: KhoError, body: Any = None) -> None:
    headers = [(name.encode(), value.encode()) for name, value in error_headers(error).items()]
    await send_bytes(send, error.status, error_body(error, body), headers=headers)


def header(scope: Scope, name: bytes) -> str | None:
    for key, value in scope["headers"]:
        if key == name:
            return value.decode("latin-1")
    return None
