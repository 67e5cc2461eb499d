"""The guard, asked over real sockets by clients that write their own bytes."""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncGenerator
from typing import Any

import anyio
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.timeouts import PATIENCE

from kho.doors.http import guard
from kho.doors.http.guard import BodyTooLarge, Guard, host_rule, is_json, loopback_hosts, loopback_origins, origin_rule
from kho.doors.http.uvicorn_protocols import guarded_protocol

pytestmark = pytest.mark.anyio

ORIGINS = {"evil": "http://evil.test", "null": "null", "absent": None, "good": "http://localhost:5173"}
HOSTS = {
    "evil": ["evil.test"],
    "rebinding": ["127.0.0.1.evil.test"],
    "ip": ["127.0.0.1:{port}"],
    "localhost": ["localhost"],
    "two": ["localhost", "localhost"],
    "none": [],
}


@pytest.fixture(autouse=True)
def short_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """For clients here that announce a body, do not send it, and wait for the end."""
    monkeypatch.setattr(guard, "LINGER", 0.1)


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers how many bytes of body it read, or accepts the WebSocket."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    await answer(send, str(len(await read_all(receive))).encode())


async def read_all(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def guarded(app: ASGIApp = echo, max_body: int = 1000, uploads: tuple[str, ...] = ()) -> Guard:
    return Guard(app, hosts=loopback_hosts(), origins=loopback_origins(), max_body=max_body, uploads=uploads)


@contextlib.asynccontextmanager
async def serve(app: Any) -> AsyncGenerator[int]:
    config = uvicorn.Config(
        app, http=guarded_protocol(), lifespan="off", log_config=None, timeout_graceful_shutdown=1, timeout_keep_alive=1
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await server.startup([listener])
        try:
            yield listener.getsockname()[1]
        finally:
            await server.shutdown([listener])


async def ask(port: int, *parts: bytes) -> bytes:
    """Everything that the server says before it closes."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
            return await reader.read()
        finally:
            writer.close()


async def handshake(port: int, head: bytes) -> bytes:
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(head)
            return await reader.readuntil(b"\r\n\r\n")
        finally:
            writer.close()


def status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def error_code(reply: bytes) -> str:
    error = json.loads(reply.partition(b"\r\n\r\n")[2])["error"]
    assert error["message"]
    return error["code"]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def post(body: bytes = b"", *, length: int | None = None, headers: str = "Content-Type: application/json\r\n") -> bytes:
    size = len(body) if length is None else length
    head = f"POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {size}\r\n{headers}\r\n"
    return head.encode() + body


CHUNKED = (
    b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def chunk(size: int) -> bytes:
    return b"%x\r\n" % size + b"x" * size + b"\r\n"


def matrix(port: int, upgrade: str) -> dict[tuple[str, str], bytes]:
    requests: dict[tuple[str, str], bytes] = {}
    for host, names in HOSTS.items():
        for origin, value in ORIGINS.items():
            lines = [f"Host: {name.format(port=port)}" for name in names]
            lines += [] if value is None else [f"oRiGiN: {value}"]
            head = "\r\n".join(["GET /any/route HTTP/1.1", upgrade, *lines])
            requests[host, origin] = f"{head}\r\n\r\n".encode()
    return requests


def expected(good: int) -> dict[tuple[str, str], int]:
    refused = {"two": 400, "none": 400, "evil": 421, "rebinding": 421}
    allowed = {"evil": 403, "null": 403, "absent": good, "good": good}
    return {(host, origin): refused.get(host, allowed[origin]) for host in HOSTS for origin in ORIGINS}


async def test_every_http_host_and_origin() -> None:
    async with serve(guarded()) as port:
        found = {key: status(await ask(port, head)) for key, head in matrix(port, "Connection: close").items()}
    assert found == expected(200)


async def test_every_websocket_host_and_origin() -> None:
    pytest.importorskip("websockets", reason="uvicorn serves WebSockets only with a library for them")
    upgrade = (
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    )
    async with serve(guarded()) as port:
        found = {key: status(await handshake(port, head)) for key, head in matrix(port, upgrade).items()}
    assert found == expected(101)


@pytest.mark.parametrize("extension", [True, False])
async def test_a_websocket_is_refused_before_it_is_accepted(extension: bool) -> None:
    async def receive() -> Message:
        return {"type": "websocket.connect"}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"origin", b"https://evil.test")]
    extensions: dict[str, dict[str, Any]] | None = {"websocket.http.response": {}} if extension else None
    await guarded()({"type": "websocket", "headers": headers, "extensions": extensions}, receive, send)
    if extension:
        assert [message["type"] for message in sent] == [
            "websocket.http.response.start",
            "websocket.http.response.body",
        ]
        assert sent[0]["status"] == 403
    else:
        assert sent == [{"type": "websocket.close", "code": 1008, "reason": "ORIGIN_NOT_ALLOWED"}]


async def test_refusals_say_what_to_do() -> None:
    get = b"GET / HTTP/1.1\r\nConnection: close\r\n"
    async with serve(guarded()) as port:
        replies = [
            await ask(port, get + b"\r\n"),
            await ask(port, get + b"Host: evil.test\r\n\r\n"),
            await ask(port, get + b"Host: localhost\r\nOrigin: https://evil.test\r\n\r\n"),
            await ask(port, post(b"a=1", headers="")),
            await ask(port, post(length=1001)),
        ]
    assert [(status(reply), error_code(reply)) for reply in replies] == [
        (400, "BAD_HOST"),
        (421, "HOST_NOT_ALLOWED"),
        (403, "ORIGIN_NOT_ALLOWED"),
        (415, "NOT_JSON"),
        (413, "BODY_TOO_LARGE"),
    ]
    assert all(b"content-type: application/json\r\n" in reply for reply in replies)


@pytest.mark.parametrize(
    ("host", "own", "allowed"),
    [
        ("192.168.1.20:8001", "172.18.0.2", True),
        ("[2001:db8::7]:8001", "2001:db8::7", True),
        ("192.168.1.20", "::ffff:192.168.1.20", True),
        ("192.168.1.20.evil.test", "172.18.0.2", False),
        ("evil.test", "172.18.0.2", False),
        ("192.168.1.20:8001", "127.0.0.1", False),  # a hub on the loopback is not reached under such an address
        ("192.168.1.20:8001", "::ffff:127.0.0.1", False),
    ],
)
async def test_from_elsewhere_the_hub_is_reached_by_address_without_a_setting(
    host: str, own: str, allowed: bool
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/", "server": (own, 8001)}
    await guarded()({**scope, "headers": [(b"host", host.encode())]}, receive, send)
    assert sent[0]["status"] == (200 if allowed else 421)


async def test_a_refused_host_is_told_the_setting_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    get = b"GET / HTTP/1.1\r\nConnection: close\r\n"
    async with serve(guarded()) as port:
        for host in (b"kho.lan", b"KHO.lan:8001", b"kho.lan", b"a" * 300, b"x y", b"other.lan"):
            reply = await ask(port, get + b"Host: " + host + b"\r\n\r\n")
            assert (status(reply), error_code(reply)) == (421, "HOST_NOT_ALLOWED")
            assert (b"KHO_HTTP__ALLOWED_HOSTS=" in reply) == (b".lan" in host.lower())
        for number in range(200):
            await ask(port, get + b"Host: host-%d.test\r\n\r\n" % number)
    warnings = [record.getMessage() for record in caplog.records if record.name == guard.__name__]
    assert sum("KHO_HTTP__ALLOWED_HOSTS=kho.lan" in warning for warning in warnings) == 1
    assert len(warnings) == guard.LOGGED


async def test_a_declared_body_is_refused_before_it_is_sent() -> None:
    called: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        called.append(scope["path"])
        await echo(scope, receive, send)

    async with serve(guarded(app)) as port:
        assert status(await ask(port, post(length=1001))) == 413
        assert status(await ask(port, post(length=10**17))) == 413
        assert called == []
        assert (await ask(port, post(b"x" * 1000))).endswith(b"1000")
    assert called == ["/rpc"]


async def test_the_default_cap_is_8_mebibytes() -> None:
    app = Guard(echo, hosts=loopback_hosts(), origins=[])
    async with serve(app) as port:
        assert status(await ask(port, post(length=8 * 1024 * 1024 + 1))) == 413
        assert (await ask(port, post(b"x" * (8 * 1024 * 1024)))).endswith(b"%d" % (8 * 1024 * 1024))


async def test_a_client_that_sends_all_of_a_refused_body_still_reads_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guard, "LINGER", 10)
    body = b"x" * 3_000_000
    async with serve(guarded()) as port:
        assert status(await ask(port, post(body))) == 413
        assert status(await ask(port, CHUNKED, *[chunk(100_000)] * 30, b"0\r\n\r\n")) == 413


async def test_a_chunked_body_is_counted() -> None:
    async with serve(guarded()) as port:
        assert (await ask(port, CHUNKED, chunk(500), chunk(500), b"0\r\n\r\n")).endswith(b"1000")
        reply = await ask(port, CHUNKED, chunk(500), chunk(501), b"0\r\n\r\n")
    assert (status(reply), error_code(reply)) == (413, "BODY_TOO_LARGE")


async def test_a_chunked_body_without_end_is_refused_while_it_is_read() -> None:
    async with serve(guarded()) as port:
        assert status(await ask(port, CHUNKED, chunk(1001))) == 413


async def test_413_even_if_the_app_swallows_the_error() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.suppress(BodyTooLarge):
            await read_all(receive)
        with contextlib.suppress(BodyTooLarge):
            await read_all(receive)
        await answer(send, b"fine")

    async with serve(guarded(app)) as port:
        assert status(await ask(port, CHUNKED, chunk(1001), b"0\r\n\r\n")) == 413


async def test_413_even_if_the_app_turns_the_error_into_another() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await read_all(receive)
        except BodyTooLarge as error:
            raise RuntimeError("could not read") from error

    async with serve(guarded(app)) as port:
        assert status(await ask(port, CHUNKED, chunk(1001), b"0\r\n\r\n")) == 413


async def test_413_from_inside_a_task_group(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # anyio's, as in Starlette and the SDK: asyncio's own leaves a cancellation behind before Python 3.11.4.
        async with anyio.create_task_group() as group:
            group.start_soon(read_all, receive)

    async with serve(guarded(app)) as port:
        assert status(await ask(port, CHUNKED, chunk(1001), b"0\r\n\r\n")) == 413
    assert errors(caplog) == []


async def test_once_the_response_has_begun_the_client_is_disconnected(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await read_all(receive)
        await send({"type": "http.response.body", "body": b"last"})

    async with serve(guarded(app)) as port:
        reply = await ask(port, CHUNKED, chunk(1001))
    assert status(reply) == 200
    assert reply.endswith(b"5\r\nfirst\r\n")  # no last chunk
    assert errors(caplog) == ["ASGI callable returned without completing response."]


async def test_starlette_is_stopped_without_an_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def route(request: Request) -> Response:
        return JSONResponse(await request.json())

    app = Starlette(routes=[Route("/rpc", route, methods=["POST"])])
    async with serve(guarded(app)) as port:
        assert status(await ask(port, CHUNKED, chunk(1001), b"0\r\n\r\n")) == 413
        assert (await ask(port, post(b"[1]"))).endswith(b"[1]")
    assert errors(caplog) == []


async def test_an_http2_body_without_a_length_is_counted_too() -> None:
    async def receive() -> Message:
        return {"type": "http.request", "body": b"x" * 600, "more_body": True}

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)
        if message.get("more_body"):
            raise ConnectionError("the client left")

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope: Scope = {"type": "http", "http_version": "2", "method": "POST", "path": "/", "headers": headers}
    with pytest.raises(ConnectionError):
        await guarded()(scope, receive, send)
    assert sent[0]["status"] == 413


@pytest.mark.parametrize("lengths", [["1", "1"], ["x"], ["+1"], ["-1"], [""], ["1_0"]])
async def test_a_strange_content_length_is_refused_whatever_the_server_lets_through(lengths: list[str]) -> None:
    async def receive() -> Message:
        raise AssertionError("nothing is read")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), *[(b"content-length", length.encode()) for length in lengths]]
    scope: Scope = {"type": "http", "http_version": "1.1", "method": "GET", "path": "/", "headers": headers}
    await guarded()(scope, receive, send)
    assert sent[0]["status"] == 400


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        ("Content-Type: application/json\r\n", b"{}", 200),
        ("Content-Type: Application/JSON; Charset=UTF-8; v=1\r\n", b"{}", 200),
        ("", b"{}", 415),
        ("Content-Type: text/plain\r\n", b"{}", 415),
        ("Content-Type: application/x-www-form-urlencoded\r\n", b"{}", 415),
        ("Content-Type: multipart/form-data; boundary=x\r\n", b"{}", 415),
        ("Content-Type: application/json\r\nContent-Type: text/plain\r\n", b"{}", 415),
        ("", b"", 200),
        ("Content-Type: text/plain\r\n", b"", 200),
    ],
)
async def test_a_body_must_be_json(headers: str, body: bytes, code: int) -> None:
    async with serve(guarded()) as port:
        assert status(await ask(port, post(body, headers=headers))) == code


async def test_the_json_rule_is_for_methods_with_a_body_and_not_for_uploads() -> None:
    def put(method: str, path: str) -> bytes:
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\nxx"
        return head.encode()

    async with serve(guarded(uploads=("/files/",))) as port:
        found = {
            (method, path): status(await ask(port, put(method, path)))
            for method in ("POST", "PUT", "PATCH", "DELETE", "GET")
            for path in ("/rpc", "/files", "/files/a", "/filesystem")
        }
    assert found == {
        (method, path): 200 if method in ("DELETE", "GET") or path in ("/files", "/files/a") else 415
        for method, path in found
    }


async def test_a_refused_small_body_keeps_the_connection() -> None:
    refused = post(b"a=1", headers="").replace(b"Connection: close\r\n", b"")
    async with serve(guarded()) as port:
        replies = await ask(port, refused, post(b"{}"))
    assert [part[:3] for part in replies.split(b"HTTP/1.1 ")] == [b"", b"415", b"200"]


async def test_the_lifespan_passes() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["type"])

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None: ...

    await guarded(app)({"type": "lifespan"}, receive, send)
    assert seen == ["lifespan"]


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8001", True),
        ("127.0.0.1.", True),
        ("LocalHost:1", True),
        ("localhost.:65535", True),
        ("localhost:", True),
        ("[::1]", True),
        ("[::1]:8001", True),
        ("[0:0:0:0:0:0:0:1]:8001", True),
        ("", False),
        (".", False),
        (":8001", False),
        ("localhost..", False),
        ("localhost:65536", False),
        ("localhost:x", False),
        ("localhost:²", False),
        ("localhost:80:80", False),
        ("localhost, evil.test", False),
        ("localhost/evil", False),
        ("evil@localhost", False),
        ("127.0.0.1.evil.test", False),
        ("127.0.0.1.nip.io", False),
        ("localhost.evil.test", False),
        ("xlocalhost", False),
        ("127.1", False),
        ("0.0.0.0", False),
        ("::1", False),
        ("::1]", False),
        ("[::1", False),
        ("[::1]x", False),
        ("[::2]", False),
        ("[localhost]", False),
        ("löcalhost", False),
    ],
)
def test_loopback_hosts(value: str, good: bool) -> None:
    assert host_rule(loopback_hosts())(value.encode("latin-1")) is good


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("http://localhost", True),
        ("https://localhost:8443", True),
        ("HTTP://LOCALHOST:3000", True),
        ("http://127.0.0.1:8001", True),
        ("http://[::1]:8001", True),
        ("null", False),
        ("", False),
        ("localhost", False),
        ("http://", False),
        ("http:localhost", False),
        ("file://", False),
        ("ftp://localhost", False),
        ("http://localhost/", False),
        ("http://localhost@evil.test", False),
        ("http://localhost:80@evil.test", False),
        ("http://localhost.evil.test", False),
        ("http://evil.test?http://localhost", False),
        ("http://localhost http://evil.test", False),
    ],
)
def test_loopback_origins(value: str, good: bool) -> None:
    assert origin_rule(loopback_origins())(value.encode()) is good


def test_fixed_ports() -> None:
    host = host_rule(["kho.example:8443", "kho.example:443", "any.example", "any.example:1", "star.example:*"])
    assert [host(value) for value in (b"kho.example:8443", b"KHO.example.", b"any.example:9", b"star.example:9")] == [
        True
    ] * 4
    assert not host(b"kho.example:80")
    assert not host_rule(["kho.example:8443"])(b"kho.example")
    origin = origin_rule(["https://kho.example", "http://dev.example:3000", "vscode-webview://abc"])
    assert origin(b"https://kho.example")
    assert origin(b"https://kho.example:443")
    assert origin(b"http://dev.example:3000")
    assert origin(b"vscode-webview://abc")
    assert not origin(b"https://kho.example:8443")
    assert not origin(b"http://kho.example")
    assert not origin(b"http://dev.example")


@pytest.mark.parametrize("pattern", ["", "*", "*.example", "http://kho.example", "kho.example:x", "::1"])
def test_a_wrong_host_pattern_is_refused_at_once(pattern: str) -> None:
    with pytest.raises(ValueError, match="not a host name"):
        Guard(echo, hosts=[pattern], origins=[])


@pytest.mark.parametrize("pattern", ["", "*", "null", "kho.example", "https://*.example", "https://kho.example/"])
def test_a_wrong_origin_pattern_is_refused_at_once(pattern: str) -> None:
    with pytest.raises(ValueError, match="not an origin"):
        Guard(echo, hosts=[], origins=[pattern])


@pytest.mark.parametrize(
    ("value", "good"),
    [
        (b"application/json", True),
        (b"application/json;charset=utf-8", True),
        (b'application/json; charset="UTF-8"', True),
        (b"application/vnd.kho+json; version=2", True),
        (b"application/json; charset=utf-16", False),
        (b"application/json; a=1; charset=latin-1", False),
        (b"application/+json", False),
        (b"application/jsonp", False),
        (b"application/x, text/plain+json", False),
        (b"text/json", False),
        (b"text/plain; a=application/json", False),
        (b"", False),
        (b"\xff", False),
    ],
)
def test_json_types(value: bytes, good: bool) -> None:
    assert is_json(value) is good


async def test_accepted_values_are_remembered_only_so_far() -> None:
    app = guarded()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None: ...

    for port in range(1, guard.REMEMBERED + 100):
        host = b"localhost:%d" % port
        scope: Scope = {
            "type": "http",
            "http_version": "1.1",
            "method": "GET",
            "path": "/",
            "headers": [(b"host", host)],
        }
        await app(scope, receive, send)
    assert len(vars(app)["_good_hosts"]) == guard.REMEMBERED
