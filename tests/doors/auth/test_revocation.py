"""Calls and streams end with their key: whatever happens after it is revoked or expired is not heard.

Streams are opened over real HTTP. Nothing here waits for a time to pass: how long an answer of the key table is
believed, how often a silent stream is looked at and the clock of expiry are all given.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import httpx2
import pytest
from tests.clock import Clock
from tests.doors.doors import MODERN, Json, Served, bearer, new_key, served
from tests.doors.mcp.test_sessions import opened as session_of
from tests.doors.streams import META, board_that_speaks, streamed
from tests.doors.web_capability import Shop
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.devices.settings import DeviceSettings
from kho.doors.auth.credentials import Auth
from kho.doors.auth.revocation import Revocation
from kho.kernel import Background, Call, Capability, Operation, Params, Result, api_keys
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


@pytest.mark.parametrize("how", ["/jsonrpc", "/actions", "/mcp", "handshake", "session"])
async def test_the_work_of_a_call_stops_with_its_key(settings: Settings, how: str) -> None:
    key, slow = await new_key(settings, "local"), Slow()
    async with served(settings, slow.capability, fresh=0.01) as hub, asyncio.timeout(PATIENCE):
        session = await session_of(hub, key) if how == "session" else ""
        asked = asyncio.create_task(slow.ask(hub, how, key, session))
        await slow.are_under_way(1)
        await revoke(settings, key)
        await slow.stopped.wait()
        with suppress(httpx2.HTTPError):  # the stream of an answer may just end
            assert "Result" not in (await asked).text
        assert slow.done == 0


async def test_one_that_cannot_be_ended_keeps_nobody_else_s_from_ending(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails is logged, and tried again; what comes later is watched all the same."""
    first, second, later = [await new_key(settings, "local", sub=name) for name in ("a", "b", "c")]
    ended: asyncio.Queue[str] = asyncio.Queue()
    fails = ["once", "twice"]
    background = Background()
    async with open_hub(settings) as hub, asyncio.timeout(PATIENCE):
        auth = Auth(hub, 0.01)
        revocation = Revocation(auth, background)

        async def hold(key: str, *, failing: bool = False) -> None:
            async def end() -> None:
                if failing and fails:
                    raise RuntimeError(f"it failed {fails.pop()}")
                ended.put_nowait(key)

            scope = {"headers": [(b"authorization", f"Bearer {key}".encode())], "path": "/mcp", "client": ("::1", 1)}
            revocation.hold(scope, await auth.principal(scope), end)

        await hold(first, failing=True)
        await hold(second)
        await revoke(settings, first)
        await revoke(settings, second)
        assert {await ended.get(), await ended.get()} == {first, second}
        assert fails == []
        await hold(later)
        await revoke(settings, later)
        assert await ended.get() == later
        revocation.close()
    await background.drain()
    assert "it failed once" in caplog.text


class Slow:
    """A slice with one operation that does not end until it is told to."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.stopped = asyncio.Event()
        self.done = 0
        self._begun = asyncio.Semaphore(0)

    async def wait(self, params: Params, call: Call) -> Result:
        self._begun.release()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped.set()
            raise
        self.done += 1
        return Result()

    async def are_under_way(self, calls: int) -> None:
        for _ in range(calls):
            await self._begun.acquire()

    async def ask(self, hub: Served, path: str, key: str, session: str = "") -> httpx2.Response:
        """At a path; `handshake` and `session` are MCP of the era before, without a session and in one."""
        older, path = path in ("handshake", "session"), "/mcp" if path in ("handshake", "session") else path
        params: Json = {"name": "wait", "arguments": {}} if path == "/mcp" else {}
        method = "tools/call" if path == "/mcp" else "slow-server/wait"
        mcp = {"mcp-session-id": session} if session else {}
        if path == "/mcp" and not older:
            params["_meta"] = META
            mcp = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": "wait"}
        body: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"accept": "application/json, text/event-stream"}
        sent: Json = {"action": "wait", "payload": {}} if path == "/actions" else body
        return await hub.post(path, sent, **bearer(key), **accept, **mcp)

    @property
    def capability(self) -> Capability:
        operation = Operation(
            "slow.wait", "Wait.", Params, self.wait, "exp:read", result=Result, tool="wait", rpc="wait", action="wait"
        )
        return Capability("slow", "slow-server", (operation,), "Waits.")
