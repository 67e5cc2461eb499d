"""Limits at the doors: what a key gets when it has reached one, and that this machine's user has none."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, KHO, PLAIN, Json, Served, bearer, new_key, served, talking
from tests.doors.mcp.test_sessions import lives, opened
from tests.doors.streams import streamed
from tests.timeouts import PATIENCE

from kho.kernel.limits.settings import LimitSettings
from kho.settings import Settings

REMEMBER = "facts-server/remember"


@dataclass
class Ticks:
    now: float = 1_000.0

    def __call__(self) -> float:
        return self.now


def limited(settings: Settings, **limits: int) -> Settings:
    return settings.model_copy(update={"limits": LimitSettings(**limits)})


async def rpc(hub: Served, method: str, params: Json, key: str) -> httpx2.Response:
    return await hub.post("/jsonrpc", {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **bearer(key))


@asynccontextmanager
async def client_of(hub: Served, key: str, era: str) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers=bearer(key), timeout=PATIENCE, trust_env=False, verify=PLAIN) as http,
        Client(streamable_http_client(f"{hub.url}/mcp", http_client=http), mode=era) as client,
    ):
        yield client


def told(response: httpx2.Response, limit: str, seconds: int) -> None:
    """Every refusal over HTTP says how long to wait, which limit it is, and its setting."""
    assert response.status_code == 429, response.text
    assert response.headers["retry-after"] == str(seconds)
    assert f"KHO_LIMITS__{limit.upper()}" in response.text
    assert "RATE_LIMITED" in response.text


async def test_a_flood_of_requests_is_refused_before_it_is_read(both_settings: Settings) -> None:
    mine, other = await new_key(both_settings), await new_key(both_settings, sub="other")
    ticks = Ticks()
    async with served(limited(both_settings, requests=3), ticks=ticks) as hub:
        for _ in range(3):
            assert (await hub.get("/servers", **bearer(mine))).status_code == 200
        for path in ("/servers", "/openapi.json", "/metrics", "/devices/events", "/open/fact:x"):
            told(await hub.get(path, **bearer(mine)), "requests", 20)
        for path in ("/jsonrpc", "/actions", "/mcp"):
            response = await hub.post(path, b"not even JSON", **bearer(mine))
            told(response, "requests", 20)
            assert response.json()["error"]["message"].startswith("The limit of 3 requests in a minute of one key")
        assert (await hub.get("/health")).status_code == 200
        assert (await hub.get("/servers", **bearer(other))).status_code == 200
        ticks.now += 20
        assert (await hub.get("/servers", **bearer(mine))).status_code == 200
        told(await hub.get("/servers", **bearer(mine)), "requests", 20)


async def test_each_message_of_a_batch_is_a_request(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(limited(settings, requests=3), ticks=Ticks()) as hub:
        asked: Json = {"jsonrpc": "2.0", "method": "facts-server/list_facts", "params": {}}
        batch: list[Json] = [{**asked, "id": number} for number in range(5)]
        answers = (await hub.post("/jsonrpc", batch, **bearer(key))).json()
        assert [one["id"] for one in answers] == [0, 1, 2, 3, 4]
        assert [one.get("error", {}).get("code") for one in answers] == [None, None, None, -32029, -32029]
        assert answers[4]["error"]["data"]["retry_after"] == 20


async def test_writes_over_the_limit_are_told_in_the_words_of_each_door(both_settings: Settings) -> None:
    key = await new_key(both_settings)
    ticks = Ticks()
    async with served(limited(both_settings, writes=1), ticks=ticks) as hub:
        assert "result" in (await rpc(hub, REMEMBER, {"text": "one"}, key)).json()
        error = (await rpc(hub, REMEMBER, {"text": "two"}, key)).json()["error"]
        assert (error["code"], error["data"]["code"]) == (-32029, "RATE_LIMITED")
        assert (error["data"]["retry_after"], error["data"]["setting"]) == (60, "KHO_LIMITS__WRITES")
        told(await hub.act("create_document", {"content": {"body": "b"}}, key=key), "writes", 60)
        told(await hub.act("create_document", {"content": {"body": "b"}}, key=key, request_id="r1"), "writes", 60)
        record = {"title": "t", "problem_description": "p", "root_cause": "r", "solution": "s"}
        told(await hub.act("submit_experience", record, key=key), "writes", 60)
        facts = (await rpc(hub, "facts-server/list_facts", {}, key)).json()["result"]["facts"]
        assert [one["text"] for one in facts] == ["one"], "a refused write changes nothing"
        ticks.now += 60
        created = await hub.act("create_document", {"content": {"body": "b"}}, key=key, request_id="r1")
        assert created.status_code == 200, "the id of a refused request can be used again"


@pytest.mark.parametrize("era", ERAS)
async def test_a_model_is_told_over_MCP(settings: Settings, era: str) -> None:
    key = await new_key(settings)
    async with served(limited(settings, writes=1), ticks=Ticks()) as hub, client_of(hub, key, era) as client:
        assert not (await client.call_tool("remember", {"text": "one"})).is_error
        result = await client.call_tool("remember", {"text": "two"})
        assert result.is_error
        told: Json = result.structured_content or {}
        assert (told["error"]["code"], told["error"]["details"]["retry_after"]) == ("RATE_LIMITED", 60)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_of_MCP_reads_why_its_request_was_refused(settings: Settings, era: str) -> None:
    key = await new_key(settings)
    chosen = limited(settings, requests=10)
    async with served(chosen, ticks=Ticks()) as hub, client_of(hub, key, era) as client:
        while (await hub.get("/servers", **bearer(key))).status_code == 200:
            pass
        with pytest.raises(MCPError, match="The limit of 10 requests in a minute"):
            await client.call_tool("list_facts", {})


@pytest.mark.parametrize("path", ["/devices/events", "/mcp", "listen"])
async def test_streams_of_a_key_are_counted_together(settings: Settings, path: str) -> None:
    mine, other = await new_key(settings), await new_key(settings, sub="other")
    async with served(limited(settings, streams=2)) as hub, AsyncExitStack() as stack:
        for kind in ("/devices/events", "listen"):
            status, _ = await stack.enter_async_context(streamed(hub, kind, **bearer(mine)))
            assert status == 200
        async with streamed(hub, path, **bearer(mine)) as (status, lines):
            said = "".join([line async for line in lines])
            assert status == (200 if path == "listen" else 429), said
        status, _ = await stack.enter_async_context(streamed(hub, path, **bearer(other)))
        assert status == 200
        refused: dict[str, Any] = {"accept": "text/event-stream", **bearer(mine)}
        told(await hub.get("/devices/events", **refused), "streams", 1)
        told(await hub.get("/mcp", **refused), "streams", 1)


async def test_a_closed_stream_makes_room(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(limited(settings, streams=1)) as hub:
        for kind in ("/devices/events", "/mcp", "listen", "/mcp"):
            async with streamed(hub, kind, **bearer(key)) as (status, _):
                assert status == 200
            await until_room(hub, key)


async def until_room(hub: Served, key: str) -> None:
    """Wait until the hub has noticed that the stream was closed."""
    while True:
        async with streamed(hub, "/devices/events", **bearer(key)) as (status, _):
            if status == 200:
                break


async def test_a_key_has_no_more_sessions_than_its_limit(settings: Settings) -> None:
    mine, other = await new_key(settings), await new_key(settings, sub="other")
    async with served(limited(settings, sessions=2)) as hub:
        held = [await opened(hub, mine) for _ in range(2)]
        with pytest.raises(KeyError):  # it is served, without a session
            await opened(hub, mine)
        assert await lives(hub, other, await opened(hub, other))
        assert [await lives(hub, mine, one) for one in held] == [True, True]
        closed = await hub.http.delete("/mcp", headers={**bearer(mine), "mcp-session-id": held[0]})
        assert closed.status_code == 200
        assert await lives(hub, mine, await opened(hub, mine))


ONE_OF_EACH = {
    f"KHO_LIMITS__{name.upper()}": "1"
    for name in ("requests", "writes", "embedding", "model_calls", "calls_at_once", "streams", "sessions")
}


async def test_the_keyless_hub_of_this_machine_s_user_has_no_limits(settings: Settings) -> None:
    chosen = limited(
        settings, requests=1, writes=1, embedding=1, calls_at_once=1, calls_waiting=0, streams=1, sessions=1
    )
    async with served(chosen) as hub, AsyncExitStack() as stack:
        for number in range(5):
            assert (await hub.act("create_document", {"content": {"body": f"b {number}"}})).status_code == 200
            status, _ = await stack.enter_async_context(streamed(hub, "/devices/events"))
            assert status == 200


async def test_stdio_has_no_limits(settings: Settings) -> None:
    async with talking(settings.home, ERAS[0], KHO, "stdio", env=ONE_OF_EACH) as client:
        for number in range(5):
            assert not (await client.call_tool("remember", {"text": f"fact {number}"})).is_error
