"""Requests as bytes on a socket of the loopback, and every route that the application has."""

import asyncio
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from starlette.routing import Route, WebSocketRoute
from tests.doors.doors import Served
from tests.timeouts import PATIENCE

UPGRADE = (
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
FILLED = {"name": "memory-server", "id": "fact:x"}
"""What stands in for the parameters of a path."""


@dataclass(frozen=True)
class Target:
    method: str
    path: str
    socket: bool = False

    def head(self, headers: Iterable[str], *, target: str = "") -> bytes:
        """The request with an empty object as its body, if it may have one."""
        lines = [f"{self.method} {target or self.path} HTTP/1.1", *headers]
        if self.socket:
            return "\r\n".join([*lines, *UPGRADE, "", ""]).encode("latin-1")
        lines += ["Connection: close", "Accept: application/json, text/event-stream"]
        if self.method == "POST":
            lines += ["Content-Type: application/json", "Content-Length: 2", "", "{}"]
            return "\r\n".join(lines).encode("latin-1")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")


def targets(served: Served) -> list[Target]:
    """Every route with every method that it answers, and an upgrade where none is expected."""
    return [*_targets(served), Target("GET", "/mcp", socket=True), Target("GET", "/nonsuch", socket=True)]


def _targets(served: Served) -> Iterator[Target]:
    for route in served.app._routes:  # pyright: ignore[reportPrivateUsage]
        assert isinstance(route, Route | WebSocketRoute), f"what is {route}? It is not walked"
        path = route.path_format.format(**FILLED)
        if isinstance(route, WebSocketRoute):
            yield Target("GET", path, socket=True)
        else:
            yield from (Target(method, path) for method in sorted((route.methods or set()) - {"HEAD"}))


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, list[str]]
    body: str

    @property
    def code(self) -> str:
        """That of the error that it holds."""
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            return json.loads(self.body)["error"]["code"]
        return ""


async def asked(served: Served, request: bytes) -> Answer:
    """The answer; of a stream or a WebSocket that was let in, its head."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
        try:
            writer.write(request)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")
            headers: dict[str, list[str]] = {}
            for name, _, value in (line.partition(":") for line in lines if line):
                headers.setdefault(name.lower(), []).append(value.strip())
            status = int(first.split(" ")[1])
            endless = status == 101 or "text/event-stream" in headers.get("content-type", [""])[0]
            body = b"" if endless else await reader.read()
        finally:
            writer.close()
        return Answer(status, headers, body.decode("utf-8", "replace"))
