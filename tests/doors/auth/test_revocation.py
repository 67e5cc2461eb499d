"""A stream ends with the key that opened it: whatever happens after the key is revoked or expired is not heard.

Streams are opened over real HTTP. Nothing here waits for a time to pass: how long an answer of the key table is
believed, how often a silent stream is looked at and the clock of expiry are all given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.clock import Clock
from tests.doors.doors import Served, bearer, new_key, served
from tests.doors.streams import board_that_speaks, streamed
from tests.doors.web_capability import Shop
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.devices.settings import DeviceSettings
from kho.kernel import api_keys
from kho.kernel.web import Stream
from kho.lib.clock import DAY
from kho.settings import Settings

NEVER = 3600.0
"""Seconds between heartbeats, where none is to come."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """New boards belong to the tenant of the keys here, without an approval."""
    return settings.model_copy(update={"devices": DeviceSettings(approval="auto")})


@asynccontextmanager
async def opened(hub: Served, stream: str, key: str | None = None) -> AsyncGenerator[AsyncIterator[str], None]:
    """The lines of a stream, which is a path, or `listen` for the one of MCP 2026-07-28."""
    async with asyncio.timeout(PATIENCE), streamed(hub, stream, **(bearer(key) if key else {})) as (status, lines):
        assert status == 200
        yield lines


async def to_the_end(lines: AsyncIterator[str]) -> list[str]:
    """What was still told."""
    return [line async for line in lines if line.startswith("data: ")]


async def revoke(settings: Settings, key: str) -> None:
    async with open_hub(settings) as hub:
        assert await hub.keys.revoke(api_keys.public_id(key) or "", hub.clock())


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
