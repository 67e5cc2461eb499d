"""Sessions of the handshake era over real HTTP: whose they are, and that they end with their credential."""

import asyncio

import httpx2
import pytest
from tests.clock import Clock
from tests.doors.doors import HANDSHAKE, Json, Served, bearer, new_key, served
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.mcp import sessions
from kho.kernel import api_keys
from kho.kernel.access import METRICS
from kho.lib.clock import DAY
from kho.settings import Settings

INITIALIZE = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


async def ask(hub: Served, key: str, method: str, session: str = "", params: Json | None = None) -> httpx2.Response:
    body: Json = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
    named = {"mcp-session-id": session} if session else {}
    return await hub.post("/mcp", body, accept="application/json, text/event-stream", **bearer(key), **named)


async def opened(hub: Served, key: str) -> str:
    return (await ask(hub, key, "initialize", params=INITIALIZE)).headers["mcp-session-id"]


async def lives(hub: Served, key: str, session: str) -> bool:
    """True if the process holds this caller's session: what is served outside of one names none."""
    return (await ask(hub, key, "ping", session)).headers.get("mcp-session-id") == session


async def until_open(hub: Served, count: int, **headers: str) -> None:
    """Wait for this number of open sessions, as /metrics tells it. Nothing is asked in one of them meanwhile."""
    async with asyncio.timeout(PATIENCE):
        while f"kho_mcp_sessions {count}.0" not in (await hub.get("/metrics", **headers)).text:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_for_others_a_session_does_not_exist(settings: Settings) -> None:
    mine, foreign = await new_key(settings, "acme"), await new_key(settings, "other")
    async with served(settings) as hub:
        session = await opened(hub, mine)
        assert await lives(hub, mine, session)
        for method in ("ping", "tools/list"):
            known, unknown = [await ask(hub, foreign, method, one) for one in (session, "never-was")]
            assert (known.status_code, known.content) == (unknown.status_code, unknown.content)
        header = {"mcp-session-id": session}
        closed = await hub.http.delete("/mcp", headers={**bearer(foreign), **header})
        unknown = await hub.http.delete("/mcp", headers={**bearer(foreign), "mcp-session-id": "never-was"})
        assert (closed.status_code, closed.content) == (unknown.status_code, unknown.content)
        assert await lives(hub, mine, session), "another caller ended it"
        assert (await hub.http.delete("/mcp", headers={**bearer(mine), **header})).status_code == 200
        assert (await ask(hub, mine, "ping", session)).status_code == 404


async def test_when_a_process_holds_as_many_as_it_may_others_are_served_without(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "MOST_SESSIONS", 3)
    mine, other = await new_key(settings), await new_key(settings, "umbrella")
    async with served(settings) as hub:
        held = [await opened(hub, mine) for _ in range(3)]
        for key in (mine, other):
            answer = await ask(hub, key, "initialize", params=INITIALIZE)
            assert (answer.status_code, "mcp-session-id" in answer.headers) == (200, False)
            assert (await ask(hub, key, "tools/list")).status_code == 200
        for session in held:
            assert await lives(hub, mine, session), "nobody's was ended for it"
        closed = await hub.http.delete("/mcp", headers={**bearer(mine), "mcp-session-id": held[0]})
        assert closed.status_code == 200
        assert await lives(hub, other, await opened(hub, other))


async def test_a_session_ends_with_its_key_though_nothing_is_asked_in_it(settings: Settings) -> None:
    ended, good = await new_key(settings), await new_key(settings, "acme", "*", METRICS, sub="other")
    async with served(settings, fresh=0.01) as hub:
        _, other = await opened(hub, ended), await opened(hub, good)
        await until_open(hub, 2, **bearer(good))
        async with open_hub(settings) as store:
            assert await store.keys.revoke(api_keys.public_id(ended) or "", store.clock())
        await until_open(hub, 1, **bearer(good))
        assert await lives(hub, good, other)


async def test_a_session_ends_when_its_key_expires(settings: Settings) -> None:
    async with open_hub(settings) as store:
        clock = Clock(store.clock())
    key, good = await new_key(settings, lifetime=DAY), await new_key(settings, "acme", METRICS, lifetime=9 * DAY)
    async with served(settings, clock=clock, fresh=0.01) as hub:
        await opened(hub, key)
        await until_open(hub, 1, **bearer(good))
        clock.pass_seconds(86_401)
        await until_open(hub, 0, **bearer(good))


async def test_a_session_of_the_machine_s_user_ends_when_keys_begin_to_decide(settings: Settings) -> None:
    async with served(settings, fresh=0.01) as hub:
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
        assert (await hub.post("/mcp", body, accept="application/json, text/event-stream")).status_code == 200
        await until_open(hub, 1)
        key = await new_key(settings, "acme", METRICS)
        await until_open(hub, 0, **bearer(key))
