"""What only some commands need: measuring search (`kho eval`), looking after the store (`kho doctor`, `kho verify`),
virtual boards (`kho devices simulate`). Separate from `app`, which every start imports."""

import asyncio
import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kho import evaluation
from kho.app import Core, migrations, open_database, open_hub, opened, program
from kho.kernel import Capability, Database, Hub, KhoError, Tx
from kho.kernel.capability import Upkeep
from kho.kernel.errors import DamagedDatabase
from kho.kernel.hub import Settled
from kho.kernel.upkeep.defect import Finding, Progress
from kho.lib.clock import system_clock
from kho.lib.merge import merged
from kho.lib.sql import number
from kho.lib.tenancy import in_all_tenants
from kho.parsers import landlock
from kho.search.indexing import integrity, passages, reindex
from kho.search.query.searcher import SearchLimits
from kho.settings import DATABASE, Settings
from kho.simulator.simulator import simulate
from kho.storage import migrate, tables
from kho.storage.postgres import pages as postgres_pages
from kho.storage.postgres import tenant_wall
from kho.storage.sqlite import backup, checksums, pages, vacuum
from kho.storage.sqlite import integrity as structure
from kho.storage.sqlite.database import Sqlite
from kho.storage.sqlite.salvage import Saved, Wreck
from kho.storage.vector_index import base

__all__ = [
    "bring_up_to_date",
    "change",
    "evaluator",
    "examine",
    "open_bench",
    "salvage",
    "simulate",
    "standing",
    "verify",
]


@asynccontextmanager
async def open_bench(
    settings: Settings, chosen: evaluation.Configuration, folder: Path
) -> AsyncGenerator[tuple[Hub, evaluation.Bench], None]:
    """Open a hub to measure search, on a separate store in `folder`: never the user's, whatever the settings say.
    Configurations with the same model share one, so that nothing is embedded twice."""
    usual = {"database_url": None, "search": {"vectors": {"engine": "database"}}}
    wanted = {**merged(usual, chosen.changes), "local": {"tenant": evaluation.TENANT}}
    changed = change(settings, wanted)
    if settings.database_url is not None and changed.database_url == settings.database_url:
        raise KhoError(f"{chosen.name} is the database that Kho uses. Name an empty one for measuring.")
    model = changed.search.embedder
    named = model.model_dump_json(include={"provider", "url", "model", "dimension", "query_prefix", "passage_prefix"})
    home = folder / f"{model.provider}-{blake2b(named.encode(), digest_size=6).hexdigest()}"
    limits = SearchLimits(changed.search.timeout, changed.search.patience, chosen.lean, chosen.look)
    benches: list[evaluation.Bench] = []

    def more(core: Core) -> list[Capability]:
        benches.append(evaluation.Bench(core.db, core.index, core.searcher, core.embedding_queue))
        return [benches[0].capability]

    async with open_hub(changed.model_copy(update={"home": home}), more=more, limits=limits) as hub:
        yield hub, benches[0]


def evaluator(settings: Settings) -> evaluation.Evaluation:
    return evaluation.Evaluation(partial(open_bench, settings))


def change(settings: Settings, changes: dict[str, Any]) -> Settings:
    """Return a copy of the settings with changes."""
    if unknown := sorted(set(changes) - set(Settings.model_fields)):
        raise KhoError(f"There is no setting called {', '.join(unknown)}.")
    try:
        return Settings.model_validate(merged(settings.model_dump(), changes))
    except ValidationError as failure:
        first = failure.errors(include_url=False, include_input=False, include_context=False)[0]
        raise KhoError(f"The setting {'.'.join(map(str, first['loc']))}: {first['msg']}.") from None


MENDED = {(3, 11): 12, (3, 12): 9, (3, 13): 2}
"""The first patch release of each version of Python in which all of it is mended: which addresses are public
(CVE-2024-4032), brackets in the host of a URL (CVE-2025-0938), archives whose parts overlap (CVE-2024-0450), endless
names in them (CVE-2024-8088). Versions that are not named have it from the start. Kho checks addresses and archives
itself, too."""


def interpreter(version: tuple[int, int, int] = sys.version_info[:3]) -> list[str]:
    """Return a warning if this Python has faults that a later release has not."""
    major, minor, patch = version
    wanted = MENDED.get((major, minor), 0)
    if patch >= wanted:
        return []
    return [
        f"Python {major}.{minor}.{patch} has known security faults, some in what Kho relies on to check addresses and "
        f"files. {major}.{minor}.{wanted} or a later release has them mended."
    ]


async def examine(settings: Settings, *, repair: bool, progress: Progress) -> dict[str, Any]:
    """Check the store and its indexes, for `kho doctor`; with `repair`, repair and reindex them first."""
    looked = await _look(settings, progress) if repair else None
    if looked is not None and any(one.cure == "salvage" for one in looked.findings):
        raise DamagedDatabase
    async with opened(settings) as (core, slices):
        with in_all_tenants():
            settled = await _repaired(core, slices, looked, progress) if repair else None
            report = await _health(settings, core, slices)
    if looked is not None and not looked.checksums and settings.database_url is None:
        await asyncio.to_thread(vacuum.add_checksums, settings.home / DATABASE)
    return {**report, "repaired": repair, "vectors": None if settled is None else asdict(settled)}


