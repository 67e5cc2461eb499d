"""Deleting: a document goes with all that is below it, at once or at its time, and comes back as it was."""

import asyncio

import pytest
from tests.documents.document_harness import Desk
from tests.timeouts import PATIENCE

DELETED_AT = 7
"""Which column of a document's row that is."""


async def plant(desk: Desk) -> None:
    """top > (left > leaf, right), each with a word of its own."""
    await desk.create("top", body="wordtop")
    await desk.create("left", "top", "wordleft", metadata={"title": "Left", "tags": ["x"]})
    await desk.create("leaf", "left", "wordleaf")
    await desk.create("right", "top", "wordright")


async def seen(desk: Desk) -> set[str]:
    """By every way of looking; they must agree."""
    ids = ("top", "left", "leaf", "right")
    found = {id for id in ids if await desk.found(f"word{id}") == {id}}
    got = (await desk.done("get_documents", document_ids=ids))["documents"]
    listed = (await desk.done("list_documents", recursive=True))["documents"]
    assert found == {one["document_id"] for one in got} == {one["document_id"] for one in listed} & {*ids}
    return found


@pytest.mark.requirement("000.delete.hidden", "000.delete.soft")
async def test_a_document_goes_with_all_below_it_and_comes_back(desk: Desk) -> None:
    await plant(desk)
    before = await desk.dump(["documents", "document_revisions", "document_bodies"])
    gone = await desk.delete("left", reason="old", deleted_by="mai")
    assert (gone["status"], gone["affected"], gone["deleted"]) == ("deleted", 2, True)
    assert await seen(desk) == {"top", "right"}
    assert await desk.children("top") == ["right"]
    kept = await desk.get("leaf", include_deleted=True)
    assert kept["deleted"]
    assert kept["content"]["body"] == "wordleaf"
    both = await desk.done("get_documents", document_ids=["leaf", "left", "nothing"], include_deleted=True)
    assert ([one["document_id"] for one in both["documents"]], both["missing"]) == (["leaf", "left"], ["nothing"])
    back = await desk.restore("left")
    assert (back["status"], back["affected"], back["revision"]) == ("restored", 2, 1)
    assert await seen(desk) == {"top", "left", "leaf", "right"}
    assert await desk.children("top") == ["left", "right"]
    assert await desk.dump(["documents", "document_revisions", "document_bodies"]) == before


