"""`kho backup` and `kho restore`: a whole store to a file and back, whichever database it is in. Separate from `app`,
which every start imports."""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from kho import __version__
from kho.app import migrations as all_migrations
from kho.app import opened, program
from kho.kernel import KhoError, Tx
from kho.kernel.errors import DamagedDatabase, DatabaseError
from kho.lib.clock import iso, system_clock
from kho.lib.dataclass import dataclass
from kho.lib.folders import private_folder
from kho.lib.sql import number
from kho.lib.tenancy import in_all_tenants
from kho.models import factory
from kho.search.indexing import reindex
from kho.settings import BACKUPS, DATABASE, Settings, whereabouts
from kho.slices import open_purges
from kho.storage import migrate, tables
from kho.storage.backup import dump, files, load
from kho.storage.backup.format import Manifest, Reader, SavedSource, Source, Start
from kho.storage.backup.snapshot import Snapshot, of_postgres, of_sqlite
from kho.storage.postgres import database as postgres
from kho.storage.postgres import sessions
from kho.storage.sqlite import database as sqlite
from kho.storage.sqlite import replacement
from kho.storage.vector_index.postgres import PostgresVectors

Report = Callable[[str, int, int], None]
"""Hears what is being done, how many bytes of it are, and of how many."""

DAMAGED = ["a damaged file"]
"""What a store holds whose tables cannot be read."""


class HasRows(KhoError):
    """The store is not empty. Nothing was changed."""

    code = "CONFLICT"


class StoreInUse(KhoError):
    """Another program works on the store. Nothing was changed."""

    code = "STORE_IN_USE"


@dataclass(frozen=True, slots=True)
class Checked:
    """A backup that was read to its end: it is whole, and not newer than this program."""

    source: Source
    manifest: Manifest
    size: int

    @property
    def contents(self) -> dict[str, Any]:
        return contents(self.source.start, self.manifest, self.size)


def contents(start: Start, manifest: Manifest, size: int) -> dict[str, Any]:
    """Return what a backup says of itself."""
    return {
        "made_at": iso(start.at),
        "kho": start.kho,
        "database": start.engine,
        "bytes": size,
        "rows": sum(one["rows"] for one in manifest["tables"].values()),
        "model": start.model,
        "vectors": manifest["vectors"] and manifest["vectors"]["rows"],
        "migrations": {slice: number for slice, number, _ in sorted(start.migrations)},
        "tables": manifest["tables"],
        "sha256": manifest["sha256"],
    }


class Backups:
    def __init__(self, settings: Settings, hub: Callable[[Path], str]) -> None:
        self._settings = settings
        self._hub = hub
        """Returns which hubs run on the store in a folder; empty if none."""

    def file(self) -> Path:
        """Return the name of a new backup, for who gave none."""
        folder = self._settings.home / BACKUPS
        private_folder(folder)
        return folder / files.named(system_clock())

    def save(self, path: Path, report: dump.Report) -> dict[str, Any]:
        """Write a backup to a file, which is there only once it is whole."""
        try:
            with _snapshot(self._settings) as snapshot, files.written(path) as out:
                source = dump.Dump(snapshot, __version__, system_clock)
                manifest = dump.write(source, out, report)
                size = out.tell()
        except OSError as problem:
            raise KhoError(f"{path} cannot be written: {problem.strerror}. Nothing was left there.") from None
        return {"file": str(path), **contents(source.start, manifest, size)}

    def send(self, out: IO[bytes], report: dump.Report) -> None:
        """Write a backup to a pipe."""
        with _snapshot(self._settings) as snapshot:
            dump.write(dump.Dump(snapshot, __version__, system_clock), out, report)

    @contextmanager
    def checked(self, file: Path | None, report: Report) -> Generator[Checked]:
        """Read a backup to its end. What comes through a pipe (None) is kept in the data folder as long as needed."""
        try:
            if file is not None:
                with file.open("rb") as saved:
                    yield self._checked(saved, report)
                return
            with replacement.place_to_build(self._settings.home) as folder, (folder / "piped").open("x+b") as saved:
                with open(0, "rb", closefd=False) as pipe:
                    shutil.copyfileobj(pipe, saved, 1024 * 1024)
                yield self._checked(saved, report)
        except OSError as problem:
            raise KhoError(f"{file or 'The pipe'} cannot be read: {problem.strerror}.") from None

    def target(self, into: str | None) -> "Target":
        return Target(_elsewhere(self._settings, into), self._hub)

    def _checked(self, saved: IO[bytes], report: Report) -> Checked:
        size = os.fstat(saved.fileno()).st_size
        saved.seek(0)
        reader = Reader(saved, lambda done: report("Checking the backup", done, size))
        load.check(reader.start, migrate.load(all_migrations(), reader.start.engine))
        source = SavedSource(saved, lambda done: report("Loading", done, size))
        return Checked(source, reader.check(), size)


