"""Every write operation of the registry leaves one row in the audit trail when it changed something, and none otherwise.

Which operations there are is read from the registry: one that has no step here fails the test. Each step that changes
something is tried three times: first so that its transaction is rolled back at the very end, when its row is written
already; then for good; then once more with the same request id, as a caller does who did not get the answer.
"""

import base64
import importlib
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from kho.app import open_database, open_hub
from kho.audit import retention
from kho.kernel import audit
from kho.kernel.audit import AuditEntry
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.ports import Database
from kho.kernel.registry import Outcome
from kho.kernel.web import Page, WebRequest
from kho.lib.tenancy import in_tenant
from kho.settings import Settings

Json = dict[str, Any]
BOARD = "aa:bb:cc:dd:ee:ff"
REASON = "superseded"

SHOWN_ELSEWHERE = {
    "cancel_job": "tests.research.test_audit.test_a_cancelled_ingest_and_who_cancelled_it",
    "ingest_status": "tests.research.test_audit.test_a_cancelled_ingest_and_who_cancelled_it",
    "device_call": "tests.devices.test_audit.test_calls_that_a_device_heard_of",
    "retry_deliveries": "tests.documents.test_audit.test_one_row_for_what_changed_something",
    "approve_experience": "tests.experiences.test_review.test_once_approved_everybody_finds_it",
    "reject_experience": "tests.experiences.test_review.test_once_rejected_nobody_finds_it",
}
"""What needs a job that runs, a receiver that fails, a board that is connected or a record that waits: where it is shown
that it leaves a row."""
OF_SEVERAL_WRITES = {"ingest_documents", "import"}
"""What is more than one transaction: its row is written at the end of a job, or is one for each document."""


@dataclass
class World:
    """A hub, and what its operations answered."""

    hub: Hub
    db: Database
    folder: Path
    answers: dict[str, Json] = field(default_factory=dict[str, Json])
    requests: int = 0

    def operation(self, name: str) -> Operation:
        [found] = [one for one in self.operations if one.audited_as.partition("/")[2] == name]
        return found

    @property
    def operations(self) -> list[Operation]:
        return [one for capability in self.hub.registry.capabilities for one in capability.operations]

    async def call(self, name: str, arguments: Json, *, request: str, keep: Callable[[Any], bytes]) -> Outcome:
        call = Call(Principal("lan", "acme", frozenset({"*", "admin"})), "actions", request)
        call.receipt = self.hub.receipts.issue("acme", request, "digest", keep)
        return await self.hub.registry.call(self.operation(name), arguments, call)

    async def rows(self) -> list[AuditEntry]:
        """Without the further subjects of a row, the oldest first."""
        with in_tenant("acme"):
            entries = await self.db.read(lambda tx: audit.entries(tx, "acme", limit=1_000))
        return [one for one in entries if not one.place][::-1]

    async def code(self) -> str:
        """That of a board that asks to be let in."""
        pages = [page for one in self.hub.registry.capabilities for page in one.web if isinstance(page, Page)]
        [page] = [page for page in pages if page.path == "/xiaozhi/ota/"]
        headers = {"device-id": BOARD, "client-id": "c" * 16, "host": "localhost"}
        reply = await page.answer(WebRequest("POST", page.path, headers=headers, body=b"{}", peer="127.0.0.1"))
        return orjson.loads(reply.body)["activation"]["code"]


@pytest.fixture(params=["sqlite", "postgres"])
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "note.md").write_text("# Notes\n\nEvery kettle boils.\n")
    settings = Settings.model_validate(
        {
            "home": tmp_path / "home",
            "database_url": url,
            "search": {"embedder": {"provider": "none"}},
            "research": {"roots": [str(folder)]},
            "devices": {"approval": "code"},
            "local": {"tenant": "acme"},
        }
    )
    async with open_hub(settings) as hub:
        db, _ = open_database(settings)
        yield World(hub, db, folder)
        await db.aclose()


Arguments = Json | Callable[[World], Json]


@dataclass(frozen=True)
class Step:
    name: str
    arguments: Arguments
    changes: bool = True
    logged_as: str = ""
    """Another operation of the same slice, which is what was done."""
    prepare: Callable[[World], Awaitable[None]] | None = None


def unchanged(name: str, arguments: Arguments) -> Step:
    """A call that finds things as they are to be, or is refused: no row."""
    return Step(name, arguments, changes=False)


