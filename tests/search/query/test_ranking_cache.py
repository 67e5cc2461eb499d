"""Pages of one list, and lists that are remembered: never stale, never another's."""

from dataclasses import replace
from typing import Any

import pytest
from tests.search.conftest import Core, T, doc

from kho.kernel import paging
from kho.kernel.errors import InvalidParams, Unavailable
from kho.kernel.ports import SearchFilter
from kho.search.query.searcher import SearchResults

ASKED = "bridge closed"


async def pages(core: Core, limit: int, **more: Any) -> list[SearchResults]:
    found = [await core.searcher.search(T, ASKED, limit=limit, **more)]
    while found[-1].cursor is not None:
        found.append(await core.searcher.search(T, ASKED, limit=limit, cursor=found[-1].cursor, **more))
    return found


async def test_pages_make_up_the_list(core: Core) -> None:
    await core.ready(*(doc(f"d{n}", f"The bridge number {n} is closed.") for n in range(23)))
    for per_key in (False, True):
        whole = await core.searcher.search(T, ASKED, limit=100, per_key=per_key)
        assert whole.cursor is None
        cut = await pages(core, 5, per_key=per_key)
        assert [len(page.hits) for page in cut] == [5, 5, 5, 5, 3]
        assert [hit.passage for page in cut for hit in page.hits] == [hit.passage for hit in whole.hits]
        assert {page.total for page in cut} == {whole.total} == {23}


@pytest.mark.parametrize("broken", [False, True])
async def test_pages_follow_one_another_while_the_index_changes(core: Core, broken: bool) -> None:
    await core.ready(*(doc(f"d{n}", f"The bridge number {n} is closed.") for n in range(20)))
    if broken:
        core.embedder.broken = Unavailable("The model is away.")
    first = await core.searcher.search(T, ASKED, limit=100)
    shown: list[str] = []
    cursor = None
    for step in range(10):
        found = await core.searcher.search(T, ASKED, limit=2, cursor=cursor)
        shown += (hit.passage.key for hit in found.hits)
        cursor = found.cursor
        await core.put(doc(f"new{step}", f"A bridge, closed, closed bridge {step}."))
        await core.drop(f"d{step}")
    assert cursor is None
    before = [hit.passage.key for hit in first.hits]
    # Nothing twice, nothing new, nothing left out but what was dropped before its page came.
    assert shown == [key for key in before if key in shown]
    assert {*before} - {*shown} <= {f"d{n}" for n in range(10)}
    assert bool(first.notes) == broken


async def test_a_cursor_belongs_to_its_list(core: Core) -> None:
    await core.ready(*(doc(f"d{n}", f"The bridge number {n} is closed.") for n in range(5)))
    cursor = (await core.searcher.search(T, ASKED, limit=2)).cursor
    assert cursor is not None
    await core.searcher.search(T, ASKED, limit=3, cursor=cursor)
    for where, text, per_key in (
        (T, "bridge", False),
        (T, ASKED, True),
        (SearchFilter("s", "u"), ASKED, False),
        (SearchFilter("s", "t", tags=("x",)), ASKED, False),
    ):
        with pytest.raises(InvalidParams):
            await core.searcher.search(where, text, cursor=cursor, per_key=per_key)
    start, version, mark = paging.decode(cursor)
    for garbage in ("", "!", "x" * 10_000, "bnVsbA", cursor[:-4], *map(paging.encode, (
        None, 5, "x", [], [start], [start, version], [-1, version, mark], [start, version, "x"], [start, None, mark],
        [10**9, version, mark], [str(start), version, mark], {"start": 0},
    ))):  # fmt: skip
        with pytest.raises(InvalidParams):
            await core.searcher.search(T, ASKED, cursor=garbage)


