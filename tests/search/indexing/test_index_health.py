"""What state the indexes are in, and how they are made anew."""

import asyncio
from functools import partial

import pytest
from tests.timeouts import PATIENCE

from kho.kernel.background import Background
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Database, Tx, Words
from kho.lib.clock import SECOND, system_clock
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import LEASE
from kho.search.indexing.index import Document, Field, Index, Passage, prepare
from kho.search.indexing.reindex import IndexHealth, form_row, index_health, reindex, reindex_all

NOTE = Document("notes", "t", "n1", [Passage((Field("The kettle overheats."),))])


def all_notes(tx: Tx, after: str, most: int) -> tuple[list[Document], str | None]:
    return [NOTE], None


async def test_how_things_stand(db: Database, words: Words) -> None:
    index, now = Index(words, None, "", system_clock), system_clock()
    assert await db.read(lambda tx: index_health(tx, now)) == IndexHealth({}, 0, None, None, None)

    def work(tx: Tx) -> None:
        index.put(tx, [prepare(NOTE)])
        passages.enqueue_all(tx, now)
        tx.run("UPDATE vector_queue SET problem = $1", "it sleeps")
        tx.run("INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)", LEASE, "4711:x", now + SECOND)

    await db.write(work)
    found = await db.read(lambda tx: index_health(tx, now))
    assert (found.spaces, found.pending, found.problem, found.filling) == ({"notes": 1}, 1, "it sleeps", "4711")
    later = await db.read(lambda tx: index_health(tx, now + 2 * SECOND))
    assert later.filling is None  # whoever it was fell silent


async def test_everything_is_filed_anew_beside_work_without_end(db: Database, words: Words) -> None:
    background, index = Background(), Index(words, None, "", system_clock)
    filing = partial(reindex, db, index, background, "notes", 1, all_notes)
    await filing()

    def lose(tx: Tx) -> None:
        tx.run("DELETE FROM passages")

    await db.write(lose)
    await filing()  # it is filed, as far as anybody knows
    assert (await db.read(lambda tx: index_health(tx, 0))).spaces == {}
    ended: list[str] = []

    async def endless() -> None:
        while not background.stopping:
            await background.pause(60)
        ended.append("endless")

    async with asyncio.timeout(PATIENCE):
        await reindex_all(db, background, [endless, filing], spaces=["notes"], clock=system_clock, vectors=True)
    found = await db.read(lambda tx: index_health(tx, 0))
    assert (found.spaces, ended) == ({"notes": 1}, ["endless"])
    assert await db.read(lambda tx: passages.state(tx, form_row("notes"))) is not None


async def test_a_failure_is_not_waited_out(db: Database) -> None:
    background = Background()
    await db.write(lambda tx: passages.set_state(tx, form_row("notes"), "1.1"))

    async def fails() -> None:
        raise DatabaseError("The disk is full.")

    async with asyncio.timeout(PATIENCE):
        with pytest.raises(DatabaseError, match="disk is full"):
            await reindex_all(db, background, [fails], spaces=["notes"], clock=system_clock, vectors=False)
