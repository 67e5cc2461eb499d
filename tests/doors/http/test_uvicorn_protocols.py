"""Slow clients, over real sockets, on both event loops. The limits are short; what is waited for is the server's
answer or its closing, never a time. Where something sleeps, its slowness is what the test is about."""

import asyncio
import contextlib
import logging
import pickle
import socket
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from tests.timeouts import PATIENCE

from kho.doors.http.uvicorn_protocols import LINGER, MAX_HEAD, GuardedProtocol, Pace, guarded_protocol

pytestmark = pytest.mark.anyio

LIMIT = 0.2
LONG = 3 * LIMIT  # slower than any client may be

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    return "asyncio", {"use_uvloop": request.param}


def post(length: int, more: bytes = b"Connection: close\r\n") -> bytes:
    return b"POST / HTTP/1.1\r\nHost: localhost\r\n" + more + b"Content-Length: %d\r\n\r\n" % length


async def read_all(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return b"disconnected"
        body += message["body"]
        if not message["more_body"]:
            return body


async def answer(send: Send, body: bytes) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"read %d" % len(await read_all(receive)))


async def slow_to_read(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.sleep(LONG)
    await echo(scope, receive, send)


async def slow_to_answer(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_all(receive)
    await asyncio.sleep(LONG)
    await answer(send, b"read %d" % len(body))


async def answers_unread(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"unread")


@contextlib.asynccontextmanager
async def serve(
    app: Any = echo, header: float = LIMIT, body: float = LIMIT, keep_alive: int = 30
) -> AsyncGenerator[int]:
    config = uvicorn.Config(
        app,
        http=guarded_protocol(header, body),
        lifespan="off",
        log_config=None,
        timeout_keep_alive=keep_alive,
        timeout_graceful_shutdown=1,
    )
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        # What the system has taken looks sent to us, so let it take little: slow readers then show.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32_768)
        await server.startup([listener])
        try:
            yield listener.getsockname()[1]
        finally:
            await server.shutdown([listener])


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def until(self, end: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(end)

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()

    async def drip(self, pieces: Iterator[bytes], pause: float) -> bytes:
        """Sends a piece after each pause until the server says something; then everything it says."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    async with asyncio.timeout(pause):
                        first = await self.reader.read(1)
                except TimeoutError:
                    self.writer.write(next(pieces))
                else:
                    return first + await self.reader.read()


async def test_each_part_of_an_answer_is_sent_when_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener is handed in, as it is for several workers: asyncio then leaves the system's delay on."""
    delays: list[bool] = []
    made = GuardedProtocol.connection_made

    def noted(self: GuardedProtocol, transport: asyncio.Transport) -> None:
        made(self, transport)
        delays.append(not transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(GuardedProtocol, "connection_made", noted)
    async with serve() as port, connect(port) as client:
        await client.send(LAST)
        assert (await client.rest()).endswith(b"read 0")
    assert delays == [False]


@contextlib.asynccontextmanager
async def connect(port: int) -> AsyncGenerator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


def is_408(reply: bytes) -> bool:
    return (
        reply.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        and b"connection: close\r\n" in reply
        and b'"REQUEST_TIMEOUT"' in reply
    )


async def test_half_open_connections_are_all_closed_and_others_served_meanwhile() -> None:
    async with serve() as port, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(port)) for _ in range(300)]
        for client in clients:
            await client.send(b"GET / HTTP/1.1\r\nHost: loc")
        async with connect(port) as good:
            await good.send(LAST)
            assert (await good.rest()).endswith(b"read 0")
        assert all(map(is_408, await asyncio.gather(*[client.rest() for client in clients])))


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with serve() as port, connect(port) as client:
        assert is_408(await client.rest())


async def test_a_dripping_head_is_ended() -> None:
    async with serve() as port, connect(port) as client:
        await client.send(GET[:-2] + b"x-drip: ")
        assert is_408(await client.drip(iter(lambda: b"x", b""), LIMIT / 10))


async def test_the_second_request_of_a_connection_is_timed_too() -> None:
    async with serve() as port, connect(port) as client:
        await client.send(GET)
        await client.until(b"read 0")
        await client.send(GET)
        await client.until(b"read 0")
        await client.send(GET[:-3])
        assert is_408(await client.rest())


async def test_an_idle_connection_is_left_to_the_keep_alive_timeout() -> None:
    async with serve(keep_alive=1) as port, connect(port) as client:
        await client.send(GET)
        await client.until(b"read 0")
        assert await client.rest() == b""


async def test_blank_lines_do_not_keep_an_idle_connection() -> None:
    async with serve() as port, connect(port) as client:
        await client.send(GET)
        await client.until(b"read 0")
        assert is_408(await client.drip(iter(lambda: b"\r\n", b""), LIMIT / 10))


async def test_half_a_head_behind_a_request_does_not_cut_its_slow_response() -> None:
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(GET + GET[:-3])
        assert await client.until(b"read 0")
        assert is_408(await client.rest())


async def test_a_blank_line_behind_a_request_does_not_cut_its_slow_response() -> None:
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(GET)
        await client.send(b"\r\n")
        assert await client.until(b"read 0")


@pytest.mark.parametrize("app", [slow_to_read, slow_to_answer])
async def test_a_pipelined_body_that_stalls_does_not_cut_the_response_before_it(app: Any) -> None:
    async with serve(app) as port, connect(port) as client:
        await client.send(GET + post(10) + b"half")
        assert await client.until(b"read 0")
        assert is_408(await client.rest())


async def test_a_stalled_body_is_ended_and_the_app_told() -> None:
    told: asyncio.Queue[bytes] = asyncio.Queue()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        told.put_nowait(await read_all(receive))
        await answer(send, b"too late")

    async with serve(app) as port, connect(port) as client:
        await client.send(post(10) + b"half")
        assert is_408(await client.rest())
        async with asyncio.timeout(PATIENCE):
            assert await told.get() == b"disconnected"


async def test_the_app_cannot_answer_after_we_gave_up(caplog: pytest.LogCaptureFixture) -> None:
    done = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(LONG)
        await answer(send, b"too late")
        done.set()

    async with serve(app) as port, connect(port) as client:
        await client.send(post(10) + b"half")
        assert is_408(await client.rest())
        async with asyncio.timeout(PATIENCE):
            await done.wait()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_dripping_body_is_ended(chunked: bool) -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" if chunked else post(1_000_000)
    piece = b"1\r\nx\r\n" if chunked else b"x"
    async with serve() as port, connect(port) as client:
        await client.send(head)
        assert is_408(await client.drip(iter(lambda: piece, b""), LIMIT / 10))


async def test_a_slow_but_steady_body_is_taken() -> None:
    pieces = iter([b"x"] * 20)
    async with serve(body=2.0) as port, connect(port) as client:
        await client.send(post(20))
        # 20 pieces in a second and more: past the header timeout, within twice the body timeout.
        assert (await client.drip(pieces, 0.05)).endswith(b"read 20")


async def test_a_body_may_take_longer_the_longer_it_is() -> None:
    pieces = iter([b"x" * 3000] * 10)
    async with serve(body=0.5) as port, connect(port) as client:
        await client.send(post(30_000))
        # 1.5 seconds: more than twice the body timeout, but three seconds' worth of bytes.
        assert (await client.drip(pieces, 0.15)).endswith(b"read 30000")


async def test_a_slow_response_is_not_cut() -> None:
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(LAST)
        assert (await client.rest()).endswith(b"read 0")


@pytest.mark.parametrize("request_bytes", [LAST, post(4) + b"body", post(10) + b"half"], ids=["get", "post", "half"])
async def test_a_slow_event_stream_is_not_cut(request_bytes: bytes) -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for more in (True, False):
            await asyncio.sleep(LONG)
            await send({"type": "http.response.body", "body": b"data: x\n\n", "more_body": more})

    async with serve(stream) as port, connect(port) as client:
        await client.send(request_bytes)
        reply = await client.rest()
    assert reply.count(b"data: x") == 2
    assert reply.endswith(b"0\r\n\r\n")


async def test_an_app_that_does_not_read_is_not_held_against_the_client() -> None:
    size = 20_000_000  # more than the sockets' own buffers hold
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(post(size))
        await client.send(b"x" * size)
        assert (await client.rest()).endswith(b"read %d" % size)


async def test_a_client_that_waits_for_100_continue_is_not_blamed() -> None:
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(post(4, b"Connection: close\r\nExpect: 100-continue\r\n"))
        assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        await client.send(b"body")
        assert (await client.rest()).endswith(b"read 4")


async def test_after_100_continue_the_client_is_timed() -> None:
    async with serve(slow_to_read) as port, connect(port) as client:
        await client.send(post(4, b"Expect: 100-continue\r\n"))
        await client.until(b"\r\n\r\n")
        assert is_408(await client.rest())


async def test_a_body_that_nobody_wants_is_timed_without_a_second_answer() -> None:
    async with serve(answers_unread) as port, connect(port) as client:
        await client.send(post(1_000_000, b""))
        assert await client.until(b"unread")
        await client.send(b"x")
        assert await client.rest() == b""


async def test_the_keep_alive_timeout_survives_a_body_that_ends_after_its_response() -> None:
    async with serve(answers_unread, keep_alive=1) as port, connect(port) as client:
        await client.send(post(4, b""))
        assert await client.until(b"unread")
        await client.send(b"body")
        assert await client.rest() == b""


BIG = 3_000_000


async def big(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, b"x" * BIG)


@contextlib.asynccontextmanager
async def reads_little(port: int) -> AsyncGenerator[socket.socket]:
    """A client whose system takes in little that it has not asked for. Half a head follows its request."""
    loop = asyncio.get_running_loop()
    with socket.socket() as client:
        client.setblocking(False)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
        await loop.sock_connect(client, ("127.0.0.1", port))
        await loop.sock_sendall(client, GET + GET[:-3])
        yield client


async def test_a_client_that_stops_reading_is_dropped() -> None:
    received = 0
    loop = asyncio.get_running_loop()
    async with serve(big) as port, reads_little(port) as client:
        await asyncio.sleep(2 * LONG + LINGER)  # not reading is what this client does
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionResetError):
                while data := await loop.sock_recv(client, BIG):
                    received += len(data)
    assert received < BIG


async def test_a_slow_reader_gets_all_of_its_response() -> None:
    reply = b""
    loop = asyncio.get_running_loop()
    async with serve(big) as port, reads_little(port) as client:
        async with asyncio.timeout(PATIENCE):
            while data := await loop.sock_recv(client, 100_000):
                if len(reply) // 100_000 != (len(reply) + len(data)) // 100_000:
                    await asyncio.sleep(LIMIT / 4)  # reading slowly is what this client does
                reply += data
    assert is_408(reply.partition(b"x" * BIG)[2])


async def test_websockets_are_not_timed_once_upgraded() -> None:
    pytest.importorskip("websockets", reason="uvicorn serves WebSockets only with a library for them")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await echo(scope, receive, send)
            return
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.sleep(LONG + 1)
        await send({"type": "websocket.send", "text": "still here"})

    upgrade = (
        b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    async with serve(app, keep_alive=1) as port, connect(port) as client:
        await client.send(GET)
        await client.until(b"read 0")
        await client.send(upgrade)
        assert (await client.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        assert await client.until(b"still here")


HUGE = MAX_HEAD + 1000


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx-big: " + b"x" * HUGE + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"x-many: 0123456789\r\n" * (HUGE // 20) + b"\r\n",
        b"GET /" + b"x" * HUGE + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nx-endless: " + b"x" * HUGE,
        b"\r\n" * (HUGE // 2),
    ],
    ids=["value", "count", "url", "unfinished", "blank lines"],
)
@pytest.mark.parametrize("first", [b"", GET], ids=["fresh", "kept"])
async def test_a_big_head_is_refused(head: bytes, first: bytes) -> None:
    async with serve(header=10) as port, connect(port) as client:
        await client.send(first)
        if first:
            await client.until(b"read 0")
        await client.send(head)
        reply = await client.rest()
    assert reply.startswith(b"HTTP/1.1 431 ")
    assert b'"HEADERS_TOO_LARGE"' in reply


async def test_a_big_head_behind_another_request_ends_the_connection() -> None:
    async with serve(header=10) as port, connect(port) as client:
        await client.send(post(4, b"") + b"body" + GET[:-2] + b"x-big: " + b"x" * HUGE + b"\r\n\r\n")
        reply = await client.rest()
    assert b"200 OK" not in reply.partition(b"read 4")[2]


@pytest.mark.parametrize("body", [b"", b"x" * 500_000], ids=["alone", "with a body"])
async def test_a_head_within_the_limit_is_taken(body: bytes) -> None:
    async with serve(header=10) as port, connect(port) as client:
        await client.send(post(len(body), b"Connection: close\r\nx-big: " + b"x" * (MAX_HEAD - 1000) + b"\r\n") + body)
        assert (await client.rest()).endswith(b"read %d" % len(body))


async def test_a_small_pipelined_head_behind_a_big_body_is_taken() -> None:
    size = MAX_HEAD + 10_000  # so that it comes in one piece
    async with serve(header=10) as port, connect(port) as client:
        await client.send(post(size, b"") + b"x" * size + LAST[:20])
        await client.until(b"read %d" % size)
        await client.send(LAST[20:])
        assert (await client.rest()).endswith(b"read 0")


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("tail", [b"0\r\nx-trailer: ", b"1;x="], ids=["trailer", "chunk extension"])
async def test_endless_trailers_and_chunk_extensions_are_refused(tail: bytes) -> None:
    async with serve(body=10) as port, connect(port) as client:
        await client.send(CHUNKED + tail)
        assert (await client.drip(iter(lambda: b"x" * 20_000, b""), 0.01)).startswith(b"HTTP/1.1 431 ")


async def test_trailers_do_not_become_headers() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(list(scope["headers"]))
        await read_all(receive)
        seen.append(list(scope["headers"]))
        await answer(send, b"done")

    async with serve(app) as port, connect(port) as client:
        await client.send(CHUNKED + b"1\r\nx\r\n")
        await client.send(b"0\r\nauthorization: Bearer x\r\n\r\n")
        assert (await client.rest()).endswith(b"done")
    assert seen[0] == seen[1]
    assert b"authorization" not in dict(seen[1])


async def test_broken_requests_are_still_answered_400() -> None:
    async with serve() as port, connect(port) as client:
        await client.send(b"nonsense\r\n\r\n")
        assert (await client.rest()).startswith(b"HTTP/1.1 400 ")


def test_the_limits_are_those_that_are_set_in_another_process_too() -> None:
    made: Any = pickle.loads(pickle.dumps(guarded_protocol()))
    assert (made.keywords["pace"].tick, made.keywords["pace"].head_ticks, made.keywords["pace"].body_ticks) == (
        1.25,
        8,
        24,
    )
    made = pickle.loads(pickle.dumps(guarded_protocol(2.0, 1.0)))
    assert made.keywords["pace"] == Pace(0.125, 16, 8)
