"""The audit trail of research: each call that changed something leaves one row, and no other call leaves any."""

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.research.factories import Desk, settings
from tests.research.ingest_folder import Gated, IngestFolder, Plain

from kho.kernel.call import Call
from kho.kernel.capability import Capability
from kho.kernel.errors import KhoError
from kho.kernel.ports import Tx
from kho.kernel.registry import Registry
from kho.research import capability
from kho.research.library.added_text import Augment

Rows = list[tuple[str, str, str, str, dict[str, Any]]]


class Room:
    """All operations by their names, as callers know them, on one desk."""

    def __init__(self, desk: Desk, shelf: IngestFolder) -> None:
        self.desk, self.shelf = desk, shelf
        augment = Augment(db=desk.db, store=desk.store, reader=Plain(), clock=desk.clock, settings=settings())
        services = (
            desk.collections,
            desk.projects,
            shelf.service,
            augment,
            desk.feedback,
            desk.history,
            shelf.reports,
            desk.documents,
            desk.transfer,
        )
        offered: Capability = capability.described(*services)
        self.registry = Registry([offered], shelf.background)
        self.writes = {operation.rpc for operation in offered.operations if operation.effect != "read"}

    async def ask(self, tool: str, call: Call | None = None, **arguments: Any) -> Any:
        operation = self.registry.methods[f"research-server/{tool}"]
        outcome = await self.registry.call(operation, arguments, call or self.desk.call())
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    async def rows(self) -> Rows:
        """Capability and operation, subject, actor, reason and details, in their order."""

        def work(tx: Tx) -> Rows:
            rows = tx.all(
                "SELECT operation, subject, actor, reason, details FROM audit "
                "WHERE tenant = $1 AND capability = 'research' ORDER BY number",
                self.desk.tenant,
            )
            return [(*row[:4], orjson.loads(row[4])) for row in rows]

        return await self.desk.db.read(work)


@pytest.fixture
async def room(desk: Desk, tmp_path: Path) -> Room:
    shelf = IngestFolder(desk, tmp_path / "notes")
    shelf.folder.mkdir()
    return Room(desk, shelf)


Step = tuple[str, dict[str, Any], int]


def steps(room: Room) -> list[Step]:
    """Calls in their order, and how many rows each leaves."""
    text = {"content": "Every kettle boils water.", "source": "a", "collection": "papers", "title": "Kettles"}
    upload = {"filename": "tea.md", "content": base64.b64encode(b"# Tea\n\nLeaves.").decode(), "collection": "papers"}
    folder = {"path": str(room.shelf.folder), "collection": "papers"}
    line = {"kind": "collection", "id": "c1", "name": "imported"}
    verdict = {"document_id": "Kettles", "verdict": "negative", "reason": "too short"}
    on_project = {"project_name": "thesis", "collections": "papers"}
    return [
        ("manage_collections", {"action": "create", "collection_name": "papers"}, 1),
        ("manage_collections", {"action": "create", "collection_name": "inbox"}, 1),
        ("manage_collections", {"action": "list"}, 0),
        ("manage_projects", {"action": "create", "project_name": "thesis"}, 1),
        ("manage_projects", {"action": "link", **on_project}, 1),
        ("manage_projects", {"action": "link", **on_project}, 0),
        ("manage_projects", {"action": "set-defaults", **on_project}, 1),
        ("manage_projects", {"action": "set-defaults", **on_project}, 0),
        ("manage_projects", {"action": "archive", "project_name": "thesis"}, 1),
        ("manage_projects", {"action": "archive", "project_name": "thesis"}, 0),
        ("manage_projects", {"action": "unarchive", "project_name": "thesis"}, 1),
        ("manage_projects", {"action": "unlink", **on_project}, 1),
        ("augment_knowledge", text, 1),
        ("augment_knowledge", text, 0),
        ("upload_document", upload, 1),
        ("upload_document", upload, 0),
        ("submit_feedback", verdict, 1),
        ("submit_feedback", verdict, 0),
        ("ingest_documents", folder, 1),
        ("ingest_documents", folder, 0),
        ("ingest_status", {}, 0),
        ("import_knowledge", {"lines": [line]}, 1),
        ("import_knowledge", {"lines": [line]}, 0),
        ("rebuild_index", {}, 1),
        ("rebuild_index", {"collection": "inbox"}, 0),
        ("clear_history", {}, 1),
        ("clear_history", {}, 0),
        (
            "manage_collections",
            {
                "action": "move-documents",
                "collection_name": "papers",
                "documents": ["Kettles"],
                "target_collection": "inbox",
            },
            1,
        ),
        ("remove_kb_document", {"document": "Kettles"}, 1),
        ("manage_collections", {"action": "rename", "collection_name": "inbox", "new_name": "new"}, 1),
        ("manage_collections", {"action": "rename", "collection_name": "new", "new_name": "new"}, 0),
        ("manage_collections", {"action": "delete", "collection_name": "papers", "confirm": True}, 1),
    ]


