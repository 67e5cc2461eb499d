"""Contract 000: the action envelope and the five actions as they are printed, over every wire and in both eras."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from mcp import Client
from tests.doors.doors import MODERN, Json, Served, new_key, served

from kho.settings import Local, Settings

TENANT = "tenant-asia-01"
PRINCIPAL: Json = {"sub": "service-account@example.com", "roles": ["cursor", "codex"], "tenant_id": TENANT}
CREATE: Json = orjson.loads("""{
  "document_id": "uuid-v4",
  "parent_id": "root",
  "content": {
    "mime_type": "text/markdown",
    "body": "# Introduction\\nNội dung văn bản..."
  },
  "metadata": {
    "title": "Lộ trình Onboarding",
    "tags": ["onboarding", "ops"],
    "source": "cursor"
  },
  "is_human_readable": true,
  "created_at": "2025-09-16T03:00:00Z"
}""")
UPDATE: Json = orjson.loads("""{
  "document_id": "uuid-v4",
  "patch": {
    "content": {
      "mime_type": "text/markdown",
      "body": "# Introduction\\nĐã cập nhật nội dung."
    },
    "metadata": {
      "title": "Lộ trình Onboarding (v2)",
      "tags": ["onboarding", "ops", "v2"],
      "last_editor": "codex-bot"
    },
    "is_human_readable": false
  },
  "update_mask": ["content", "metadata", "is_human_readable"],
  "last_known_revision": 12
}""")
DELETE: Json = orjson.loads("""{
  "document_id": "uuid-v4",
  "reason": "retired",
  "deleted_by": "cursor-agent",
  "delete_at": "2025-09-16T04:00:00Z"
}""")
MOVE: Json = orjson.loads("""{
  "document_id": "uuid-v4",
  "new_parent_id": "collection-strategy",
  "position": {
    "ordering": 3,
    "before": "doc-legacy-002"
  }
}""")
QUERY: Json = orjson.loads("""{
  "query": "Các bước khởi tạo hạ tầng PF?",
  "filters": {
    "tags": ["pf", "phase-11"],
    "tenant_id": "tenant-asia-01"
  },
  "top_k": 8,
  "context_hints": {
    "preferred_format": "markdown",
    "language": "vi-VN"
  },
  "routing": {
    "allow_external_search": false,
    "max_latency_ms": 4000
  }
}""")
STEPS = "Bước 1: Active PF envelope. Bước 2: khởi tạo hạ tầng PF bằng lệnh apply."

Ask = Callable[[str, Json], Awaitable[tuple[bool, Json]]]
"""An action and its payload, to whether it was done and the result or the error."""
WIRES = ("actions", "actions 2.0", "jsonrpc", "mcp legacy", f"mcp {MODERN}")


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """The tenant of the printed examples, also where a wire has no envelope that could name it."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=tmp_path / "home", database_url=url, local=Local(tenant=TENANT))


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as hub:
        yield hub


def envelope(action: str, payload: Json, **more: Any) -> Json:
    return {"action": action, "request_id": str(uuid.uuid4()), "principal": PRINCIPAL, "payload": payload, **more}


@asynccontextmanager
async def asking(hub: Served, wire: str) -> AsyncGenerator[Ask, None]:
    kind, _, detail = wire.partition(" ")

    async def by_action(action: str, payload: Json) -> tuple[bool, Json]:
        sent = envelope(action, payload, **({"version": detail} if detail else {}))
        response = await hub.post("/actions", sent)
        answer: Json = response.json()
        assert (answer["action"], answer["request_id"]) == (action, sent["request_id"])
        assert (answer["status"] == "ok") == (response.status_code == 200)
        return ("result" in answer), answer.get("result") or answer["error"]

    async def by_rpc(action: str, payload: Json) -> tuple[bool, Json]:
        body = {"jsonrpc": "2.0", "id": 1, "method": f"documents-server/{action}", "params": payload}
        answer: Json = (await hub.post("/jsonrpc", body)).json()
        return ("result" in answer), answer.get("result") or answer["error"]["data"]

    if kind != "mcp":
        yield by_action if kind == "actions" else by_rpc
        return
    async with Client(f"{hub.url}/mcp?tools=all", mode=detail) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        async def by_tool(action: str, payload: Json) -> tuple[bool, Json]:
            result = await client.call_tool(action, payload)
            found: Any = result.structured_content
            jsonschema.validate(found, tools[action].output_schema or {})
            return not result.is_error, found["error"] if result.is_error else found

        yield by_tool


async def done(ask: Ask, action: str, payload: Json) -> Json:
    fine, answer = await ask(action, payload)
    assert fine, answer
    return answer


