"""Limits at the doors: what a key gets when it has reached one, and that this machine's user has none."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from tests.doors.doors import ERAS, KHO, MODERN, PLAIN, Json, Served, bearer, new_key, served, talking
from tests.doors.mcp.test_sessions import lives, opened
from tests.doors.streams import META, streamed
from tests.timeouts import PATIENCE

from kho.app import open_database, open_hub
from kho.kernel import Call, Capability
from kho.kernel.access import METRICS
from kho.kernel.capability import Prompt, Resource, ResourceContent
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.ports import Tx
from kho.lib.sql import insert
from kho.lib.tenancy import in_tenant
from kho.models.settings import Embedding
from kho.research.settings import ResearchSettings
from kho.search.indexing import passages
from kho.settings import Search, Settings

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
    mine, other = await new_key(both_settings), await new_key(both_settings, "acme", "*", METRICS, sub="other")
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
        counted = (await hub.get("/metrics", **bearer(other))).text
        assert 'kho_refused_total{limit="requests"} 8.0' in counted
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
    async with served(limited(settings, streams=1)) as hub, asyncio.timeout(PATIENCE):
        for kind in ("/devices/events", "/mcp", "/devices/events"):
            while not await opens(hub, kind, key):  # until the hub has noticed that the one before was closed
                pass


async def opens(hub: Served, kind: str, key: str) -> bool:
    async with streamed(hub, kind, **bearer(key)) as (status, _):
        return status == 200


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


@dataclass
class Slow:
    """What a slice serves beside operations, each taking until `let_go`."""

    begun: asyncio.Semaphore
    let_go: asyncio.Event
    scope: str = "exp:read"
    templates: Sequence[Resource] = (Resource("slow://{name}", "slow"),)
    now: int = 0
    most: int = 0

    async def wait(self) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.begun.release()
        try:
            await self.let_go.wait()
        finally:
            self.now -= 1

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        await self.wait()
        return (), None

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        await self.wait()
        return ResourceContent(uri, "text/plain", "read")

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        await self.wait()
        return ()

    async def render(self, arguments: dict[str, str], call: Call) -> str:
        await self.wait()
        return "rendered"

    @property
    def capability(self) -> Capability:
        prompt = Prompt("slow_prompt", "Slow.", self.render, scope=self.scope)
        return Capability("slow", "slow-server", (), prompts=(prompt,), resources=self)


BESIDE: dict[str, Json] = {
    "resources/list": {},
    "resources/read": {"uri": "slow://one"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "slow://{name}"},
        "argument": {"name": "name", "value": ""},
    },
    "prompts/get": {"name": "slow_prompt"},
}
"""What is served beside operations over MCP, and what it takes."""


async def beside(hub: Served, what: str, key: str) -> str:
    """The answer to something that is no operation, as text."""
    if what.startswith("/"):
        response = await hub.get(what, **bearer(key))
        return response.text if response.status_code == 200 else f"{response.status_code} {response.text}"
    params = {**BESIDE[what], "_meta": META}
    named = {"mcp-name": named} if (named := BESIDE[what].get("uri") or BESIDE[what].get("name")) else {}
    headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN, "mcp-method": what}
    message = {"jsonrpc": "2.0", "id": 1, "method": what, "params": params}
    return (await hub.post("/mcp", message, **headers, **named, **bearer(key))).text


@pytest.mark.parametrize("what", [*BESIDE, "/servers", "/servers/slow-server/capabilities"])
async def test_what_is_no_operation_waits_for_its_tenants_turn_too(settings: Settings, what: str) -> None:
    mine, other = await new_key(settings, "acme"), await new_key(settings, "other")
    slow = Slow(asyncio.Semaphore(0), asyncio.Event())
    async with served(limited(settings, calls_at_once=2, calls_waiting=1), slow.capability) as hub:
        asked = [asyncio.create_task(beside(hub, what, mine)) for _ in range(6)]
        async with asyncio.timeout(PATIENCE):
            for _ in range(2):
                await slow.begun.acquire()
            done: set[asyncio.Task[str]] = set()
            waiting = {*asked}
            while len(done) < 3:
                some, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                done |= some
            assert [one for one in done if "KHO_LIMITS__CALLS_WAITING" not in one.result()] == []
            theirs = asyncio.create_task(beside(hub, what, other))
            await slow.begun.acquire()  # another tenant has turns of its own
            slow.let_go.set()
            answers = [await one for one in (*waiting, theirs)]
        assert [one for one in answers if "KHO_LIMITS" in one or '"error"' in one] == []
        assert slow.most <= 3
        counted = (await hub.get("/metrics", **bearer(await new_key(settings, "acme", METRICS)))).text
        assert 'kho_refused_total{limit="calls_waiting"} 3.0' in counted


@pytest.mark.parametrize("what", [*BESIDE, "/servers"])
async def test_what_is_no_operation_has_the_time_of_a_call(settings: Settings, what: str) -> None:
    mine = await new_key(settings, "acme")
    slow = Slow(asyncio.Semaphore(0), asyncio.Event())
    chosen = settings.model_copy(update={"limits": LimitSettings(call_seconds=0.3)})
    async with served(chosen, slow.capability) as hub, asyncio.timeout(PATIENCE):
        assert "TIMEOUT" in await beside(hub, what, mine)
        assert slow.now == 0


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


async def test_over_a_quota_nothing_is_stored_and_the_door_says_which(both_settings: Settings) -> None:
    mine, other, home = [await new_key(both_settings, tenant) for tenant in ("acme", "other", "local")]
    async with served(limited(both_settings, items=1)) as hub:
        made = {"document_id": "one", "content": {"body": "text"}}
        assert (await hub.act("create_document", made, key=mine)).status_code == 200
        response = await hub.act("create_document", {**made, "document_id": "two"}, key=mine)
        assert (response.status_code, response.headers["retry-after"]) == (429, "3600")
        assert response.json()["error"]["code"] == "QUOTA_REACHED"
        assert "KHO_LIMITS__ITEMS" in response.text
        assert (await hub.act("get_document", {"document_id": "two"}, key=mine)).status_code == 404
        error = (await rpc(hub, REMEMBER, {"text": "a fact"}, mine)).json()["error"]
        assert (error["code"], error["data"]["code"]) == (-32029, "QUOTA_REACHED")
        changed = {"document_id": "one", "patch": {"content": {"body": "longer than it was"}}}
        assert (await hub.act("update_document", changed, key=mine)).status_code == 200
        assert (await hub.act("create_document", made, key=other)).status_code == 200
        assert (await hub.act("create_document", made, key=home)).status_code == 200
        token = await local_token(both_settings)
        for number in range(3):  # this machine's user has none, in the same tenant
            text = {"document_id": f"home-{number}", "content": {"body": "text"}}
            assert (await hub.act("create_document", text, key=token)).status_code == 200
            response = await hub.act("create_document", {**text, "document_id": "mine"}, key=home)
            assert response.json()["error"]["code"] == "QUOTA_REACHED"


async def local_token(settings: Settings) -> str:
    async with open_hub(settings) as opened:
        return opened.local_token.create()


async def test_earlier_revisions_count_until_they_are_purged(both_settings: Settings) -> None:
    admin = await new_key(both_settings, "acme", "*", "admin")
    async with served(limited(both_settings, bytes=10_000)) as hub:
        made = {"document_id": "one", "content": {"body": "x" * 1_000}}
        assert (await hub.act("create_document", made, key=admin)).status_code == 200
        statuses, said = list[int](), ""
        while 429 not in statuses:
            changed = {"document_id": "one", "patch": {"content": {"body": f"{len(statuses):04} {'y' * 995}"}}}
            response = await hub.act("update_document", changed, key=admin)
            statuses.append(response.status_code)
            said = response.text
        assert statuses == [200] * 8 + [429], "nine bodies, and the passage of the last"
        assert "KHO_LIMITS__BYTES" in said
        assert (await hub.act("delete_document", {"document_id": "one"}, key=admin)).status_code == 200
        assert await used(both_settings) == 9_000
        params = {"document_id": "one", "wipe": False}
        assert (await rpc(hub, "documents-server/purge_document", params, admin)).json()["result"]["purged"] == ["one"]
        assert await used(both_settings) == 0
        assert (await hub.act("create_document", made, key=admin)).status_code == 200


async def used(settings: Settings) -> int:
    """The bytes that count for acme, which are those of its rows."""

    def work(tx: Tx) -> tuple[int, int]:
        kept = "SELECT coalesce(sum(octet_length({})), 0) FROM {} WHERE tenant = $1"
        rows = [tx.one(kept.format(*one), "acme") for one in (("body", "document_bodies"), ("text", "passages"))]
        return passages.usage(tx, "acme")[1], sum(row[0] for row in rows if row)

    db, _ = open_database(settings)
    with in_tenant("acme"):
        counted, there = await db.read(work)
    await db.aclose()
    assert counted == there
    return counted


async def test_a_job_of_a_key_is_held_to_the_quotas_in_the_tenant_of_this_machine_s_user(
    both_settings: Settings, home: Path
) -> None:
    folder = home.with_name("papers")
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# {number}\ntext", "utf-8")
    roots = [str(folder)]
    chosen = both_settings.model_copy(update={"research": ResearchSettings(roots=roots, shared_roots=roots)})
    key, token = await new_key(chosen, "local"), await local_token(chosen)
    async with served(limited(chosen, items=1)) as hub:
        for caller, refused in ((key, True), (token, False)):
            ingest = {"path": str(folder), "collection": f"refused-{refused}", "create": True, "recursive": True}
            answer = (await rpc(hub, "research-server/ingest_documents", ingest, caller)).text
            assert ("KHO_LIMITS__ITEMS" in answer or "quota of 1" in answer) is refused, answer


async def test_a_tenant_has_no_more_boards_than_its_quota(both_settings: Settings) -> None:
    admin = await new_key(both_settings, "acme", "*", "admin")
    async with served(limited(both_settings, boards=1)) as hub:

        async def approve(number: int) -> Json:
            named = {"device-id": f"aa:0{number}", "client-id": f"client-of-board-{number}"}
            code = (await hub.post("/xiaozhi/ota/", {}, **named)).json()["activation"]["code"]
            return (await rpc(hub, "devices-server/device_approve", {"code": code}, admin)).json()

        assert "result" in await approve(1)
        for _ in range(12):  # a code that is right is no guess, and does not lock the admin out
            error = (await approve(2))["error"]
            assert (error["data"]["code"], error["data"]["setting"]) == ("QUOTA_REACHED", "KHO_LIMITS__BOARDS")
        listed = (await rpc(hub, "devices-server/devices_list", {}, admin)).json()["result"]["devices"]
        assert [one["device"] for one in listed] == ["aa:01"]
        assert "result" in (await rpc(hub, "devices-server/device_revoke", {"device": "aa:01"}, admin)).json()
        assert "result" in await approve(2)


async def test_a_tenant_has_no_more_jobs_than_its_quota(both_settings: Settings, home: Path) -> None:
    folder = home.with_name("papers")
    folder.mkdir()
    (folder / "a.md").write_text("# A\ntext", "utf-8")
    chosen = both_settings.model_copy(update={"research": ResearchSettings(shared_roots=[str(folder)])})
    key = await new_key(chosen)
    async with served(limited(chosen, jobs=1)) as hub:
        collection = {"action": "create", "collection_name": "papers"}
        assert "result" in (await rpc(hub, "research-server/manage_collections", collection, key)).json()
        ingest = {"path": str(folder), "collection": "papers"}
        first = (await rpc(hub, "research-server/ingest_documents", ingest, key)).json()
        assert "result" in first, "a job that is done does not count"
        await running_elsewhere(chosen, "acme")
        error = (await rpc(hub, "research-server/ingest_documents", ingest, key)).json()["error"]
        assert "quota of 1 jobs" in error["message"]
        assert "KHO_LIMITS__JOBS" in str(error)


def writes(text: str) -> dict[str, Json]:
    return {
        REMEMBER: {"text": text},
        "documents-server/create_document": {"content": {"body": text}},
        "memory-server/memory/add_message": {"conversation_id": "c", "role": "user", "content": text},
        "research-server/augment_knowledge": {"content": text, "source": text, "collection": "papers", "force": True},
        "experiences-server/submit_experience": {
            "title": text,
            "problem_description": text,
            "root_cause": text,
            "solution": text,
        },
    }


async def running_elsewhere(settings: Settings, tenant: str) -> None:
    """Another process of the hub has a job of the tenant that is not done."""

    def add(tx: Tx) -> None:
        columns = {
            "kind": "ingest",
            "state": "running",
            "request": "{}",
            "sub": "x",
            "done": 0,
            "added": 0,
            "changed": 0,
        }
        more = {"unchanged": 0, "removed": 0, "failed": 0, "report": "{}", "lease_until": 2**62, "owner": "other"}
        times = {"created_at": 1, "updated_at": 1}
        insert(tx, "research_jobs", {"tenant": tenant, "id": "j1", **columns, **more, **times})

    db, _ = open_database(settings)
    with in_tenant(tenant):
        await db.write(add)
    await db.aclose()


@pytest.mark.parametrize("operation", writes(""))
async def test_passages_for_the_model_are_counted_and_the_next_ones_wait(settings: Settings, operation: str) -> None:
    chosen = settings.model_copy(update={"search": Search(embedder=Embedding(provider="hash"))})
    key, ticks = await new_key(chosen), Ticks()
    async with served(limited(chosen, embedding=2), ticks=ticks) as hub:
        collection = {"action": "create", "collection_name": "papers"}
        assert "result" in (await rpc(hub, "research-server/manage_collections", collection, key)).json()

        async def write(number: int) -> Json:
            return (await rpc(hub, operation, writes(f"number {number} {'x' * number}")[operation], key)).json()

        answers = [await write(number) for number in range(5)]
        refused = [one for one in answers if "KHO_LIMITS__EMBEDDING" in str(one)]
        assert answers[3:] == refused[-2:], answers
        ticks.now += 60
        assert "KHO_LIMITS__EMBEDDING" not in str(await write(6))
