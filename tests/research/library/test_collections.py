"""Collections: names, refusals that say what to do, renaming, moving, deleting, and who sees what."""

import asyncio
import unicodedata
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError
from tests.research.factories import Desk, told

from kho.kernel.errors import KhoError
from kho.lib.chunking.chunker import chunks
from kho.research.errors import (
    CollectionExists,
    CollectionNotEmpty,
    DocumentChanged,
    DocumentExists,
    DocumentNotFound,
    InvalidCollectionRequest,
    UnknownCollection,
    UnknownProject,
)
from kho.research.ingest import indexing
from kho.research.library.document_store import get_many


async def names(desk: Desk, **more: Any) -> list[str]:
    return [one.name for one in (await desk.collection("list", **more)).collections or []]


async def test_a_new_collection_is_fundamental_and_empty(desk: Desk) -> None:
    made = await desk.collection("create", "papers", description="What we read")
    assert made.status == "success"
    assert made.collection is not None
    assert (made.collection.type, made.collection.documents, made.collection.description) == (
        "fundamental",
        0,
        "What we read",
    )
    assert 'ingest_documents(path="…", collection="papers")' in made.message
    assert await names(desk) == ["papers"]


async def test_the_type_and_a_project_may_be_given(desk: Desk) -> None:
    await desk.project("create", "Luận văn")
    made = await desk.collection("create", "notes", collection_type="project-specific", project_name="luận văn")
    assert made.collection is not None
    assert (made.collection.type, made.collection.projects) == ("project-specific", ["Luận văn"])
    assert (await desk.project("info", "Luận văn")).project.collections == ["notes"]  # type: ignore[union-attr]


async def test_a_collection_for_an_unknown_project_is_not_made(desk: Desk) -> None:
    with pytest.raises(UnknownProject):
        await desk.collection("create", "notes", project_name="nobody's")
    assert await names(desk) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Papers", "papers"),
        ("papers", "  PAPERS "),
        (unicodedata.normalize("NFC", "Tài liệu"), unicodedata.normalize("NFD", "tài liệu")),
        ("Straße", "STRASSE"),
        ("研究", "研究"),
        ("a b", "a \u00a0 b"),
    ],
)
async def test_the_same_name_is_refused_however_it_is_written(desk: Desk, first: str, second: str) -> None:
    await desk.collection("create", first)
    with pytest.raises(CollectionExists) as refused:
        await desk.collection("create", second)
    assert refused.value.contract_code == -32002
    assert refused.value.status == 409
    assert 'action="info"' in told(refused.value)
    assert await names(desk) == [first]
    assert (await desk.collection("info", second)).collection is not None


@pytest.mark.parametrize("name", ["Tài liệu nghiên cứu", "研究资料", "Œuvres ☂", "a/b:c", "[draft]", "x" * 128])
async def test_names_are_kept_as_they_are_written(desk: Desk, name: str) -> None:
    await desk.collection("create", name)
    assert await names(desk) == [name]


@pytest.mark.parametrize("name", ["", "   ", "a,b", "a\nb", "a\x07", "x" * 129, "abc\u202etxt", 5, ["a"]])
async def test_other_names_are_refused(desk: Desk, name: object) -> None:
    with pytest.raises(ValidationError, match="collection_name"):
        await desk.collection("create", name)  # type: ignore[arg-type]


@pytest.mark.parametrize("action", ["create", "delete", "info", "rename", "move-documents"])
async def test_a_missing_name_is_named(desk: Desk, action: str) -> None:
    with pytest.raises(InvalidCollectionRequest, match="'collection_name' is required") as refused:
        await desk.collection(action)
    assert refused.value.contract_code == -32002


async def test_what_else_an_action_needs_is_named(desk: Desk) -> None:
    await desk.collection("create", "a")
    with pytest.raises(InvalidCollectionRequest, match="'new_name' is required"):
        await desk.collection("rename", "a")
    with pytest.raises(InvalidCollectionRequest, match="'target_collection' is required"):
        await desk.collection("move-documents", "a", documents=["x"])
    with pytest.raises(InvalidCollectionRequest, match="'documents' is required"):
        await desk.collection("move-documents", "a", target_collection="b")


