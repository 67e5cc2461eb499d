"""Filing all of a slice's rows anew, in the background: the indexes are derived, so their form may change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import orjson

from kho.kernel.background import Background
from kho.kernel.ports import Database, Row, Tx, Value
from kho.lib.clock import Clock
from kho.lib.sql import marks
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import LEASE, MODEL
from kho.search.indexing.index import FORM, Document, Index, prepare

log = logging.getLogger("kho.search")

PAGE = 100
LOOK_AGAIN = 0.2
"""Seconds."""

Pages = Callable[[Tx, str, int], tuple[list[Document], str | None]]
"""Documents of all tenants after a place, at most so many, and the place after which the next page begins."""


def pages(
    columns: str,
    source: str,
    to_document: Callable[[Tx, Row], Document],
    *,
    place: Sequence[str] = ("tenant", "id"),
    start: Sequence[Value] = ("", ""),
    where: str = "TRUE",
    lock: str = "",
) -> Pages:
    """Pages of a slice's rows. `place` are the columns of a unique key, in the order of an index; `start` lies before
    all of them. A row begins with its place, `columns` follow. `lock` is for PostgreSQL: SQLite has one writer."""
    order = ", ".join(place)
    select = (
        f"SELECT {order}, {columns} FROM {source} WHERE {where} AND ({order}) > ({marks(len(place))}) "
        f"ORDER BY {order} LIMIT ${len(place) + 1}"
    )

    def page(tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        locked = f"{select} {lock}" if tx.engine == "postgres" else select
        rows = tx.all(locked, *(orjson.loads(after) if after else start), limit)
        more = orjson.dumps(rows[-1][: len(place)]).decode() if len(rows) == limit else None
        return [to_document(tx, row) for row in rows], more

    return page


def form_row(space: str) -> str:
    return f"form:{space}"


async def reindex(db: Database, index: Index, background: Background, space: str, form: int, pages: Pages) -> None:
    """Does nothing if the rows are filed in this form already. A restart begins again; what is filed stays."""
    wanted = f"{form}.{FORM}"
    if await db.read(lambda tx: passages.state(tx, form_row(space))) == wanted:
        return
    after: str | None = ""
    count = 0
    while after is not None and not background.stopping:

        def page(tx: Tx, start: str = after) -> tuple[int, str | None]:
            # Read and filed in one transaction: a row that changes meanwhile must not be filed as it was.
            documents, more = pages(tx, start, PAGE)
            index.put(tx, [prepare(one) for one in documents], anew=True)
            return len(documents), more

        filed, after = await db.write(page)
        count += filed
    if after is None:
        await db.write(lambda tx: passages.set_state(tx, form_row(space), wanted))
        if count:
            if db.engine == "postgres":  # or it would plan for an empty table until it looks by itself
                await db.write(lambda tx: tx.script("ANALYZE passages; ANALYZE words_entries"))
            log.info("%s: %d documents re-indexed", space, count)


@dataclass(frozen=True, slots=True)
class IndexHealth:
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


def index_health(tx: Tx, now: int) -> IndexHealth:
    spaces = {row[0]: int(row[1]) for row in tx.all("SELECT space, count(*) FROM passages GROUP BY space ORDER BY 1")}
    problem = tx.one(
        "SELECT problem FROM vector_queue WHERE problem IS NOT NULL ORDER BY due_at DESC, seq DESC LIMIT 1"
    )
    held = tx.one("SELECT owner FROM leases WHERE name = $1 AND until > $2", LEASE, now)
    return IndexHealth(
        spaces,
        passages.pending(tx),
        passages.state(tx, MODEL),
        problem[0] if problem else None,
        held[0].partition(":")[0] if held else None,
    )


async def reindex_all(
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
