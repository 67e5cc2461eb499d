"""The tree: where a document stands, in which order, and what a move may not do."""

import pytest
from tests.documents.document_harness import Desk

from kho.documents import tree


async def plant(desk: Desk, ids: str, parent: str = "root") -> None:
    for id in ids:
        await desk.create(id, parent)


@pytest.mark.requirement("000.move.append", "000.move.position")
async def test_where_a_moved_document_stands(desk: Desk) -> None:
    await plant(desk, "abcd")
    for id, position, order in (
        ("a", {}, "bcda"),
        ("a", {"ordering": 0}, "abcd"),
        ("a", {"ordering": 2}, "bcad"),
        ("d", {"before": "b"}, "dbca"),
        ("b", {"ordering": 99}, "dcab"),
        ("b", {"before": "d", "ordering": 3}, "bdca"),
        ("c", {"ordering": 2}, "bdca"),
        ("d", {"before": "c"}, "bdca"),
    ):
        moved = await desk.move(id, "root", **position)
        assert (moved["status"], moved["ordering"]) == ("moved", order.index(id))
        assert "".join(await desk.children()) == order
    await desk.create("below", "a")
    moved = await desk.move("d", "a", before="below")
    assert (moved["parent_id"], moved["ordering"], moved["revision"]) == ("a", 0, 1)
    assert await desk.children("a") == ["d", "below"]
    assert "".join(await desk.children()) == "bca"
    [*_, entry] = await desk.audited(document_id="d")
    assert entry["details"] == {"from_parent_id": "root", "to_parent_id": "a"}


async def test_a_document_moves_with_all_below_it(desk: Desk) -> None:
    await plant(desk, "ab")
    await plant(desk, "c", "a")
    await plant(desk, "d", "c")
    await desk.move("a", "b")
    assert (await desk.get("d"))["path"] == ["b", "a", "c"]
    assert await desk.found("words", under="b") == {"a", "c", "d"}
    assert await desk.found("words", under="a") == {"c", "d"}
    assert await desk.found("words", parent_id="b") == {"a"}


@pytest.mark.requirement("000.move.cycle")
async def test_no_circles(desk: Desk) -> None:
    await plant(desk, "a")
    await plant(desk, "b", "a")
    await plant(desk, "c", "b")
    before = await desk.dump()
    for parent in "abc":
        refused = await desk.refused("move_document", document_id="a", new_parent_id=parent)
        assert (refused.code, refused.status) == ("INVALID_ARGUMENT", 400)
        assert "below itself" in refused.message
        assert refused.guidance == "Choose a parent that is not below the document."
    assert await desk.dump() == before


async def test_a_tree_has_a_deepest_level(desk: Desk) -> None:
    parent = "root"
    for level in range(tree.MAX_DEPTH):
        await desk.create(f"l{level}", parent)
        parent = f"l{level}"
    assert len((await desk.get(parent))["path"]) == tree.MAX_DEPTH - 1
    await plant(desk, "a")
    await plant(desk, "b", "a")
    before = await desk.dump()
    for operation, arguments in (
        ("create_document", {"parent_id": parent, "content": {"body": "x"}}),
        ("move_document", {"document_id": "a", "new_parent_id": f"l{tree.MAX_DEPTH - 2}"}),
    ):
        refused = await desk.refused(operation, **arguments)
        assert (refused.code, refused.status) == ("INVALID_ARGUMENT", 400)
        assert "at most 100 levels" in refused.message
        assert refused.details["field"] in ("parent_id", "new_parent_id")
    assert await desk.dump() == before
    await desk.move("b", f"l{tree.MAX_DEPTH - 2}")


async def test_between_two_neighbours_there_is_always_room(desk: Desk) -> None:
    """Every insertion halves the gap; once it is used up, all are spread out again."""
    await plant(desk, "az")
    inserted = [f"n{number}" for number in range(70)]
    for id in inserted:
        await desk.create(id)
        await desk.move(id, "root", before="z")
    assert await desk.children() == ["a", *inserted, "z"]
    await plant(desk, "m")
    for _ in range(40):  # the other side of the gap
        for id in ("m", "n0"):
            await desk.move(id, "root", ordering=1)
    assert await desk.children() == ["a", "n0", "m", *inserted[1:], "z"]
    places = sorted(row[3] for row in (await desk.dump(["documents"]))["documents"])
    assert len({*places}) == len(places)


@pytest.mark.requirement("000.query.under")
async def test_below_a_document_with_thousands_that_have_children(desk: Desk) -> None:
    await desk.create("top")
    await desk.create("leaf", "top", "needle")
    await desk.create("outside", "root", "needle")
    # A bush rather than a stalk, which would be too deep: fifty stalks of sixty.
    names = [f"inner{number}" for number in range(3_000)]
    await desk.plant([(id, "top" if number % 60 == 0 else names[number - 1]) for number, id in enumerate(names)])
    await desk.move("leaf", "inner2999")
    assert await desk.found("needle") == {"leaf", "outside"}
    assert await desk.found("needle", under="top") == {"leaf"}
    assert await desk.found("needle", under="inner2941") == {"leaf"}
    assert await desk.found("needle", under="inner0") == set()