async def test_of_creates_at_the_same_moment_one_wins(desk: Desk) -> None:
    spelt = ["Race", "race", "RACE", "rAce"]
    outcomes = await asyncio.gather(*(desk.collection("create", name) for name in spelt), return_exceptions=True)
    assert sum(not isinstance(one, BaseException) for one in outcomes) == 1
    assert all(isinstance(one, CollectionExists) for one in outcomes if isinstance(one, BaseException))
    assert len(await names(desk)) == 1


async def test_of_renames_to_the_same_name_one_wins(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        await desk.collection("create", name)
    outcomes = await asyncio.gather(
        *(desk.collection("rename", name, new_name="wanted") for name in ("a", "b", "c")), return_exceptions=True
    )
    assert sum(isinstance(one, CollectionExists) for one in outcomes) == 2
    assert "wanted" in await names(desk)


async def test_an_unknown_name_brings_near_ones(desk: Desk) -> None:
    with pytest.raises(UnknownCollection) as none:
        await desk.collection("info", "papers")
    assert "There are no collections yet" in told(none.value)
    await desk.collection("create", "Papers 2026")
    await desk.collection("create", "Tài liệu")
    for typed, meant in (("papres 2026", "Papers 2026"), ("papers", "Papers 2026"), ("tai liêu", "Tài liệu")):
        with pytest.raises(UnknownCollection) as refused:
            await desk.collection("info", typed)
        assert (refused.value.code, refused.value.status) == ("COLLECTION_NOT_FOUND", 404)
        assert f"Did you mean '{meant}'" in told(refused.value)
    with pytest.raises(UnknownCollection) as strange:
        await desk.collection("info", "zzzz")
    assert "Did you mean" not in told(strange.value)
    assert 'action="list"' in told(strange.value)


async def test_a_neighbour_sees_nothing_and_may_use_the_same_names(desk: Desk) -> None:
    neighbour = desk.neighbour()
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "a secret of ours")
    assert await names(neighbour) == []
    with pytest.raises(UnknownCollection) as foreign:
        await neighbour.collection("info", "papers")
    with pytest.raises(UnknownCollection) as unknown:
        await neighbour.neighbour().collection("info", "papers")
    assert told(foreign.value) == told(unknown.value)
    await neighbour.collection("create", "papers")
    assert await neighbour.found("secret") == []
    await neighbour.collection("delete", "papers")
    assert await desk.found("secret") == [doc.id]


async def test_the_list_comes_in_pages_with_counts(desk: Desk) -> None:
    for number in range(7):
        await desk.collection("create", f"c{number}")
    await desk.add("c3", "Some words.", path="/x/a.md")
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await desk.collection("list", limit=3, cursor=cursor)
        assert page.total == 7
        seen += [one.name for one in page.collections or []]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"c{number}" for number in range(7)]
    [counted] = [one for one in (await desk.collection("list")).collections or [] if one.name == "c3"]
    assert (counted.documents, counted.chunks, counted.size_bytes) == (1, 1, 11)


