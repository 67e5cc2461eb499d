"""Calls and streams end with their key: whatever happens after it is revoked or expired is not heard.

Streams are opened over real HTTP. Nothing here waits for a time to pass: how long an answer of the key table is
believed, how often a silent stream is looked at and the clock of expiry are all given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest
from tests.clock import Clock
from tests.doors.doors import MODERN, Json, Served, bearer, new_key, served
from tests.doors.streams import META, board_that_speaks, streamed
from tests.doors.web_capability import Shop
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.devices.settings import DeviceSettings
from kho.kernel import Call, Capability, Operation, Params, Result, api_keys
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


@pytest.mark.parametrize("path", ["/jsonrpc", "/actions", "/mcp"])
async def test_a_call_that_is_under_way_ends_with_its_key_in_every_process(settings: Settings, path: str) -> None:
    """Each application has its own view of the keys, as each worker has."""
    ended, good = await new_key(settings, "local"), await new_key(settings, "local", sub="other")
    slow = Slow()
    async with (
        served(settings, slow.capability, fresh=0.01) as one,
        served(settings, slow.capability, fresh=0.01) as another,
        asyncio.timeout(PATIENCE),
        asyncio.TaskGroup() as tasks,
    ):
        calls = [tasks.create_task(slow.ask(hub, path, key)) for hub in (one, another) for key in (ended, good)]
        await slow.are_under_way(len(calls))
        await revoke(settings, ended)
        for call in (calls[0], calls[2]):
            assert (await call).status_code == 401
        slow.go_on.set()
        for call in (calls[1], calls[3]):
            assert (await call).status_code == 200


class Slow:
    """A slice with one operation that does not end until it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self._begun = asyncio.Semaphore(0)

    async def wait(self, params: Params, call: Call) -> Result:
        self._begun.release()
        await self.go_on.wait()
        return Result()

    async def are_under_way(self, calls: int) -> None:
        for _ in range(calls):
            await self._begun.acquire()

    async def ask(self, hub: Served, path: str, key: str) -> httpx2.Response:
        params = {"name": "wait", "arguments": {}, "_meta": META} if path == "/mcp" else {}
        method = "tools/call" if path == "/mcp" else "slow-server/wait"
        body: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        mcp = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": "wait"} if path == "/mcp" else {}
        accept = {"accept": "application/json, text/event-stream"}
        sent: Json = {"action": "wait", "payload": {}} if path == "/actions" else body
        return await hub.post(path, sent, **bearer(key), **accept, **mcp)

    @property
    def capability(self) -> Capability:
        operation = Operation(
            "slow.wait", "Wait.", Params, self.wait, "exp:read", result=Result, tool="wait", rpc="wait", action="wait"
        )
        return Capability("slow", "slow-server", (operation,), "Waits.")
