"""`audit_log` over the whole trail: what it filters by, how it is paged, and what each caller sees of it."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kho.app import open_hub
from kho.audit import markdown
from kho.kernel.audit import AuditLogEntry, AuditLogPage
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.lib.clock import iso
from kho.settings import Settings

Json = dict[str, Any]
RECORD = {"title": "kettle", "problem_description": "It did not boil.", "solution": "Plug it in."}
HOOK = {"url": "http://127.0.0.1:9/hook?token=secret", "events": ["document.deleted"]}


@dataclass
class Office:
    hub: Hub
    record: str = ""

    async def ask(self, name: str, arguments: Json, *scopes: str, sub: str = "lan", tenant: str = "acme") -> Any:
        registry, kind = self.hub.registry, "anonymous" if sub == "anonymous" else "key"
        operation = registry.method(name) if "/" in name else registry.action(name)
        assert operation is not None
        principal = Principal(sub, tenant, frozenset(scopes or {"*", "admin"}), kind)
        return await registry.call(operation, arguments, Call(principal, "actions"))

    async def done(self, name: str, arguments: Json, *scopes: str, **who: str) -> Json:
        outcome = await self.ask(name, arguments, *scopes, **who)
        assert outcome.error is None, outcome.error
        return outcome.value

    async def refused(self, name: str, arguments: Json, *scopes: str, **who: str) -> KhoError:
        outcome = await self.ask(name, arguments, *scopes, **who)
        assert outcome.error is not None
        return outcome.error

    async def log(self, *scopes: str, tenant: str = "acme", **filters: Any) -> list[str]:
        """The actions, the oldest first."""
        answer = await self.done("audit_log", filters, *scopes, tenant=tenant)
        return [one["action"] for one in answer["entries"]][::-1]


EVERYTHING = [
    "submit_experience", "create_document", "memory_get_or_create", "delete_document", "add_webhook", "memory_delete",
]  # fmt: skip


@pytest.fixture(params=["sqlite", "postgres"])
async def office(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Office]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    settings = Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "search": {"embedder": {"provider": "none"}}}
    )
    async with open_hub(settings) as hub:
        office = Office(hub)
        office.record = (await office.done("submit_experience", RECORD))["data"]["id"]
        await office.done("create_document", {"document_id": "d", "content": {"body": "Some words."}}, sub="minh")
        await office.done("memory_get_or_create", {"conversation_id": "c"})
        await office.done("delete_document", {"document_id": "d", "reason": "retired"}, sub="minh")
        await office.done("add_webhook", HOOK)
        await office.done("memory_delete", {"conversation_id": "c"}, sub="minh")
        yield office


async def test_all_slices_are_in_it_and_every_filter_narrows_it(office: Office) -> None:
    assert await office.log() == EVERYTHING
    assert await office.log(slice="documents") == ["create_document", "delete_document", "add_webhook"]
    assert await office.log(subject="c") == ["memory_get_or_create", "memory_delete"]
    assert await office.log(subject=office.record) == ["submit_experience"]
    assert await office.log(document_id="d") == ["create_document", "delete_document"]
    assert await office.log(actor="minh") == ["create_document", "delete_document", "memory_delete"]
    assert await office.log(actor="minh", slice="memory") == ["memory_delete"]
    assert await office.log(action="add_webhook") == ["add_webhook"]
    assert await office.log(action="no_such_operation") == []
    assert await office.log(outcome="done") == EVERYTHING
    assert await office.log(outcome="refused") == []


async def test_a_span_of_time_holds_its_beginning_and_not_its_end(office: Office) -> None:
    entries = (await office.done("audit_log", {}))["entries"][::-1]
    for first in range(len(entries)):
        assert await office.log(since=entries[first]["at"]) == EVERYTHING[first:]
        assert await office.log(until=entries[first]["at"]) == EVERYTHING[:first]
    assert await office.log(since=iso(2**52)) == []


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_pages_join_to_the_whole(office: Office, limit: int) -> None:
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await office.done("audit_log", {"limit": limit, "cursor": cursor})
        assert len(page["entries"]) <= limit
        found += [one["action"] for one in page["entries"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert found[::-1] == EVERYTHING


async def test_an_entry_says_who_did_what_to_what_and_why(office: Office) -> None:
    [entry] = (await office.done("audit_log", {"action": "delete_document"}))["entries"]
    assert {name: entry[name] for name in ("slice", "subject", "document_id", "actor", "reason", "outcome")} == {
        "slice": "documents", "subject": "d", "document_id": "d", "actor": "minh", "reason": "retired",
        "outcome": "done",
    }  # fmt: skip
    assert (entry["before_revision"], entry["after_revision"], entry["details"]["deleted_by"]) == (1, 1, "minh")


async def test_documents_show_their_part_of_it_at_their_own_address(office: Office) -> None:
    whole = (await office.done("audit_log", {"slice": "documents", "subject": "d"}))["entries"]
    assert (await office.done("documents-server/audit_log", {}, "docs:read"))["entries"] == whole
    assert (await office.done("documents-server/audit_log", {"document_id": "d"}, "docs:read"))["entries"] == whole
    assert (await office.done("audit_log", {"document_id": "d"}, "docs:read"))["entries"] == whole


async def test_a_caller_sees_the_slices_whose_read_scope_it_has(office: Office) -> None:
    assert await office.log("*") == EVERYTHING
    assert await office.log("admin") == EVERYTHING
    assert await office.log("memory:read") == ["memory_get_or_create", "memory_delete"]
    assert await office.log("exp:read", "docs:read") == [
        "submit_experience", "create_document", "delete_document", "add_webhook",
    ]  # fmt: skip
    assert await office.log("devices:read") == []
    assert await office.log("*", tenant="another") == []
    refusal = await office.refused("audit_log", {"slice": "memory"}, "docs:read")
    assert (refusal.code, "memory:read" in refusal.message) == ("FORBIDDEN", True)
    assert (await office.refused("audit_log", {"document_id": "d"}, "memory:read")).code == "FORBIDDEN"
    assert (await office.refused("audit_log", {}, "memory:write")).code == "FORBIDDEN"
    refusal = await office.refused("audit_log", {}, "exp:read", sub="anonymous")
    assert refusal.code == "FORBIDDEN"


async def test_details_of_what_only_admins_may_do_are_for_admins(office: Office) -> None:
    [entry] = (await office.done("audit_log", {"action": "add_webhook"}))["entries"]
    assert entry["details"]["url"] == HOOK["url"]
    [entry] = (await office.done("audit_log", {"action": "add_webhook"}, "*"))["entries"]
    assert entry["details"] == {}
    [entry] = (await office.done("audit_log", {"action": "delete_document"}, "*"))["entries"]
    assert entry["details"]


@pytest.mark.parametrize(
    ("filters", "named"),
    [
        ({"slice": "nonsense"}, "documents"),
        ({"since": "never"}, "2025-09-16T03:00:00Z"),
        ({"limit": 0}, "limit"),
        ({"outcome": "maybe"}, "outcome"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"actro": "lan"}, "actro"),
    ],
)
async def test_what_cannot_be_meant_is_refused(office: Office, filters: Json, named: str) -> None:
    refusal = await office.refused("audit_log", filters)
    assert refusal.status == 400
    assert named in f"{refusal.message} {refusal.details}"


def test_what_people_read_is_a_table_in_which_nothing_stored_can_look_like_ours() -> None:
    entry = AuditLogEntry(
        at="2026-07-28T09:00:00Z", slice="memory", action="memory_clear", actor="a|b", subject="c`d", reason="# big",
        outcome="refused", request_id="", details={},
    )  # fmt: skip
    table = markdown.log(AuditLogPage(entries=[entry], next_cursor="c"))
    assert table.splitlines()[2].startswith(
        "| 2026-07-28 09:00 UTC | a\\|b | memory | `memory_clear` refused | ``c`d``"
    )
    assert "\\# big" in table
    assert "cursor" in table.splitlines()[-1]
    assert markdown.log(AuditLogPage(entries=[])) == "There are no such entries."