async def verify(settings: Settings, *, repair: bool, progress: Progress) -> dict[str, Any]:
    """Read the whole store, for `kho verify`: files or pages first, then every row, then what is derived from them.
    With `repair` what is derived is made again before it is looked at, if all rows are whole."""
    looked = await _look(settings, progress)
    report: dict[str, Any] = {"size": looked.size, "repaired": False}
    notes: list[str] = []
    found = list(looked.findings)
    lacking = settings.database_url is None and looked.size > 0 and not looked.checksums
    if _whole(found):
        async with opened(settings) as (core, slices):
            with in_all_tenants():
                if core.db.engine == "postgres":
                    found += await postgres_pages.findings(core.db, progress)
                    notes += await core.db.read(lambda tx: [*postgres_pages.notes(tx)])
                found += await _verified(core, slices, progress, lambda one: one.findings)
                if repair and _whole(found):
                    await _repaired(core, slices, looked, progress)
                    report["repaired"] = True
                    found = [one for one in found if one.cure != "repair"]
                if _whole(found):
                    found += await _verified(core, slices, progress, lambda one: one.index_findings)
                    vectors = await core.db.read(partial(_vector_table, core))
                    found += await core.db.read(lambda tx: [*integrity.derived_findings(tx, vectors, progress)])
        if lacking and report["repaired"]:
            lacking = not await asyncio.to_thread(vacuum.add_checksums, settings.home / DATABASE)
    if lacking:
        notes.append(NO_CHECKSUMS if checksums.vfs() else NO_CHECKSUMS_HERE)
    if not _whole(found):
        notes.append("Indexes are compared with the rows once the rows are whole.")
    return {**report, "findings": [asdict(one) for one in found], "notes": notes}


MADE_AGAIN = {"passages", "similarity_bands", "search_versions", "search_state", "vector_models"}
"""Tables that indexing fills again."""


async def salvage(settings: Settings, folder: Path, *, progress: Progress) -> dict[str, Any]:
    """Read what can be read of a damaged SQLite store into a new one in `folder`. It gets its name when it is
    complete."""
    source = settings.home / DATABASE
    part = folder.with_name(f"{folder.name}.part")
    _refuse_salvage(settings, source, folder)
    looked = await asyncio.to_thread(pages.look, source, progress)
    wreck = await asyncio.to_thread(Wreck.open, source, looked.bad)
    try:
        shutil.rmtree(part, ignore_errors=True)  # left by a killed process
        part.mkdir(mode=0o700, parents=True)
        new = settings.model_copy(update={"home": part})
        db = Sqlite.open(part / DATABASE)
        try:
            await migrate.migrate(db, migrations(), program(settings), until=wreck.history() or None)
            with in_all_tenants():
                names = [one.name for one in await db.read(tables.stored) if one.name not in MADE_AGAIN]
        finally:
            await db.aclose()
        saved, unknown = await asyncio.to_thread(wreck.copy, part / DATABASE, names, progress)
        if not any(one.kept for one in saved):
            raise KhoError(f"Nothing in {source} could be read: without a backup it is lost. Nothing was changed.")
        await _settled(new, saved, progress)
        part.rename(folder)
    finally:
        await asyncio.to_thread(wreck.close)
        shutil.rmtree(part, ignore_errors=True)
    told = [{**asdict(one), "lost": max(0, (one.expected or 0) - one.kept)} for one in saved]
    return {"from": str(source), "folder": str(folder), "unknown": unknown, "tables": told}


def _refuse_salvage(settings: Settings, source: Path, folder: Path) -> None:
    if settings.database_url is not None:
        raise KhoError("Only a SQLite file can be read so: for PostgreSQL restore a backup into an empty database.")
    if folder.exists():
        raise KhoError(f"{folder} exists already. Name a folder that does not. Nothing was changed.")
    if not source.exists() and not source.with_name(f"{source.name}-wal").exists():
        raise KhoError(f"There is no {source}: nothing to read.")


async def _settled(new: Settings, saved: list[Saved], progress: Progress) -> None:
    """Let what was read stand by itself, index it, and count what is there."""
    async with opened(new) as (core, slices):
        with in_all_tenants():
            for one in slices:
                if one.upkeep is not None:
                    await core.db.write(one.upkeep.settle)
            await _repaired(core, slices, None, progress)
            for one in saved:
                one.kept = await core.db.read(lambda tx, table=one.table: number(tx, f"SELECT count(*) FROM {table}"))


Check = Callable[[Upkeep], Callable[[Tx, Progress], Iterable[Finding]]]
NO_CHECKSUMS = (
    "The pages of the file have no checksums yet, so a changed byte in a text may not be found: 'kho doctor --repair' "
    "adds them, while nobody else uses the store."
)
NO_CHECKSUMS_HERE = (
    "This installation of apsw cannot keep checksums of pages, so a changed byte in a text may not be found: the wheel "
    "of the Python Package Index can."
)


