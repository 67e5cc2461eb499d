"""An index server that hangs, dribbles or never ends: each request ends by itself, and the server is left alone."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from tests.timeouts import PATIENCE

from kho.kernel.errors import Unavailable
from kho.lib.safe_http import TooLarge, Unreachable
from kho.storage.vector_index import index_server
from kho.storage.vector_index.index_server import IN_A_ROW, MAX_ANSWER, PAUSE, IndexServer

pytestmark = pytest.mark.anyio
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def well(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"content-length: 2\r\n\r\n{}")


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def dribbling_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"x-long: ")
    await dribble(writer)


async def dribbling_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    await dribble(writer)


async def dribble(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.01)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"\r\n")
    while True:
        writer.write(b" " * 1_000_000)
        await writer.drain()


async def packed_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + b"content-encoding: gzip, gzip\r\ncontent-length: 2\r\n\r\n{}")


async def elsewhere(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 307 Temporary\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n")


@asynccontextmanager
async def asked(handler: Handler, timeout: float = PATIENCE) -> AsyncGenerator[tuple[IndexServer, str, list[bytes]]]:
    heads: list[bytes] = []

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            await handler(reader, writer)
        except OSError:
            return
        finally:
            writer.close()

    listener = await asyncio.start_server(visited, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/q"
    server = IndexServer(url, timeout)
    try:
        yield server, url, heads
    finally:
        await server.aclose()
        listener.close()


async def ask(server: IndexServer, url: str) -> httpx.Response:
    request = httpx.Request("POST", url, content=b"{}", headers={"api-key": "k"})
    return await asyncio.to_thread(server.handle_request, request)


async def test_an_answer_comes_through_with_the_key_that_was_sent() -> None:
    async with asked(well) as (server, url, heads):
        answer = await ask(server, url)
        assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (200, {}, "application/json")
        assert b"api-key: k\r\n" in heads[0]


@pytest.mark.parametrize("handler", [silent, dribbling_head, dribbling_body])
async def test_the_time_is_for_all_of_an_answer(handler: Handler) -> None:
    async with asked(handler, 0.2) as (server, url, _):
        with pytest.raises(httpx.ReadTimeout):
            await ask(server, url)


async def test_an_answer_without_an_end_is_not_read_to_it() -> None:
    async with asked(endless) as (server, url, _):
        with pytest.raises(TooLarge):
            await ask(server, url)
    assert MAX_ANSWER < 20_000_000


async def test_what_is_packed_twice_is_not_unpacked_and_redirects_are_not_followed() -> None:
    async with asked(packed_twice) as (server, url, _):
        with pytest.raises(Unreachable):
            await ask(server, url)
    async with asked(elsewhere) as (server, url, heads):
        assert (await ask(server, url)).status_code == 307
        assert len(heads) == 1


async def test_a_server_that_was_late_several_times_is_left_alone_and_then_tried_by_one() -> None:
    now = 100.0
    async with asked(silent, 0.05) as (_, url, _heads):
        server = IndexServer(url, 0.05, lambda: now)
        for _ in range(IN_A_ROW):
            server.need()
            with pytest.raises(httpx.ReadTimeout):
                await ask(server, url)
        with pytest.raises(Unavailable, match="asked again in 30 seconds"):
            server.need()
        now += PAUSE
        server.need()
        with pytest.raises(Unavailable):
            server.need()
        await server.aclose()
    async with asked(well) as (_, url, _heads):
        server = IndexServer(url, PATIENCE, lambda: now)
        server._late = IN_A_ROW  # pyright: ignore[reportPrivateUsage]
        await ask(server, url)
        server.need()
        await server.aclose()


async def test_the_end_of_the_hub_ends_requests_under_way() -> None:
    async with asked(silent) as (server, url, heads):
        asking = asyncio.ensure_future(ask(server, url))
        async with asyncio.timeout(PATIENCE):
            while not heads:  # noqa: ASYNC110 - it is the server of this test that is waited for
                await asyncio.sleep(0.01)
            await server.aclose()
            with pytest.raises(httpx.ReadError, match=index_server.OVER):
                await asking
            with pytest.raises(httpx.ReadError, match=index_server.OVER):
                await ask(server, url)
