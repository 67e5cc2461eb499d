"""One search over several spaces of a tenant: one ranking, with the filter that each space has."""

from tests.search.conftest import Core, T, doc

from kho.kernel.ports import SearchFilter

BOTH = (T, SearchFilter("s2", "t"))


async def test_one_ranking_over_several_spaces(core: Core) -> None:
    await core.put(
        doc("a", "The old bridge over the river is closed."),
        doc("b", "The river is high.", space="s2"),
        doc("c", "The bridge over the river is closed for lorries.", space="s2"),
        doc("d", "The bridge of others is closed.", tenant="v", space="s2"),
        doc("e", "The bridge that nobody asks for is closed.", space="s3"),
    )
    for pending in (3, 0):  # by words alone, then with vectors
        found = await core.searcher.search(BOTH, "bridge closed")
        assert found.pending == pending
        assert {hit.passage.key for hit in found.hits[:2]} == {"a", "c"}
        assert {hit.passage.key for hit in found.hits} <= {"a", "b", "c"}
        assert found.hits == sorted(found.hits, key=lambda hit: -hit.score)
        await core.settle()


async def test_a_word_that_only_one_space_knows_counts_in_all(core: Core) -> None:
    """By itself the second space knows only one of the words, and its passage would be a full match."""
    await core.ready(
        doc("a", "The zephyr turbine of the mill was repaired."),
        *(doc(f"b{n}", f"The mill ground {n} sacks of flour.", space="s2") for n in range(5)),
    )
    found = await core.searcher.search(BOTH, "zephyr turbine mill")
    assert found.hits[0].passage.key == "a"
    assert all(hit.parts.words < 0.5 for hit in found.hits[1:])


async def test_each_space_has_its_own_filter(core: Core) -> None:
    await core.ready(
        doc("a", "The bridge is closed.", collection="red"),
        doc("b", "The other bridge is closed.", collection="blue"),
        doc("c", "This bridge is closed as well.", space="s2", collection="blue"),
    )
    where = (SearchFilter("s", "t", ("red",)), SearchFilter("s2", "t"))
    assert sorted(await core.keys("bridge closed", where)) == ["a", "c"]


async def test_pages_are_cut_from_one_list(core: Core) -> None:
    await core.ready(
        *(doc(f"a{n}", f"Bridge number {n} is closed.") for n in range(7)),
        *(doc(f"b{n}", f"The bridge of mile {n} is closed.", space="s2") for n in range(6)),
    )
    seen: list[str] = []
    cursor = None
    while True:
        page = await core.searcher.search(BOTH, "bridge closed", limit=4, cursor=cursor)
        seen += [hit.passage.key for hit in page.hits]
        cursor = page.cursor
        if cursor is None:
            break
    assert page.total == len(seen) == len(set(seen)) == 13


async def test_a_change_in_any_of_the_spaces_is_seen(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    assert await core.keys("bridge closed", BOTH) == ["a"]
    await core.ready(doc("b", "The long bridge is closed.", space="s2"))
    assert sorted(await core.keys("bridge closed", BOTH)) == ["a", "b"]
