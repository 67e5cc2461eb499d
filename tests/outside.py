"""An internet of its own for tests of outgoing connections: names that resolve to what the test says, and connections
that are recorded and end at a server on this machine, whatever address they were for. No packet leaves the machine."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from kho.lib.addresses import Network, as_address

PUBLIC = "93.184.216.34"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Handle = Callable[[str, str], bytes]


@dataclass
class Outside:
    names: dict[str, list[list[str]]] = field(default_factory=dict[str, list[list[str]]])
    """The answers of the name server for a name, one after the other; the last one stays."""
    servers: dict[str, int] = field(default_factory=dict[str, int])
    """Ports of this machine on which the servers at these addresses really are. Nobody listens at other addresses."""
    tls: ssl.SSLContext | None = None
    asked: list[str] = field(default_factory=list[str])
    """Names that were looked up."""
    dialled: list[tuple[str, int, str]] = field(default_factory=list[tuple[str, int, str]])
    """What would be connected to: address, port, and the host that the request was for."""

    @property
    def network(self) -> Network:
        return Network(self._resolve, lambda: _Recorder(self))

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.names:
            raise OSError("no such host")
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def _nowhere(host: str, port: int) -> Sequence[str]:
    raise OSError("no such host")


NO_NAMES = Network(_nowhere)
"""Without a name server: addresses are connected to, and no name leads anywhere."""


class _Recorder(httpx2.AsyncBaseTransport):
    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._real = httpx2.AsyncHTTPTransport(verify=outside.tls or False, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        url = request.url
        assert as_address(url.host) is not None, f"{url.host} would be looked up once more"
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        self._outside.dialled.append((url.host, port, request.headers["host"]))
        here = self._outside.servers.get(url.host)
        if here is None:
            raise httpx2.ConnectError("nobody listens")
        request.url = url.copy_with(host="127.0.0.1", port=here)
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


@contextlib.asynccontextmanager
async def listening(serve: Serve, **more: Any) -> AsyncGenerator[int]:
    """A port on which `serve` answers. What is still open at the end is closed."""
    open_: list[asyncio.StreamWriter] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    running = await asyncio.start_server(one, "127.0.0.1", 0, **more)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        for writer in open_:
            writer.close()
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
        await running.wait_closed()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes everything and says nothing."""
    await reader.read()


@contextlib.asynccontextmanager
async def server(handle: Handle, **more: Any) -> AsyncGenerator[int]:
    """A web server that answers with what `handle(path, host header)` says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ")[1]
        named = next(line for line in head.split("\r\n") if line.lower().startswith("host:"))
        writer.write(handle(path, named.partition(":")[2].strip()))
        await writer.drain()
        writer.close()

    async with listening(serve, **more) as port:
        yield port


def ok(body: bytes, kind: str = "text/html; charset=utf-8", *more: str) -> bytes:
    lines = (f"content-type: {kind}", f"content-length: {len(body)}", "connection: close", *more)
    return "\r\n".join(("HTTP/1.1 200 OK", *lines, "", "")).encode() + body


def moved(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
