"""Documents as `search`, `fetch` and `recent` show them."""

from tests.documents.document_harness import Desk

from kho.kernel.ports import SearchFilter
from kho.kernel.searchable import FoundPassage, Item, Searchable
from kho.search.query.searcher import Searcher

LONG = "# Alpha\n\n" + "Word of the first. " * 120 + "\n\n# Beta\n\n" + "The zeppelin lands at nine. " * 120


def declared(desk: Desk) -> Searchable:
    [one] = desk.capability.searchable
    return one


async def found(desk: Desk, query: str) -> list[FoundPassage]:
    hits = (await Searcher(desk.db, desk.words).search(SearchFilter("documents", desk.tenant), query)).hits
    return [
        FoundPassage(p.key, p.ref.collection, p.ref.kind, p.part, p.heading, p.text, p.ref.created_at)
        for p in (hit.passage for hit in hits)
    ]


async def described(desk: Desk, passages: list[FoundPassage]) -> list[Item | None]:
    return [*await desk.db.read(lambda tx: declared(desk).described(tx, desk.tenant, passages))]


async def recent(desk: Desk, since: int | None = None, limit: int = 10) -> list[Item]:
    return [
        *await desk.db.read(
            lambda tx: declared(desk).recent(tx, SearchFilter("documents", desk.tenant, since=since), limit)
        )
    ]


async def test_a_document_is_found_and_fetched_whole_or_by_passage(desk: Desk) -> None:
    await desk.create("doc-a", body=LONG, metadata={"title": "Landing", "tags": ["air"]})
    passages = await found(desk, "zeppelin lands")
    [hit, *_] = await described(desk, passages)
    assert hit is not None
    assert (hit.id, hit.title) == ("doc-a", "Landing")
    assert hit.metadata.items() >= {"tags": ["air"], "heading": "Beta", "passage": passages[0].part}.items()
    whole = await declared(desk).fetch(desk.call(), "doc-a")
    assert whole is not None
    assert (whole.id, whole.title, whole.when, whole.text) == ("doc-a", "Landing", hit.when, LONG)
    part = await declared(desk).fetch(desk.call(), f"doc-a#{passages[0].part}")
    assert part is not None
    assert (part.id, part.text) == (f"doc-a#{passages[0].part}", passages[0].text)
    for id in ("doc-a#99", "doc-b", "doc-a#x", ""):
        assert await declared(desk).fetch(desk.call(), id) is None, id
    other = desk.neighbour()
    assert await declared(other).fetch(other.call(), "doc-a") is None


async def test_what_is_deleted_or_due_is_not_shown(desk: Desk) -> None:
    await desk.create("doc-a", body="The zeppelin.")
    await desk.create("doc-b", body="Another zeppelin.")
    passages = await found(desk, "zeppelin")
    assert [item and item.id for item in await described(desk, passages)] == [one.key for one in passages]
    await desk.delete("doc-a")
    await desk.delete("doc-b", delete_at=desk.clock.later(3600))
    assert {item.id for item in await described(desk, passages) if item} == {"doc-b"}
    assert [item.id for item in await recent(desk)] == ["doc-b"]
    desk.clock.pass_seconds(7200)
    assert await described(desk, passages) == [None, None]
    assert await recent(desk) == []
    assert await declared(desk).fetch(desk.call(), "doc-b") is None


async def test_recent_is_what_changed_last(desk: Desk) -> None:
    for id in ("doc-a", "doc-b", "doc-c"):
        await desk.create(id, body=f"Of {id}.")
    since = desk.clock()
    await desk.update("doc-a", content={"mime_type": "text/markdown", "body": "Anew."})
    assert [(item.id, item.text) for item in await recent(desk, limit=2)] == [
        ("doc-a", "Anew."),
        ("doc-c", "Of doc-c."),
    ]
    assert [item.id for item in await recent(desk, since)] == ["doc-a"]
    assert await recent(desk.neighbour()) == []
