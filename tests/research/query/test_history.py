"""Query history: each caller's own, the newest first, and not without end."""

import pytest
from tests.research.factories import Desk

from kho.research import model
from kho.research.errors import InvalidQuery
from kho.research.model import HistoryAnswer


async def ask(desk: Desk, query: str, by: str = "somebody") -> None:
    await desk.history.record(desk.tenant, by, query, ["papers"], 3, 0.87654, 12_345)


async def history(desk: Desk, by: str = "somebody", **more: object) -> HistoryAnswer:
    return await desk.history.history(model.QueryHistory.model_validate(more), desk.call(by))


async def test_questions_are_listed_newest_first(desk: Desk) -> None:
    for query in ("one", "Hai", "三"):
        await ask(desk, query)
    first = await history(desk, limit=2)
    assert [one.query for one in first.queries] == ["三", "Hai"]
    one = first.queries[0]
    assert (one.collections, one.results, one.best_score, one.took_ms) == (["papers"], 3, 0.8765, 12.3)
    second = await history(desk, limit=2, cursor=first.next_cursor)
    assert [one.query for one in second.queries] == ["one"]
    assert second.next_cursor is None
    assert [one.query for one in (await history(desk, filter="HAI")).queries] == ["Hai"]
    with pytest.raises(InvalidQuery):
        await history(desk, cursor="nonsense")


async def test_what_people_ask_is_theirs(desk: Desk) -> None:
    await ask(desk, "mine")
    await ask(desk, "theirs", by="other")
    assert [one.query for one in (await history(desk)).queries] == ["mine"]
    assert (await history(desk.neighbour())).queries == []
    cleared = await desk.history.clear_history(model.ClearHistory(), desk.call())
    assert cleared.removed == 1
    assert (await history(desk)).queries == []
    assert [one.query for one in (await history(desk, by="other")).queries] == ["theirs"]


async def test_the_oldest_make_room(desk: Desk) -> None:
    desk.history.max_questions = 5
    neighbour = desk.neighbour()
    await ask(neighbour, "untouched")
    for number in range(12):
        await ask(desk, f"q{number}")
    assert [one.query for one in (await history(desk)).queries] == [f"q{number}" for number in (11, 10, 9, 8, 7)]
    assert len((await history(neighbour)).queries) == 1
