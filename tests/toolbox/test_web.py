"""Fetching: only what is out on the open internet, however the address is dressed up, and told in plain words. The
rules themselves are tested with `kho.lib.addresses` and `kho.lib.safe_http`."""

from dataclasses import replace

import pytest
from tests.outside import PUBLIC, Outside, listening, moved, ok, server, silent

from kho.toolbox.errors import ToolFailed
from kho.toolbox.web import RULES, Web


def web(port: int, outside: Outside | None = None, *, most: int = 100_000, timeout: float = 5.0) -> Web:
    """Which finds a server of this machine as open.example, at any port that is allowed, and that of the server."""
    outside = outside or Outside()
    outside.names.setdefault("open.example", [[PUBLIC]])
    outside.servers[PUBLIC] = port
    rules = replace(RULES, ports=frozenset({port, *(RULES.ports or ())}))
    return Web(timeout, most, rules, outside.network)


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
        "http://inside.example/",
        "http://mixed.example/",
        "http://nowhere.example/",
    ],
)
async def test_other_addresses_are_refused_and_nothing_is_connected_to(url: str) -> None:
    outside = Outside({"inside.example": [["10.0.0.7"]], "mixed.example": [[PUBLIC, "fd00::7"]]})
    with pytest.raises(ToolFailed):
        await web(80, outside).fetch(url, 2.0)
    assert outside.dialled == []


async def test_what_the_first_answer_of_a_name_was_does_not_matter_later() -> None:
    async with server(lambda path, host: ok(b"x")) as port:
        outside = Outside({"open.example": [[PUBLIC], ["127.0.0.1"]]}, {"127.0.0.1": port})
        fetching = web(port, outside)
        await fetching.fetch("http://open.example/", 5.0)
        with pytest.raises(ToolFailed, match="open internet"):
            await fetching.fetch("http://open.example/", 5.0)
    assert [address for address, _, _ in outside.dialled] == [PUBLIC]


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