@pytest.mark.requirement(
    "000.envelope.actions", "000.envelope.version", "000.create.example", "000.create.created-at",
    "000.update.example", "000.update.conflict", "000.move.example", "000.delete.example", "000.delete.audit",
    "000.delete.flag",
    "000.query.example", "000.query.response", "000.query.nothing",
)  # fmt: skip
@pytest.mark.parametrize("wire", WIRES)
async def test_the_printed_examples(hub: Served, wire: str) -> None:
    async with asking(hub, wire) as ask:
        made = await done(ask, "create_document", CREATE)
        assert (made["document_id"], made["status"], made["revision"]) == ("uuid-v4", "created", 1)
        got = await done(ask, "get_document", {"document_id": "uuid-v4"})
        for key in ("document_id", "parent_id", "content", "metadata", "is_human_readable", "created_at"):
            assert got[key] == CREATE[key]

        fine, refused = await ask("update_document", UPDATE)
        assert not fine
        told = refused if wire == "jsonrpc" else refused["details"]
        assert wire == "jsonrpc" or refused["code"] == "CONFLICT"
        assert "12" in str(refused)
        assert wire == "jsonrpc" or (told["expected_revision"], told["actual_revision"]) == (12, 1)
        for number in range(2, 13):
            more = {"document_id": "uuid-v4", "patch": {"metadata": {"title": f"bản {number}"}}}
            assert (await done(ask, "update_document", more))["revision"] == number
        assert (await done(ask, "update_document", UPDATE))["revision"] == 13
        got = await done(ask, "get_document", {"document_id": "uuid-v4"})
        assert {key: got[key] for key in UPDATE["patch"]} == UPDATE["patch"]

        text = {"body": STEPS}
        await done(ask, "create_document", {"document_id": "collection-strategy", "content": text})
        for number in range(1, 4):
            below = {"document_id": f"doc-legacy-00{number}", "parent_id": "collection-strategy", "content": text}
            await done(ask, "create_document", below)
        moved = await done(ask, "move_document", MOVE)
        assert (moved["parent_id"], moved["ordering"]) == ("collection-strategy", 1)  # `before` wins over `ordering`
        listed = await done(ask, "list_documents", {"parent_id": "collection-strategy"})
        order = [one["document_id"] for one in listed["documents"]]
        assert order == ["doc-legacy-001", "uuid-v4", "doc-legacy-002", "doc-legacy-003"]

        nothing = await done(ask, "query_knowledge", QUERY)
        assert nothing["response"] == ""
        assert nothing["context"] == []
        tagged = {"document_id": "doc-pf-032", "content": text, "metadata": {"tags": ["pf", "phase-11", "x"]}}
        await done(ask, "create_document", tagged)
        found = await done(ask, "query_knowledge", QUERY)
        assert found.keys() == {"response", "context", "usage"}
        assert [one["document_id"] for one in found["context"]] == ["doc-pf-032"]
        assert {"document_id", "snippet", "score"} <= found["context"][0].keys()
        assert 0 < found["context"][0]["score"] <= 1
        assert "Bước 2" in found["response"]
        assert found["response"].endswith("[1]")
        assert found["usage"] == {"qdrant_hits": 1, "llm_tokens_prompt": 0, "llm_tokens_completion": 0}

        gone = await done(ask, "delete_document", DELETE)
        assert (gone["status"], gone["deleted"], gone["affected"]) == ("deleted", True, 1)
        fine, refused = await ask("get_document", {"document_id": "uuid-v4"})
        assert not fine
        kept = await done(ask, "get_document", {"document_id": "uuid-v4", "include_deleted": True})
        assert (kept["deleted"], kept["deleted_at"]) == (True, DELETE["delete_at"])
        [entry] = (await done(ask, "audit_log", {"document_id": "uuid-v4", "action": "delete_document"}))["entries"]
        assert (entry["reason"], entry["details"]["deleted_by"]) == ("retired", "cursor-agent")


