"""Which collections a question is about."""

import pytest
from tests.research.factories import Desk

from kho.research.errors import UnknownCollection, UnknownProject


async def test_a_question_is_about_the_named_collections(three: Desk) -> None:
    scope = await three.scope(["C", "a"])
    assert (scope.names, scope.how) == (["c", "a"], "named")
    assert scope.narrowed == tuple(scope.ids)
    with pytest.raises(UnknownCollection):
        await three.scope(["a", "nobody"])


async def test_else_about_the_projects_defaults_else_its_collections_else_all(three: Desk) -> None:
    await three.project("create", "p", directory="/work")
    everything = await three.scope()
    assert (everything.names, everything.how, everything.narrowed) == (["a", "b", "c"], "all", ())
    assert (str(everything), everything.notes) == ("all collections", ())

    await three.project("link", "p", collections="a,b")
    linked = await three.scope(project="P")
    assert (linked.names, linked.how, linked.project) == (["a", "b"], "project collections", "p")
    assert str(linked) == "the collections of the project 'p'"

    await three.project("set-defaults", "p", collections="b")
    for scope in (await three.scope([], "p"), await three.scope(directory="/work/src")):
        assert (scope.names, scope.how) == (["b"], "project defaults")
        assert scope.narrowed == tuple(scope.ids)
    assert (await three.scope(["c"], "p")).names == ["c"]
    assert (await three.scope(directory="/elsewhere")).how == "all"
    assert (await three.scope()).names == ["a", "b", "c"]
    with pytest.raises(UnknownProject):
        await three.scope(["a"], "nobody")


async def test_a_project_without_collections_is_said(three: Desk) -> None:
    """Somebody who names it is not answered from elsewhere; somebody who only stands in its folder is."""
    await three.project("create", "p", directory="/work", collections="a")
    await three.collection("delete", "a")
    named = await three.scope(project="p")
    assert (named.ids, named.how, named.project) == ([], "project collections", "p")
    here = await three.scope(directory="/work")
    assert (here.names, here.how, here.narrowed) == (["b", "c"], "all", ())
    for scope, outcome in ((named, "Nothing was searched."), (here, "All others were searched instead.")):
        [note] = scope.notes
        assert "'p' has no collections" in note
        assert note.endswith(outcome)


async def test_what_only_archived_projects_have_is_left_alone(three: Desk) -> None:
    await three.project("create", "old", collections="a,b", directory="/old")
    await three.project("create", "new", collections="b")
    await three.project("archive", "old")
    for scope in (await three.scope(), await three.scope(directory="/old")):
        assert (scope.names, scope.how, scope.narrowed) == (["b", "c"], "all", tuple(scope.ids))
        assert scope.left_out == ["a"]
        assert "'a'" in scope.notes[0]
    asked = await three.scope(project="old")
    assert (asked.names, asked.notes) == (["a", "b"], ("The project 'old' is archived.",))
    assert (await three.scope(["a"])).notes == ()
    await three.project("unarchive", "old")
    assert (await three.scope()).narrowed == ()


async def test_a_caller_without_collections_has_an_empty_scope(desk: Desk) -> None:
    scope = await desk.scope()
    assert (scope.ids, scope.names, scope.how) == ([], [], "all")
