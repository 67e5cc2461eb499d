"""Fetching: only what is out on the open internet, however the address is dressed up."""

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

import pytest

from kho.toolbox import web as real
from kho.toolbox.errors import ToolFailed
from kho.toolbox.web import Address, Web, is_public

Handle = Callable[[str, str], bytes]


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncGenerator[int]:
    """A port on which `serve` answers. What is still open at the end is closed."""
    open_: list[asyncio.StreamWriter] = []

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await serve(reader, writer)

    running = await asyncio.start_server(one, "127.0.0.1", 0)
    try:
        yield running.sockets[0].getsockname()[1]
    finally:
        running.close()
        for writer in open_:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await running.wait_closed()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes everything and says nothing."""
    await reader.read()


@contextlib.asynccontextmanager
async def server(handle: Handle) -> AsyncGenerator[int]:
    """A web server that answers with what `handle(path, host header)` says."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        path = head.split(" ")[1]
        named = next(line for line in head.split("\r\n") if line.lower().startswith("host:"))
        writer.write(handle(path, named.partition(":")[2].strip()))
        await writer.drain()
        writer.close()

    async with listening(serve) as port:
        yield port


def ok(body: bytes, kind: str = "text/html; charset=utf-8") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


def moved(to: str) -> bytes:
    return f"HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()


def web(port: int, *more: int, most: int = 100_000, timeout: float = 5.0) -> Web:
    """In which this machine's first loopback address, and only that one, counts as the open internet."""

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"] if host == "open.example" else await real.resolve(host, port)

    def allowed(address: Address) -> bool:
        return str(address) == "127.0.0.1"

    return Web(timeout, most, frozenset({port, *more}), allowed, resolve)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("10.0.0.1", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),
        ("255.255.255.255", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("::", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("ff02::1", False),
    ],
)
def test_what_is_public(address: str, public: bool) -> None:
    assert is_public(ipaddress.ip_address(address)) is public


async def test_a_page_comes_by_its_name() -> None:
    asked: list[tuple[str, str]] = []

    def handle(path: str, host: str) -> bytes:
        asked.append((path, host))
        return ok(b"<p>hello</p>")

    async with server(handle) as port:
        page = await web(port).fetch(f"http://open.example:{port}/a/b?c=d#e", 5.0)
        assert (page.content, page.content_type) == (b"<p>hello</p>", "text/html; charset=utf-8")
        assert asked == [("/a/b?c=d", f"open.example:{port}")]


async def test_redirects_are_followed_by_the_same_rules() -> None:
    def handle(path: str, host: str) -> bytes:
        to = {"/first": "/second", "/second": "/page", "/away": f"http://127.0.0.2:{port}/", "/round": "/round"}
        return moved(to[path]) if path in to else ok(b"page")

    async with server(handle) as port:
        page = await web(port).fetch(f"http://open.example:{port}/first", 5.0)
        assert (page.content, page.url) == (b"page", f"http://open.example:{port}/page")
        with pytest.raises(ToolFailed, match="open internet"):
            await web(port).fetch(f"http://open.example:{port}/away", 5.0)
        with pytest.raises(ToolFailed, match="more than 5"):
            await web(port).fetch(f"http://open.example:{port}/round", 5.0)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://open.example/",
        "file:///etc/passwd",
        "open.example",
        "",
        "http://",
        "http:///x",
        "http://[::1",
        "http://open.example:99999/",
        "http://user:secret@open.example/",
        "http://open.example:22/",
        "http://127.0.0.2/",
        "http://[::1]/",
        "http://0x7f000002/",
    ],
)
async def test_other_addresses_are_refused(url: str) -> None:
    with pytest.raises(ToolFailed):
        await web(80, 443).fetch(url, 2.0)


async def test_a_name_that_also_points_inside_is_refused() -> None:
    async def both(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "10.0.0.7"]

    async with server(lambda path, host: ok(b"x")) as port:
        fetching = Web(5.0, 1_000, frozenset({port}), lambda one: str(one) == "127.0.0.1", both)
        with pytest.raises(ToolFailed, match="open internet"):
            await fetching.fetch(f"http://open.example:{port}/", 5.0)


async def test_too_large_too_slow_and_broken() -> None:
    def handle(path: str, host: str) -> bytes:
        if path == "/large":
            return ok(b"x" * 200_000)
        if path == "/missing":
            return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        return b"nonsense\r\n\r\n"

    async with server(handle) as port:
        for path, why in (("/large", "larger"), ("/missing", "404"), ("/broken", "cannot be fetched")):
            with pytest.raises(ToolFailed, match=why):
                await web(port).fetch(f"http://open.example:{port}{path}", 5.0)

    async with listening(silent) as port:
        with pytest.raises(ToolFailed, match=r"within 0\.2 s"):
            await web(port).fetch(f"http://open.example:{port}/", 0.2)