async def test_each_write_leaves_one_row_if_it_changed_something(room: Room) -> None:
    room.shelf.write("a.md", "# Notes\n\nRead them.")
    await room.desk.history.record(room.desk.tenant, "somebody", "what boils?", [], 1, 0.5, 1_000)
    asked = steps(room)
    for tool, arguments, expected in asked:
        before = await room.rows()
        await room.ask(tool, **arguments)
        left = (await room.rows())[len(before) :]
        assert [row[0] for row in left] == [tool] * expected, (tool, arguments)
        assert all(row[2] == "somebody" for row in left)
    assert room.writes - {tool for tool, _, _ in asked} == {"cancel_job"}
    kept = {row[0]: row for row in await room.rows()}
    assert kept["submit_feedback"][3] == "too short"
    ingested = kept["ingest_documents"][4]
    assert (ingested["added"], ingested["changed"], ingested["removed"], ingested["state"]) == (1, 0, 0, "done")
    assert kept["manage_collections"][4]["documents"] == 2


async def test_what_is_refused_leaves_no_row(room: Room) -> None:
    await room.ask("manage_collections", action="create", collection_name="papers")
    await room.desk.add("papers")
    before = await room.rows()
    refused: list[Callable[[], Awaitable[Any]]] = [
        lambda: room.ask("manage_collections", action="create", collection_name="papers"),
        lambda: room.ask("manage_collections", action="delete", collection_name="papers"),
        lambda: room.ask("manage_projects", action="link", project_name="none", collections="papers"),
        lambda: room.ask("remove_kb_document", document="none"),
        lambda: room.ask("cancel_job", job_id="none"),
    ]
    for ask in refused:
        with pytest.raises(KhoError):
            await ask()
    assert await room.rows() == before


async def test_what_is_rolled_back_leaves_no_row(room: Room) -> None:
    class Refuses:
        """The receipt of an idempotent call that cannot be kept."""

        def claim(self, tx: Tx) -> None:
            return None

        def keep(self, tx: Tx, result: Any) -> None:
            raise KhoError("The receipt cannot be kept.")

    with pytest.raises(KhoError):
        await room.ask(
            "manage_collections", room.desk.call(receipt=Refuses()), action="create", collection_name="papers"
        )
    assert await room.rows() == []
    assert await room.desk.count("research_collections") == 0


async def test_a_cancelled_ingest_and_who_cancelled_it(desk: Desk, tmp_path: Path) -> None:
    reader = Gated(free=40)
    room = Room(desk, IngestFolder(desk, tmp_path / "notes", reader=reader))
    room.shelf.many(70)
    await desk.collection("create", "papers")
    begun = await room.shelf.answer(wait=0)
    await reader.reached.wait()
    await room.shelf.until(begun.job.job_id, lambda row: row.counts.done > 0)
    for _ in range(2):  # the second time it is over already
        await room.ask("cancel_job", desk.call("another"), job_id=begun.job.job_id)
    reader.gate.set()
    await room.shelf.background.drain()
    found = [row for row in await room.rows() if row[0] in ("ingest_documents", "cancel_job")]
    assert [(row[0], row[1], row[2]) for row in found] == [
        ("ingest_documents", begun.job.job_id, "somebody"),
        ("cancel_job", begun.job.job_id, "another"),
    ]
    assert (found[0][4]["added"], found[0][4]["state"]) == (32, "cancelled")


async def test_a_rebuild_keeps_its_receipt_with_its_row(room: Room) -> None:
    """So that whoever sends it again with the same key gets the same answer, and nothing is done twice."""
    kept: list[Any] = []

    class Keeps:
        def claim(self, tx: Tx) -> None:
            return None

        def keep(self, tx: Tx, result: Any) -> None:
            kept.append(result)

    await room.desk.collection("create", "papers")
    await room.desk.add("papers")
    answer = await room.ask("rebuild_index", room.desk.call(receipt=Keeps()))
    assert kept == [answer]
    assert [row[0] for row in await room.rows() if row[0] == "rebuild_index"] == ["rebuild_index"]
