"""What only PostgreSQL must show: contention, and connections that go away."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from tests.timeouts import PATIENCE

from kho.kernel import errors
from kho.kernel.ports import Tx
from kho.storage.postgres.database import Postgres, PostgresLimits

KILL_AT_COMMIT = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER die AFTER INSERT ON things DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.id = 13) EXECUTE FUNCTION die();
"""


@pytest.fixture
async def db(postgres_schema_url: str) -> AsyncIterator[Postgres]:
    database = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=5))
    await database.write(lambda tx: tx.script("CREATE TABLE things (id BIGINT PRIMARY KEY, name TEXT)"))
    yield database
    await database.aclose()


def insert(tx: Tx, number: int) -> int:
    return tx.run("INSERT INTO things (id) VALUES ($1)", number)


def backend(tx: Tx) -> int:
    row = tx.one("SELECT pg_backend_pid()")
    assert row is not None
    return row[0]


async def test_a_deadlock_is_resolved_by_running_again(db: Postgres) -> None:
    await db.write(lambda tx: [insert(tx, 1), insert(tx, 2)])
    met = threading.Barrier(2)
    runs: list[int] = []

    def work(tx: Tx, one: int, other: int) -> None:
        tx.run("SET LOCAL deadlock_timeout = '10ms'")
        runs.append(one)
        tx.run("UPDATE things SET name = $1 WHERE id = $2", "x", one)
        if len(runs) <= 2:
            met.wait(PATIENCE)
        tx.run("UPDATE things SET name = $1 WHERE id = $2", "x", other)

    await asyncio.gather(db.write(lambda tx: work(tx, 1, 2)), db.write(lambda tx: work(tx, 2, 1)))
    assert len(runs) == 3


async def test_endless_contention_is_given_up(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=2, first_backoff=0.0))
    runs: list[int] = []

    def work(tx: Tx) -> None:
        runs.append(1)
        tx.script("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '40001'; END $$")

    with pytest.raises(errors.DatabaseError, match="same rows"):
        await db.write(work)
    assert len(runs) == 8
    await db.aclose()


async def test_connections_that_died_while_idle_are_replaced(db: Postgres, postgres_schema_url: str) -> None:
    met = threading.Barrier(3)

    def meet(tx: Tx) -> int:
        met.wait(PATIENCE)
        return backend(tx)

    pids = await asyncio.gather(*(db.write(meet) for _ in range(3)))
    assert len(set(pids)) == 3
    with psycopg.connect(postgres_schema_url, autocommit=True) as admin:
        for pid in pids:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
    assert (
        await asyncio.gather(*(db.write(lambda tx, number=number: insert(tx, number)) for number in range(6)))
        == [1] * 6
    )


async def test_a_connection_lost_during_the_work_changes_nothing(db: Postgres, postgres_schema_url: str) -> None:
    runs: list[int] = []

    def work(tx: Tx) -> None:
        runs.append(1)
        insert(tx, 1)
        with psycopg.connect(postgres_schema_url, autocommit=True) as admin:
            admin.execute("SELECT pg_terminate_backend(%s, 5000)", (backend(tx),))
        insert(tx, 2)

    with pytest.raises(errors.DatabaseError, match="Nothing was changed"):
        await db.write(work)
    assert runs == [1]
    assert await db.read(lambda tx: tx.all("SELECT id FROM things")) == []


async def test_a_connection_lost_during_commit_leaves_the_outcome_unknown(db: Postgres) -> None:
    await db.write(lambda tx: tx.script(KILL_AT_COMMIT))
    runs: list[int] = []

    def work(tx: Tx) -> None:
        runs.append(1)
        insert(tx, 13)

    with pytest.raises(errors.DatabaseError, match="outcome is unknown") as caught:
        await db.write(work)
    assert caught.value.details == {"outcome": "unknown"}
    assert runs == [1]
    assert await db.write(lambda tx: insert(tx, 1)) == 1


async def test_the_loop_goes_on_while_the_database_works(db: Postgres) -> None:
    reading = asyncio.create_task(db.read(lambda tx: tx.one("SELECT 1 FROM pg_sleep(0.1)")))
    turns = 0
    while not reading.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 10


async def test_a_server_that_is_not_there_is_told() -> None:
    database = Postgres.open("postgresql:///secret?host=/nonexistent", PostgresLimits(pool_size=1, connect_timeout=0.1))
    with pytest.raises(errors.DatabaseError) as caught:
        await database.read(lambda tx: tx.one("SELECT 1"))
    assert caught.value.message == (
        "PostgreSQL at /nonexistent, port 5432, cannot be used: No such file or directory. Check KHO_DATABASE_URL."
    )
    await database.aclose()


async def test_a_port_at_which_nobody_listens_is_named_and_the_password_is_not() -> None:
    url = "postgresql://somebody:hush@127.0.0.1:1/kho"
    database = Postgres.open(url, PostgresLimits(pool_size=1, connect_timeout=0.1))
    with pytest.raises(errors.DatabaseError) as caught:
        await database.read(lambda tx: tx.one("SELECT 1"))
    assert "PostgreSQL at 127.0.0.1, port 1, cannot be used: Connection refused." in caught.value.message
    assert "hush" not in caught.value.message
    await database.aclose()


async def test_a_database_that_is_not_there_is_told(postgres_schema_url: str) -> None:
    url = make_conninfo(postgres_schema_url, dbname="nowhere", password="hush")
    database = Postgres.open(url, PostgresLimits(pool_size=1, connect_timeout=0.1))
    with pytest.raises(errors.DatabaseError, match='database "nowhere" does not exist') as caught:
        await database.read(lambda tx: tx.one("SELECT 1"))
    assert "hush" not in caught.value.message
    await database.aclose()


def test_a_missing_driver_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(errors.DatabaseError, match=r"pip install .*psycopg\[binary,pool\]"):
        Postgres.open("postgresql:///")


async def test_writers_do_not_wait_for_ever_for_what_another_has_locked(postgres_schema_url: str) -> None:
    """All threads that write meet the lock, and are there again for others."""
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=5, lock_timeout=0.2))
    try:
        await db.write(
            lambda tx: tx.script("CREATE TABLE things (id BIGINT PRIMARY KEY); CREATE TABLE others (id BIGINT)")
        )
        async with await psycopg.AsyncConnection.connect(postgres_schema_url) as other:
            await other.execute("LOCK TABLE things IN ACCESS EXCLUSIVE MODE")
            writes = (db.write(lambda tx, number=number: insert(tx, number)) for number in range(8))
            for refused in await asyncio.gather(*writes, return_exceptions=True):
                assert isinstance(refused, errors.DatabaseError)
                assert "another process is writing" in refused.message
            assert await db.write(lambda tx: tx.run("INSERT INTO others VALUES (1)")) == 1
        assert await db.write(lambda tx: insert(tx, 1)) == 1
    finally:
        await db.aclose()


async def test_upkeep_waits_for_locks_as_long_as_it_takes(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=1, lock_timeout=0.2))

    def patience(tx: Tx) -> str:
        row = tx.one("SHOW lock_timeout")
        assert row is not None
        return row[0]

    try:
        await db.write(lambda tx: tx.script("CREATE TABLE seen (said TEXT)"))
        await db.maintain("INSERT INTO seen SELECT current_setting('lock_timeout')")
        assert await db.read(lambda tx: tx.one("SELECT said FROM seen")) == ("0",)
        assert await db.read(patience) == "200ms", "the next one has its own again"
    finally:
        await db.aclose()
