"""A SQLite file is copied before a migration changes it."""

import asyncio
import logging
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.test_migrate import START
from tests.timeouts import PATIENCE

from kho.kernel.errors import MigrationError
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite import backup, vacuum
from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.database import Sqlite

NO_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))\n"
"""Files may not grow beyond 500 KB."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "001_things.sql").write_text("CREATE TABLE things (name TEXT NOT NULL);")
    return folder


async def start(path: Path, folder: Path, *things: str) -> None:
    """A program starts, keeps some things, and ends."""
    db = Sqlite.open(path)
    try:
        await migrate(db, [("shop", folder)])
        await db.write(lambda tx: tx.many("INSERT INTO things (name) VALUES ($1)", [(thing,) for thing in things]))
    finally:
        await db.aclose()


def names(path: Path) -> list[str]:
    return [copy.name for copy in backup.copies(path)]


def rows(path: Path, sql: str = "SELECT name FROM things ORDER BY name") -> list[str]:
    connection = connect(str(path))
    try:
        return [row[0] for row in connection.execute(sql).fetchall()]
    finally:
        connection.close()


def add(folder: Path, number: int, sql: str = "") -> None:
    (folder / f"{number:03}_next.sql").write_text(sql or f"CREATE TABLE next_{number} (id BIGINT);")


async def test_the_copy_is_the_store_as_it_was(
    sqlite_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await start(sqlite_path, folder, "kettle", "茶壶")
    assert names(sqlite_path) == []  # nothing to lose in a new store
    await start(sqlite_path, folder)
    assert names(sqlite_path) == []  # and nothing changes one that is up to date
    add(folder, 2, "UPDATE things SET name = 'gone';")
    add(folder, 3)
    db = Sqlite.open(sqlite_path)
    # What is still in the write-ahead log is in the copy, too.
    await db.write(lambda tx: tx.run("INSERT INTO things (name) VALUES ('ấm trà')"))
    with caplog.at_level(logging.WARNING):
        await migrate(db, [("shop", folder)])
    await db.aclose()
    assert names(sqlite_path) == ["kho.db.before-shop-002_next"]
    [copy] = backup.copies(sqlite_path)
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert str(copy) in caplog.text
    assert [*sqlite_path.parent.glob("*.part*")] == []
    assert rows(sqlite_path) == ["gone"] * 3
    assert rows(copy, "PRAGMA integrity_check") == ["ok"]
    assert rows(copy) == ["kettle", "ấm trà", "茶壶"]
    # It is a store that the version before opens.
    for number in (2, 3):
        (folder / f"{number:03}_next.sql").unlink()
    await start(copy, folder, "spoon")


async def test_a_large_file_is_copied_whole_and_says_how_far_it_is(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, *(f"{number} {'x' * 3_000}" for number in range(2 * backup.PAGES)))
    before = rows(sqlite_path)
    add(folder, 2, "DELETE FROM things;")
    told: list[tuple[str, int, int]] = []

    def tell(what: str, done: int, total: int) -> None:
        told.append((what, done, total))

    db = Sqlite.open(sqlite_path)
    await migrate(db, [("shop", folder)], progress=tell)
    await db.aclose()
    [copy] = backup.copies(sqlite_path)
    assert rows(copy) == before
    assert told[0] == ("Migrations", 0, 1)
    assert told[-1] == ("Migrations", 1, 1)
    copied = [done / total for what, done, total in told if what != "Migrations"]
    assert len(copied) >= 2
    assert copied == sorted(copied)
    assert copied[-1] < 1


async def test_our_own_tables_are_copied_whole(sqlite_path: Path, folder: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    sql = "INSERT INTO words_index (rowid, terms) VALUES (7, 'kettle')"
    await db.write(lambda tx: tx.run(sql))
    await migrate(db, [OWN, ("shop", folder)])
    await db.aclose()
    [copy] = backup.copies(sqlite_path)
    found = "SELECT rowid FROM words_index WHERE words_index MATCH 'kettle'"
    assert rows(copy, found) == rows(sqlite_path, found) == [7]


async def test_a_migration_that_fails_leaves_the_copy_and_the_store(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, "kettle")
    add(folder, 2, "UPDATE things SET name = 'half'; INSERT INTO nowhere VALUES (1);")
    seen: set[tuple[int, int]] = set()
    for _ in range(3):
        with pytest.raises(MigrationError, match="shop/002_next failed"):
            await start(sqlite_path, folder)
        assert rows(sqlite_path) == ["kettle"]
        [copy] = backup.copies(sqlite_path)
        assert rows(copy) == ["kettle"]
        seen.add((copy.stat().st_ino, copy.stat().st_mtime_ns))
    assert len(seen) == 1  # made once, not overwritten


async def test_a_store_that_was_used_in_between_is_copied_anew(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, "kettle")
    add(folder, 2, "INSERT INTO nowhere VALUES (1);")
    with pytest.raises(MigrationError):
        await start(sqlite_path, folder)
    (folder / "002_next.sql").unlink()
    await start(sqlite_path, folder, "spoon")  # the version before goes on
    add(folder, 2)
    await start(sqlite_path, folder)
    assert names(sqlite_path) == ["kho.db.before-shop-002_next", "kho.db.before-shop-002_next.2"]
    assert [rows(copy) for copy in backup.copies(sqlite_path)] == [["kettle"], ["kettle", "spoon"]]


async def test_the_last_two_are_kept(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, "1")
    sqlite_path.with_name("kho.db.before-shop-003_next.part").write_text("of a process that was killed")
    for number in (2, 3, 4):
        add(folder, number)
        await start(sqlite_path, folder, str(number))
    assert names(sqlite_path) == ["kho.db.before-shop-003_next", "kho.db.before-shop-004_next"]
    assert [rows(copy) for copy in backup.copies(sqlite_path)] == [["1", "2"], ["1", "2", "3"]]
    assert [*sqlite_path.parent.glob("*.part*")] == []


async def test_without_room_for_the_copy_nothing_is_changed(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, "x" * 1_000_000)
    add(folder, 2, "DELETE FROM things;")
    command = [sys.executable, "-c", NO_ROOM + START, str(sqlite_path), str(folder)]
    failed = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=PATIENCE)
    assert failed.returncode == 1
    assert "the copy could not be written. Nothing was changed. Free 2 MB" in failed.stderr
    assert sorted(path.name for path in sqlite_path.parent.iterdir() if "before" in path.name) == []
    assert rows(sqlite_path) == ["x" * 1_000_000]
    await start(sqlite_path, folder)  # once there is room
    assert (rows(sqlite_path), names(sqlite_path)) == ([], ["kho.db.before-shop-002_next"])


async def test_processes_that_start_at_once_make_one_copy(sqlite_path: Path, folder: Path) -> None:
    await start(sqlite_path, folder, "kettle")
    add(folder, 2, "UPDATE things SET name = 'changed';")
    command = [sys.executable, "-c", START, str(sqlite_path), str(folder)]
    processes = [await asyncio.create_subprocess_exec(*command) for _ in range(3)]
    async with asyncio.timeout(PATIENCE):
        assert [await process.wait() for process in processes] == [0, 0, 0]
    assert names(sqlite_path) == ["kho.db.before-shop-002_next"]
    assert rows(backup.copies(sqlite_path)[0]) == ["kettle"]
    assert rows(sqlite_path) == ["changed"]


async def test_a_start_waits_for_the_one_that_copies(
    sqlite_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    await start(sqlite_path, folder, "kettle")
    add(folder, 2)
    other = connect(str(sqlite_path))
    other.execute("BEGIN IMMEDIATE")
    db = Sqlite.open(sqlite_path, busy_timeout=0.01)
    waiting = asyncio.ensure_future(migrate(db, [("shop", folder)]))
    while "BusyError" not in caplog.text:  # noqa: ASYNC110 - nobody tells that it has waited in vain
        await asyncio.sleep(0)
    other.execute("ROLLBACK")
    other.close()
    await waiting
    await db.aclose()
    assert names(sqlite_path) == ["kho.db.before-shop-002_next"]


async def test_wiping_the_store_removes_the_copies(sqlite_path: Path, folder: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    await migrate(db, [OWN, ("shop", folder)])
    assert names(sqlite_path) == ["kho.db.before-shop-001_things"]
    await vacuum.vacuum(sqlite_path)
    assert names(sqlite_path) == []
    await db.aclose()
