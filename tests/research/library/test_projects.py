"""Projects: links, defaults, and the folder they belong to."""

import asyncio

import pytest
from tests.research.factories import Desk, told

from kho.kernel.errors import KhoError
from kho.research.errors import (
    CollectionError,
    InvalidProjectRequest,
    ProjectExists,
    UnknownCollection,
    UnknownProject,
)
from kho.research.model import ProjectDetails


async def info(desk: Desk, name: str) -> ProjectDetails:
    project = (await desk.project("info", name)).project
    assert project is not None
    return project


async def test_a_project_has_collections_and_defaults(three: Desk) -> None:
    made = await three.project("create", "Luận văn", description="A thesis", collections="b, A")
    assert made.project is not None
    assert (made.project.collections, made.project.defaults) == (["a", "b"], [])
    assert made.project.description == "A thesis"
    await three.project("link", "luận văn", collections=["c"], default=True)
    assert (await info(three, "Luận văn")).defaults == ["c"]
    await three.project("unlink", "LUẬN VĂN", collections="a,b")
    assert (await info(three, "Luận văn")).collections == ["c"]


async def test_linking_twice_keeps_a_default(three: Desk) -> None:
    await three.project("create", "p", collections="a", default=True)
    await three.project("link", "p", collections="a")
    assert (await info(three, "p")).defaults == ["a"]


async def test_defaults_are_replaced_added_to_and_cleared(three: Desk) -> None:
    await three.project("create", "p", collections="a")
    await three.project("set-defaults", "p", collections="b")
    assert ((await info(three, "p")).collections, (await info(three, "p")).defaults) == (["a", "b"], ["b"])
    await three.project("set-defaults", "p", collections="c", append=True)
    assert (await info(three, "p")).defaults == ["b", "c"]
    await three.project("set-defaults", "p", collections="a")
    assert (await info(three, "p")).defaults == ["a"]
    await three.project("set-defaults", "p", clear=True)
    assert ((await info(three, "p")).collections, (await info(three, "p")).defaults) == (["a", "b", "c"], [])
    for wrong in ({"clear": True, "append": True}, {"clear": True, "collections": "a"}):
        with pytest.raises(InvalidProjectRequest, match="clear"):
            await three.project("set-defaults", "p", **wrong)


async def test_an_unknown_collection_is_a_collection_error_and_nothing_changes(three: Desk) -> None:
    for action in ("link", "unlink", "set-defaults"):
        if action == "link":
            with pytest.raises(UnknownCollection):
                await three.project("create", "p", collections="a,nobody")
            with pytest.raises(UnknownProject):
                await three.project("info", "p")
            await three.project("create", "p", collections="a")
        with pytest.raises(UnknownCollection) as refused:
            await three.project(action, "p", collections="b,nobody")
        assert refused.value.contract_code == -32002
        assert (await info(three, "p")).collections == ["a"]


async def test_unlinking_what_is_not_linked_is_said(three: Desk) -> None:
    await three.project("create", "p", collections="a")
    with pytest.raises(CollectionError) as refused:
        await three.project("unlink", "p", collections="a,b")
    assert "'b' is not linked to 'p'" in refused.value.message
    assert "Its collections are: 'a'" in told(refused.value)
    assert (await info(three, "p")).collections == ["a"]


async def test_an_unknown_project_brings_near_names(desk: Desk) -> None:
    await desk.project("create", "Thesis 2026")
    for action in ("link", "unlink", "set-defaults", "info", "archive", "unarchive"):
        with pytest.raises(UnknownProject) as refused:
            await desk.project(action, "tesis 2026", collections="a")
        assert (refused.value.contract_code, refused.value.status) == (-32001, 404)
        assert "Did you mean 'Thesis 2026'?" in told(refused.value)


@pytest.mark.parametrize("action", ["create", "link", "unlink", "set-defaults", "info", "archive", "unarchive"])
async def test_a_missing_name_is_named(desk: Desk, action: str) -> None:
    with pytest.raises(InvalidProjectRequest, match="'project_name' is required") as refused:
        await desk.project(action)
    assert refused.value.contract_code == -32001


