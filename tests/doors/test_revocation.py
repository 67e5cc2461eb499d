"""A stream ends with the key that opened it: whatever happens after the key is revoked or expired is not heard.

Streams are opened over real HTTP. Nothing here waits for a time to pass: how long an answer of the key table is
believed, how often a silent stream is looked at and the clock of expiry are all given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.clock import Clock
from tests.doors.doors import HANDSHAKE, MODERN, Json, Served, bearer, new_key, served
from tests.doors.shop import Shop
from websockets.asyncio.client import ClientConnection, connect

from kho.app import open_hub
from kho.devices.board import Board, Say
from kho.kernel import identity
from kho.kernel.web import Stream
from kho.lib.clock import DAY
from kho.settings import Devices, Settings

NEVER = 3600.0
"""Seconds between heartbeats, where none is to come."""
PREFIX = "io.modelcontextprotocol/"
LISTEN: Json = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"toolsListChanged": True, "resourcesListChanged": True},
        "_meta": {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}},
    },
}
ACCEPT = "application/json, text/event-stream"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """New boards belong to the tenant of the keys here, without an approval."""
    return settings.model_copy(update={"devices": Devices(approval="auto")})


@asynccontextmanager
async def opened(hub: Served, stream: str, key: str | None = None) -> AsyncGenerator[AsyncIterator[str], None]:
    """The lines of a stream, which is a path, or `listen` for the one of MCP 2026-07-28."""
    headers = {"accept": ACCEPT, **(bearer(key) if key else {})}
    if stream == "listen":
        named = {"mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen", **headers}
        asked = hub.http.stream("POST", "/mcp", json=LISTEN, headers=named)
    else:
        asked = hub.http.stream("GET", stream, headers={"mcp-protocol-version": HANDSHAKE, **headers})
    async with asyncio.timeout(20), asked as response:
        assert response.status_code == 200
        lines = response.aiter_lines()
        async for line in lines:  # what a stream begins with: a comment, or the acknowledgement of what is listened to
            if line.startswith(": listening") or "acknowledged" in line:
                break
        yield lines


async def to_the_end(lines: AsyncIterator[str]) -> list[str]:
    """What was still told."""
    return [line async for line in lines if line.startswith("data: ")]


async def revoke(settings: Settings, key: str) -> None:
    async with open_hub(settings) as hub:
        assert await hub.keys.revoke(identity.public_id(key) or "", hub.clock())


@asynccontextmanager
async def board_that_speaks(hub: Served, id: str) -> AsyncGenerator[None, None]:
    """A board comes, which is an event and changes the list of tools, and says something, which is an announcement."""
    board = Board(id)

    async def answer(socket: ClientConnection) -> None:
        async for text in socket:
            for said in board.hear(str(text)):
                assert isinstance(said, Say)
                await socket.send(said.text)

    address = f"{hub.url.replace('http', 'ws')}/xiaozhi/v1/"
    async with connect(address, additional_headers={"device-id": id}, proxy=None) as socket:
        await socket.send(board.hello())
        assert board.hear(str(await socket.recv())) == []
        [said] = board.say([{"jsonrpc": "2.0", "method": "notifications/motion", "params": {"room": "secret lab"}}])
        assert isinstance(said, Say)
        await socket.send(said.text)
        answering = asyncio.ensure_future(answer(socket))
        yield
        await socket.close()
        await answering


HEARD = {
    "/devices/events": "notifications/motion",
    "/mcp": "notifications/motion",
    "listen": "notifications/tools/list_changed",
}
"""The streams, and what each tells of a board that comes and says something."""


@pytest.mark.parametrize("stream", HEARD)
async def test_what_happens_after_a_key_is_revoked_is_not_heard(settings: Settings, stream: str) -> None:
    revoked, good = await new_key(settings, "local"), await new_key(settings, "local", sub="other")
    async with (
        served(settings, serving=True, fresh=0, heartbeat=NEVER) as hub,
        opened(hub, stream, revoked) as deaf,
        opened(hub, stream, good) as hearing,
    ):
        await revoke(settings, revoked)
        async with board_that_speaks(hub, "aa:01"):
            assert await to_the_end(deaf) == []
            assert await anext(line async for line in hearing if HEARD[stream] in line), "a good key must hear it"


async def every_stream(settings: Settings, shop: Shop) -> list[str]:
    async with open_hub(settings, (shop.capability,)) as hub:
        served = [one for capability in hub.registry.capabilities for one in capability.web]
    return ["/mcp", "listen", *(one.path for one in served if isinstance(one, Stream))]


async def test_every_silent_stream_ends_at_the_next_heartbeat(settings: Settings) -> None:
    shop, key = Shop(), await new_key(settings)
    async with served(settings, shop.capability, fresh=0, heartbeat=0.01) as hub, AsyncExitStack() as stack:
        streams = await every_stream(settings, shop)
        assert {"/devices/events", "/shop/events"} <= {*streams}
        lines = [await stack.enter_async_context(opened(hub, stream, key)) for stream in streams]
        await revoke(settings, key)
        assert [await to_the_end(one) for one in lines] == [[]] * len(streams)
        assert shop.listening == 0


@pytest.mark.parametrize("stream", HEARD)
async def test_a_stream_ends_when_its_key_expires(settings: Settings, stream: str) -> None:
    async with open_hub(settings) as store:
        clock = Clock(store.clock())
    key = await new_key(settings, lifetime=DAY)
    async with (
        served(settings, clock=clock, fresh=0, heartbeat=0.01) as hub,
        opened(hub, stream, key) as lines,
    ):
        clock.pass_seconds(86_401)
        assert await to_the_end(lines) == []


@pytest.mark.parametrize("stream", HEARD)
async def test_a_stream_of_the_machine_s_user_ends_when_keys_begin_to_decide(settings: Settings, stream: str) -> None:
    async with served(settings, fresh=0, heartbeat=0.01) as hub, opened(hub, stream) as lines:
        await new_key(settings)
        assert await to_the_end(lines) == []