async def test_every_change_is_seen_by_the_next_search(core: Core) -> None:
    other = Core(core.again(), core.words, core.vectors, core.again, clock=core.clock)  # as another process would
    await core.ready(doc("a", "The bridge is closed."))

    async def seen() -> list[tuple[str, str]]:
        lists = [(await one.searcher.search(T, "bridge")).hits for one in (core, core, other, other)]
        keys = [[(hit.passage.key, hit.passage.text) for hit in hits] for hits in lists]
        assert keys[0] == keys[1] == keys[2] == keys[3]
        return sorted(keys[0])

    assert await seen() == [("a", "The bridge is closed.")]
    await core.put(doc("b", "A bridge."))
    assert await seen() == [("a", "The bridge is closed."), ("b", "A bridge.")]
    await other.put(doc("a", "The bridge is open again."))
    assert await seen() == [("a", "The bridge is open again."), ("b", "A bridge.")]
    await other.drop("b")
    assert await seen() == [("a", "The bridge is open again.")]
    await core.put(doc("a", "The bridge is open again.", tags=("x",)))
    tagged = SearchFilter("s", "t", tags=("x",))
    assert await core.first("bridge", tagged) == await other.first("bridge", tagged) == "a"


async def test_an_arriving_vector_is_seen_by_the_next_search(core: Core) -> None:
    other = Core(core.again(), core.words, core.vectors, core.again, clock=core.clock)
    await core.ready(doc("a", "The bridge is closed."))
    await core.put(doc("b", "The bridge is open."))

    async def standing(one: Core) -> tuple[bool, int]:
        found = await one.searcher.search(T, "bridge")
        return all(hit.parts.meaning is not None for hit in found.hits), found.pending

    assert await standing(core) == await standing(other) == (False, 1)
    await core.settle()
    assert await standing(core) == await standing(other) == (True, 0)


async def test_a_vector_is_seen_when_an_index_server_has_it(core: Core) -> None:
    """Between its filing and its delivery somebody may ask, and that answer must not stay."""
    await core.ready(doc("a", "The bridge is closed."))
    await core.put(doc("b", "The bridge is open."))
    one = core.beside()
    deliver, late = one.vectors.deliver, list[list[bool]]()

    async def meanings() -> list[bool]:
        return [hit.parts.meaning is not None for hit in (await one.searcher.search(T, "bridge")).hits]

    async def asked_before() -> int:
        late.append(await meanings())
        return await deliver()

    one.vectors.deliver = asked_before
    await one.settle()
    one.vectors.deliver = deliver
    assert len(late) == 1
    assert all(await meanings())


async def test_the_same_question_is_embedded_once(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    core.embedder.asked.clear()
    first = await core.searcher.search(T, ASKED)
    assert await core.searcher.search(T, ASKED) == first
    await core.put(doc("b", "Another bridge."))
    await core.searcher.search(T, ASKED)
    assert core.embedder.asked == [ASKED]


async def test_tenants_never_share_a_list(core: Core) -> None:
    await core.ready(*(doc("a", f"The bridge of {tenant} is closed.", tenant=tenant) for tenant in ("t", "u")))
    for _ in range(2):
        for tenant in ("t", "u"):
            [hit] = (await core.searcher.search(SearchFilter("s", tenant), ASKED)).hits
            assert hit.passage.text == f"The bridge of {tenant} is closed."
        assert await core.keys(ASKED, SearchFilter("s", "nobody")) == []


async def test_a_forgotten_list_is_made_anew(core: Core) -> None:
    searcher = core.beside(limits=replace(core.limits, lists=4)).searcher
    await core.put(*(doc(f"d{n}", f"The bridge number {n} is closed.") for n in range(6)))
    first = await searcher.search(T, ASKED, limit=3)
    for n in range(5):
        await searcher.ranking(T, f"bridge {n}")
    assert first.cursor is not None
    second = await searcher.search(T, ASKED, limit=3, cursor=first.cursor)
    assert sorted(hit.passage.key for hit in (*first.hits, *second.hits)) == [f"d{n}" for n in range(6)]
