"""Many at once: no update is lost, no circle closed, and what is found is what is said."""

import asyncio
import random

import pytest
from tests.documents.document_harness import Desk

from kho.documents import service
from kho.kernel.errors import KhoError

CLIENTS, TIMES = 32, 20
AT_ONCE = 5
"""Clients that try at the same moment: of these one gets through, and the others have tried in vain."""
NODES, MOVERS, MOVES = 200, 16, 100


async def increment(desk: Desk, key: str, turns: asyncio.Semaphore) -> None:
    """Adds one to what it knows, and tries again whenever somebody was faster: a conflict says how things stand."""
    async with turns:
        seen = await desk.get("counter")
        revision, count = seen["revision"], seen["metadata"]["count"]
        while True:
            sent = {
                "document_id": "counter",
                "patch": {"content": {"body": f"count {count + 1}"}, "metadata": {"count": count + 1, "by": key}},
                "last_known_revision": revision,
            }
            outcome = await desk.ask("update_document", sent)
            if outcome.error is None:
                return
            assert outcome.error.code == "CONFLICT", outcome.error.as_dict()
            details = outcome.error.details
            assert details["expected_revision"] == revision < details["actual_revision"]
            revision, count = details["actual_revision"], details["metadata"]["count"]


@pytest.mark.requirement("000.update.lock")
async def test_no_update_is_lost(desk: Desk) -> None:
    await desk.create("counter", body="count 0", metadata={"count": 0, "by": "nobody"})
    turns = asyncio.Semaphore(AT_ONCE)

    async def client(number: int) -> None:
        for time in range(TIMES):
            await increment(desk, f"{number}/{time}", turns)

    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    got = await desk.get("counter")
    assert (got["content"]["body"], got["metadata"]["count"]) == (f"count {CLIENTS * TIMES}", CLIENTS * TIMES)
    history = await desk.pages("document_history", "revisions", document_id="counter", limit=200)
    assert [one["revision"] for one in history] == list(range(CLIENTS * TIMES + 1, 0, -1))
    assert [one["metadata"]["count"] for one in history] == list(range(CLIENTS * TIMES, -1, -1))
    assert len({one["metadata"]["by"] for one in history}) == CLIENTS * TIMES + 1
    entries = await desk.audited(document_id="counter", action="update_document")
    assert [(one["before_revision"], one["after_revision"]) for one in entries] == [
        (number, number + 1) for number in range(1, CLIENTS * TIMES + 1)
    ]


async def test_edits_that_do_not_touch_each_other_all_stay(desk: Desk) -> None:
    """Without last_known_revision an edit is made on whatever the document says by then."""
    words = [f"[{number}]" for number in range(service.MAX_ATTEMPTS)]
    await desk.create("list", body=" ".join(words))
    edits = [{"document_id": "list", "old_text": word, "new_text": f"{word} done"} for word in words]
    await asyncio.gather(*(desk.done("edit_document", **edit) for edit in edits))
    got = await desk.get("list")
    assert got["content"]["body"] == " ".join(f"{word} done" for word in words)
    assert got["revision"] == len(words) + 1


@pytest.mark.requirement("000.move.cycle")
async def test_moves_at_once_leave_a_tree(desk: Desk) -> None:
    chance = random.Random(7)
    ids = [f"n{number}" for number in range(NODES)]
    for number, id in enumerate(ids):
        await desk.create(id, ids[chance.randrange(number)] if number > 3 and chance.random() < 0.8 else "root")

    async def client(number: int) -> int:
        own, refused = random.Random(number), 0
        for _ in range(MOVES):
            id, parent = own.choice(ids), own.choice([*ids, "root"])
            position = own.choice([None, {"ordering": own.randrange(5)}, {"before": own.choice(ids)}])
            sent = {"document_id": id, "new_parent_id": parent, "position": position}
            outcome = await desk.ask("move_document", sent)
            if outcome.error is not None:
                assert outcome.error.code == "INVALID_ARGUMENT", outcome.error.as_dict()
                refused += 1
        return refused

    refused = await asyncio.gather(*(client(number) for number in range(MOVERS)))
    assert sum(refused) < MOVERS * MOVES
    await check_tree(desk, set(ids))


async def check_tree(desk: Desk, ids: set[str]) -> None:
    """Every document is reached from the top exactly once, below its own parent, in a dense order."""
    listed = await desk.pages("list_documents", "documents", recursive=True, limit=200)
    assert sorted(one["document_id"] for one in listed) == sorted(ids)
    siblings: dict[str, list[int]] = {}
    above = {"root": 0}
    for one in listed:
        assert one["depth"] == above[one["parent_id"]] + 1
        above[one["document_id"]] = one["depth"]
        siblings.setdefault(one["parent_id"], []).append(one["ordering"])
    assert all(orders == list(range(len(orders))) for orders in siblings.values())


async def test_two_moves_cannot_close_a_circle(desk: Desk) -> None:
    for round in range(20):
        one, other = f"a{round}", f"b{round}"
        await desk.create(one)
        await desk.create(other)
        outcomes = await asyncio.gather(
            desk.ask("move_document", {"document_id": one, "new_parent_id": other}),
            desk.ask("move_document", {"document_id": other, "new_parent_id": one}),
        )
        errors = [outcome.error for outcome in outcomes if outcome.error is not None]
        assert [error.message for error in errors] == ["A document cannot be moved below itself."]


async def test_what_is_found_is_what_is_said_however_moves_and_updates_meet(desk: Desk) -> None:
    for parent in ("left", "right"):
        await desk.create(parent)
    for round in range(40):
        id = f"doc{round}"
        await desk.create(id, "left", f"oldword{round}")
        await asyncio.gather(desk.update(id, content={"body": f"newword{round}"}), desk.move(id, "right"))
        assert (await desk.get(id))["parent_id"] == "right"
        assert await desk.found(f"oldword{round}") == set()
        assert await desk.found(f"newword{round}", parent_id="left") == set()
        assert await desk.found(f"newword{round}", parent_id="right") == {id}


async def test_deleting_and_restoring_while_others_write(desk: Desk) -> None:
    await desk.create("top")

    async def writer(number: int) -> None:
        id = f"w{number}"
        for time in range(5):
            outcome = await desk.ask(
                "create_document",
                {"document_id": f"{id}-{time}", "parent_id": "top", "content": {"body": f"{id}x{time}"}},
            )
            ends(outcome.error, "NOT_FOUND")
            sent = {"document_id": f"{id}-{time}", "patch": {"content": {"body": f"{id}y{time}"}}}
            ends((await desk.ask("update_document", sent)).error, "NOT_FOUND", "CONFLICT")

    async def deleter() -> None:
        for _ in range(5):
            ends((await desk.ask("delete_document", {"document_id": "top"})).error, "CONFLICT")
            ends((await desk.ask("restore_document", {"document_id": "top"})).error, "CONFLICT")

    await asyncio.gather(deleter(), *(writer(number) for number in range(6)))
    listed = await desk.pages("list_documents", "documents", parent_id="top", limit=50)
    for one in listed:
        body = (await desk.get(one["document_id"]))["content"]["body"]
        assert await desk.found(body) == {one["document_id"]}
    await desk.delete("top")
    rows = await desk.dump(["passages"])
    assert rows == {"passages": []}


def ends(error: KhoError | None, *codes: str) -> None:
    assert error is None or error.code in codes, error.as_dict()
