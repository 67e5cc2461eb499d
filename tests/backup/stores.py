"""Stores that are backed up and restored, and everything that is in them."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from kho.app import open_hub
from kho.backup import Backups
from kho.kernel.call import Call
from kho.kernel.hub import Hub
from kho.settings import DATABASE, Settings, local_principal
from kho.storage import tables
from kho.storage.backup.snapshot import Snapshot, of_postgres, of_sqlite

Content = dict[str, Any]
WRITERS = 16


def snapshot(settings: Settings) -> AbstractContextManager[Snapshot]:
    if settings.database_url is None:
        return of_sqlite(settings.home / DATABASE)
    return of_postgres(settings.database_url)


def content(view: Snapshot) -> Content:
    """Every row of every table. What Kho counts up when it indexes is left out: it does so again."""
    found: Content = {}
    for table in tables.stored(view):
        columns = ", ".join(table.columns)
        found[table.name] = Counter(view.rows(f"SELECT {columns} FROM {table.name}"))
    versions: dict[tuple[str, str], tuple[int, int]] = {}
    for space, tenant, items, size in view.all("SELECT space, tenant, items, bytes FROM search_versions"):
        before = versions.get((space, tenant), (0, 0))
        versions[space, tenant] = before[0] + items, before[1] + size
    found["search_versions"] = {key: value for key, value in versions.items() if key != ("", "")}
    return found


def content_of(settings: Settings) -> Content:
    with snapshot(settings) as view:
        return content(view)


def differing(one: Content, other: Content) -> list[str]:
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def backups(settings: Settings) -> Backups:
    return Backups(settings, lambda home: "")


def quiet(*told: Any) -> None:
    """Hears of progress."""


async def restored(settings: Settings, file: Path, *, replace: bool = False) -> dict[str, Any]:
    with backups(settings).checked(file, quiet) as found:
        return await backups(settings).target(None).restore(found.source, replace=replace, report=quiet)


async def remember(hub: Hub, settings: Settings, text: str) -> str:
    outcome = await hub.registry.call(
        hub.registry.actions["remember"], {"text": text}, Call(local_principal(settings), "cli")
    )
    assert outcome.error is None, outcome.error
    return outcome.value["id"]


async def found(hub: Hub, settings: Settings, words: str) -> list[str]:
    """The titles of what a search finds."""
    outcome = await hub.registry.call(
        hub.registry.actions["search"], {"query": words}, Call(local_principal(settings), "cli")
    )
    assert outcome.error is None, outcome.error
    return [hit["title"] for hit in outcome.value["results"]]


@asynccontextmanager
async def written_to(settings: Settings) -> AsyncGenerator[list[str]]:
    """A hub with sixteen writers, none of which pauses. The list grows with every fact that is acknowledged."""
    done: list[str] = []
    numbers = count(1)
    stop = asyncio.Event()

    async def write(hub: Hub) -> None:
        while not stop.is_set():
            text = f"Fact {next(numbers)} of these writers, with 漢字 and đ."
            await remember(hub, settings, text)
            done.append(text)

    async with open_hub(settings) as hub:
        tasks = [asyncio.ensure_future(write(hub)) for _ in range(WRITERS)]
        try:
            yield done
        finally:
            stop.set()
            await asyncio.gather(*tasks)