class Target:
    """The store that a backup is restored into."""

    def __init__(self, settings: Settings, hub: Callable[[Path], str]) -> None:
        self._settings = settings
        self._hub = hub
        self.where = whereabouts(settings)
        self._file = settings.home / DATABASE
        self._program = replace(program(settings), ask=False)
        self._known = migrate.load(all_migrations(), "sqlite" if settings.database_url is None else "postgres")

    async def held(self) -> list[str]:
        """Return the tables that hold something; a file that cannot be opened counts as one. Raises StoreInUse if
        another program works on the store."""
        if self._settings.database_url is not None:
            db = postgres.Postgres.open(self._settings.database_url)
            try:
                with in_all_tenants():
                    return await db.read(self._held_by_postgres)
            finally:
                await db.aclose()
        if not self._file.exists():
            return []
        if self._is_damaged():
            return DAMAGED
        sqlite.refuse_foreign(self._file)
        self._need_unused()
        with of_sqlite(self._file) as snapshot:
            return _holding(snapshot)

    async def restore(self, source: Source, *, replace: bool, report: Report) -> dict[str, Any]:
        """Load the backup. Until it is whole, others see the store as it was."""
        at = system_clock()
        if self._settings.database_url is None:
            copy = await self._into_sqlite(source, at, replace=replace, report=report)
        else:
            copy = await self._into_postgres(source, at, self._settings.database_url, replace=replace)
            await _finish(self._settings, report)
        model = factory.embedder(self._settings.search.embedder)
        waiting = model is not None and model.model != source.start.model
        if model is not None:
            await model.aclose()
        return {"store": self.where, "before": copy and str(copy), "vectors_wait": waiting}

    async def _into_sqlite(self, source: Source, at: int, *, replace: bool, report: Report) -> Path | None:
        self._need_replace(await self.held(), replace)
        damaged = self._is_damaged()
        since = source.start.at
        purges: list[dict[str, Any]] = []
        if self._file.exists() and not damaged:
            with of_sqlite(self._file) as snapshot:
                purges = _purges(snapshot, since)

        def look(tx: Tx) -> bool:
            held = _holding(tx)
            self._need_replace(held, replace)
            if _purges(tx, since) != purges:
                raise DatabaseError("The store was written to meanwhile. Nothing was changed; try again.")
            return bool(held)

        with replacement.place_to_build(self._settings.home) as folder:
            built = folder / DATABASE
            with in_all_tenants(), replacement.building(built) as tx:
                load.build(tx, source, self._known, self._program, system_clock)
                load.carry_over(tx, purges)
            await _finish(self._settings.model_copy(update={"home": folder}), report)
            before = f"restore-{iso(at)[:19].replace(':', '')}"
            if damaged:
                return replacement.put_instead_of_damaged(built, self._file, before)
            try:
                return replacement.put(built, self._file, look, before, partial(report, "Putting it in place"))
            except replacement.InUse as problem:
                raise self._in_use() from problem

    async def _into_postgres(self, source: Source, at: int, url: str, *, replace: bool) -> Path | None:
        with in_all_tenants(), replacement.place_to_build(self._settings.home) as folder:
            db = postgres.Postgres.open(url)
            try:
                held = await db.read(self._held_by_postgres)
                self._need_replace(held, replace)
                if source.start.model:
                    await PostgresVectors(db).need_extension()
                with self._up_to_date(source, folder / "older.db") as current:
                    await migrate.migrate(db, all_migrations(), self._program)
                    copy = self._settings.home / BACKUPS / files.named(at, "before-restore")
                    await db.write(partial(self._load, current, url, copy if replace else None))
                return copy if copy.exists() else None
            finally:
                await db.aclose()

    def _load(self, source: Source, url: str, copy: Path | None, tx: Tx) -> None:
        names = [*tables.all_names(tx)]
        # Others may read, and so may the copy; nobody writes what it would lack.
        tx.script(f"LOCK TABLE {', '.join(names)} IN EXCLUSIVE MODE")
        if held := self._held_by_postgres(tx):
            self._need_replace(held, copy is not None)
            assert copy is not None
            private_folder(copy.parent)
            with of_postgres(url) as snapshot, files.written(copy) as out:
                dump.write(dump.Dump(snapshot, __version__, system_clock), out, lambda done, total: None)
        purges = load.purges_since(tx, source.start.at)
        load.empty(tx, source.start)
        load.fill(tx, source)
        load.leave_to_the_indexes(tx, source.start, system_clock)
        load.carry_over(tx, purges)

    @contextmanager
    def _up_to_date(self, source: Source, scratch: Path) -> Generator[Source]:
        """A backup of an older store, brought up to date in a database of its own: a migration means the same on
        both."""
        if load.is_current(source.start, self._known):
            yield source
            return
        with replacement.building(scratch) as tx:
            load.build(tx, source, migrate.load(all_migrations(), "sqlite"), self._program, system_clock)
        with of_sqlite(scratch) as snapshot:
            yield dump.Dump(snapshot, source.start.kho, lambda: source.start.at)

    def _held_by_postgres(self, tx: Tx) -> list[str]:
        if others := sessions.others(tx):
            raise StoreInUse(
                f"Another program of Kho is connected to this store: {', '.join(others)}. Nothing was changed. "
                "Stop it, then try again."
            )
        return tables.holding(tx)

    def _need_replace(self, held: list[str], replace: bool) -> None:
        if held and not replace:
            raise HasRows(
                f"The store is not empty: {', '.join(held[:5])}{', …' if held[5:] else ''}. Nothing was changed. "
                "Add --replace to put the backup in its place; a copy of what is there is kept."
            )

    def _is_damaged(self) -> bool:
        """True if the file cannot even be opened. SQLite cannot tell then whether somebody else has it open; a hub
        tells it itself."""
        if not self._file.exists() or not replacement.is_damaged(self._file):
            return False
        if self._hub(self._settings.home):
            raise self._in_use()
        return True

    def _need_unused(self) -> None:
        try:
            replacement.need_unused(self._file)
        except replacement.InUse as problem:
            raise self._in_use() from problem

    def _in_use(self) -> StoreInUse:
        hub = self._hub(self._settings.home)
        who = f"A hub runs on this store ({hub})" if hub else "Another program of Kho has this store open"
        return StoreInUse(f"{who}. Nothing was changed. Stop it, then try again.")


