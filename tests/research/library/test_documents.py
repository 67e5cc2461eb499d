"""Documents: stored and filed together, replaced without losing vectors, listed, removed, filed anew."""

import asyncio
from typing import Any

import pytest
from tests.research.factories import Desk, told

from kho import parsers
from kho.kernel.ports import Tx
from kho.research import model
from kho.research.errors import AmbiguousDocument, DocumentNotFound, InvalidDocumentRequest, UnknownCollection
from kho.research.ingest import indexing, job_store, plan
from kho.research.ingest.indexing import FORM, SPACE
from kho.research.library import document_store
from kho.research.model import DocumentDetails, DocumentsAnswer
from kho.search.indexing import minhash, passages
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.indexing.reindex import reindex

MIXED = """# Guide

Some prose about kettles.

```python
print("a fence that is long enough to be counted")
```

## Numbers

| a | b |
|---|---|
| 1 | 2 |
"""


async def listed(desk: Desk, **more: object) -> DocumentsAnswer:
    return await desk.documents.list_documents(model.ListKbDocuments.model_validate(more), desk.call())


async def got(desk: Desk, document: str, **more: object) -> DocumentDetails:
    params = model.GetKbDocument.model_validate({"document": document, **more})
    return (await desk.documents.get_document(params, desk.call())).document


async def removed(desk: Desk, document: str, **more: object) -> str:
    params = model.RemoveKbDocument.model_validate({"document": document, **more})
    return (await desk.documents.remove_document(params, desk.call())).message


@pytest.fixture
async def papers(desk: Desk) -> Desk:
    await desk.collection("create", "papers")
    return desk


async def test_a_document_is_stored_with_its_text_and_can_be_found(papers: Desk) -> None:
    doc = await papers.add("papers", MIXED, path="/x/guide.md", title="Guide", tags=("tea",), author="Lan")
    assert await papers.text(doc.id) == MIXED
    assert await papers.found("kettles", "papers") == [doc.id]
    shown = await got(papers, doc.id, text=True)
    assert (shown.path, shown.author, shown.tags, shown.text) == ("/x/guide.md", "Lan", ["tea"], MIXED)
    assert shown.chunks == len(doc.kinds) == sum(shown.content_types.values())
    assert doc.content_type(doc.chunks - 1) == "table"
    assert (await got(papers, doc.id)).text is None


async def test_long_texts_are_packed_and_come_back_the_same(papers: Desk) -> None:
    text = "Kiến thức là sức mạnh. 知识就是力量。\n\n" * 500
    doc = await papers.add("papers", text)
    assert await papers.text(doc.id) == text
    row = await papers.db.read(
        lambda tx: tx.one("SELECT packed, text FROM research_texts WHERE tenant = $1", papers.tenant)
    )
    assert row is not None
    assert row[0] == 1
    assert len(row[1]) < len(text.encode()) / 10


async def test_what_no_database_holds_is_replaced(papers: Desk) -> None:
    doc = await papers.add("papers", "half \ud83d and nul \0 end", hash="x", size_bytes=1)
    assert await papers.text(doc.id) == "half \ufffd and nul \ufffd end"
    named = [await papers.put("papers", "text", path="/x/\udce9t\udce9.md", title="\udce9t\udce9") for _ in range(2)]
    assert [one.new for one in named] == [True, False]
    assert (named[0].doc.path, named[0].doc.title) == ("/x/\ufffdt\ufffd.md", "\ufffdt\ufffd")


async def test_chunks_are_read_by_their_numbers(papers: Desk) -> None:
    doc = await papers.add("papers", "\n\n".join(f"# H{number}\n\ntext {number}" for number in range(5)))
    found = await papers.db.read(lambda tx: document_store.chunks(tx, papers.tenant, doc, range(3, 7)))
    assert {number: one.text for number, one in found.items()} == {3: "text 3", 4: "text 4"}
    foreign = papers.neighbour().tenant
    assert await papers.db.read(lambda tx: document_store.chunks(tx, foreign, doc, range(9))) == {}


