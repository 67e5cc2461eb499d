"""Reindexes all rows of a slice in the background: the indexes are derived, so their form may change."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

import orjson

from kho.kernel.background import Background
from kho.kernel.ports import Database, Row, Tx, Value
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import marks, number
from kho.lib.tenancy import in_all_tenants
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import LEASE, MODEL
from kho.search.indexing.index import FORM, Document, Index, prepare

log = logging.getLogger("kho.search")

PAGE = 100
LOOK_AGAIN = 0.2
"""Seconds between two polls."""

Pages = Callable[[Tx, str, int], tuple[list[Document], str | None]]
"""Given a position and a limit, returns documents of all tenants after it, and the position where the next page
begins."""


@dataclass(frozen=True, slots=True)
class RowPages:
    """Pages of a slice's rows."""

    select: str
    place: int
    """How many columns the key has that a row begins with."""
    start: Sequence[Value]
    lock: str
    to_document: Callable[[Tx, Row], Document]

    def __call__(self, tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        return self._page(tx, after, limit, f" {self.lock}" if tx.engine == "postgres" else "")

    def read(self, tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        """Return a page in a transaction that only reads."""
        return self._page(tx, after, limit, "")

    def _page(self, tx: Tx, after: str, limit: int, lock: str) -> tuple[list[Document], str | None]:
        rows = tx.all(self.select + lock, *(orjson.loads(after) if after else self.start), limit)
        more = orjson.dumps(rows[-1][: self.place]).decode() if len(rows) == limit else None
        return [self.to_document(tx, row) for row in rows], more


def pages(
    columns: str,
    source: str,
    to_document: Callable[[Tx, Row], Document],
    *,
    place: Sequence[str] = ("tenant", "id"),
    start: Sequence[Value] = ("", ""),
    where: str = "TRUE",
    lock: str = "",
) -> RowPages:
    """Return a function that reads pages of a slice's rows. `place` are the columns of a unique key, in the order of an
    index; `start` lies before all of them. A row begins with its place, `columns` follow. `lock` is for PostgreSQL:
    SQLite has one writer."""
    order = ", ".join(place)
    select = (
        f"SELECT {order}, {columns} FROM {source} WHERE {where} AND ({order}) > ({marks(len(place))}) "
        f"ORDER BY {order} LIMIT ${len(place) + 1}"
    )
    return RowPages(select, len(place), start, lock, to_document)


def form_row(space: str) -> str:
    return f"form:{space}"


async def reindex(db: Database, index: Index, background: Background, space: str, form: int, pages: Pages) -> None:
    """Reindex the rows of a space, unless they have this form already. A restart begins again; what is indexed
    stays."""
    wanted = f"{form}.{FORM}"
    if await db.read(lambda tx: passages.state(tx, form_row(space))) == wanted:
        return
    after: str | None = ""
    count = 0
    while after is not None and not background.stopping:

        def page(tx: Tx, start: str = after) -> tuple[int, str | None]:
            # Read and index in one transaction: a row that changes meanwhile must not be indexed in its old state.
            documents, more = pages(tx, start, PAGE)
            index.put(tx, [prepare(one) for one in documents], anew=True)
            return len(documents), more

        filed, after = await db.write(page)
        count += filed
    if after is None:
        await db.write(lambda tx: passages.set_state(tx, form_row(space), wanted))
        if count:
            if db.engine == "postgres":  # otherwise it would plan for an empty table until autovacuum runs
                await db.write(lambda tx: tx.script("ANALYZE passages; ANALYZE words_entries"))
            log.info("%s: %d documents re-indexed", space, count)


@dataclass(frozen=True, slots=True)
class IndexHealth:
    spaces: dict[str, int]
    """Number of indexed passages by slice."""
    pending: int
    """Number of passages that wait for vectors."""
    model: str | None
    """The model whose vectors they have, or are getting, and where those are stored."""
    problem: str | None
    """Last error of the provider, if passages wait because of it."""
    filling: str | None
    """Number of the process that is computing vectors now."""


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
    db: Database,
    background: Background,
    start: Sequence[Callable[[], Awaitable[None]]],
    *,
    spaces: Collection[str],
    clock: Clock,
    vectors: bool,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Make the slices reindex all their rows: `start` are their start-up tasks. With `vectors`, every passage is also
    queued for its vector; those that have one are not embedded again. `spaces` are those that the slices index.
    `progress` is for an index that was empty, and hears how many passages of how many are in it."""

    def forget(tx: Tx) -> None:
        tx.run("DELETE FROM search_state WHERE name LIKE 'form:%'")
        if vectors:
            passages.enqueue_all(tx, clock())

    wanted = {form_row(space) for space in spaces}
    with in_all_tenants():
        await db.write(forget)
    tasks = [asyncio.ensure_future(work()) for work in start]
    try:
        waiting = set(tasks)
        # Slices may do more at start-up than reindexing, and without end. They are done when all have recorded their
        # form.
        while waiting and not wanted <= await db.read(_forms):
            done, waiting = await asyncio.wait(waiting, timeout=LOOK_AGAIN, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            if progress is not None:
                progress(*await db.read(_words_of_passages))
    finally:
        await background.drain()
        await asyncio.gather(*tasks, return_exceptions=True)


def _words_of_passages(tx: Tx) -> tuple[int, int]:
    return number(tx, "SELECT count(*) FROM words_entries"), number(tx, "SELECT count(*) FROM passages")


def _forms(tx: Tx) -> set[str]:
    return {row[0] for row in tx.all("SELECT name FROM search_state WHERE name LIKE 'form:%'")}