RECORD = {"title": "kettle", "problem_description": "It did not boil.", "solution": "Plug it in."}
FACT = {"text": "The kettle boils."}
CHAT = {"conversation_id": "c"}
SAID = {**CHAT, "role": "user", "content": "hello", "message_id": "m1"}
LINES = [
    {
        "type": "conversation",
        "conversation_id": "old",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
]
TEXT = {"content": "Every kettle boils water.", "source": "a", "collection": "papers", "title": "Kettles"}
UPLOAD = {"filename": "tea.md", "content": base64.b64encode(b"# Tea\n\nLeaves.").decode(), "collection": "papers"}
VERDICT = {"document_id": "Kettles", "verdict": "negative", "reason": REASON}
LINKED = {"project_name": "thesis", "collections": "papers"}
DOCUMENT = {"document_id": "d", "content": {"body": "one"}}
DELETION = {
    **{"kind": "deletion", "id": "shelf", "due_at": "2999-01-01T00:00:00Z", "reason": ""},
    **{"deleted_by": "An", "scheduled_by": "An"},
}
MOVED_BOARD = {
    **{"kind": "device", "id": "aa:bb:cc:dd:ee:ff", "client": ""},
    **{"first_seen": "2026-11-20T08:00:00Z", "last_seen": "2026-11-20T08:00:00Z"},
}
HOOK = {"url": "https://example.org/hook", "events": ["document.deleted"]}
BY = {"reason": REASON}


def record(world: World) -> Json:
    return {"id": world.answers["submit_experience"]["data"]["id"]}


def fact(world: World) -> Json:
    return {"id": world.answers["remember"]["id"]}


def webhook(world: World) -> Json:
    return {"webhook_id": world.answers["add_webhook"]["webhook_id"], **BY}


async def question(world: World) -> None:
    """Asks one, and waits until the history has it: it is written after the answer."""
    await world.call("query_knowledge_base", {"query": "kettle"}, request="", keep=orjson_of)
    queries: list[Json] = []
    while not queries:
        queries = (await world.call("query_history", {}, request="", keep=orjson_of)).value["queries"]


def collections(action: str, **more: Any) -> Json:
    return {"action": action, "collection_name": "papers", **more}


def made(world: World, by: str = "create_key") -> Json:
    return {"id": world.answers[by]["id"]}


STEPS = [
    Step("remember", FACT),
    unchanged("remember", FACT),
    unchanged("remember", {"text": " "}),
    Step("remember", {**FACT, "tags": ["kitchen"]}),
    Step("update_fact", lambda world: {**fact(world), "source": "seen"}),
    unchanged("update_fact", lambda world: {**fact(world), "source": "seen"}),
    unchanged("update_fact", lambda world: {**fact(world), "text": "stale", "expected_revision": 1}),
    Step("forget", lambda world: {**fact(world), **BY}),
    unchanged("forget", fact),
    Step("restore_fact", fact),
    unchanged("restore_fact", fact),
    Step("remember", lambda world: {"text": "The kettle is gone.", "replaces": fact(world)["id"]}),
    unchanged("forget", {"id": "no-such"}),
    Step("import_facts", {"lines": [{"id": "f1", "text": "Tea is at four."}]}),
    unchanged("import_facts", {"lines": [{"id": "f1", "text": "Tea is at four."}]}),
    Step("submit_experience", RECORD),
    unchanged("submit_experience", {"title": "kettle"}),
    Step("update_experience", lambda world: {**record(world), "expected_revision": 1, "root_cause": "no power"}),
    unchanged("update_experience", lambda world: {**record(world), "expected_revision": 1, "title": "stale"}),
    Step("rate_experience", lambda world: {**record(world), "helpful": True}),
    unchanged("rate_experience", {"id": "no-such", "helpful": True}),
    Step("delete_experience", lambda world: {**record(world), **BY}),
    unchanged("delete_experience", record),
    Step("restore_experience", record),
    unchanged("restore_experience", record),
    unchanged("approve_experience", {"id": "no-such"}),
    unchanged("reject_experience", {"id": "no-such", **BY}),
    Step("import_experiences", {"experiences": [{**RECORD, "id": "x1"}]}),
    unchanged("import_experiences", {"experiences": [{**RECORD, "id": "x1"}]}),
    Step("memory_get_or_create", CHAT),
    unchanged("memory_get_or_create", CHAT),
    Step("memory_add_message", SAID),
    unchanged("memory_add_message", SAID),
    Step("memory_set_summary", {**CHAT, "summary": "Hello."}),
    unchanged("memory_set_summary", {**CHAT, "summary": "Hello."}),
    Step("memory_clear", {**CHAT, **BY}),
    unchanged("memory_clear", CHAT),
    Step("memory_delete", {**CHAT, **BY}),
    unchanged("memory_delete", CHAT),
    Step("memory_import", {"lines": LINES}),
    unchanged("memory_import", {"lines": LINES}),
    Step("manage_collections", collections("create")),
    unchanged("manage_collections", collections("create")),
    Step("manage_projects", {"action": "create", "project_name": "thesis"}),
    Step("manage_projects", {"action": "link", **LINKED}),
    unchanged("manage_projects", {"action": "link", **LINKED}),
    Step("augment_knowledge", TEXT),
    unchanged("augment_knowledge", TEXT),
    Step("upload_document", UPLOAD),
    unchanged("upload_document", UPLOAD),
    Step("submit_feedback", VERDICT),
    unchanged("submit_feedback", VERDICT),
    Step("ingest_documents", lambda world: {"path": str(world.folder), "collection": "papers"}),
    unchanged("ingest_documents", lambda world: {"path": str(world.folder), "collection": "papers"}),
    unchanged("ingest_status", {}),
    unchanged("cancel_job", {"job_id": "none"}),
    Step("import_knowledge", {"lines": [{"kind": "collection", "id": "c1", "name": "imported"}]}),
    unchanged("import_knowledge", {"lines": [{"kind": "collection", "id": "c1", "name": "imported"}]}),
    Step("rebuild_index", {"collection": "papers"}),
    unchanged("rebuild_index", {"collection": "imported"}),
    Step("clear_history", BY, prepare=question),
    unchanged("clear_history", {}),
    Step("remove_kb_document", {"document": "Kettles", **BY}),
    unchanged("remove_kb_document", {"document": "Kettles"}),
    Step("manage_collections", collections("delete", confirm=True, **BY)),
    unchanged("manage_collections", collections("delete")),
    Step("create_document", DOCUMENT),
    unchanged("create_document", DOCUMENT),
    Step("create_document", {**DOCUMENT, "document_id": "shelf"}),
    Step("load_documents", {"lines": [DELETION]}),
    unchanged("load_documents", {"lines": [DELETION]}),
    Step("update_document", {"document_id": "d", "patch": {"metadata": {"a": 1}}}),
    unchanged("update_document", {"document_id": "d", "patch": {"metadata": {"a": 1}}}),
    Step("edit_document", {"document_id": "d", "old_text": "one", "new_text": "two"}),
    unchanged("edit_document", {"document_id": "d", "old_text": "one", "new_text": "two"}),
    Step("restore_revision", {"document_id": "d", "revision": 1}),
    unchanged("restore_revision", {"document_id": "d", "revision": 9}),
    Step("move_document", {"document_id": "d", "new_parent_id": "shelf"}),
    unchanged("move_document", {"document_id": "d", "new_parent_id": "d"}),
    Step("add_webhook", HOOK),
    unchanged("add_webhook", {**HOOK, "events": ["nonsense"]}),
    Step("remove_webhook", webhook),
    unchanged("remove_webhook", webhook),
    unchanged("retry_deliveries", {}),
    Step("delete_document", {"document_id": "d", "delete_at": "2999-01-01T00:00:00Z"}, logged_as="schedule_deletion"),
    Step("delete_document", {"document_id": "d", **BY}),
    unchanged("delete_document", {"document_id": "no-such"}),
    Step("restore_document", {"document_id": "d"}),
    unchanged("restore_document", {"document_id": "d"}),
    Step("delete_document", {"document_id": "d", **BY}),
    Step("purge_document", {"document_id": "d", **BY}),
    unchanged("purge_document", {"document_id": "d"}),
    Step("import", lambda world: {"directory": str(world.folder)}, logged_as="create_document"),
    unchanged("import", lambda world: {"directory": str(world.folder)}),
    Step("device_approve", lambda world: {"code": world.answers["code"]["code"]}),
    unchanged("device_approve", {"code": "000000"}),
    Step("device_label", {"device": BOARD, "label": "hall"}),
    unchanged("device_label", {"device": BOARD, "label": "hall"}),
    unchanged("device_call", {"device": BOARD, "tool": "self.light.set"}),
    Step("device_revoke", {"device": BOARD, **BY}),
    unchanged("device_revoke", {"device": BOARD}),
    Step("device_forget", {"device": BOARD, **BY}),
    unchanged("device_forget", {"device": BOARD}),
    Step("import_devices", {"lines": [MOVED_BOARD]}),
    unchanged("import_devices", {"lines": [MOVED_BOARD]}),
    unchanged("create_key", {"name": "bot"}),  # the first one has to be confirmed
    Step("create_key", {"name": "bot", "scopes": ["exp:read"], "confirm": True}),
    unchanged("create_key", {"scopes": ["nonsense"]}),
    unchanged("delete_key", made),  # the last one
    Step("rotate_key", made),
    unchanged("rotate_key", {"id": "no-such"}),
    Step("revoke_key", lambda world: {**made(world), **BY}),
    unchanged("revoke_key", made),
    Step("delete_key", lambda world: {**made(world), **BY}),
    Step("turn_off_keys", BY),
    unchanged("turn_off_keys", {}),
    Step("erase_audit", {"subject": "d", **BY}),
    unchanged("erase_audit", {"subject": "d"}),
    unchanged("erase_audit", {}),
    unchanged("purge", {"before": "2999-01-01"}),  # it has to be confirmed
    Step("purge", {"before": "2999-01-01", "wipe": False, "confirm": True, **BY}),
    unchanged("purge", {"subject": "nobody", "confirm": True}),
]


async def test_every_write_leaves_one_row_if_it_changed_something_and_none_otherwise(world: World) -> None:
    world.answers["code"] = {"code": await world.code()}
    rows = await world.rows()

    async def added() -> list[AuditEntry]:
        before = len(rows)
        rows[:] = await world.rows()
        return rows[before:]

    def refuse(result: Any) -> bytes:
        raise KhoError("The answer cannot be kept.")

    for number, step in enumerate(STEPS):
        if step.prepare is not None:
            await step.prepare(world)
        arguments = step.arguments(world) if callable(step.arguments) else step.arguments
        request, where = f"request-{number}", (step.name, arguments)
        if not step.changes:
            await world.call(step.name, arguments, request=request, keep=orjson_of)
            assert await added() == [], where
            continue
        if step.name not in OF_SEVERAL_WRITES:
            outcome = await world.call(step.name, arguments, request=request, keep=refuse)
            assert outcome.error is not None, where
            assert await added() == [], (where, "it was rolled back")
        outcome = await world.call(step.name, arguments, request=request, keep=orjson_of)
        assert outcome.error is None, (where, outcome.error)
        world.answers[step.name] = outcome.value
        capability, _, name = world.operation(step.name).audited_as.partition("/")
        # Its own may lose its text one day, so the places of an erasure are named in a row that has none.
        new = [
            one for one in await added() if (one.capability, one.operation) != (retention.CAPABILITY, retention.ERASE)
        ]
        assert len(new) == 1, (where, new)
        row = new[0]
        assert (row.capability, row.operation, row.actor) == (capability, step.logged_as or name, "lan"), where
        assert (row.outcome, row.reason) == ("done", arguments.get("reason", "")), where
        if step.name not in OF_SEVERAL_WRITES:
            assert row.request_id == request, where
            await world.call(step.name, arguments, request=request, keep=orjson_of)
            assert await added() == [], (where, "it was done already")


def orjson_of(result: Any) -> bytes:
    return orjson.dumps(str(result))


async def test_no_write_operation_is_forgotten(world: World) -> None:
    writes = {one.audited_as.partition("/")[2] for one in world.operations if one.effect != "read"}
    changing = {step.name for step in STEPS if step.changes}
    assert writes == changing | SHOWN_ELSEWHERE.keys()
    assert writes == {step.name for step in STEPS if not step.changes}
    for shown in SHOWN_ELSEWHERE.values():
        module, _, test = shown.rpartition(".")
        assert callable(getattr(importlib.import_module(module), test))


async def test_every_deletion_takes_a_reason(world: World) -> None:
    deletes = [one for one in world.operations if one.effect == "destructive"]
    assert deletes
    for operation in deletes:
        assert "reason" in operation.params.model_fields, operation.name
    named = re.compile("delete|remove|clear|forget|purge|revoke")
    undeclared = [one.name for one in world.operations if named.search(one.name) and one not in deletes]
    assert undeclared == []
