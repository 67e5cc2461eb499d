"""Experience records as `search`, `fetch` and `recent` show them, on each database."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.clock import Clock

from kho.experiences import capability as experiences
from kho.experiences import model
from kho.experiences.service import ExperienceService, UsageCounter
from kho.experiences.settings import ExperienceSettings
from kho.experiences.store import SPACE, Store
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.ports import Database, SearchFilter, Words
from kho.kernel.searchable import FoundPassage, Item
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.migrate import OWN, migrate


@dataclass
class Desk:
    db: Database
    words: Words
    tenant: str = "a"
    clock: Clock = field(default_factory=Clock)
    background: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        store = Store(Index(self.words, None, "", self.clock))
        self.searcher = Searcher(self.db, self.words)
        self.service = ExperienceService(
            db=self.db,
            store=store,
            searcher=self.searcher,
            usage=UsageCounter(self.db, store, self.background, self.clock),
            clock=self.clock,
            settings=ExperienceSettings(),
        )
        self.declared = experiences.searchable(self.db, store, 10.0)

    @property
    def call(self) -> Call:
        return Call(Principal("someone", self.tenant, frozenset({"*"})))

    async def submit(self, title: str, **more: Any) -> str:
        usual = {"title": title, "problem_description": "It stalled.", "solution": "Wait a little."}
        params = model.SubmitExperience.model_validate({**usual, **more})
        return (await self.service.submit(params, self.call)).id

    async def found(self, query: str, *tags: str) -> list[FoundPassage]:
        hits = (await self.searcher.search(SearchFilter(SPACE, self.tenant, tags=tags), query)).hits
        return [
            FoundPassage(p.key, p.ref.collection, p.ref.kind, p.part, p.heading, p.text, p.ref.created_at)
            for p in (hit.passage for hit in hits)
        ]

    async def described(self, passages: list[FoundPassage]) -> list[Item | None]:
        return [*await self.db.read(lambda tx: self.declared.described(tx, self.tenant, passages))]

    async def recent(self, since: int | None = None, limit: int = 10) -> list[str]:
        items = await self.db.read(
            lambda tx: self.declared.recent(tx, SearchFilter(SPACE, self.tenant, since=since), limit)
        )
        return [item.title for item in items]


@pytest.fixture
async def desk(db: Database, words: Words) -> Desk:
    await migrate(db, [OWN, ("experiences", experiences.MIGRATIONS)])
    return Desk(db, words)


async def test_a_record_is_found_by_its_keywords_and_fetched_whole(desk: Desk) -> None:
    id = await desk.submit("The zeppelin stalls", root_cause="No wind.", keywords=["Air", "gas"])
    await desk.submit("Another zeppelin", keywords=["gas"])
    assert len(await desk.found("zeppelin", "gas")) == 2
    [passage] = await desk.found("zeppelin", "air", "gas")
    [hit] = await desk.described([passage])
    assert hit is not None
    assert (hit.id, hit.title, hit.metadata["keywords"]) == (id, "The zeppelin stalls", ["air", "gas"])
    whole = await desk.declared.fetch(desk.call, id)
    assert whole is not None
    assert whole.text == "Problem: It stalled.\n\nRoot cause: No wind.\n\nSolution: Wait a little."
    assert whole.metadata["query_count"] == 0  # neither the search nor fetching counts
    for other in (f"{id}#1", "nothing", ""):
        assert await desk.declared.fetch(desk.call, other) is None, other
    assert await desk.declared.fetch(Desk(desk.db, desk.words, "b").call, id) is None


async def test_what_was_deleted_after_it_was_found_is_not_described(desk: Desk) -> None:
    id = await desk.submit("A zeppelin")
    passages = await desk.found("zeppelin")
    await desk.service.delete(model.DeleteExperience.model_validate({"id": id}), desk.call)
    assert await desk.described(passages) == [None]
    assert await desk.declared.fetch(desk.call, id) is None
    assert await desk.recent() == []


async def test_recent_is_what_was_written_or_edited_last_and_not_what_was_asked_for(desk: Desk) -> None:
    first = await desk.submit("First")
    for title in ("Second", "Third"):
        await desk.submit(title)
    since = desk.clock()
    await desk.service.query(model.QueryExperiences.model_validate({"ids": [first]}), call := desk.call)
    for work in call.afterwards:
        await work()
    await desk.background.drain()
    assert await desk.recent(since) == []
    assert await desk.recent(limit=2) == ["Third", "Second"]
    changes = {"id": first, "expected_revision": 1, "title": "First, anew"}
    await desk.service.update(model.UpdateExperience.model_validate(changes), desk.call)
    assert await desk.recent(since) == ["First, anew"]
    assert await Desk(desk.db, desk.words, "b").recent() == []
