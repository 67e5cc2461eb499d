"""Numbered migrations, one folder per slice: all missing ones are applied in one transaction.

A file is `NNN_name.sql` for both databases, or a pair `NNN_name.sqlite.sql` and `NNN_name.postgres.sql`.
"""

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from kho.kernel import Database, Tx, errors
from kho.kernel.errors import MigrationError, MigrationNeeded
from kho.lib.clock import Clock, system_clock
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.lib.sql import digest, insert, number, replacing
from kho.lib.tenancy import in_all_tenants
from kho.storage import schema_mark
from kho.storage.postgres import tenant_wall
from kho.storage.sqlite import backup
from kho.storage.sqlite.transaction import Busy

OWN: tuple[str, Path] = ("storage", Path(__file__).parent / "migrations")
"""The storage layer's own folder, to be passed to `migrate` before the slices'."""

PATIENCE = 600.0
"""Seconds to wait for another process that migrates the database. It may copy 10 GB meanwhile."""
_LOCK = 0x6B686F  # "kho"; any number will do, if every process uses the same
_FILE = re.compile(r"(\d{3})_([a-z0-9_]+)(?:\.(sqlite|postgres))?\.sql")
_EXISTS = {
    "sqlite": "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'",
    "postgres": "SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations'",
}
_SIZE = {
    "sqlite": "SELECT c.page_count * s.page_size FROM pragma_page_count AS c, pragma_page_size AS s",
    "postgres": "SELECT CAST(coalesce(sum(pg_total_relation_size(oid)), 0) AS BIGINT) FROM pg_class "
    "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'",
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
Report = Callable[[str, int, int], None]
"""Reports a task's name, how much is done, and the total."""


def _silent(what: str, done: int, total: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Program:
    """The program that opens a database: its version, and the names of its own slices. Programs that embed Kho have
    more slices, with migrations of their own."""

    version: str = ""
    slices: Collection[str] = ()
    ask: bool = False
    """Leave a database with data as it is until somebody applies the migrations of Kho's own slices."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Left in a database by the program that last applied migrations of Kho; empty if it was made before there was
    one."""

    mark: str = ""
    version: str = ""
    slices: frozenset[str] = frozenset()
    """Names of that version's own slices."""


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
    program: Program = Program(),  # noqa: B008 (frozen)
    *,
    clock: Clock = system_clock,
    progress: Report = _silent,
    until: Mapping[str, int] | None = None,
) -> str:
    """Apply missing migrations, or change nothing and raise MigrationError. Return the mark of the schema.
    `until` names the last one of each slice that is to be applied, for a store as it was at some time.

    Several processes may start at once: one applies, the others wait and find nothing left to do. A SQLite file that
    has data is copied first (sqlite/backup.py), under the same lock.
    """
    known = await asyncio.to_thread(load, folders, db.engine)
    if until is not None:
        known = [one for one in known if one.number <= until.get(one.slice, 0)]
    give_up = time.monotonic() + PATIENCE
    # Usually the database is up to date, and no write lock is needed.
    while True:
        applied, signature = await db.read(history)
        if not (pending := missing(known, applied, signature)):
            return signature.mark
        if program.ask and applied and (own := [one for one in pending if one.slice in program.slices]):
            raise MigrationNeeded(
                f"The database is of an earlier version of Kho and lacks {counted(len(own), 'migration')}, the first "
                f"of them {own[0]}; nothing was changed: run 'kho backup FILE', end all hubs of the earlier version, "
                "then run 'kho migrate --apply' once (docs/upgrade.md)."
            )
        try:
            with in_all_tenants():  # a migration may rewrite what all of them have
                await db.write(lambda tx: _apply(tx, known, program, clock, progress))
        except Busy:  # longer than a write waits: probably another process copies the database, then migrates it
            if time.monotonic() > give_up:
                raise


def load(folders: Sequence[tuple[str, Path]], engine: str) -> list[Migration]:
    """Return the migrations of one engine, in the order of the folders and then of their numbers."""
    found: list[Migration] = []
    for slice, folder in folders:
        found += _load_folder(slice, folder, engine)
    return found


def missing(
    known: Sequence[Migration],
    applied: Applied,
    signature: Signature = Signature(),  # noqa: B008 (frozen)
) -> list[Migration]:
    """Return the migrations still to be applied. Raises MigrationError if the database's history is not the
    program's."""
    slices = {migration.slice for migration in known} | signature.slices
    numbers = {(migration.slice, migration.number) for migration in known}
    for slice, place in sorted(applied):
        # A slice that nobody here knows is one of a newer Kho, or of a program that embeds Kho.
        if slice in slices and (slice, place) not in numbers:
            by = f"was last used by Kho {signature.version}, and " if signature.version else ""
            raise MigrationError(
                f"The database is newer than this program: it {by}has migration {slice}/{place:03}. Nothing was "
                "changed; use that version of Kho, or a newer one."
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


def history(tx: Tx) -> tuple[Applied, Signature]:
    """Return the checksum of each migration that was applied, by slice and number, and who applied the last ones."""
    applied, signature = dict[tuple[str, int], str](), Signature()
    if tx.one(_EXISTS[tx.engine]) is not None:
        for slice, place, name, sha in tx.all("SELECT slice, number, name, sha256 FROM migrations"):
            if (slice, place) == (schema_mark.OWNER, 0):
                version, *slices = name.split(" ")
                signature = Signature(sha, version, frozenset(slices))
            else:
                applied[slice, place] = sha
    return applied, signature


def size(tx: Tx) -> int:
    """Return the bytes of the database: of a SQLite file, or of our tables with their indexes."""
    return number(tx, _SIZE[tx.engine])


def _apply(tx: Tx, known: Sequence[Migration], program: Program, clock: Clock, progress: Report) -> None:
    if tx.engine == "postgres":
        tx.script("SET LOCAL lock_timeout = 0")  # others may be migrating, which takes as long as it takes
        tx.one("SELECT pg_advisory_xact_lock($1)", _LOCK)
    applied, signature = history(tx)
    if not (pending := missing(known, applied, signature)):
        return
    if tx.engine == "postgres" and applied:
        # Every write of a process that runs reads this table first: those under way are waited for, others wait.
        tx.script("LOCK TABLE migrations IN ACCESS EXCLUSIVE MODE")
    progress("Migrations", 0, len(pending))
    if tx.engine == "sqlite" and applied:
        _copy(tx, pending[0], progress)
    apply(tx, pending, clock, progress)
    if any(migration.slice in program.slices for migration in pending):
        sign(tx, known, program, clock())
    if tx.engine == "postgres":
        tenant_wall.raise_wall(tx)


def apply(tx: Tx, pending: Sequence[Migration], clock: Clock, progress: Report = _silent) -> None:
    """Apply migrations, and record them. Nothing is copied before."""
    tx.script(_TABLE)
    for done, migration in enumerate(pending, 1):
        try:
            tx.script(migration.sql)
        except errors.KhoError as error:
            raise MigrationError(f"Migration {migration} failed. Nothing was changed.") from error
        row = {"name": migration.name, "sha256": migration.sha256, "applied_at": clock()}
        insert(tx, "migrations", {"slice": migration.slice, "number": migration.number, **row})
        progress("Migrations", done, len(pending))


def sign(tx: Tx, known: Sequence[Migration], program: Program, now: int) -> None:
    """Leave the signature: other versions see by it that this one's slices are Kho's, and processes that run that the
    tables are not those that they know."""
    own = [migration for migration in known if migration.slice in program.slices]
    mark = digest(*(f"{migration} {migration.sha256}" for migration in own))
    name = " ".join([program.version, *sorted(program.slices)])
    row = {"slice": schema_mark.OWNER, "number": 0, "name": name, "sha256": mark, "applied_at": now}
    insert(tx, "migrations", row, replacing("slice, number", "name", "sha256", "applied_at"))


def _copy(tx: Tx, first: Migration, progress: Report) -> None:
    row = tx.one("SELECT file FROM pragma_database_list WHERE name = 'main'")
    assert row is not None
    try:
        backup.keep(Path(row[0]), str(first).replace("/", "-"), progress)
    except errors.DatabaseError as error:
        raise MigrationError(error.message) from error