async def test_the_list_of_a_type(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        await desk.collection("create", name, collection_type="project-specific" if name == "b" else "fundamental")
    await desk.project("create", "p", collections="b,c")
    assert await names(desk, collection_type="fundamental") == ["a", "c"]
    assert await names(desk, collection_type="fundamental", project_name="p") == ["c"]
    first = await desk.collection("list", collection_type="fundamental", limit=1)
    assert (first.total, first.message) == (2, "2 fundamental collections.")
    assert await names(desk, collection_type="fundamental", limit=1, cursor=first.next_cursor) == ["c"]
    await desk.collection("delete", "b")
    nothing = await desk.collection("list", collection_type="project-specific")
    assert (nothing.total, nothing.message) == (0, "0 project-specific collections.")


async def test_the_list_of_a_project(desk: Desk) -> None:
    for name in ("a", "b", "c"):
        await desk.collection("create", name)
    await desk.project("create", "p", collections="c,a")
    assert await names(desk, project_name="p") == ["a", "c"]
    await desk.project("create", "empty")
    assert await names(desk, project_name="empty") == []


@pytest.mark.parametrize("cursor", ["nonsense", "WzFd", "e30"])
async def test_a_foreign_cursor_is_refused(desk: Desk, cursor: str) -> None:
    with pytest.raises(InvalidCollectionRequest, match="cursor"):
        await desk.collection("list", cursor=cursor)


async def test_info_says_what_is_in_it(desk: Desk) -> None:
    await desk.collection("create", "papers")
    await desk.add("papers", "# One\n\nwords", path="/x/one.md", title="One")
    await desk.add("papers", "two", source="https://example.org/2", title="Two", format="text")
    info = (await desk.collection("info", "papers")).collection
    assert info is not None
    assert (info.documents, info.chunks, info.size_bytes) == (2, 2, 15)
    assert info.embedder == "none (keyword search only)"
    assert info.vectors_pending == 0
    assert info.formats == {"markdown": 1, "text": 1}
    assert [one.title for one in info.newest] == ["Two", "One"]
    assert info.updated_at > info.created_at


async def test_info_counts_vectors_that_wait(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "a")
    await desk.collection("create", "b")
    await desk.add("a", "# One\n\nwords\n\n# Two\n\nmore")
    before, other = (await desk.collection("info", "a")).collection, (await desk.collection("info", "b")).collection
    assert before is not None
    assert other is not None
    assert (before.embedder, before.vectors_pending, other.vectors_pending) == ("hash/256", 2, 0)
    await desk.settle()
    after = (await desk.collection("info", "a")).collection
    assert after is not None
    assert after.vectors_pending == 0


async def test_renaming_keeps_documents_links_and_answers(desk: Desk) -> None:
    await desk.collection("create", "old")
    await desk.project("create", "p", collections="old", default=True)
    doc = await desk.add("old", "quantum entanglement")
    renamed = await desk.collection("rename", "OLD", new_name="Mới")
    assert renamed.collection is not None
    assert (renamed.collection.name, renamed.collection.documents, renamed.collection.projects) == ("Mới", 1, ["p"])
    assert await desk.found("quantum", "mới") == [doc.id]
    with pytest.raises(UnknownCollection):
        await desk.collection("info", "old")
    await desk.collection("create", "old")


async def test_only_the_case_of_a_name_may_change_and_a_taken_name_stays_taken(desk: Desk) -> None:
    await desk.collection("create", "papers")
    await desk.collection("create", "other")
    await desk.collection("rename", "papers", new_name="PAPERS")
    assert await names(desk) == ["other", "PAPERS"]
    with pytest.raises(CollectionExists):
        await desk.collection("rename", "other", new_name="Papers")


async def test_deleting_what_is_not_empty_says_what_would_be_lost(desk: Desk) -> None:
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "# One\n\nquantum\n\n# Two\n\nmore words")
    with pytest.raises(CollectionNotEmpty) as refused:
        await desk.collection("delete", "papers")
    assert refused.value.confirmable
    assert refused.value.contract_code == -32002
    assert "1 document, 2 chunks (33 B)" in refused.value.message
    assert 'manage_collections(action="delete", collection_name="papers", confirm=true)' in told(refused.value)
    assert await desk.found("quantum") == [doc.id]

    deleted = await desk.collection("delete", "papers", confirm=True)
    assert "1 document, 2 chunks" in deleted.message
    assert await desk.found("quantum") == []
    for table in ("research_collections", "research_documents", "research_texts", "similarity_bands"):
        assert await desk.count(table) == 0
    with pytest.raises(UnknownCollection):
        await desk.collection("delete", "papers", confirm=True)


async def test_an_empty_collection_is_deleted_at_once_and_leaves_its_projects(desk: Desk) -> None:
    await desk.collection("create", "papers")
    await desk.project("create", "p", collections="papers", default=True)
    await desk.collection("delete", "papers")
    info = (await desk.project("info", "p")).project
    assert info is not None
    assert (info.collections, info.defaults) == ([], [])


async def test_documents_that_come_while_a_collection_is_deleted_are_not_orphans(desk: Desk) -> None:
    await desk.collection("create", "papers")
    drafts = [await desk.draft("papers", f"words {number}") for number in range(8)]
    puts = [
        desk.db.write(lambda tx, one=one: desk.store.put_documents(tx, desk.tenant, [one], desk.clock()))
        for one in drafts
    ]
    outcomes = await asyncio.gather(
        *puts[:4], desk.collection("delete", "papers", confirm=True), *puts[4:], return_exceptions=True
    )
    assert all(isinstance(one, UnknownCollection) for one in outcomes if isinstance(one, BaseException))
    assert await desk.count("research_documents") == 0
    assert await desk.found("words") == []