@pytest.mark.requirement("000.delete.audit")
async def test_the_log_says_who_and_why_of_every_document_that_went(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("left", reason="retired", deleted_by="cursor-agent")
    await desk.restore("left")
    gone = await desk.audited(action="delete_document")
    assert {one["document_id"] for one in gone} == {"left", "leaf"}
    for one in gone:
        assert (one["actor"], one["reason"], one["before_revision"]) == ("somebody", "retired", 1)
        assert one["details"]["deleted_by"] == "cursor-agent"
        assert one["details"]["deleted_with"] == "left"
        assert one["details"]["deleted_at"]
    assert {one["document_id"] for one in await desk.audited(action="restore_document")} == {"left", "leaf"}


async def test_what_went_before_stays_away(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("leaf")
    assert (await desk.delete("top"))["affected"] == 3
    assert await seen(desk) == set()
    assert (await desk.restore("top"))["affected"] == 3
    assert await seen(desk) == {"top", "left", "right"}
    assert (await desk.restore("leaf"))["affected"] == 1
    assert await seen(desk) == {"top", "left", "leaf", "right"}


async def test_nothing_comes_back_below_what_is_deleted(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("leaf")
    await desk.delete("top")
    for id in ("leaf", "left"):
        refused = await desk.refused("restore_document", document_id=id)
        assert (refused.code, refused.status) == ("CONFLICT", 409)
        assert "Restore 'top' first" in refused.guidance
    assert await seen(desk) == set()


async def test_a_deleted_document_is_left_alone(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("left")
    before = await desk.dump()
    for operation, arguments in (
        ("update_document", {"patch": {"content": {"body": "x"}}}),
        ("edit_document", {"old_text": "word", "new_text": "x"}),
        ("move_document", {"new_parent_id": "root"}),
        ("delete_document", {}),
        ("restore_revision", {"revision": 1}),
    ):
        refused = await desk.refused(operation, document_id="leaf", **arguments)
        assert (refused.code, refused.status) == ("CONFLICT", 409)
        assert "restore_document" in refused.guidance
    for operation, arguments in (
        ("create_document", {"document_id": "new", "parent_id": "left", "content": {"body": "x"}}),
        ("move_document", {"document_id": "right", "new_parent_id": "left"}),
        ("list_documents", {"parent_id": "left"}),
        ("query_knowledge", {"query": "x", "filters": {"parent_id": "left"}}),
        ("query_knowledge", {"query": "x", "filters": {"under": "left"}}),
    ):
        refused = await desk.refused(operation, **arguments)
        assert (refused.code, refused.status) == ("NOT_FOUND", 404), operation
    taken = await desk.refused("create_document", document_id="leaf", content={"body": "x"})
    assert taken.code == "CONFLICT"
    assert await desk.dump() == before
    assert (await desk.refused("restore_document", document_id="top")).code == "CONFLICT"
    history = await desk.done("document_history", document_id="leaf")
    assert [one["revision"] for one in history["revisions"]] == [1]


async def test_it_comes_back_to_its_place(desk: Desk) -> None:
    for id in "abcde":
        await desk.create(id)
    await desk.delete("c")
    await desk.move("e", "root", ordering=0)
    await desk.move("a", "root", before="d")
    assert await desk.children() == ["e", "b", "a", "d"]
    await desk.restore("c")
    order = await desk.children()
    assert [id for id in order if id != "c"] == ["e", "b", "a", "d"]
    assert order.index("b") < order.index("c") < order.index("d")


# -- at a set time -----------------------------------------------------------------------------------------------------


@pytest.mark.requirement("000.delete.at")
async def test_at_its_time_it_is_hidden_though_nothing_ran(desk: Desk) -> None:
    await plant(desk)
    at = desk.clock.later(3_600)
    scheduled = await desk.delete("left", delete_at=at, reason="expires", deleted_by="mai")
    assert (scheduled["status"], scheduled["delete_at"]) == ("scheduled", at)
    assert "deleted" not in scheduled
    assert await seen(desk) == {"top", "left", "leaf", "right"}
    assert (await desk.get("left"))["delete_at"] == at
    desk.clock.pass_seconds(3_600)
    assert await seen(desk) == {"top", "right"}
    assert (await desk.get("leaf", include_deleted=True))["deleted_at"] == at
    entries = await desk.audited(document_id="left")
    assert [one["action"] for one in entries] == ["create_document", "schedule_deletion", "delete_document"]
    assert [(one["actor"], one["reason"]) for one in entries[1:]] == [("somebody", "expires"), ("somebody", "expires")]
    assert entries[-1]["details"]["deleted_by"] == "mai"
    assert (await desk.restore("left"))["affected"] == 2
    assert await seen(desk) == {"top", "left", "leaf", "right"}


@pytest.mark.parametrize("first", ["query", "get", "list", "create", "update", "move", "delete", "audit", "resource"])
async def test_whoever_comes_first_finds_it_hidden(desk: Desk, first: str) -> None:
    await plant(desk)
    await desk.delete("left", delete_at=desk.clock.later(60))
    desk.clock.pass_seconds(60)
    match first:
        case "query":
            assert await desk.found("wordleaf") == set()
        case "get":
            assert (await desk.refused("get_document", document_id="leaf")).code == "NOT_FOUND"
        case "list":
            assert await desk.children("top") == ["right"]
        case "create":
            sent = {"document_id": "n", "parent_id": "left", "content": {"body": "x"}}
            assert (await desk.refused("create_document", **sent)).code == "NOT_FOUND"
        case "update":
            sent = {"document_id": "leaf", "patch": {"content": {"body": "x"}}}
            assert (await desk.refused("update_document", **sent)).code == "CONFLICT"
        case "move":
            assert (await desk.refused("move_document", document_id="right", new_parent_id="leaf")).code == "NOT_FOUND"
        case "delete":
            assert (await desk.refused("delete_document", document_id="leaf")).code == "CONFLICT"
        case "audit":
            assert (await desk.audited())[-1]["action"] == "delete_document"
        case _:
            assert desk.capability.resources is not None
            assert await desk.capability.resources.read(desk.call(), "kho://documents/leaf") is None
    assert (await desk.get("left", include_deleted=True))["deleted"]


async def test_restoring_calls_it_off(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("left", delete_at=desk.clock.later(60))
    back = await desk.restore("left")
    assert (back["status"], back["affected"]) == ("restored", 0)
    assert "delete_at" not in await desk.get("left")
    desk.clock.pass_seconds(60)
    assert await seen(desk) == {"top", "left", "leaf", "right"}
    assert [one["action"] for one in await desk.audited(document_id="left")][-1] == "cancel_deletion"
    assert (await desk.refused("restore_document", document_id="left")).code == "CONFLICT"


async def test_lists_show_what_will_go_also_with_one_above_it(desk: Desk) -> None:
    await plant(desk)
    soon, later = desk.clock.later(600), desk.clock.later(6_000)
    await desk.delete("left", delete_at=later)
    await desk.delete("top", delete_at=soon)
    await desk.delete("right")
    listed = await desk.done("list_documents", recursive=True, include_deleted=True)
    due = {one["document_id"]: one.get("delete_at") for one in listed["documents"]}
    assert due == {"top": soon, "left": soon, "leaf": soon, "right": None}
    await desk.restore("top")
    listed = await desk.done("list_documents", recursive=True)
    assert [one.get("delete_at") for one in listed["documents"]] == [None, later, later]
    assert (await desk.get("leaf"))["delete_at"] == later


async def test_who_calls_off_what_was_set_for_one_above_is_told_which(desk: Desk) -> None:
    await plant(desk)
    later, soon = desk.clock.later(600), desk.clock.later(60)
    await desk.delete("left", delete_at=later)
    await desk.delete("top", delete_at=soon)
    for above, at in (("top", soon), ("left", later)):
        refused = await desk.refused("restore_document", document_id="leaf")
        assert refused.code == "CONFLICT"
        assert refused.guidance is not None
        assert f"deleted with it at {at}" in refused.guidance
        assert f'restore_document(document_id="{above}")' in refused.guidance
        await desk.restore(above)
    assert "delete_at" not in await desk.get("leaf")
    assert "nothing to restore" in ((await desk.refused("restore_document", document_id="leaf")).guidance or "")


async def test_another_time_takes_the_place_of_the_first(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("left", delete_at=desk.clock.later(60))
    await desk.delete("left", delete_at=desk.clock.later(6_000))
    desk.clock.pass_seconds(60)
    assert "left" in await seen(desk)
    await desk.delete("left")
    assert "left" not in await seen(desk)
    await desk.restore("left")
    desk.clock.pass_seconds(6_000)
    assert "left" in await seen(desk)


async def test_a_time_that_is_past_is_now(desk: Desk) -> None:
    await plant(desk)
    assert (await desk.delete("top", delete_at="2001-01-01T00:00:00Z"))["affected"] == 4
    assert await seen(desk) == set()
    assert (await desk.get("leaf", include_deleted=True))["deleted_at"] == "2001-01-01T00:00:00Z"


async def test_a_child_whose_time_comes_first_stays_away_when_its_parent_returns(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("leaf", delete_at=desk.clock.later(60))
    await desk.delete("top", delete_at=desk.clock.later(120))
    desk.clock.pass_seconds(200)
    assert await seen(desk) == set()
    await desk.restore("top")
    assert await seen(desk) == {"top", "left", "right"}


async def test_a_read_only_hub_hides_what_is_due_and_changes_nothing(desk: Desk) -> None:
    await plant(desk)
    await desk.delete("leaf", delete_at=desk.clock.later(90))
    await desk.delete("left", delete_at=desk.clock.later(60), reason="expires")
    desk.clock.pass_seconds(100)
    reader = desk.neighbour(tenant=desk.tenant, read_only=True)
    before = await desk.dump()
    assert await seen(reader) == {"top", "right"}
    assert await reader.children("top") == ["right"]
    for id in ("left", "leaf"):
        assert (await reader.refused("get_document", document_id=id)).status == 404
        kept = await reader.get(id, include_deleted=True)
        assert (kept["deleted"], "delete_at" in kept) == (True, False)
    refused = await reader.refused("query_knowledge", query="x", filters={"under": "left"})
    assert refused.status == 404
    assert await desk.dump() == before
    assert await seen(desk) == {"top", "right"}
    assert {one["document_id"] for one in await desk.audited(action="delete_document")} == {"leaf", "left"}


async def test_many_that_are_due_at_once(desk: Desk) -> None:
    """More than are carried out in one go; a change sees none of them."""
    at = desk.clock.later(10_000)
    ids = [f"d{number:03}" for number in range(120)]
    for id in ids:
        await desk.create(id)
        await desk.delete(id, delete_at=at)
    desk.clock.pass_seconds(10_000)
    refused = await desk.refused("create_document", parent_id=ids[-1], content={"body": "x"})
    assert refused.code == "NOT_FOUND"
    assert await desk.children() == []
    assert len(await desk.audited(action="delete_document")) == len(ids)


async def test_the_background_tells_of_it(desk: Desk) -> None:
    """Nobody reads: the hub itself carries it out when the time has come."""
    await desk.create("once")
    await desk.delete("once", delete_at=desk.clock.later(30))
    desk.clock.pass_seconds(30)
    for work in desk.capability.follow:
        desk.background.add(work)
    async with asyncio.timeout(PATIENCE):
        while not (await desk.dump(["documents"]))["documents"][0][DELETED_AT]:
            pass
    assert [one["action"] for one in await desk.audited(document_id="once")][-1] == "delete_document"
