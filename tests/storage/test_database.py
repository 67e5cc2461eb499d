"""What both databases promise, told apart only where they must be."""

import asyncio
import threading

import pytest
from tests.timeouts import PATIENCE

from kho.kernel import errors
from kho.kernel.ports import Database, Row, Tx

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
async def db(db: Database) -> Database:
    await db.write(
        lambda tx: tx.script(
            "CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT, size DOUBLE PRECISION, data "
            + ("BLOB);" if tx.engine == "sqlite" else "BYTEA);")
            + "CREATE TABLE parts (thing BIGINT NOT NULL REFERENCES things (id), name TEXT UNIQUE);"
        )
    )
    return db


def insert(tx: Tx, number: int, name: str | None = None) -> int:
    return tx.run("INSERT INTO things (id, name) VALUES ($1, $2)", number, name)


async def ids(db: Database) -> list[int]:
    return [row[0] for row in await db.read(lambda tx: tx.all("SELECT id FROM things ORDER BY id"))]


async def test_values_come_back_as_they_went_in(db: Database) -> None:
    rows: list[Row] = [
        (1, "kho kiến thức 知識庫 🏠", 1.5, b"\x00\xff"),
        (-(2**63), "", -0.0, b""),
        (2**63 - 1, None, None, None),
    ]
    await db.write(lambda tx: tx.many("INSERT INTO things (id, name, size, data) VALUES ($1, $2, $3, $4)", rows))
    found = await db.read(lambda tx: tx.all("SELECT id, name, size, data FROM things ORDER BY id"))
    assert found == sorted(rows)
    assert [type(value) for value in found[1]] == [int, str, float, bytes]


async def test_one_gives_the_first_row_or_none(db: Database) -> None:
    await db.write(lambda tx: [insert(tx, 1), insert(tx, 2)])
    assert await db.read(lambda tx: tx.one("SELECT id FROM things ORDER BY id")) == (1,)
    assert await db.read(lambda tx: tx.one("SELECT id FROM things WHERE id = $1", 9)) is None


async def test_run_counts_changed_rows(db: Database) -> None:
    await db.write(lambda tx: [insert(tx, number) for number in range(5)])
    assert await db.write(lambda tx: tx.run("UPDATE things SET name = $1 WHERE id < $2", "x", 3)) == 3
    assert await db.write(lambda tx: tx.run("DELETE FROM things WHERE id > $1", 99)) == 0


async def test_a_parameter_may_be_used_again(db: Database) -> None:
    await db.write(lambda tx: insert(tx, 7, "seven"))
    sql = "SELECT id FROM things WHERE (name = $1 OR name = $2) AND id > 0 AND name = $1"
    assert await db.read(lambda tx: tx.one(sql, "seven", "x")) == (7,)


async def test_booleans_and_sums_are_plain_numbers(db: Database) -> None:
    await db.write(lambda tx: [insert(tx, True), insert(tx, 2**40)])
    (total,) = await db.read(lambda tx: tx.all("SELECT sum(id) FROM things"))
    assert total == (2**40 + 1,)
    assert type(total[0]) is int


@pytest.mark.parametrize("engine_says", ["sqlite", "postgres"])
async def test_the_engine_is_told(db: Database, engine_says: str) -> None:
    assert (db.engine == engine_says) == (await db.read(lambda tx: tx.engine) == engine_says)


async def test_an_exception_rolls_back_and_reaches_the_caller(db: Database) -> None:
    def work(tx: Tx) -> None:
        insert(tx, 1)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await db.write(work)
    assert await ids(db) == []


async def test_stop_iteration_does_not_hang_the_caller(db: Database) -> None:
    empty: list[int] = []
    with pytest.raises(RuntimeError):
        await db.write(lambda tx: next(iter(empty)))


async def test_one_failure_among_many_leaves_its_neighbours(db: Database) -> None:
    def work(tx: Tx, number: int) -> int:
        insert(tx, number)
        if number % 7 == 3:
            raise ValueError(number)
        return number

    async def attempt(number: int) -> int:
        return await db.write(lambda tx: work(tx, number))

    outcomes = await asyncio.gather(*(attempt(number) for number in range(64)), return_exceptions=True)
    good = [number for number in range(64) if number % 7 != 3]
    assert [outcome for outcome in outcomes if isinstance(outcome, int)] == good
    assert sorted(outcome.args[0] for outcome in outcomes if isinstance(outcome, ValueError)) == list(range(3, 64, 7))
    assert await ids(db) == good


async def test_sixty_four_writers_lose_no_update(db: Database) -> None:
    await db.write(lambda tx: insert(tx, 1, "0"))

    def add_one(tx: Tx) -> None:
        tx.run("UPDATE things SET size = coalesce(size, 0) + 1 WHERE id = $1", 1)

    async def writer() -> None:
        for _ in range(5):
            await db.write(add_one)

    await asyncio.gather(*(writer() for _ in range(64)))
    assert await db.read(lambda tx: tx.one("SELECT size FROM things")) == (320.0,)


async def test_a_write_is_seen_by_the_next_read(db: Database) -> None:
    for number in range(20):
        await db.write(lambda tx, number=number: insert(tx, number))
        assert len(await ids(db)) == number + 1


async def test_a_read_sees_one_snapshot(db: Database) -> None:
    await db.write(lambda tx: insert(tx, 1))
    begun, written = threading.Event(), threading.Event()

    def work(tx: Tx) -> tuple[Row | None, Row | None]:
        before = tx.one("SELECT count(*) FROM things")
        begun.set()
        assert written.wait(PATIENCE)
        return before, tx.one("SELECT count(*) FROM things")

    reading = asyncio.create_task(db.read(work))
    await asyncio.to_thread(begun.wait, 10)
    await db.write(lambda tx: insert(tx, 2))
    written.set()
    assert await reading == ((1,), (1,))
    assert await ids(db) == [1, 2]