async def test_the_title_is_searched_and_is_no_part_of_the_header_path(papers: Desk) -> None:
    doc = await papers.add("papers", "## Boiling\n\nIt whistles.", title="Kettles of the world")
    assert await papers.found("kettles") == [doc.id]
    [stored] = [
        one.stored for one in (await papers.draft("papers", "## Boiling\n\nIt.", title="Kettles")).prepared.parts
    ]
    assert stored.heading == "Kettles > Boiling"
    assert indexing.header_path(stored.heading, "Kettles") == "Boiling"
    assert indexing.header_path("Kettles", "Kettles") == ""
    assert indexing.header_path("A > B", "Kettles") == "A > B"


async def test_the_name_of_a_file_is_searched_but_not_embedded(papers: Desk) -> None:
    """Unless it is code, where it tells what the file is for."""

    async def headings(**about: Any) -> list[str]:
        draft = await papers.draft("papers", "## Boiling\n\nIt whistles.", **about)
        return [part.stored.heading for part in draft.prepared.parts]

    assert await headings(path="/x/meeting_notes_7.md", title="meeting_notes_7") == ["Boiling"]
    assert await headings(path="/x/meeting_notes_7.md", title="meeting_notes_7.md") == ["Boiling"]
    assert await headings(path="/x/meeting_notes_7.md", title="Kettles") == ["Kettles > Boiling"]
    assert (await headings(path="/x/kettles.py", title="kettles.py", cut="code"))[0].startswith("kettles.py")
    put = await papers.put("papers", "It whistles.", path="/x/meeting_notes_7.md", title="meeting_notes_7")
    assert await papers.found("meeting notes") == [put.doc.id]


CODE = "import argparse\n\nLIMIT = 3\n"
CLASS = "class ArgReader(Base):\n    def parseArgs(self, given):\n        return given\n"


async def test_code_is_found_by_the_names_in_it_read_as_words(papers: Desk) -> None:
    body = "".join(f"\n    def use_{n}(self):\n        return {n * 'self.limit + '}1\n" for n in range(40))
    drafts = [await papers.draft("papers", CLASS + body, title="a.py", cut=cut) for cut in ("code", "text")]
    code, text = ([part.stored.heading for part in one.prepared.parts] for one in drafts)
    assert code[0].startswith("a.py > class ArgReader > arg reader, parse args, use 0")
    assert all(one.startswith("a.py > class ArgReader > arg reader, use ") for one in code[1:])
    assert {*text} == {"a.py"}
    fence = await papers.draft("papers", f"# Shop\n\n```py\n{CLASS}```\n", title="T", cut="markdown")
    assert [part.stored.heading for part in fence.prepared.parts] == ["T > Shop"]


async def test_code_of_an_older_form_gets_vectors_only_where_it_defines_something(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "papers")
    filler = "".join(f"\nVALUE_{n} = {n}\n" for n in range(80))
    doc = await desk.add("papers", CODE + filler + "\n\n" + CLASS, title="a.py", cut="code")
    parts = (await desk.draft("papers", CODE + filler + "\n\n" + CLASS, title="a.py", cut="code")).prepared.parts
    older = [Passage((Field(part.stored.text),), "a.py") for part in parts]
    old = prepare(Document(SPACE, desk.tenant, doc.id, older, doc.collection_id, created_at=doc.created_at))
    await desk.db.write(lambda tx: desk.index.put(tx, [old]))
    await desk.settle()
    await reindex(desk.db, desk.index, desk.background, SPACE, FORM, document_store.all_documents)
    waiting = await desk.db.read(
        lambda tx: tx.all("SELECT p.heading FROM vector_queue AS q JOIN passages AS p ON p.seq = q.seq")
    )
    assert [row[0] for row in waiting] == ["a.py > arg reader, parse args"]
    assert len(parts) > 2


async def test_a_file_that_comes_again_keeps_its_id_and_its_first_date(papers: Desk) -> None:
    first = await papers.put("papers", "old words", path="/x/a.md")
    second = await papers.put("papers", "new words", path="/x/a.md")
    assert (first.new, second.new) == (True, False)
    assert (second.doc.id, second.doc.created_at) == (first.doc.id, first.doc.created_at)
    assert second.doc.updated_at > first.doc.updated_at
    assert await papers.text(first.doc.id) == "new words"
    assert await papers.found("old") == []
    assert (await listed(papers)).total == 1


