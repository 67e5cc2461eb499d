"""Numbered migrations, one folder per slice: all missing ones are applied in one transaction.

A file is `NNN_name.sql` for both databases, or a pair `NNN_name.sqlite.sql` and `NNN_name.postgres.sql`.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from kho.kernel import Database, Tx, errors
from kho.lib.clock import Clock, system_clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants
from kho.storage.postgres import tenant_wall
from kho.storage.sqlite import backup
from kho.storage.sqlite.transaction import Busy

OWN: tuple[str, Path] = ("storage", Path(__file__).parent / "migrations")
"""The storage layer's own folder, to be passed to `migrate` before the slices'."""

PATIENCE = 600.0
"""Seconds to wait for another process that migrates the database. It may copy 10 GB meanwhile."""
_FILE = re.compile(r"(\d{3})_([a-z0-9_]+)(?:\.(sqlite|postgres))?\.sql")
_LOCK = 0x6B686F  # "kho"; any number will do, if every process uses the same
_EXISTS = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'",
    "postgres": "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations'",
}
_TABLE = """
CREATE TABLE IF NOT EXISTS migrations (
    slice TEXT NOT NULL,
    number INTEGER NOT NULL,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    applied_at BIGINT NOT NULL,
    PRIMARY KEY (slice, number)
)
"""

Applied = Mapping[tuple[str, int], str]


class MigrationError(errors.DatabaseError):
    """The database could not be brought up to date. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class Migration:
    slice: str
    number: int
    name: str
    sql: str
    sha256: str

    def __str__(self) -> str:
        return f"{self.slice}/{self.number:03}_{self.name}"


async def migrate(
    db: Database,
    folders: Sequence[tuple[str, Path]],
    *,
    clock: Clock = system_clock,
    until: Mapping[str, int] | None = None,
) -> None:
    """Apply missing migrations, or change nothing and raise MigrationError. `until` names the last one of each slice
    that is to be applied, for a store as it was at some time.

    Several processes may start at once: one applies, the others wait and find nothing left to do. A SQLite file that
    has data is copied first (sqlite/backup.py), under the same lock.
    """
    known = await asyncio.to_thread(load, folders, db.engine)
    if until is not None:
        known = [one for one in known if one.number <= until.get(one.slice, 0)]
    give_up = time.monotonic() + PATIENCE
    # Usually the database is up to date, and no write lock is needed.
    while missing(known, await db.read(_applied)):
        try:
            with in_all_tenants():  # a migration may rewrite what all of them have
                await db.write(lambda tx: _apply(tx, known, clock))
        except Busy:  # longer than a write waits: probably another process copies the database, then migrates it
            if time.monotonic() > give_up:
                raise


def load(folders: Sequence[tuple[str, Path]], engine: str) -> list[Migration]:
    """Return the migrations of one engine, in the order of the folders and then of their numbers."""
    found: list[Migration] = []
    for slice, folder in folders:
        found += _load_folder(slice, folder, engine)
    return found


def missing(known: Sequence[Migration], applied: Applied) -> list[Migration]:
    """Return the migrations still to be applied. Raises MigrationError if the database's history is not the
    program's."""
    slices = {migration.slice for migration in known}
    numbers = {(migration.slice, migration.number) for migration in known}
    for slice, number in sorted(applied):
        if slice in slices and (slice, number) not in numbers:
            raise MigrationError(
                f"The database is newer than this program (it has migration {slice}/{number:03}). Upgrade Kho."
            )
    for migration in known:
        if applied.get((migration.slice, migration.number), migration.sha256) != migration.sha256:
            raise MigrationError(
                f"Migration {migration} was changed after it had been applied. "
                "Restore the file and put the change into a new migration."
            )
    return [migration for migration in known if (migration.slice, migration.number) not in applied]


def _load_folder(slice: str, folder: Path, engine: str) -> list[Migration]:
    by_number: dict[int, Migration] = {}
    for path in sorted(folder.glob("*.sql")):
        match = _FILE.fullmatch(path.name)
        if match is None:
            raise MigrationError(f"{slice}/{path.name} is not named like a migration (001_name.sql).")
        number, name, only_for = int(match[1]), match[2], match[3]
        if only_for not in (None, engine):
            continue
        if number in by_number:
            raise MigrationError(f"{slice} has two migrations with the number {number:03}.")
        # A checkout may change line endings, which is not a change of the migration.
        sql = path.read_text("utf-8").replace("\r\n", "\n")
        by_number[number] = Migration(slice, number, name, sql, hashlib.sha256(sql.encode()).hexdigest())
    for expected in range(1, len(by_number) + 1):
        if expected not in by_number:
            raise MigrationError(f"{slice} lacks migration {expected:03} for {engine}; numbers must have no gap.")
    return [by_number[number] for number in sorted(by_number)]


def _applied(tx: Tx) -> Applied:
    if tx.one(_EXISTS[tx.engine]) is None:
        return {}
    return {(slice, number): sha for slice, number, sha in tx.all("SELECT slice, number, sha256 FROM migrations")}


def _apply(tx: Tx, known: Sequence[Migration], clock: Clock) -> None:
    if tx.engine == "postgres":
        tx.one("SELECT pg_advisory_xact_lock($1)", _LOCK)
    applied = _applied(tx)
    pending = missing(known, applied)
    if tx.engine == "sqlite" and applied and pending:
        _copy(tx, pending[0])
    tx.script(_TABLE)
    for migration in pending:
        try:
            tx.script(migration.sql)
        except errors.KhoError as error:
            raise MigrationError(f"Migration {migration} failed. Nothing was changed.") from error
        sql = "INSERT INTO migrations (slice, number, name, sha256, applied_at) VALUES ($1, $2, $3, $4, $5)"
        tx.run(sql, migration.slice, migration.number, migration.name, migration.sha256, clock())
    if tx.engine == "postgres":
        tenant_wall.raise_wall(tx)


def _copy(tx: Tx, first: Migration) -> None:
    row = tx.one("SELECT file FROM pragma_database_list WHERE name = 'main'")
    assert row is not None
    try:
        backup.keep(Path(row[0]), str(first).replace("/", "-"))
    except errors.DatabaseError as error:
        raise MigrationError(error.message) from error
