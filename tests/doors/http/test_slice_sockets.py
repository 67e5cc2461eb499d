"""What a slice serves over WebSockets, asked by real clients, good and bad."""

import asyncio
import gc
import json
import socket
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from tests.doors.doors import Served, served
from tests.doors.web_capability import Shop
from tests.timeouts import PATIENCE
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.server import ServerProtocol

from kho.app import open_hub
from kho.doors.auth.credentials import Auth
from kho.doors.auth.revocation import Revocation
from kho.doors.http import uvicorn_websockets
from kho.doors.http.event_stream import EventStreams
from kho.doors.http.gc_tuning import GcFreezer
from kho.doors.http.slice_routes import WebDoor
from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.doors.http.uvicorn_websockets import GuardedSocket
from kho.kernel import Background
from kho.kernel.access import OPEN
from kho.kernel.web import MAX_MESSAGE, Channel, ChannelClosed, Socket
from kho.settings import Settings


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
async def hub(settings: Settings, shop: Shop) -> AsyncIterator[Served]:
    async with served(settings, shop.capability) as hub:
        yield hub


def ws(hub: Served, path: str = "/shop/ws/", **more: Any) -> connect:
    return connect(hub.url.replace("http", "ws") + path, proxy=None, open_timeout=10, close_timeout=5, **more)


async def received(socket: ClientConnection) -> str | bytes:
    async with asyncio.timeout(PATIENCE):
        return await socket.recv()


async def closed(socket: ClientConnection) -> tuple[int, str]:
    """The code and the reason that the hub gave."""
    async with asyncio.timeout(PATIENCE):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as gone:
            return (gone.rcvd.code, gone.rcvd.reason) if gone.rcvd else (1006, "")


def tasks() -> int:
    return len(asyncio.all_tasks())


async def test_a_socket_speaks_text_and_bytes_and_closes_with_a_reason(hub: Served) -> None:
    async with ws(hub) as socket:
        await socket.send("xin chào")
        assert await received(socket) == "xin chào"
        await socket.send(b"abc")
        assert await received(socket) == "3 bytes"
        await socket.send("leave")
        assert await closed(socket) == (4000, "as you like")
    async with ws(hub, "/shop/ws") as socket:
        await socket.send("x")
        assert await received(socket) == "x"


async def test_a_refusal_before_the_handshake_is_an_answer_in_json(hub: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with ws(hub, "/shop/ws/?word=wrong"):
            pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["error"]["message"] == "Not with that word."


@pytest.mark.parametrize("message", ["7" * 2001, "đ" * 1001, b"7" * 2001])
async def test_a_message_over_the_cap_closes_the_connection(hub: Served, shop: Shop, message: str | bytes) -> None:
    async with ws(hub) as socket, ws(hub) as other:
        await socket.send("đ" * 1000)
        assert await received(socket) == "đ" * 1000
        await socket.send(message)
        assert await closed(socket) == (1009, "Send at most 2000 bytes in one message.")
        await other.send("x")
        assert await received(other) == "x"


async def test_a_huge_message_is_refused_before_it_is_read(hub: Served, shop: Shop) -> None:
    async with ws(hub) as socket:
        ending = asyncio.ensure_future(closed(socket))
        # The hub closes while it is still being sent: the sender may see that first.
        with suppress(ConnectionClosed):
            await socket.send(b"7" * 10 * MAX_MESSAGE)
        assert (await ending)[0] in (1009, 1006)
        async with asyncio.timeout(PATIENCE):
            await shop.ended.wait()


async def test_sockets_are_closed_with_going_away_and_leave_no_task(settings: Settings, shop: Shop) -> None:
    before = tasks()
    async with served(settings, shop.capability) as hub:
        sockets = [await ws(hub) for _ in range(5)]
        for socket in sockets:
            await socket.send("x")
            await received(socket)
        stopping = [asyncio.ensure_future(closed(socket)) for socket in sockets]
    assert [await one for one in stopping] == [(1001, "")] * 5
    for socket in sockets:
        await socket.wait_closed()
    assert tasks() == before


async def test_a_socket_that_breaks_off_ends_its_task(hub: Served, shop: Shop) -> None:
    broken = await ws(hub)
    await broken.send("x")
    await received(broken)
    broken.transport.abort()
    async with asyncio.timeout(PATIENCE):
        await shop.ended.wait()
    with pytest.raises(ChannelClosed):
        await shop.channels[0].send("x")
    assert await shop.channels[0].receive() is None


async def test_a_reader_that_does_not_read_is_given_up_and_dropped(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uvicorn_websockets, "LINGER", 0.05)
    given_up = asyncio.Event()

    async def pour(channel: Channel) -> None:
        await channel.accept()
        waiting = asyncio.ensure_future(channel.receive())
        with pytest.raises(ChannelClosed):
            await asyncio.gather(*(channel.send("x" * 65536) for _ in range(400)))
        assert await waiting is None
        given_up.set()

    async with open_hub(settings) as hub, asyncio.timeout(PATIENCE):
        door = WebDoor(
            Auth(hub),
            hub.registry.checkpoint,
            [Socket("/pour", pour, scope=OPEN)],
            GcFreezer(),
            Revocation(Auth(hub), Background()),
            EventStreams(1.0, 0.05),
            hub.limiter,
        )
        config = uvicorn.Config(Starlette(routes=door.routes()), http=guarded_protocol(), log_config=None)
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            await server.startup([listener])
            reader, writer = await asyncio.open_connection(*listener.getsockname()[:2])
            writer.write(
                b"GET /pour HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            )
            await given_up.wait()
            while server.server_state.connections:  # noqa: ASYNC110 - uvicorn tells nobody
                await asyncio.sleep(0)
            with suppress(ConnectionError):
                await reader.read()
            writer.close()
            await server.shutdown([listener])


async def test_a_foreign_page_cannot_open_a_socket(hub: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with ws(hub, origin="http://evil.test"):
            pass
    assert refused.value.response.status_code == 403


async def test_nothing_of_a_connection_that_is_over_needs_a_search_to_be_freed(hub: Served, shop: Shop) -> None:
    gc.collect()
    gc.disable()
    try:
        async with ws(hub) as socket:
            here: list[weakref.ref[Any]] = [
                weakref.ref(one) for one in gc.get_objects() if isinstance(one, GuardedSocket | ServerProtocol)
            ]
            assert len(here) == 2
            await socket.close()
        shop.channels.clear()
        async with asyncio.timeout(PATIENCE):
            while any(one() is not None for one in here):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
