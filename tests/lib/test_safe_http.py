"""The one way out for addresses that others name: what would be connected to is recorded, and nothing leaves the
machine."""

import asyncio
import gzip
import ssl
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.doors.cli.test_tls import certificate
from tests.outside import PUBLIC, Outside, listening, moved, ok, server, silent
from tests.timeouts import PATIENCE

from kho.lib.addresses import AddressRefused, AddressRules, Allowed, NamedBy, resolve
from kho.lib.safe_http import Reply, SafeHttp, TooLarge, TooManyRedirects, Unreachable

CALLER = AddressRules(NamedBy.CALLER)


async def get(outside: Outside, url: str, rules: AddressRules = CALLER, *, most: int = 10_000) -> Reply:
    async with SafeHttp(rules, outside.network) as session:
        return await session.get(url, accept="*/*", max_bytes=most, redirects=5)


async def test_a_request_goes_to_the_address_that_was_checked_under_the_name_of_the_host() -> None:
    asked: list[tuple[str, str]] = []

    def handle(path: str, host: str) -> bytes:
        asked.append((path, host))
        return ok(b"page")

    async with server(handle) as port:
        outside = Outside({"open.example": [[PUBLIC]]}, {PUBLIC: port})
        page = await get(outside, "http://OPEN.example:8080/a%20b?c=d#e")
    assert (page.content, page.url, page.public) == (b"page", "http://open.example:8080/a%20b?c=d", True)
    assert outside.asked == ["open.example"]
    assert outside.dialled == [(PUBLIC, 8080, "open.example:8080")]
    assert asked == [("/a%20b?c=d", "open.example:8080")]


async def test_a_name_is_looked_up_once_for_each_request_and_each_answer_is_checked() -> None:
    """DNS rebinding: the first answer is public, the next is this machine."""
    async with server(lambda path, host: ok(b"page")) as port:
        outside = Outside({"open.example": [[PUBLIC], ["127.0.0.1"]]}, {PUBLIC: port, "127.0.0.1": port})
        assert (await get(outside, "http://open.example/")).content == b"page"
        with pytest.raises(AddressRefused, match="open internet"):
            await get(outside, "http://open.example/")
    assert outside.dialled == [(PUBLIC, 80, "open.example")]


@pytest.mark.parametrize(
    "answers",
    [
        [PUBLIC, "10.0.0.7"],
        ["10.0.0.7", PUBLIC],
        [PUBLIC, "::1"],
        ["2606:2800:220:1::1", "fd00::1", PUBLIC],
        ["64:ff9b::7f00:1"],
        ["::ffff:169.254.169.254"],
        ["fe80::1%2"],
    ],
)
async def test_a_name_with_one_answer_inside_is_not_connected_to_at_all(answers: list[str]) -> None:
    outside = Outside({"open.example": [answers]})
    with pytest.raises(AddressRefused, match="open internet"):
        await get(outside, "http://open.example/")
    assert outside.dialled == []


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.1/",
        "http://[::1]/",
        "http://localhost/",
        "http://inside.example/",
        "//inside.example/",
        "http://169.254.169.254/latest/meta-data/",
        "http://0x7f000001/",
        "http://me@open.example/",
        "file:///etc/passwd",
        "gopher://open.example/",
        "https://open.example:0/",
    ],
)
async def test_a_redirect_is_an_address_that_others_name(to: str) -> None:
    async with server(lambda path, host: moved(to)) as port:
        outside = Outside({"open.example": [[PUBLIC]], "inside.example": [["192.168.0.9"]]}, {PUBLIC: port})
        with pytest.raises(AddressRefused):
            await get(outside, "http://open.example/")
    assert outside.dialled == [(PUBLIC, 80, "open.example")]


async def test_redirects_are_followed_by_the_same_rules_and_end() -> None:
    def handle(path: str, host: str) -> bytes:
        to = {"/first": "/second", "/second": "http://other.example/page", "/round": "/round"}
        return moved(to[path]) if path in to else ok(host.encode())

    async with server(handle) as port:
        other = "93.184.216.35"
        outside = Outside({"open.example": [[PUBLIC]], "other.example": [[other]]}, {PUBLIC: port, other: port})
        page = await get(outside, "http://open.example/first")
        assert (page.content, page.url) == (b"other.example", "http://other.example/page")
        assert [to for to, _, _ in outside.dialled] == [PUBLIC, PUBLIC, other]
        with pytest.raises(TooManyRedirects):
            await get(outside, "http://open.example/round")
        assert len(outside.dialled) == 3 + 6


async def test_a_name_that_is_rebound_between_two_redirects_is_refused() -> None:
    async with server(lambda path, host: moved("/again")) as port:
        outside = Outside({"open.example": [[PUBLIC], ["10.0.0.1"]]}, {PUBLIC: port})
        with pytest.raises(AddressRefused):
            await get(outside, "http://open.example/")
    assert outside.dialled == [(PUBLIC, 80, "open.example")]


