"""The audit trail of documents: one row for each call that changed something, with every document that it changed."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.documents.document_harness import Desk, Json

from kho.documents.capability import MIGRATIONS
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Database, Tx
from kho.kernel.registry import Outcome
from kho.storage.migrate import OWN, migrate

WRITES = [
    "create_document", "update_document", "delete_document", "move_document", "edit_document", "restore_document",
    "restore_revision", "add_webhook", "remove_webhook", "retry_deliveries", "purge_document", "import",
    "load_documents",
]  # fmt: skip
"""Every operation that is not a read. An import is as many changes as documents that it changes, and
`load_documents` is in tests/audit/test_every_write.py."""
ID = "4b3a1c9e-9f0a-4d6e-8a55-0f6f2f6f7a10"


async def rows(desk: Desk) -> list[tuple[str, str, str, list[str]]]:
    """Operation, subject and reason of every row, with its further subjects; the oldest first."""

    def work(tx: Tx) -> list[tuple[str, str, str, list[str]]]:
        found = tx.all("SELECT number, operation, subject, reason FROM audit WHERE tenant = $1 ORDER BY 1", desk.tenant)
        further = "SELECT subject FROM audit_subjects WHERE tenant = $1 AND number = $2 ORDER BY 1"
        return [(*rest, [one for (one,) in tx.all(further, desk.tenant, number)]) for number, *rest in found]

    return await desk.db.read(work)


async def ask(desk: Desk, operation: str, arguments: Json) -> Outcome:
    found = next(one for one in desk.capability.operations if one.name == f"documents.{operation}")
    return await desk.registry.call(found, arguments, desk.call())


async def test_the_list_is_complete(desk: Desk) -> None:
    assert sorted(WRITES) == sorted(
        one.name.removeprefix("documents.") for one in desk.capability.operations if one.effect != "read"
    )


async def prepared(desk: Desk, operation: str) -> tuple[Json, str, list[str]]:
    """What changes something: arguments, the subject that the row then names, and the further ones."""
    body = {"content": {"body": "one"}}
    await desk.create("top", body="one")
    await desk.create("below", "top")
    await desk.create("other")
    if operation in ("restore_document", "purge_document"):
        await desk.delete("top")
    if operation == "restore_revision":
        await desk.update("top", content={"body": "two"})
    hook = ""
    if operation.endswith(("webhook", "deliveries")):
        hook = (await desk.done("add_webhook", url="https://example.org/hook"))["webhook_id"]
    if operation == "retry_deliveries":
        await desk.update("top", content={"body": "two"})
        await desk.db.write(lambda tx: tx.run("UPDATE document_deliveries SET dead = 1"))
    cases: dict[str, tuple[Json, str, list[str]]] = {
        "create_document": ({"document_id": "new", **body}, "new", []),
        "update_document": ({"document_id": "top", "patch": {"metadata": {"a": 1}}}, "top", []),
        "delete_document": ({"document_id": "top", "reason": "why"}, "top", ["below"]),
        "move_document": ({"document_id": "below", "new_parent_id": "other"}, "below", []),
        "edit_document": ({"document_id": "top", "old_text": "one", "new_text": "two"}, "top", []),
        "restore_document": ({"document_id": "top", "reason": "why"}, "top", ["below"]),
        "restore_revision": ({"document_id": "top", "revision": 1}, "top", []),
        "add_webhook": ({"url": "https://example.org/other"}, "", []),
        "remove_webhook": ({"webhook_id": hook}, hook, []),
        "retry_deliveries": ({}, "webhooks", []),
        "purge_document": ({"document_id": "top", "reason": "why"}, "top", ["below"]),
    }
    return cases[operation]


@pytest.mark.parametrize("operation", [one for one in WRITES if one not in ("import", "load_documents")])
async def test_one_row_for_what_changed_something(desk: Desk, operation: str) -> None:
    desk = desk.neighbour(scopes=frozenset({"*", "admin"}))
    arguments, subject, further = await prepared(desk, operation)
    before = await rows(desk)
    done = await ask(desk, operation, arguments)
    assert done.error is None
    [*earlier, row] = await rows(desk)
    assert earlier == before
    assert row == (operation, subject or done.value["webhook_id"], arguments.get("reason", ""), further)


REFUSED: list[tuple[str, Json]] = [
    ("create_document", {"document_id": "top", "content": {"body": "x"}}),
    ("create_document", {"document_id": "x", "parent_id": "nowhere", "content": {"body": "x"}}),
    ("update_document", {"document_id": "top", "patch": {"metadata": {}}, "last_known_revision": 7}),
    ("delete_document", {"document_id": "nowhere"}),
    ("move_document", {"document_id": "top", "new_parent_id": "below"}),
    ("edit_document", {"document_id": "top", "old_text": "zzz", "new_text": "x"}),
    ("restore_document", {"document_id": "top"}),
    ("restore_revision", {"document_id": "top", "revision": 9}),
    ("remove_webhook", {"webhook_id": ID}),
    ("retry_deliveries", {"webhook_id": ID}),
    ("purge_document", {"document_id": "top"}),
]
UNCHANGED: list[tuple[str, Json]] = [
    ("update_document", {"document_id": "top", "patch": {"content": {"body": "one"}}}),
    ("edit_document", {"document_id": "top", "old_text": "one", "new_text": "one"}),
    ("restore_revision", {"document_id": "top", "revision": 1}),
    ("retry_deliveries", {}),
]


@pytest.mark.parametrize(("operation", "arguments", "refused"), [
    *((*one, True) for one in REFUSED), *((*one, False) for one in UNCHANGED),
])  # fmt: skip
async def test_no_row_for_what_changed_nothing(desk: Desk, operation: str, arguments: Json, refused: bool) -> None:
    desk = desk.neighbour(scopes=frozenset({"*", "admin"}))
    await desk.create("top", body="one")
    await desk.create("below", "top")
    before = await rows(desk)
    done = await ask(desk, operation, arguments)
    assert (done.error is not None) is refused
    assert await rows(desk) == before


class Refusing:
    """A receipt that cannot be kept: the write that it belongs to is rolled back."""

    def claim(self, tx: Tx) -> None:
        return None

    def keep(self, tx: Tx, result: Any) -> None:
        raise DatabaseError("The disk is full.")


async def test_no_row_for_what_was_rolled_back(desk: Desk) -> None:
    await desk.create("top", body="one")
    before = await rows(desk)
    operation = desk.registry.action("delete_document")
    assert operation is not None
    done = await desk.registry.call(operation, {"document_id": "top"}, desk.call(receipt=Refusing()))
    assert done.error is not None
    assert await rows(desk) == before


async def test_an_import_is_a_row_for_each_document_that_it_changes(desk: Desk, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# A")
    (tmp_path / "b.md").write_text("# B")
    for _ in range(2):
        assert (await ask(desk, "import", {"directory": str(tmp_path)})).error is None
        assert [row[:2] for row in await rows(desk)] == [("create_document", "a"), ("create_document", "b")]


async def test_pages_cut_a_row_with_many_documents(desk: Desk) -> None:
    await desk.create("top")
    for number in range(5):
        await desk.create(f"below-{number}", "top")
    await desk.delete("top")
    whole = await desk.audited()
    assert [one["document_id"] for one in whole[-6:]] == ["top", *(f"below-{number}" for number in range(5))]
    assert {one["details"]["deleted_with"] for one in whole[-6:]} == {"top"}
    for limit in (1, 2, 4, 7):
        assert (await desk.pages("audit_log", "entries", limit=limit))[::-1] == whole
    assert [one["action"] for one in await desk.audited(document_id="below-3")] == [
        "create_document",
        "delete_document",
    ]


OLD = """
INSERT INTO document_audit
(tenant, document, action, actor, reason, before_revision, after_revision, request_id, details, at) VALUES
('t', 'a', 'create_document', 'mai', '', NULL, 1, 'r1', '{}', 10),
('t', 'a', 'delete_document', 'an', 'old "one"', 1, 1, 'r2', '{"deleted_by":"an","deleted_with":"a"}', 20),
('u', 'x', 'purge_document', 'boss', 'asked', 3, NULL, 'r3', '{"purged_with":"x"}', 15);
INSERT INTO document_deletions (tenant, id, due_at, reason, deleted_by) VALUES ('t', 'b', 99, 'expires', 'an');
"""


async def test_the_log_of_documents_moves_into_the_one_trail(db: Database, tmp_path: Path) -> None:
    """From a store as it was before: order and times are kept, and nothing is lost."""
    for file in MIGRATIONS.iterdir():
        if file.name < "005":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    await migrate(db, [OWN, ("documents", tmp_path)])
    await db.write(lambda tx: tx.script(OLD))
    await migrate(db, [OWN, ("documents", MIGRATIONS)])
    columns = "tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details"
    found = await db.read(lambda tx: tx.all(f"SELECT {columns} FROM audit ORDER BY number"))
    assert [(*rest, orjson.loads(details)) for *rest, details in found] == [
        ("t", 10, "documents", "create_document", "a", "mai", "", "done", "r1",
         {"before_revision": None, "after_revision": 1}),
        ("t", 20, "documents", "delete_document", "a", "an", 'old "one"', "done", "r2",
         {"before_revision": 1, "after_revision": 1, "deleted_by": "an", "deleted_with": "a"}),
        ("u", 15, "documents", "purge_document", "x", "boss", "asked", "done", "r3",
         {"before_revision": 3, "after_revision": None, "purged_with": "x"}),
    ]  # fmt: skip
    assert await db.read(lambda tx: tx.all("SELECT id, scheduled_by FROM document_deletions")) == [("b", "an")]
