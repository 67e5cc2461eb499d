"""What only some commands need: measuring search (`kho eval`), checking and repairing the store (`kho doctor`), virtual
boards (`kho devices simulate`). Separate from `app`, which every start imports."""

import shutil
import sys
from collections.abc import AsyncGenerator, Callable
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
from kho.lib.clock import system_clock
from kho.lib.merge import merged
from kho.lib.tenancy import in_all_tenants
from kho.parsers import landlock
from kho.search.indexing import reindex
from kho.search.query.searcher import SearchLimits
from kho.settings import DATABASE, Settings
from kho.simulator.simulator import simulate
from kho.storage import migrate
from kho.storage.postgres import tenant_wall
from kho.storage.sqlite import backup

__all__ = ["bring_up_to_date", "change", "evaluator", "examine", "open_bench", "simulate", "standing"]


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


async def examine(settings: Settings, *, repair: bool, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Check the store and its indexes, for `kho doctor`; with `repair`, repair and reindex them first."""
    async with opened(settings) as (core, slices):
        with in_all_tenants():
            return await _examined(settings, core, slices, repair=repair, progress=progress)


async def _examined(
    settings: Settings,
    core: Core,
    slices: list[Capability],
    *,
    repair: bool,
    progress: Callable[[str, int, int], None],
) -> dict[str, Any]:
    settled = None
    if repair:
        progress("Re-indexing", 0, 0)
        start = [work for capability in slices for work in capability.start]
        indexed = core.embedding_queue is not None
        await core.db.write(partial(_mend, slices))
        if core.db.engine == "postgres":
            await core.db.write(tenant_wall.raise_wall)
        await reindex.reindex_all(core.db, core.background, start, clock=system_clock, vectors=indexed)
        if core.embedding_queue is not None:
            settled = await core.embedding_queue.settle(partial(progress, "Vectors"))
    found = await core.db.read(lambda tx: reindex.index_health(tx, system_clock()))
    wrong = await core.db.read(partial(_problems, slices))
    engine = settings.search.vectors.engine
    return {
        **asdict(found),
        "wrong": wrong,
        "warnings": [*interpreter(), *await core.db.read(tenant_wall.warnings)],
        "wanted_model": core.model,
        "engine": engine,
        "current": not found.spaces or found.model == f"{core.model} {engine}",
        "repaired": repair,
        "landlock": landlock.abi(),
        "vectors": None if settled is None else asdict(settled),
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
    return [problem for one in slices if one.upkeep is not None for problem in one.upkeep.problems(tx)]


def _mend(slices: list[Capability], tx: Tx) -> None:
    for capability in slices:
        if capability.upkeep is not None:
            capability.upkeep.mend(tx)
