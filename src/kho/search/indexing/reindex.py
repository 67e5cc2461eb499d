"""Filing all of a slice's rows anew, in the background: the indexes are derived, so their form may change."""

import logging
from collections.abc import Callable, Sequence

import orjson

from kho.kernel.background import Background
from kho.kernel.ports import Database, Row, Tx, Value
from kho.search.indexing import passages
from kho.search.indexing.index import FORM, Document, Index, prepare

log = logging.getLogger("kho.search")

PAGE = 100

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
    marks = ", ".join(f"${n}" for n in range(1, len(place) + 1))
    select = (
        f"SELECT {order}, {columns} FROM {source} WHERE {where} AND ({order}) > ({marks}) "
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


async def refile(db: Database, index: Index, background: Background, space: str, form: int, pages: Pages) -> None:
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
            log.info("%s: %d documents filed anew", space, count)