def _holding(tx: Tx) -> list[str]:
    try:
        return tables.holding(tx)
    except DamagedDatabase:
        return DAMAGED


def _purges(tx: Tx, since: int) -> list[dict[str, Any]]:
    try:
        return load.purges_since(tx, since)
    except DamagedDatabase:
        return []


async def _finish(settings: Settings, report: Report) -> None:
    """File the words of all rows, and purge again. Vectors that are missing wait for the next hub."""
    async with opened(settings) as (core, slices):
        with in_all_tenants():
            # Nothing else that starts with a hub: no webhook leaves, and nothing that is due is deleted.
            begun = (work for capability in slices for work in capability.start)
            start = [work for work in begun if getattr(work, "func", None) is reindex.reindex]
            size = await core.db.read(lambda tx: number(tx, "SELECT coalesce(sum(bytes), 0) FROM search_versions"))

            def progress(done: int, total: int) -> None:
                report("Words", size * done // max(total, 1), size)

            await reindex.reindex_all(
                core.db,
                core.background,
                start,
                spaces={one.space for capability in slices for one in capability.searchable},
                clock=system_clock,
                vectors=False,
                progress=progress,
            )
    # What was purged after the backup was made is carried over as not finished. What does not happen here, the next hub
    # does. The store is opened anew: after re-indexing nothing more is begun.
    async with opened(settings, only=["administration"]) as (core, _):
        await open_purges(settings, core).resume()


@contextmanager
def _snapshot(settings: Settings) -> Generator[Snapshot]:
    if settings.database_url is not None:
        with of_postgres(settings.database_url) as snapshot:
            yield snapshot
        return
    file = settings.home / DATABASE
    if not file.exists():
        raise DatabaseError(f"There is no store in {settings.home}, so there is nothing to back up.")
    sqlite.refuse_foreign(file)
    with of_sqlite(file) as snapshot:
        yield snapshot


def _elsewhere(settings: Settings, into: str | None) -> Settings:
    """Return the settings of the store that `into` names: an address, or a data folder."""
    if into is None:
        return settings
    if "://" in into:
        if urlsplit(into).scheme not in ("postgresql", "postgres"):
            raise KhoError("--into is an address that begins with postgresql://, or a data folder.")
        return settings.model_copy(update={"database_url": into})
    folder = Path(into)
    if folder.name == DATABASE:
        folder = folder.parent
    if folder.exists() and not folder.is_dir():
        raise KhoError(f"--into names a file. Name a data folder: the store in it is {DATABASE}.")
    return settings.model_copy(update={"database_url": None, "home": folder.absolute()})