def _whole(found: Iterable[Finding]) -> bool:
    return not any(one.cure == "salvage" for one in found)


async def _look(settings: Settings, progress: Progress) -> pages.Looked:
    """Look at the file, before anything opens it: SQLite would forget what it cannot read in the log."""
    if settings.database_url is not None:
        return pages.Looked()
    path = settings.home / DATABASE
    looked = await asyncio.to_thread(pages.look, path, progress)
    if looked.readable:
        progress("Structure of the file", 0, 0)
        looked.findings += await asyncio.to_thread(structure.findings, path, looked.bad)
    return looked


async def _verified(core: Core, slices: list[Capability], progress: Progress, check: Check) -> list[Finding]:
    found: list[Finding] = []
    for one in slices:
        if one.upkeep is None:
            continue
        work = check(one.upkeep)
        try:
            found += await core.db.read(lambda tx, work=work: [*work(tx, progress)])
        except DamagedDatabase:
            found.append(Finding(f"Rows of {one.name} cannot be read."))
    return found


async def _repaired(
    core: Core, slices: list[Capability], looked: pages.Looked | None, progress: Progress
) -> Settled | None:
    """Make again what is derived from rows: SQL indexes, passages, words, counters and vectors."""
    progress("Re-indexing", 0, 0)
    indexed = core.embedding_queue is not None
    upkeeps = [one.upkeep for one in slices if one.upkeep is not None]
    if looked is not None and any(one.cure == "repair" for one in looked.findings):
        await core.db.write(integrity.clear_words)
        await core.db.write(lambda tx: tx.script("REINDEX"))
    vectors = await core.db.read(partial(_vector_table, core))
    await core.db.write(lambda tx: integrity.mend(tx, core.index, upkeeps, vectors))
    if core.db.engine == "postgres":
        await core.db.write(tenant_wall.raise_wall)
    start = [work for capability in slices for work in capability.start]
    spaces = {one.space for capability in slices for one in capability.searchable}
    await reindex.reindex_all(core.db, core.background, start, spaces=spaces, clock=system_clock, vectors=indexed)
    await core.db.write(integrity.recount)
    return await core.embedding_queue.settle(partial(progress, "Vectors")) if core.embedding_queue is not None else None


def _vector_table(core: Core, tx: Tx) -> integrity.VectorTable | None:
    """Return where the database keeps the vectors of the model; None if an index server does, or nothing has."""
    kept = (passages.state(tx, passages.MODEL) or "").rpartition(" ")
    if core.embedding_queue is None or core.embedding_queue.kept != " ".join(kept[::2]) or kept[2] != "database":
        return None
    known = base.look_up(tx, tx.engine, kept[0])
    return None if known is None else integrity.VectorTable(f"vectors_{known.number}", kept[0], known.dimension)


async def _health(settings: Settings, core: Core, slices: list[Capability]) -> dict[str, Any]:
    found = await core.db.read(lambda tx: reindex.index_health(tx, system_clock()))
    engine = settings.search.vectors.engine
    return {
        **asdict(found),
        "wrong": await core.db.read(partial(_problems, slices)),
        "warnings": [*interpreter(), *await core.db.read(tenant_wall.warnings)],
        "wanted_model": core.model,
        "engine": engine,
        "current": not found.spaces or found.model == f"{core.model} {engine}",
        "landlock": landlock.abi(),
    }


async def standing(settings: Settings) -> dict[str, Any]:
    """Compare the database with this program, for `kho migrate --check`. Nothing is made or changed."""
    file = settings.home / DATABASE
    if settings.database_url is None and not file.is_file():
        return {"state": "empty", "from": "", "pending": []}
    async with _database(settings) as db:
        applied, signature = await db.read(migrate.history)
        pending = migrate.missing(migrate.load(migrations(), db.engine), applied, signature)
        state = "empty" if not applied else "pending" if pending else "current"
        found: dict[str, Any] = {"state": state, "from": signature.version, "pending": [str(one) for one in pending]}
        if state == "pending":
            found["bytes"] = await db.read(migrate.size)
            if settings.database_url is None:
                found["free"] = shutil.disk_usage(settings.home).free
        return found


async def bring_up_to_date(settings: Settings, progress: migrate.Report) -> dict[str, Any]:
    """Apply missing migrations, for `kho migrate --apply`."""
    async with _database(settings) as db:
        applied, signature = await db.read(migrate.history)
        pending = migrate.missing(migrate.load(migrations(), db.engine), applied, signature)
        await migrate.migrate(db, migrations(), replace(program(settings), ask=False), progress=progress)
    done: dict[str, Any] = {"applied": [str(one) for one in pending]}
    if settings.database_url is None and pending and (copies := backup.copies(settings.home / DATABASE)):
        done["copy"] = str(copies[-1])
    return done


@asynccontextmanager
async def _database(settings: Settings) -> AsyncGenerator[Database, None]:
    db, _ = open_database(settings)
    try:
        yield db
    finally:
        await db.aclose()


def _problems(slices: list[Capability], tx: Tx) -> list[str]:
    return [found.problem for one in slices if one.upkeep is not None for found in one.upkeep.quick_findings(tx)]
