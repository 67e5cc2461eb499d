"""What only SQLite must show: grouped commits, several processes on one file, and a file that stays private."""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.timeouts import PATIENCE

from kho.app import open_database, open_hub
from kho.kernel import errors
from kho.kernel.ports import Database, Tx
from kho.settings import Settings
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.database import Sqlite, refuse_broken, refuse_foreign


@pytest.fixture
async def db(sqlite_path: Path) -> AsyncIterator[Sqlite]:
    database = Sqlite.open(sqlite_path, busy_timeout=0.05)
    await database.write(
        lambda tx: tx.script(
            "CREATE TABLE things (id INTEGER PRIMARY KEY, data BLOB);"
            "CREATE TABLE parts (thing INTEGER REFERENCES things (id) DEFERRABLE INITIALLY DEFERRED);"
        )
    )
    yield database
    await database.aclose()


def insert(tx: Tx, number: int, data: bytes = b"") -> int:
    return tx.run("INSERT INTO things (id, data) VALUES ($1, $2)", number, data)


async def ids(db: Database) -> list[int]:
    return [row[0] for row in await db.read(lambda tx: tx.all("SELECT id FROM things ORDER BY id"))]


@contextmanager
def held_back(db: Sqlite) -> Generator[None]:
    """While this lasts the writer is busy, so that all that is written meanwhile is committed together."""
    release = threading.Event()
    blocker = asyncio.ensure_future(db.write(lambda tx: release.wait(PATIENCE)))
    try:
        yield
    finally:
        asyncio.get_running_loop().call_soon(release.set)
        blocker.add_done_callback(lambda done: done.result())


async def test_nothing_is_acknowledged_before_the_commit(db: Sqlite, sqlite_path: Path) -> None:
    begun, release = threading.Event(), threading.Event()

    def last_of_the_group(tx: Tx) -> None:
        begun.set()
        release.wait(PATIENCE)

    with held_back(db):
        first = asyncio.create_task(db.write(lambda tx: insert(tx, 1)))
        last = asyncio.create_task(db.write(last_of_the_group))
        await asyncio.sleep(0)
    await asyncio.to_thread(begun.wait, 10)
    assert not first.done()
    assert await ids(db) == []
    release.set()
    await asyncio.gather(first, last)
    other = connect(str(sqlite_path))
    assert other.execute("SELECT id FROM things").fetchall() == [(1,)]
    other.close()


async def test_a_work_that_spoils_the_commit_fails_alone(db: Sqlite) -> None:
    runs: list[int] = []

    def work(tx: Tx, number: int) -> int:
        runs.append(number)
        if number == 2:
            return tx.run("INSERT INTO parts (thing) VALUES ($1)", 999)  # noticed only at COMMIT
        return insert(tx, number)

    with held_back(db):
        writes = [asyncio.create_task(db.write(lambda tx, number=number: work(tx, number))) for number in range(5)]
        await asyncio.sleep(0)
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(end, errors.DatabaseError) for end in ends] == [False, False, True, False, False]
    assert runs == [0, 1, 2, 3, 4] * 2
    assert await ids(db) == [0, 1, 3, 4]


async def test_a_full_disk_fails_only_what_does_not_fit(db: Sqlite) -> None:
    await db.write(lambda tx: tx.all("PRAGMA max_page_count = 20"))
    with held_back(db):
        writes = [
            asyncio.create_task(db.write(lambda tx, number=number: insert(tx, number, bytes(10**6 * (number == 2)))))
            for number in range(5)
        ]
        await asyncio.sleep(0)
    ends = await asyncio.gather(*writes, return_exceptions=True)
    assert [isinstance(end, errors.DatabaseError) for end in ends] == [False, False, True, False, False]
    assert isinstance(ends[2], errors.DatabaseError)
    assert "full" in ends[2].message
    assert await ids(db) == [0, 1, 3, 4]


async def test_busy_past_the_timeout_is_told_and_passes(db: Sqlite, sqlite_path: Path) -> None:
    other = connect(str(sqlite_path))
    other.execute("BEGIN IMMEDIATE")
    ends = await asyncio.gather(
        *(db.write(lambda tx, number=number: insert(tx, number)) for number in range(5)), return_exceptions=True
    )
    assert all(isinstance(end, errors.DatabaseError) and "busy" in end.message for end in ends)
    assert await ids(db) == []
    other.execute("COMMIT")
    other.close()
    assert await db.write(lambda tx: insert(tx, 1)) == 1


async def test_how_long_others_are_waited_for_is_a_setting(sqlite_path: Path) -> None:
    database, _ = open_database(Settings(home=sqlite_path.parent, database_url=None, database_timeout=0.05))
    for ask in (database.write, database.read):
        assert tuple(await ask(lambda tx: tx.one("PRAGMA busy_timeout")) or ()) == (50,)
    await database.aclose()