async def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises(errors.DatabaseError):
        await db.read(lambda tx: insert(tx, 1))
    assert await ids(db) == []


async def test_a_taken_key_is_a_unique_violation(db: Database) -> None:
    await db.write(lambda tx: insert(tx, 1))
    await db.write(lambda tx: tx.run("INSERT INTO parts (thing, name) VALUES ($1, $2)", 1, "wheel"))
    with pytest.raises(errors.UniqueViolation):
        await db.write(lambda tx: insert(tx, 1))
    with pytest.raises(errors.UniqueViolation):
        await db.write(lambda tx: tx.run("INSERT INTO parts (thing, name) VALUES ($1, $2)", 1, "wheel"))


async def test_other_broken_rules_are_told_without_details(db: Database) -> None:
    with pytest.raises(errors.DatabaseError) as caught:
        await db.write(lambda tx: tx.run("INSERT INTO parts (thing, name) VALUES ($1, $2)", 99, "secret"))
    assert not isinstance(caught.value, errors.UniqueViolation)
    assert "parts" not in caught.value.message
    assert "secret" not in caught.value.message


async def test_a_failed_statement_loses_the_transaction_even_if_the_work_goes_on(db: Database) -> None:
    await db.write(lambda tx: insert(tx, 1))

    def work(tx: Tx) -> str:
        insert(tx, 2)
        try:
            insert(tx, 1)
        except errors.UniqueViolation:
            return "all is well"
        return "no clash"

    with pytest.raises(errors.UniqueViolation):
        await db.write(work)
    assert await ids(db) == [1]


async def test_a_transaction_cannot_be_kept(db: Database) -> None:
    kept = await db.write(lambda tx: tx)
    with pytest.raises(errors.DatabaseError, match="over"):
        insert(kept, 1)


@pytest.mark.parametrize("value", ["a\0b", "\ud800", 2**63, -(2**63) - 1])
async def test_what_cannot_be_stored_is_the_callers_mistake(db: Database, value: str | int) -> None:
    column = "id" if isinstance(value, int) else "name"
    with pytest.raises(errors.InvalidParams):
        await db.write(lambda tx: tx.run(f"INSERT INTO things ({column}) VALUES ($1)", value))
    with pytest.raises(errors.InvalidParams):
        await db.write(lambda tx: tx.many(f"INSERT INTO things ({column}) VALUES ($1)", [[value]]))


async def test_parameters_out_of_order_are_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="ascending"):
        await db.read(lambda tx: tx.one("SELECT $2, $1", 1, 2))
    with pytest.raises(ValueError, match="takes 1"):
        await db.read(lambda tx: tx.one("SELECT id FROM things WHERE id = $1 AND name <> '$2' -- $3", 1, 2))


async def test_a_read_past_its_time_is_stopped(db: Database) -> None:
    with pytest.raises(errors.Timeout):
        await db.read(lambda tx: tx.one(ENDLESS), timeout=0.05)
    # The same connections serve on, and none of them is struck by a late interrupt.
    assert [await ids(db) for _ in range(20)] == [[]] * 20


async def test_a_read_that_waited_too_long_for_its_turn_is_not_begun(db: Database) -> None:
    release, ran = threading.Event(), threading.Event()
    blockers = [asyncio.create_task(db.read(lambda tx: release.wait(PATIENCE))) for _ in range(4)]
    late = asyncio.create_task(db.read(lambda tx: ran.set(), timeout=0.01))
    with pytest.raises(errors.Timeout):
        await late
    release.set()
    await asyncio.gather(*blockers)
    assert not ran.is_set()


async def test_a_timeout_raised_by_the_work_is_its_own(db: Database) -> None:
    def work(tx: Tx) -> None:
        raise TimeoutError("mine")

    with pytest.raises(TimeoutError, match="mine"):
        await db.read(work, timeout=10)


async def test_a_cancelled_read_frees_its_thread(db: Database) -> None:
    # PostgreSQL is told the limit; SQLite is interrupted.
    readings = [asyncio.create_task(db.read(lambda tx: tx.one(ENDLESS), timeout=0.5)) for _ in range(4)]
    await asyncio.sleep(0)
    for reading in readings:
        reading.cancel()
    assert all(
        isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*readings, return_exceptions=True)
    )
    assert await ids(db) == []


async def test_a_cancelled_write_that_has_not_begun_is_skipped(db: Database) -> None:
    release = threading.Event()
    blockers = [asyncio.create_task(db.write(lambda tx: release.wait(PATIENCE))) for _ in range(4)]
    await asyncio.sleep(0)
    doomed = asyncio.create_task(db.write(lambda tx: insert(tx, 1)))
    await asyncio.sleep(0)
    doomed.cancel()
    with pytest.raises(asyncio.CancelledError):
        await doomed
    release.set()
    await asyncio.gather(*blockers)
    assert await ids(db) == []


async def test_closing_finishes_what_is_queued_and_refuses_what_comes_later(db: Database) -> None:
    writes = [asyncio.create_task(db.write(lambda tx, number=number: insert(tx, number))) for number in range(50)]
    await asyncio.sleep(0)
    await db.aclose()
    assert await asyncio.gather(*writes) == [1] * 50
    with pytest.raises(errors.DatabaseError, match="closed"):
        await db.write(lambda tx: insert(tx, 1))
    with pytest.raises(errors.DatabaseError, match="closed"):
        await db.read(lambda tx: tx.one("SELECT 1"))
    await db.aclose()
