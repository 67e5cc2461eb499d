"""What state the indexes are in, and how they are made anew. They are derived: the slices' rows are what is kept."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from kho.kernel.background import Background
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import LEASE, MODEL
from kho.search.indexing.reindex import form_row

LOOK_AGAIN = 0.2
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Standing:
    spaces: dict[str, int]
    """Passages that are filed, by slice."""
    pending: int
    """… of which so many wait for vectors."""
    model: str | None
    """The model whose vectors they have, or are getting, and where those are kept."""
    problem: str | None
    """What the provider last complained about, if passages wait because of it."""
    filling: str | None
    """Who fills in vectors at the moment: its process number."""


def standing(tx: Tx, now: int) -> Standing:
    spaces = {row[0]: int(row[1]) for row in tx.all("SELECT space, count(*) FROM passages GROUP BY space ORDER BY 1")}
    problem = tx.one(
        "SELECT problem FROM vector_queue WHERE problem IS NOT NULL ORDER BY due_at DESC, seq DESC LIMIT 1"
    )
    held = tx.one("SELECT owner FROM leases WHERE name = $1 AND until > $2", LEASE, now)
    return Standing(
        spaces,
        passages.pending(tx),
        passages.state(tx, MODEL),
        problem[0] if problem else None,
        held[0].partition(":")[0] if held else None,
    )


async def refile_all(
    db: Database, background: Background, start: Sequence[Callable[[], Awaitable[None]]], *, clock: Clock, vectors: bool
) -> None:
    """Has the slices file all their rows anew: `start` is what they do when a hub begins. With `vectors`, every passage
    is also looked at for its vector; those that have one are not embedded again."""

    def forget(tx: Tx) -> set[str]:
        forms = {row[0] for row in tx.all("SELECT name FROM search_state WHERE name LIKE 'form:%'")}
        spaces = {row[0] for row in tx.all("SELECT DISTINCT space FROM passages")}
        tx.run("DELETE FROM search_state WHERE name LIKE 'form:%'")
        if vectors:
            passages.enqueue_all(tx, clock())
        return forms | {form_row(space) for space in spaces}

    wanted = await db.write(forget)
    tasks = [asyncio.ensure_future(work()) for work in start]
    try:
        waiting = set(tasks)
        # Slices may do more at the start than filing, and without end. They are done when all say that they filed.
        while waiting and not wanted <= await db.read(_forms):
            done, waiting = await asyncio.wait(waiting, timeout=LOOK_AGAIN, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
    finally:
        await background.drain()
        await asyncio.gather(*tasks, return_exceptions=True)


def _forms(tx: Tx) -> set[str]:
    return {row[0] for row in tx.all("SELECT name FROM search_state WHERE name LIKE 'form:%'")}