async def test_documents_move_by_id_path_or_title(desk: Desk) -> None:
    await desk.collection("create", "from")
    await desk.collection("create", "to")
    by_id = await desk.add("from", "quantum one", title="One")
    by_path = await desk.add("from", "quantum two", path="/x/two.md", title="Two")
    by_title = await desk.add("from", "quantum three", title="Three")
    stays = await desk.add("from", "quantum four", title="Four")
    moved = await desk.collection(
        "move-documents", "from", documents=[by_id.id, "/x/two.md", "three"], target_collection="TO"
    )
    assert moved.moved == 3
    assert moved.collection is not None
    assert (moved.collection.name, moved.collection.documents) == ("to", 3)
    assert {*await desk.found("quantum", "to")} == {by_id.id, by_path.id, by_title.id}
    assert await desk.found("quantum", "from") == [stays.id]
    assert await desk.text(by_path.id) == "quantum two"


async def test_a_moved_document_keeps_its_vectors(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "from")
    await desk.collection("create", "to")
    doc = await desk.add("from", "quantum entanglement")
    await desk.settle()
    moved = await desk.collection("move-documents", "from", documents=doc.id, target_collection="to")
    assert moved.collection is not None
    assert moved.collection.vectors_pending == 0
    assert await desk.found("quantum entanglement", "to") == [doc.id]
    assert await desk.found("quantum entanglement", "from") == []


async def test_a_moved_document_is_known_as_it_is_cut_now(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "# Tea\n\nGreen tea is brewed with water that does not boil.\n\n```\nwater = 80\n```\n"
    await desk.collection("create", "from")
    await desk.collection("create", "to")
    with monkeypatch.context() as before:
        before.setattr(indexing, "chunks", partial(chunks, size=5))
        doc = await desk.add("from", text)
    now, _ = indexing.cut(desk.tenant, doc, text)
    assert (now.chunks, now.kinds) != (doc.chunks, doc.kinds)
    moved = await desk.collection("move-documents", "from", documents=doc.id, target_collection="to")
    assert moved.collection is not None
    assert moved.collection.chunks == now.chunks == await desk.count("passages")
    [row] = (await desk.db.read(lambda tx: get_many(tx, desk.tenant, [doc.id]))).values()
    assert (row.kinds, row.language) == (now.kinds, now.language)


async def test_a_document_that_changes_while_it_moves_is_in_one_place(desk: Desk) -> None:
    await desk.collection("create", "from")
    await desk.collection("create", "to")
    docs = [await desk.add("from", f"quantum {number}", path=f"/x/{number}.md") for number in range(6)]
    moves = [desk.collection("move-documents", "from", documents=[doc.id], target_collection="to") for doc in docs]
    changes = [desk.add("from", f"quantum changed {number}", path=f"/x/{number}.md") for number in range(6)]
    outcomes = await asyncio.gather(
        *(one for pair in zip(moves, changes, strict=True) for one in pair), return_exceptions=True
    )
    assert all(isinstance(one, DocumentChanged) for one in outcomes if isinstance(one, BaseException))
    for name in ("from", "to"):
        info = (await desk.collection("info", name)).collection
        assert info is not None
        assert len(await desk.found("quantum", name)) == info.documents


async def test_all_move_or_none(desk: Desk) -> None:
    await desk.collection("create", "from")
    await desk.collection("create", "to")
    one = await desk.add("from", "quantum one", path="/x/one.md")
    two = await desk.add("from", "quantum two", path="/x/two.md")
    await desk.add("to", "another two", path="/x/two.md")
    refusals: list[tuple[type[KhoError], list[str], str]] = [
        (DocumentExists, [one.id, two.id], "to"),
        (DocumentNotFound, [one.id, "nobody"], "to"),
        (UnknownCollection, [one.id], "nowhere"),
        (InvalidCollectionRequest, [one.id], "from"),
    ]
    for kind, documents, target in refusals:
        with pytest.raises(kind):
            await desk.collection("move-documents", "from", documents=documents, target_collection=target)
    assert {*await desk.found("quantum", "from")} == {one.id, two.id}


async def test_null_is_as_if_absent(desk: Desk) -> None:
    made = await desk.collection("create", "papers", collection_type=None, confirm=None, limit=None, documents=None)
    assert made.collection is not None
    assert made.collection.type == "fundamental"