async def test_writes_are_durable_and_readers_cannot_write(db: Sqlite) -> None:
    async def pragma(name: str) -> tuple[object, object]:
        writing = await db.write(lambda tx: tx.one(f"PRAGMA {name}"))
        reading = await db.read(lambda tx: tx.one(f"PRAGMA {name}"))
        assert writing is not None
        assert reading is not None
        return writing[0], reading[0]

    assert await pragma("journal_mode") == ("wal", "wal")
    assert await pragma("synchronous") == (2, 2)
    assert await pragma("foreign_keys") == (1, 1)
    assert await pragma("query_only") == (0, 1)


WRITER = """
import asyncio, sys
from pathlib import Path
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite

async def main(path, first):
    db = Sqlite.open(Path(path))
    await migrate(db, [OWN])
    sql = "INSERT INTO search_versions (space, tenant, shard, version) VALUES ($1, $2, $3, 1)"
    await asyncio.gather(*(db.write(lambda tx, n=n: tx.run(sql, first, "t", n)) for n in range(300)))
    await db.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def written_by_three(sqlite_path: Path) -> Path:
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, str(sqlite_path), name]) for name in "abc"]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
    return sqlite_path


async def test_several_processes_start_on_a_new_file_and_write_it_at_once(written_by_three: Path) -> None:
    db = Sqlite.open(written_by_three)
    try:
        rows = await db.read(
            lambda tx: tx.all("SELECT space, count(*) FROM search_versions GROUP BY space ORDER BY space")
        )
        assert rows == [("a", 300), ("b", 300), ("c", 300)]
        assert await db.read(lambda tx: tx.all("PRAGMA integrity_check")) == [("ok",)]
    finally:
        await db.aclose()


async def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        path = tmp_path / "new" / "folder" / "kho.db"
        db = Sqlite.open(path)
        await db.write(lambda tx: tx.script("CREATE TABLE t (x)"))
        files = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
        assert files == {"kho.db": 0o600, "kho.db-wal": 0o600, "kho.db-shm": 0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
        await db.aclose()
        assert [file.name for file in path.parent.iterdir()] == ["kho.db"]
        path.chmod(0o644)
        await Sqlite.open(path).aclose()
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_a_folder_that_cannot_be_made_is_told_without_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(errors.DatabaseError) as caught:
        Sqlite.open(tmp_path / "file" / "secret-name" / "kho.db")
    assert "secret-name" not in caught.value.message


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kho.db").write_bytes(b"hello " * 1000)
    with pytest.raises(errors.DatabaseError, match="not a SQLite database"):
        Sqlite.open(tmp_path / "kho.db")


async def test_a_private_database_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    db = Sqlite.open(None)
    await db.write(lambda tx: tx.script("CREATE TABLE t (x)"))
    assert await db.read(lambda tx: tx.all("SELECT x FROM t")) == []
    await db.aclose()
    assert await asyncio.to_thread(lambda: list(tmp_path.iterdir())) == []


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0", "2.8.17"])
def test_a_sqlite_that_can_lose_data_is_refused(version: str) -> None:
    with pytest.raises(errors.DatabaseError, match="pip install --upgrade apsw"):
        refuse_broken(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.54.1", "3.100.0", "4.0"])
def test_a_sound_sqlite_is_accepted(version: str) -> None:
    refuse_broken(version)


def test_the_driver_of_postgresql_is_not_imported_before_it_is_used() -> None:
    code = "import sys, kho.storage.sqlite.database, kho.storage.postgres.database; assert 'psycopg' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_a_data_folder_that_is_a_file_is_told_in_plain_words(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("not a folder")
    with pytest.raises(errors.DatabaseError, match="is a file"):
        Sqlite.open(tmp_path / "home" / "kho.db")


@pytest.mark.parametrize("table", ["notes (id INTEGER)", "migrations (id INTEGER, migration TEXT, batch INTEGER)"])
async def test_the_database_of_another_program_is_refused_and_left_as_it_is(tmp_path: Path, table: str) -> None:
    path = tmp_path / "kho.db"
    with contextlib.closing(sqlite3.connect(path)) as other:
        other.execute(f"CREATE TABLE {table}")
    before = path.read_bytes()
    with pytest.raises(errors.DatabaseError, match="a database of another program"):
        async with open_hub(Settings(home=tmp_path), only=()):
            pass
    assert path.read_bytes() == before
    assert {*await asyncio.to_thread(os.listdir, tmp_path)} == {"kho.db"}


async def test_a_new_file_an_empty_one_and_our_own_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "kho.db"
    refuse_foreign(path)
    db = Sqlite.open(path)
    refuse_foreign(path)  # another process made it a moment ago, and has not filled it yet
    await migrate(db, [OWN])
    refuse_foreign(path)
    await db.aclose()
    refuse_foreign(path)