async def test_the_next_address_of_a_host_is_tried_when_one_does_not_accept() -> None:
    async with server(lambda path, host: ok(b"page")) as port:
        outside = Outside({"open.example": [["2606:2800:220:1::1", PUBLIC]]}, {PUBLIC: port})
        assert (await get(outside, "http://open.example/")).content == b"page"
        assert [to for to, _, _ in outside.dialled] == ["2606:2800:220:1::1", PUBLIC]
    many = Outside({"open.example": [[f"93.184.216.{number}" for number in range(50)]]})
    with pytest.raises(Unreachable, match="ConnectError"):
        await get(many, "http://open.example/")
    assert len(many.dialled) == 4


async def test_tls_is_spoken_with_the_host_and_not_with_the_address(tmp_path: Path) -> None:
    public, private = certificate(tmp_path)  # of the name localhost, not of PUBLIC
    offered, named = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), list[str | None]()
    offered.load_cert_chain(public, private)
    offered.sni_callback = lambda connection, name, context: named.append(name)
    async with server(lambda path, host: ok(host.encode()), ssl=offered) as port:
        outside = Outside(
            {"localhost": [[PUBLIC]], "open.example": [[PUBLIC]]},
            {PUBLIC: port},
            ssl.create_default_context(cafile=public),
        )
        page = await get(outside, "https://localhost/", AddressRules(NamedBy.CALLER, Allowed.of(["localhost"])))
        assert page.content == b"localhost"
        with pytest.raises(Unreachable, match="ConnectError"):  # the certificate has another name
            await get(outside, "https://open.example/")
    assert named == ["localhost", "open.example"]


async def test_an_answer_has_an_end() -> None:
    bomb = gzip.compress(bytes(5_000_000))
    twice = gzip.compress(bomb)

    def handle(path: str, host: str) -> bytes:
        match path:
            case "/large":
                return ok(b"x" * 20_000)
            case "/bomb":
                return ok(bomb, "text/html", "content-encoding: gzip")
            case "/twice":
                return ok(twice, "text/html", "content-encoding: gzip, gzip")
            case "/lines":
                return ok(twice, "text/html", "content-encoding: gzip", "content-encoding: gzip")
            case "/packed":
                return ok(zlib.compress(b"page"), "text/html", "content-encoding: deflate")
            case _:
                return b"nonsense\r\n\r\n"

    async with server(handle) as port:
        outside = Outside({"open.example": [[PUBLIC]]}, {PUBLIC: port})
        for path in ("/large", "/bomb"):
            with pytest.raises(TooLarge):
                await get(outside, f"http://open.example{path}")
        for path in ("/twice", "/lines", "/nonsense"):
            with pytest.raises(Unreachable):
                await get(outside, f"http://open.example{path}", most=50_000_000)
        assert (await get(outside, "http://open.example/packed")).content == b"page"


async def test_a_host_that_says_nothing_is_given_up() -> None:
    async with listening(silent) as port:
        outside = Outside({"open.example": [[PUBLIC]]}, {PUBLIC: port})
        async with SafeHttp(CALLER, outside.network, timeout=0.1) as session:
            with pytest.raises(TimeoutError):
                await session.get("http://open.example/", accept="*/*", max_bytes=10, redirects=0)


async def test_a_proxy_of_the_environment_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with server(lambda path, host: ok(b"page")) as port:
        allowed = AddressRules(NamedBy.CALLER, Allowed.of(["127.0.0.1"]))
        async with SafeHttp(allowed) as session:  # with the real resolver and real connections
            page = await session.get(f"http://127.0.0.1:{port}/", accept="*/*", max_bytes=10, redirects=0)
    assert (page.content, page.public) == (b"page", False)


async def test_a_post_follows_no_redirect_and_reads_little_of_the_answer() -> None:
    async with server(lambda path, host: moved("http://other.example/")) as port:
        outside = Outside({"open.example": [[PUBLIC]]}, {PUBLIC: port})
        async with SafeHttp(CALLER, outside.network) as session:
            reply = await session.post("http://open.example/", b"{}", {}, max_read=100)
    assert reply.status == 302
    assert len(outside.dialled) == 1


async def test_names_are_looked_up_beside_all_other_work() -> None:
    """And the other way round: names that are looked up slowly do not hold the threads that all else runs in."""
    released, loop = threading.Event(), asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as only:
        loop.set_default_executor(only)
        held = loop.run_in_executor(None, released.wait)
        async with asyncio.timeout(PATIENCE):
            assert {"127.0.0.1", "::1"} & {*await resolve("localhost", 80)}
        released.set()
        await held