async def test_what_comes_as_text_is_the_same_by_source_and_title(papers: Desk) -> None:
    one = await papers.add("papers", "first", source="meeting", title="Monday")
    two = await papers.add("papers", "second", source="meeting", title="Tuesday")
    again = await papers.add("papers", "third", source="meeting", title="Monday")
    assert one.id == again.id != two.id


async def test_unchanged_passages_keep_their_vectors(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "papers")
    await desk.add("papers", "# One\n\nfirst part\n\n# Two\n\nsecond part", path="/x/a.md", title="T")
    assert await desk.settle() == 2
    await desk.add("papers", "# One\n\nfirst part\n\n# Two\n\nsecond part, changed", path="/x/a.md", title="T")
    assert await desk.settle() == 1


async def test_the_same_file_put_by_two_at_once_is_one_document(papers: Desk) -> None:
    drafts = [await papers.draft("papers", f"words {number}", path="/x/a.md") for number in range(6)]
    await asyncio.gather(
        *(
            papers.db.write(lambda tx, one=one: papers.store.put_documents(tx, papers.tenant, [one], papers.clock()))
            for one in drafts
        )
    )
    assert (await listed(papers)).total == 1
    assert len(await papers.found("words")) == 1
    assert await papers.count("research_texts") == 1


async def test_a_batch_may_hold_a_document_twice_and_ids_of_other_collections(papers: Desk) -> None:
    await papers.collection("create", "other")
    there = await papers.add("other", "elsewhere")
    drafts = [
        await papers.draft("papers", "one", path="/x/a.md"),
        await papers.draft("papers", "two", path="/x/a.md"),
        await papers.draft("papers", "three", path="/x/b.md", id=there.id),
    ]
    put = await papers.db.write(lambda tx: papers.store.put_documents(tx, papers.tenant, drafts, papers.clock()))
    assert [one.new for one in put] == [True, True]
    assert there.id not in {one.doc.id for one in put}
    assert await papers.found("elsewhere", "other") == [there.id]


async def test_the_list_is_filtered_and_comes_in_pages(papers: Desk) -> None:
    await papers.collection("create", "other")
    for number in range(5):
        await papers.add("papers", f"text {number}", path=f"/x/Tài_liệu {number}.md", title=f"Title {number}")
    await papers.add("other", "text", title="100% sure")
    assert (await listed(papers)).total == 6
    assert (await listed(papers, filter="TÀI_LIỆU")).total == 5
    assert (await listed(papers, filter="title 3")).total == 1
    assert (await listed(papers, filter="0%")).total == 1
    assert (await listed(papers, filter="%")).total == 1
    assert (await listed(papers, collection="other")).documents[0].collection == "other"
    seen: list[str] = []
    cursor: str | None = None
    while True:
        page = await listed(papers, collection="Papers", limit=2, cursor=cursor)
        seen += [one.title for one in page.documents]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert seen == [f"Title {number}" for number in (4, 3, 2, 1, 0)]
    with pytest.raises(UnknownCollection):
        await listed(papers, collection="nobody")
    with pytest.raises(InvalidDocumentRequest, match="cursor"):
        await listed(papers, cursor="WzFd")


async def test_a_document_is_called_by_id_path_file_name_source_or_title(papers: Desk) -> None:
    file = await papers.add("papers", "one", path="/x/Bài viết.md", title="An essay")
    note = await papers.add("papers", "two", source="https://example.org/n", title="A note")
    for reference in (file.id, "/x/Bài viết.md", "bài viết.md", "AN ESSAY"):
        assert (await got(papers, reference, collection="papers")).id == file.id
    for reference in ("https://example.org/n", "a note"):
        assert (await got(papers, reference)).id == note.id