async def test_what_else_an_action_needs_is_named(desk: Desk) -> None:
    await desk.project("create", "p")
    for action in ("link", "unlink", "set-defaults"):
        for given in (None, "", " , ", "[]"):
            with pytest.raises(InvalidProjectRequest, match="'collections' is required"):
                await desk.project(action, "p", collections=given)
    with pytest.raises(InvalidProjectRequest, match="'directory' is required"):
        await desk.project("detect")


async def test_of_creates_at_the_same_moment_one_wins(desk: Desk) -> None:
    outcomes = await asyncio.gather(
        *(desk.project("create", name) for name in ("Race", "race", "RACE")), return_exceptions=True
    )
    assert sum(isinstance(one, ProjectExists) for one in outcomes) == 2
    assert len((await desk.project("list")).projects or []) == 1


async def test_the_list_comes_in_pages_without_the_archived(desk: Desk) -> None:
    for number in range(5):
        await desk.project("create", f"p{number}")
    await desk.project("archive", "p1")
    first = await desk.project("list", limit=3)
    assert [one.name for one in first.projects or []] == ["p0", "p2", "p3"]
    second = await desk.project("list", limit=3, cursor=first.next_cursor)
    assert [one.name for one in second.projects or []] == ["p4"]
    assert second.next_cursor is None
    everything = await desk.project("list", include_archived=True)
    assert [one.archived for one in everything.projects or []] == [False, True, False, False, False]
    await desk.project("unarchive", "p1")
    assert not (await info(desk, "p1")).archived


async def test_the_project_of_a_folder_is_that_of_the_nearest_one_above(desk: Desk) -> None:
    await desk.project("create", "outer", directory="/home/lan/work/")
    await desk.project("create", "inner", directory="/home/lan/work/thesis")
    for directory, expected in (
        ("/home/lan/work", "outer"),
        ("/home/lan/work/other/deep", "outer"),
        ("/home/lan/work/thesis/", "inner"),
        ("/home/lan/work/thesis/ch1", "inner"),
        ("/home/lan/work/thesis2", "outer"),
    ):
        found = (await desk.project("detect", directory=directory)).project
        assert found is not None
        assert found.name == expected
    with pytest.raises(UnknownProject):
        await desk.project("detect", directory="/home/lan")
    await desk.project("archive", "inner")
    found = (await desk.project("detect", directory="/home/lan/work/thesis")).project
    assert found is not None
    assert found.name == "outer"


async def test_a_folder_has_one_project(desk: Desk) -> None:
    await desk.project("create", "one", directory="/work")
    with pytest.raises(ProjectExists, match="belongs to the project 'one'"):
        await desk.project("create", "two", directory="/work/")
    await desk.project("archive", "one")
    await desk.project("create", "two", directory="/work")
    with pytest.raises(ProjectExists):
        await desk.project("unarchive", "one")


@pytest.mark.parametrize("directory", ["work", "./work", "/work/../etc"])
async def test_a_folder_is_an_absolute_path(desk: Desk, directory: str) -> None:
    with pytest.raises(InvalidProjectRequest, match="'directory' must"):
        await desk.project("create", "p", directory=directory)


async def test_a_neighbour_has_projects_of_their_own(three: Desk) -> None:
    await three.project("create", "p", collections="a", directory="/work")
    neighbour = three.neighbour()
    with pytest.raises(UnknownProject):
        await neighbour.project("info", "p")
    with pytest.raises(UnknownProject):
        await neighbour.project("detect", directory="/work")
    await neighbour.project("create", "p", directory="/work")
    with pytest.raises(UnknownCollection):
        await neighbour.project("link", "p", collections="a")


async def test_every_refusal_says_what_to_do(three: Desk) -> None:
    await three.project("create", "p")
    calls = [
        three.project("create", "P"),
        three.project("info", "q"),
        three.project("link", "p"),
        three.project("detect", directory="/nowhere"),
        three.project("list", cursor="nonsense"),
    ]
    for call in calls:
        with pytest.raises(KhoError) as refused:
            await call
        assert refused.value.contract_code == -32001
        assert refused.value.guidance
