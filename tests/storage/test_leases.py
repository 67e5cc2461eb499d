"""Leases on both databases: one holder at a time, until it lets go or its time is over."""

from collections.abc import Callable

import pytest

from kho.kernel.ports import Database, Lease, Tx
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate

MINUTE = 60_000_000


class Clock:
    """Stands until it is moved."""

    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[[SqlLeases], Lease]


def named(leases: SqlLeases) -> Lease:
    return leases.named("work", MINUTE)


def rows(leases: SqlLeases) -> Lease:
    return leases.rows(
        "jobs", ("tenant", "id"), MINUTE, owner="held_by", until="held_until", nobody="''", where="state = 'open'"
    )


KINDS: list[tuple[Make, tuple[str | int, ...]]] = [(named, ()), (rows, ("t", 1))]


@pytest.fixture
async def db(blank: Database) -> Database:
    await migrate(blank, [OWN])

    def work(tx: Tx) -> None:
        tx.script(
            "CREATE TABLE jobs (tenant TEXT, id BIGINT, state TEXT, held_by TEXT NOT NULL DEFAULT '', "
            "held_until BIGINT NOT NULL DEFAULT 0)"
        )
        tx.many(
            "INSERT INTO jobs (tenant, id, state) VALUES ($1, $2, $3)",
            [("t", 1, "open"), ("t", 2, "open"), ("u", 1, "open"), ("t", 3, "done")],
        )

    await blank.write(work)
    return blank


@pytest.mark.parametrize(("make", "key"), KINDS)
async def test_one_holds_it_at_a_time(db: Database, clock: Clock, make: Make, key: tuple[str | int, ...]) -> None:
    mine, other = make(SqlLeases(clock)), make(SqlLeases(clock))
    assert await db.write(lambda tx: mine.take(tx, *key))
    assert not await db.write(lambda tx: other.take(tx, *key))
    assert not await db.write(lambda tx: other.hold(tx, *key))
    await db.write(lambda tx: other.release(tx, *key))
    assert await db.write(lambda tx: mine.take(tx, *key)), "taken again by its holder"
    await db.write(lambda tx: mine.release(tx, *key))
    assert not await db.write(lambda tx: mine.hold(tx, *key)), "it was let go"
    assert await db.write(lambda tx: other.take(tx, *key))


@pytest.mark.parametrize(("make", "key"), KINDS)
async def test_the_lease_of_a_silent_process_runs_out(
    db: Database, clock: Clock, make: Make, key: tuple[str | int, ...]
) -> None:
    mine, other = make(SqlLeases(clock)), make(SqlLeases(clock))
    assert await db.write(lambda tx: mine.take(tx, *key))
    clock.now += MINUTE - 1
    assert await db.write(lambda tx: mine.hold(tx, *key)), "moves the end"
    clock.now += MINUTE - 1
    assert not await db.write(lambda tx: other.take(tx, *key))
    clock.now += 1
    assert await db.write(lambda tx: other.take(tx, *key))
    assert not await db.write(lambda tx: mine.hold(tx, *key)), "another has it by now"
    await db.write(lambda tx: mine.release(tx, *key))
    assert await db.write(lambda tx: other.hold(tx, *key)), "a late release harms nobody"


async def test_each_row_has_a_lease_of_its_own(db: Database, clock: Clock) -> None:
    mine, other = rows(SqlLeases(clock)), rows(SqlLeases(clock))
    assert await db.write(lambda tx: mine.take(tx, "t", 1))
    assert await db.write(lambda tx: other.take(tx, "t", 2) and other.take(tx, "u", 1))
    assert not await db.write(lambda tx: mine.take(tx, "t", 3)), "outside of the condition"
    assert not await db.write(lambda tx: mine.take(tx, "t", 4)), "no such row"
    await db.write(lambda tx: mine.release(tx, "t", 1))
    held = await db.read(lambda tx: tx.all("SELECT tenant, id FROM jobs WHERE held_by <> '' ORDER BY tenant, id"))
    assert held == [("t", 2), ("u", 1)]


async def test_a_lease_may_be_free_before_its_end(db: Database, clock: Clock) -> None:
    """Where it can be told that the holder has ended, nobody waits."""
    mine = SqlLeases(clock, "gone").named("work", MINUTE)
    other = SqlLeases(clock).named("work", MINUTE, free_if="leases.owner = 'gone'")
    assert await db.write(lambda tx: mine.take(tx))
    assert await db.write(lambda tx: other.take(tx))
    await db.write(lambda tx: other.release(tx))
    assert await db.read(lambda tx: tx.all("SELECT name FROM leases")) == []