async def test_what_is_ambiguous_or_unknown_names_candidates(papers: Desk) -> None:
    await papers.collection("create", "other")
    one = await papers.add("papers", "one", path="/x/readme.md", title="Readme")
    two = await papers.add("other", "two", path="/y/readme.md", title="Readme")
    with pytest.raises(AmbiguousDocument) as refused:
        await removed(papers, "readme")
    assert refused.value.contract_code == -32003
    for doc in (one, two):
        assert f"{doc.id} ({doc.path}" in told(refused.value)
    with pytest.raises(DocumentNotFound) as unknown:
        await removed(papers, "readm", collection="papers")
    assert one.id in told(unknown.value)
    assert two.id not in told(unknown.value)
    with pytest.raises(DocumentNotFound):
        await removed(papers, two.id, collection="papers")
    assert "Removed 'Readme' (1 chunk) from 'other'. The file itself stays." in await removed(
        papers, "readme.md", collection="other"
    )
    assert (await listed(papers)).total == 1


async def test_the_files_of_a_collection_are_known_by_path(papers: Desk) -> None:
    file = await papers.add("papers", "one", path="/x/a.md")
    await papers.add("papers", "two")
    found = await papers.db.read(lambda tx: plan.known(tx, papers.tenant, file.collection_id))
    assert {path: (one.id, one.hash) for path, one in found.items()} == {"/x/a.md": (file.id, file.hash)}


async def test_removing_leaves_nothing_behind(papers: Desk) -> None:
    doc = await papers.add("papers", "quantum", source="s")
    assert "stays" not in await removed(papers, doc.id)
    assert await papers.found("quantum") == []
    for table in ("research_documents", "research_texts", "similarity_bands"):
        assert await papers.count(table) == 0
    with pytest.raises(DocumentNotFound):
        await removed(papers, doc.id)


async def test_a_neighbour_cannot_read_or_remove(papers: Desk) -> None:
    doc = await papers.add("papers", "quantum")
    neighbour = papers.neighbour()
    for verb in (got, removed):
        with pytest.raises(DocumentNotFound):
            await verb(neighbour, doc.id)
    assert (await listed(neighbour)).total == 0


async def test_near_duplicates_of_a_collection_are_found(papers: Desk) -> None:
    await papers.collection("create", "other")
    text = " ".join(f"word{number}" for number in range(200))
    doc = await papers.add("papers", text, title="T")
    draft = await papers.draft("papers", f"{text} and a little more", title="T")

    def look(tx: Tx) -> tuple[list[str], list[str]]:
        other = [one.id for one in papers.store.similar(tx, draft.under(draft.doc.id, "elsewhere", 0))]
        return [one.id for one in papers.store.similar(tx, draft)], other

    assert await papers.db.read(look) == ([doc.id], [])
    before = indexing.words((await papers.draft("papers", text, title="T")).prepared)
    assert minhash.likeness(before, indexing.words(draft.prepared)) > 0.9
    assert (await papers.db.read(lambda tx: document_store.with_hash(tx, papers.tenant, doc.collection_id, doc.hash)))[
        0
    ].id == doc.id


async def test_an_index_that_was_lost_is_filed_anew(papers: Desk) -> None:
    ids = {(await papers.add("papers", f"quantum {number}")).id for number in range(25)}
    await papers.collection("create", "other")
    elsewhere = await papers.add("other", "quantum too")
    keys = [*ids, elsewhere.id]

    def lose(tx: Tx) -> None:
        for name in ("papers", "other"):
            row = tx.one("SELECT id FROM research_collections WHERE tenant = $1 AND name = $2", papers.tenant, name)
            assert row is not None
            papers.index.drop(tx, SPACE, papers.tenant, keys, row[0])

    await papers.db.write(lose)
    assert await papers.found("quantum") == []
    steps: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        steps.append(done)

    params = model.OfCollection.model_validate({"collection": "papers"})
    rebuilt = await papers.documents.rebuild(params, papers.call(progress=progress))
    assert (rebuilt.documents, rebuilt.chunks, steps) == (25, 25, [20, 25])
    assert {*await papers.found("quantum")} <= ids
    assert await papers.found("quantum", "other") == []
    rebuilt = await papers.documents.rebuild(model.OfCollection.model_validate({}), papers.call())
    assert rebuilt.documents == 26
    assert await papers.found("quantum", "other") == [elsewhere.id]


