"""Migrations: all or nothing, once, and never against a history that is not the program's."""

import asyncio
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.acceptance.processes import until
from tests.timeouts import PATIENCE

from kho.kernel import errors
from kho.kernel.errors import MigrationError, MigrationNeeded
from kho.kernel.ports import Database, Row, Tx
from kho.storage.migrate import OWN, Program, load, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite

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


# -- other versions, and programs that embed Kho -----------------------------------------------------------------------


@pytest.fixture
def calendar(tmp_path: Path) -> Path:
    """The folder of a slice that not every program has."""
    folder = tmp_path / "calendar"
    folder.mkdir()
    (folder / "001_days.sql").write_text("CREATE TABLE days (id BIGINT PRIMARY KEY);")
    return folder


async def test_a_slice_that_only_a_newer_kho_has_is_noticed(blank: Database, folder: Path, calendar: Path) -> None:
    old, new = Program("1.0", {"shop"}), Program("2.0", {"shop", "calendar"})
    await migrate(blank, [("shop", folder)], old)
    await migrate(blank, [("shop", folder), ("calendar", calendar)], new)
    with pytest.raises(
        MigrationError, match=r"newer than this program: it was last used by Kho 2\.0, and has .*calend"
    ):
        await migrate(blank, [("shop", folder)], old)


async def test_a_slice_of_a_program_that_embeds_kho_is_not_mistaken_for_one(
    blank: Database, folder: Path, calendar: Path
) -> None:
    kho = Program("1.0", {"shop"})
    mark = await migrate(blank, [("shop", folder), ("calendar", calendar)], kho)
    assert await migrate(blank, [("shop", folder)], kho) == mark != ""
    (calendar / "002_more.sql").write_text("CREATE TABLE hours (id BIGINT);")
    assert await migrate(blank, [("shop", folder), ("calendar", calendar)], kho) == mark  # its tables are not Kho's


async def test_a_store_with_data_waits_to_be_asked_for(blank: Database, folder: Path, calendar: Path) -> None:
    kho = Program("1.0", {"shop"}, ask=True)
    await migrate(blank, [("shop", folder)], kho)  # an empty one is set up
    await migrate(blank, [("shop", folder), ("calendar", calendar)], kho)  # what is not Kho's own is set up, too
    (folder / "003_last.sql").write_text("CREATE TABLE last (id BIGINT);")
    before = await tables(blank)
    with pytest.raises(
        MigrationNeeded, match=r"lacks 1 migration, the first of them shop/003_last.*kho migrate --apply"
    ):
        await migrate(blank, [("shop", folder)], kho)
    assert await tables(blank) == before
    await migrate(blank, [("shop", folder)], replace(kho, ask=False))
    assert await tables(blank) == before | {"last"}


@pytest.mark.parametrize("where", ["sqlite_path", "postgres_schema_url"])
async def test_a_process_that_runs_stops_writing_when_a_newer_one_migrates(
    where: str, folder: Path, request: pytest.FixtureRequest
) -> None:
    place = str(request.getfixturevalue(where))

    def opened() -> Database:
        return Postgres.open(place) if place.startswith("postgres") else Sqlite.open(Path(place))

    old, new = opened(), opened()
    try:
        old.pin(await migrate(old, [("shop", folder)], Program("1.0", {"shop"})))
        new.pin(await migrate(new, [("shop", folder)], Program("1.0", {"shop"})))
        writes = [old.write(lambda tx, id=id: tx.run("INSERT INTO things (id) VALUES ($1)", id)) for id in range(5, 9)]
        assert await asyncio.gather(*writes) == [1] * 4
        (folder / "003_last.sql").write_text("CREATE TABLE last (id BIGINT);")
        third = opened()
        await migrate(third, [("shop", folder)], Program("2.0", {"shop"}))
        await third.aclose()
        for db in (old, new):
            writes = [db.write(lambda tx: tx.run("DELETE FROM things")) for _ in range(3)]
            refused = await asyncio.gather(*writes, return_exceptions=True)
            assert [type(error) for error in refused] == [errors.Superseded] * 3
        assert len(await new.read(lambda tx: tx.all("SELECT id FROM things"))) == 5
    finally:
        await old.aclose()
        await new.aclose()


async def test_a_write_that_is_under_way_is_finished_before_a_migration(postgres_schema_url: str, folder: Path) -> None:
    old, new = Postgres.open(postgres_schema_url), Postgres.open(postgres_schema_url)
    begun = threading.Event()

    def work(tx: Tx) -> int:
        begun.set()
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'migrations'::regclass"
        until(lambda: tx.one(waits), "the migration to wait")
        return tx.run("INSERT INTO things (id) VALUES (9)")

    try:
        old.pin(await migrate(old, [("shop", folder)], Program("1.0", {"shop"})))
        writing = asyncio.ensure_future(old.write(work))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        (folder / "003_last.sql").write_text("UPDATE things SET id = 10 WHERE id = 9;")
        await migrate(new, [("shop", folder)], Program("2.0", {"shop"}))
        assert await writing == 1
        assert await new.read(lambda tx: tx.all("SELECT id FROM things ORDER BY id")) == [(1,), (10,)]
    finally:
        await old.aclose()
        await new.aclose()
