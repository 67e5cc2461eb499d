"""Documents of research collections as `search`, `fetch` and `recent` show them."""

from tests.research.factories import Desk

from kho.kernel.ports import SearchFilter
from kho.kernel.searchable import FoundPassage, Item
from kho.research import searchable
from kho.research.ingest.indexing import SPACE

LONG = "# Alpha\n\n" + "Word of the first. " * 120 + "\n\n# Beta\n\n" + "The zeppelin lands at nine. " * 120


async def found(desk: Desk, query: str) -> list[FoundPassage]:
    hits = (await desk.searcher.search(SearchFilter(SPACE, desk.tenant), query)).hits
    return [
        FoundPassage(p.key, p.ref.collection, p.ref.kind, p.part, p.heading, p.text, p.ref.created_at)
        for p in (hit.passage for hit in hits)
    ]


async def described(desk: Desk, passages: list[FoundPassage]) -> list[Item | None]:
    declared = searchable.searchable(desk.db, 10.0)
    return [*await desk.db.read(lambda tx: declared.described(tx, desk.tenant, passages))]


async def fetched(desk: Desk, id: str) -> Item | None:
    return await searchable.searchable(desk.db, 10.0).fetch(desk.call(), id)


async def recent(desk: Desk, since: int | None = None, limit: int = 10) -> list[Item]:
    declared = searchable.searchable(desk.db, 10.0)
    return [*await desk.db.read(lambda tx: declared.recent(tx, SearchFilter(SPACE, desk.tenant, since=since), limit))]


async def test_a_document_is_found_and_fetched_whole_or_by_passage(three: Desk) -> None:
    put = await three.put("a", LONG, path="/papers/landing.md", title="Landing")
    passages = await found(three, "zeppelin lands")
    [hit, *_] = await described(three, passages)
    assert hit is not None
    assert (hit.id, hit.title) == (put.doc.id, "Landing")
    known = {"collection": "a", "path": "/papers/landing.md", "heading": "Beta", "passage": passages[0].part}
    assert hit.metadata.items() >= known.items()
    whole = await fetched(three, put.doc.id)
    assert whole is not None
    assert (whole.id, whole.when, whole.text) == (put.doc.id, hit.when, LONG)
    part = await fetched(three, f"{put.doc.id}#{passages[0].part}")
    assert part is not None
    assert (part.id, part.text) == (f"{put.doc.id}#{passages[0].part}", passages[0].text)
    for id in (f"{put.doc.id}#99", "nothing", ""):
        assert await fetched(three, id) is None, id
    assert await fetched(three.neighbour(), put.doc.id) is None


async def test_what_was_removed_after_it_was_found_is_not_described(three: Desk) -> None:
    kept = await three.put("a", "The zeppelin.")
    gone = await three.put("b", "Another zeppelin.")
    passages = await found(three, "zeppelin")
    await three.db.write(lambda tx: three.store.remove_documents(tx, three.tenant, [gone.doc.id], three.clock()))
    shown = await described(three, passages)
    assert {one.key: item and item.id for one, item in zip(passages, shown, strict=True)} == {
        kept.doc.id: kept.doc.id,
        gone.doc.id: None,
    }


async def test_recent_is_what_changed_last(three: Desk) -> None:
    for name in "abc":
        await three.put(name, f"Of {name}.", path=f"/papers/{name}.md")
    since = three.clock()
    await three.put("a", "Anew.", path="/papers/a.md")
    shown = [(item.metadata["collection"], item.text) for item in await recent(three, limit=2)]
    assert shown == [("a", "Anew."), ("c", "Of c.")]
    assert [item.text for item in await recent(three, since)] == ["Anew."]
    assert await recent(three.neighbour()) == []
