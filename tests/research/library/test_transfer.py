"""Export and import: what goes out comes in again, and twice is as good as once."""

from typing import Any

import pytest
from tests.research.factories import Desk

from kho.research import model
from kho.research.errors import InvalidDocumentRequest, UnknownCollection
from kho.research.model import ImportedKnowledge

Json = dict[str, Any]


async def exported(desk: Desk, **more: Any) -> list[Json]:
    lines: list[Json] = []
    cursor: str | None = None
    while True:
        params = model.ExportKnowledge.model_validate({"cursor": cursor, **more})
        page = await desk.transfer.export(params, desk.call())
        lines += page.lines
        cursor = page.next_cursor
        if cursor is None:
            return lines


async def imported(desk: Desk, lines: list[Json], **more: Any) -> ImportedKnowledge:
    return await desk.transfer.import_(model.ImportKnowledge.model_validate({"lines": lines, **more}), desk.call())


@pytest.fixture
async def full(desk: Desk) -> Desk:
    await desk.collection("create", "Tài liệu", description="Ours")
    await desk.collection("create", "研究", collection_type="project-specific")
    await desk.collection("create", "empty")
    for number in range(5):
        await desk.add(
            "Tài liệu", f"# H{number}\n\nlượng tử {number}", path=f"/x/{number}.md", modified_at=number * 1_000_000
        )
    await desk.add(
        "研究",
        "量子计算 " * 400,
        source="https://example.org",
        title="T",
        tags=("a", "b"),
        author="L",
        published="2026",
    )
    return desk


async def test_what_goes_out_comes_in_again_equal(full: Desk) -> None:
    lines = await exported(full, limit=2)
    assert [line["kind"] for line in lines].count("collection") == 3
    assert [line["kind"] for line in lines].count("document") == 6
    other = full.neighbour()
    done = await imported(other, lines)
    assert (done.collections, done.imported, done.replaced, done.skipped) == (3, 6, 0, 0)
    assert await exported(other, limit=200) == lines
    assert len(await other.found("lượng tử", "Tài liệu")) == 5
    assert await other.found("量子计算") == await full.found("量子计算")


async def test_twice_is_as_good_as_once(full: Desk) -> None:
    lines = await exported(full)
    done = await imported(full, lines)
    assert (done.collections, done.imported, done.replaced, done.skipped) == (0, 0, 0, 6)
    assert await exported(full) == lines


async def test_replace_takes_the_imported_text_and_skip_keeps_what_is_there(full: Desk) -> None:
    lines = await exported(full, collections=["研究"])
    assert [line["kind"] for line in lines] == ["collection", "document"]
    changed = [lines[0], {**lines[1], "text": "something else"}]
    assert (await imported(full, changed)).skipped == 1
    assert (await exported(full, collections="研究"))[1]["text"] != "something else"
    assert (await imported(full, changed, merge="replace")).replaced == 1
    after = (await exported(full, collections="研究"))[1]
    assert (after["text"], after["id"]) == ("something else", lines[1]["id"])


async def test_documents_alone_make_their_collection_and_merge_by_place(full: Desk) -> None:
    document = next(line for line in await exported(full) if line.get("path") == "/x/1.md")
    other = full.neighbour()
    done = await imported(other, [{**document, "collection": "new"}])
    assert (done.collections, done.imported) == (1, 1)
    again = await imported(other, [{**document, "collection": "NEW", "id": "another-id"}])
    assert (again.collections, again.skipped) == (0, 1)


async def test_a_page_is_no_larger_than_a_reader_takes(full: Desk) -> None:
    everything = await exported(full)
    full.transfer.page_bytes = 10
    page = await full.transfer.export(model.ExportKnowledge.model_validate({}), full.call())
    assert [line["kind"] for line in page.lines].count("document") == 1
    assert await exported(full) == everything


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ({"kind": "nonsense"}, "Line 2: 'kind'"),
        ({"kind": "document"}, "Line 2: 'id'"),
        ({"kind": "collection", "id": "x", "name": "a,b"}, "Line 2: 'name'"),
        (
            {"kind": "collection", "id": "x", "name": "a", "created_at": "yesterday"},
            "Line 2: 'created_at' must be a time",
        ),
    ],
)
async def test_a_wrong_line_is_named_and_nothing_is_imported(desk: Desk, line: Json, named: str) -> None:
    with pytest.raises(InvalidDocumentRequest, match=named) as refused:
        await imported(desk, [{"kind": "collection", "id": "c", "name": "good"}, line])
    assert refused.value.contract_code == -32003
    assert await desk.count("research_collections") == 0


async def test_an_unknown_collection_is_not_exported(desk: Desk) -> None:
    with pytest.raises(UnknownCollection):
        await exported(desk, collections="nobody")
    assert await exported(desk) == []
