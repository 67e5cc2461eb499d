"""Migrations: all or nothing, once, and never against a history that is not the program's."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.timeouts import PATIENCE

from kho.kernel import errors
from kho.kernel.ports import Database, Row
from kho.storage.migrate import OWN, MigrationError, load, migrate

START = """
import asyncio, sys
from pathlib import Path
from kho.storage.migrate import migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite

async def main(where, folder):
    db = Postgres.open(where) if where.startswith("postgres") else Sqlite.open(Path(where))
    await migrate(db, [("shop", Path(folder))])
    await db.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "001_things.sql").write_text(
        "CREATE TABLE things (id BIGINT PRIMARY KEY); INSERT INTO things VALUES (1);"
    )
    (folder / "002_more.sqlite.sql").write_text("ALTER TABLE things ADD COLUMN data BLOB;")
    (folder / "002_more.postgres.sql").write_text("ALTER TABLE things ADD COLUMN data BYTEA;")
    return folder


async def tables(db: Database) -> set[str]:
    sql = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table'",
        "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
    }[db.engine]
    return {row[0] for row in await db.read(lambda tx: tx.all(sql))}


async def history(db: Database) -> list[Row]:
    sql = "SELECT slice, number, name, applied_at FROM migrations ORDER BY slice, number"
    return await db.read(lambda tx: tx.all(sql))


async def test_a_fresh_database_gets_everything_in_order(blank: Database, folder: Path) -> None:
    await migrate(blank, [OWN, ("shop", folder)], clock=lambda: 77)
    assert {"migrations", "things", "passages"} <= await tables(blank)
    assert [row for row in await history(blank) if row[0] == "shop"] == [
        ("shop", 1, "things", 77),
        ("shop", 2, "more", 77),
    ]
    assert await blank.read(lambda tx: tx.all("SELECT id, data FROM things")) == [(1, None)]


async def test_again_changes_nothing_and_takes_no_lock(
    blank: Database, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(blank, [("shop", folder)], clock=lambda: 1)
    monkeypatch.setattr(blank, "write", None)
    await migrate(blank, [("shop", folder)], clock=lambda: 2)
    assert {row[3] for row in await history(blank)} == {1}


async def test_a_later_migration_is_added(blank: Database, folder: Path) -> None:
    await migrate(blank, [("shop", folder)])
    (folder / "003_last.sql").write_text("CREATE TABLE last (id BIGINT);")
    await migrate(blank, [("shop", folder)])
    assert [row[1] for row in await history(blank)] == [1, 2, 3]


async def test_a_slice_that_is_switched_off_does_not_disturb(blank: Database, folder: Path) -> None:
    await migrate(blank, [OWN, ("shop", folder)])
    await migrate(blank, [OWN])


async def test_a_failed_migration_leaves_nothing(blank: Database, folder: Path) -> None:
    (folder / "003_bad.sql").write_text("CREATE TABLE half (id BIGINT); INSERT INTO nowhere VALUES (1);")
    with pytest.raises(MigrationError, match="shop/003_bad") as caught:
        await migrate(blank, [("shop", folder)])
    assert isinstance(caught.value, errors.DatabaseError)
    assert await tables(blank) == set()
    (folder / "003_bad.sql").unlink()
    await migrate(blank, [("shop", folder)])
    assert await tables(blank) == {"migrations", "things"}


async def test_a_changed_file_is_refused(blank: Database, folder: Path) -> None:
    await migrate(blank, [("shop", folder)])
    text = (folder / "001_things.sql").read_text()
    (folder / "001_things.sql").write_text(text + "-- one more remark")
    with pytest.raises(MigrationError, match="shop/001_things was changed"):
        await migrate(blank, [("shop", folder)])
    # A checkout with other line ends is the same file.
    (folder / "001_things.sql").write_bytes(text.replace("\n", "\r\n").encode())
    await migrate(blank, [("shop", folder)])


async def test_a_newer_database_is_refused(blank: Database, folder: Path) -> None:
    await migrate(blank, [("shop", folder)])
    (folder / "002_more.sqlite.sql").unlink()
    (folder / "002_more.postgres.sql").unlink()
    with pytest.raises(MigrationError, match="newer than this program"):
        await migrate(blank, [("shop", folder)])


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (["001_a.sql", "003_c.sql"], "lacks migration 002"),
        (["001_a.sqlite.sql"], "lacks migration 001|^$"),
        (["001_a.sql", "001_b.sql"], "two migrations with the number 001"),
        (["001_a.sql", "001_a.postgres.sql"], "two migrations"),
        (["1_a.sql"], "not named like"),
        (["001_a.mysql.sql"], "not named like"),
    ],
)
def test_a_folder_in_disorder_is_refused(tmp_path: Path, names: list[str], complaint: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    if names == ["001_a.sqlite.sql"]:
        (tmp_path / "002_b.sql").touch()
    with pytest.raises(MigrationError, match=complaint):
        load([("shop", tmp_path)], "postgres")


def test_our_own_folder_is_in_order_for_both() -> None:
    sqlite, postgres = load([OWN], "sqlite"), load([OWN], "postgres")
    assert [(item.number, item.name) for item in sqlite] == [(item.number, item.name) for item in postgres]


@pytest.mark.parametrize("where", ["sqlite_path", "postgres_schema_url"])
def test_two_processes_may_start_at_once(where: str, folder: Path, request: pytest.FixtureRequest) -> None:
    place = str(request.getfixturevalue(where))
    processes = [subprocess.Popen([sys.executable, "-c", START, place, str(folder)]) for _ in range(3)]
    assert [process.wait(PATIENCE) for process in processes] == [0, 0, 0]