# -- idempotency -------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.envelope.idempotent")
async def test_equal_requests_that_race_are_done_once(hub: Served) -> None:
    await hub.post("/actions", envelope("create_document", {**CREATE, "document_id": "parent"}))
    await hub.post("/actions", envelope("create_document", {**CREATE, "document_id": "sibling"}))
    revised = {**UPDATE, "last_known_revision": 1}
    edited = {"document_id": "uuid-v4", "old_text": "Đã cập nhật", "new_text": "Sẽ cập nhật"}
    requests = (
        envelope("create_document", CREATE),
        envelope("update_document", revised),
        envelope("edit_document", edited),
        envelope("move_document", {"document_id": "uuid-v4", "new_parent_id": "parent"}),
        envelope("delete_document", DELETE),
        envelope("restore_document", {"document_id": "uuid-v4"}),
        envelope("restore_revision", {"document_id": "uuid-v4", "revision": 1, "last_known_revision": 3}),
    )
    for request in requests:
        responses = await asyncio.gather(*(hub.post("/actions", request) for _ in range(24)))
        responses.append(await hub.post("/actions", request))
        assert {response.status_code for response in responses} == {200}, request["action"]
        assert len({response.content for response in responses}) == 1, request["action"]
    log = (await hub.post("/actions", envelope("audit_log", {"document_id": "uuid-v4"}))).json()["result"]["entries"]
    assert [one["action"] for one in log[::-1]] == [request["action"] for request in requests]
    assert [one["request_id"] for one in log[::-1]] == [request["request_id"] for request in requests]
    assert {one["actor"] for one in log} == {PRINCIPAL["sub"]}
    other = await hub.post("/actions", {**requests[0], "payload": {**CREATE, "document_id": "another"}})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "CONFLICT")


# -- who is calling (D7) -----------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.envelope.principal", "000.query.tenant")
async def test_the_credential_decides_whose_documents_these_are(settings: Settings) -> None:
    mine, theirs = [await new_key(settings, tenant) for tenant in (TENANT, "tenant-eu-02")]
    async with served(settings) as hub:
        made = await hub.act("create_document", CREATE, key=mine, principal={"tenant_id": TENANT})
        assert made.status_code == 200
        stated = await hub.act("get_document", {"document_id": "uuid-v4"}, key=theirs, principal=PRINCIPAL)
        assert (stated.status_code, stated.json()["error"]["code"]) == (403, "FORBIDDEN")
        foreign = await hub.act("query_knowledge", QUERY, key=theirs)
        assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "FORBIDDEN")
        assert "filters.tenant_id" in foreign.json()["error"]["message"]
        assert (await hub.act("query_knowledge", QUERY, key=mine)).status_code == 200
        unknown = await hub.act("get_document", {"document_id": "nothing"}, key=theirs)
        hidden = await hub.act("get_document", {"document_id": "uuid-v4"}, key=theirs)
        assert unknown.status_code == hidden.status_code == 404
        assert unknown.text.replace("nothing", "uuid-v4").partition("action")[2] == hidden.text.partition("action")[2]
        assert (await hub.act("get_document", {"document_id": "uuid-v4"})).status_code == 401


@pytest.mark.requirement("000.envelope.principal")
async def test_tenants_that_are_stated_on_this_machine_stay_apart(hub: Served) -> None:
    other = {**PRINCIPAL, "tenant_id": "tenant-eu-02"}
    for principal in (PRINCIPAL, other):
        made = await hub.post("/actions", {**envelope("create_document", CREATE), "principal": principal})
        assert made.status_code == 200  # the id is unique in its tenant
    again = await hub.post("/actions", envelope("create_document", CREATE))
    assert (again.status_code, again.json()["error"]["code"]) == (409, "CONFLICT")
    foreign = await hub.post("/actions", {**envelope("query_knowledge", QUERY), "principal": other})
    assert (foreign.status_code, foreign.json()["error"]["code"]) == (403, "FORBIDDEN")


@pytest.mark.requirement("000.envelope.principal")
async def test_a_key_opens_what_its_scopes_say(settings: Settings) -> None:
    key = await new_key(settings, TENANT, "docs:read")
    async with served(settings) as hub:
        refused = await hub.act("create_document", CREATE, key=key, principal={"roles": ["admin"]})
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")
        assert (await hub.act("list_documents", {}, key=key)).json()["result"] == {"documents": []}


# -- many at once ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.update.lock")
async def test_no_update_is_lost_over_http(hub: Served) -> None:
    await hub.act("create_document", {"document_id": "counter", "content": {"body": "0"}, "metadata": {"count": 0}})

    async def client() -> None:
        revision, count, done = 1, 0, 0
        while done < 3:
            patch = {"metadata": {"count": count + 1}}
            sent = {"document_id": "counter", "patch": patch, "last_known_revision": revision}
            answer = (await hub.act("update_document", sent)).json()
            if answer["status"] == "ok":
                revision, count, done = answer["result"]["revision"], count + 1, done + 1
                continue
            assert answer["error"]["code"] == "CONFLICT"
            told = answer["error"]["details"]
            revision, count = told["actual_revision"], told["metadata"]["count"]

    await asyncio.gather(*(client() for _ in range(8)))
    got = (await hub.act("get_document", {"document_id": "counter"})).json()["result"]
    assert (got["metadata"]["count"], got["revision"]) == (24, 25)