async def test_a_document_that_changed_meanwhile_is_not_filed_as_it_was(papers: Desk) -> None:
    old = await papers.draft("papers", "old words", path="/x/a.md")
    await papers.db.write(lambda tx: papers.store.put_documents(tx, papers.tenant, [old], papers.clock()))
    await papers.add("papers", "new words", path="/x/a.md")
    assert await papers.db.write(lambda tx: papers.store.reindex(tx, papers.tenant, [old])) == 0
    assert await papers.text(old.doc.id) == "new words"


async def test_all_documents_are_filed_anew_when_the_form_changes(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "papers")
    doc = await desk.add("papers", "quantum", title="T")
    other = desk.neighbour()
    await other.collection("create", "theirs")
    theirs = await other.add("theirs", "quantum")

    def lose(tx: Tx) -> None:
        desk.index.drop(tx, SPACE, desk.tenant, [doc.id], doc.collection_id)
        tx.run("UPDATE research_documents SET kinds = '', chunks = 0")

    await desk.db.write(lose)
    await reindex(desk.db, desk.index, desk.background, SPACE, FORM, document_store.all_documents)
    assert await desk.found("quantum") == [doc.id]
    assert await other.found("quantum") == [theirs.id]
    assert (await got(desk, doc.id)).content_types == {"prose": 1}
    first, after = await desk.db.write(lambda tx: document_store.all_documents(tx, "", 1))
    assert after is not None
    second, _ = await desk.db.write(lambda tx: document_store.all_documents(tx, after, 1))
    assert {one.key for one in (*first, *second)} == {doc.id, theirs.id}


async def test_status_counts_and_names_the_jobs(papers: Desk) -> None:
    await papers.collection("create", "other")
    doc = await papers.add("papers", "# A\n\nx\n\n# B\n\ny")
    await papers.add("other", "z")
    await papers.project("create", "p")
    now = papers.clock()
    job = job_store.Job(
        papers.tenant,
        "job-1",
        "ingest",
        "queued",
        {"path": "/x"},
        doc.collection_id,
        "me",
        now,
        now,
    )
    await papers.db.write(lambda tx: job_store.create(tx, job))
    status = await papers.documents.status(model.OfCollection.model_validate({}), papers.call())
    assert (status.collections, status.documents, status.chunks, status.projects) == (2, 2, 3, 1)
    assert (status.vectors_pending, status.embedder, status.problem) == (0, "none (keyword search only)", None)
    assert [(one.job_id, one.collection, one.state) for one in status.jobs] == [("job-1", "papers", "queued")]
    await papers.project("create", "done")
    await papers.project("archive", "done")
    status = await papers.documents.status(model.OfCollection.model_validate({}), papers.call())
    assert (status.projects, status.archived_projects) == (1, 1)
    narrowed = await papers.documents.status(model.OfCollection.model_validate({"collection": "other"}), papers.call())
    assert (narrowed.collections, narrowed.documents, narrowed.jobs) == (1, 1, [])
    nothing = await papers.documents.status(model.OfCollection.model_validate({}), papers.neighbour().call())
    assert (nothing.collections, nothing.documents, nothing.last_change) == (0, 0, None)


async def test_status_says_what_waits(desk_with_vectors: Desk) -> None:
    desk = desk_with_vectors
    await desk.collection("create", "papers")
    await desk.add("papers", "quantum")
    assert (await desk.documents.status(model.OfCollection.model_validate({}), desk.call())).vectors_pending == 1
    await desk.settle()
    assert (await desk.documents.status(model.OfCollection.model_validate({}), desk.call())).vectors_pending == 0
    assert await desk.db.read(passages.pending) == 0


async def test_front_matter_is_not_searched(desk: Desk) -> None:
    """By the time it is filed it is gone; its tags narrow a search."""
    found = parsers.read("---\ntitle: Bình đun\nsecret: umami\n---\n\n# Kettles\n\nCitric acid.\n".encode(), "a.md")
    await desk.collection("create", "papers")
    doc = await desk.add("papers", found.text, title=found.title)
    assert await desk.found("citric", "papers") == [doc.id]
    assert await desk.found("umami", "papers") == []
