"""Reads every page of every table, so that the server compares each with its checksum and unpacks every value."""

from collections.abc import Iterator

from kho.kernel.errors import DamagedDatabase, DatabaseError
from kho.kernel.ports import Database, Tx
from kho.kernel.upkeep.defect import Finding, Progress, found
from kho.lib.sql import number
from kho.storage import tables

AT_ONCE = 4_096
"""Pages that are read by one statement; of these it is looked closer where one cannot be read."""
_READ = (
    "SELECT count(*), coalesce(sum(octet_length(CAST(x AS TEXT))), 0) FROM {} AS x "
    "WHERE ctid >= CAST($1 AS tid) AND ctid < CAST($2 AS tid)"
)


async def findings(db: Database, progress: Progress) -> list[Finding]:
    """Read the tables page by page; a damaged one does not hide those after it."""
    wrong: list[Finding] = []
    for table in await db.read(tables.all_names):
        pages = await db.read(
            lambda tx, table=table: number(
                tx, f"SELECT pg_relation_size('{table}') / CAST(current_setting('block_size') AS BIGINT) + 1"
            )
        )
        bad = 0
        for start in range(0, pages, AT_ONCE):
            bad += await _unreadable(db, table, start, min(start + AT_ONCE, pages))
            progress(f"Pages of {table}", min(start + AT_ONCE, pages), pages)
        wrong += found(bad, "page", f"damaged in the table {table}", table)
    return wrong


def notes(tx: Tx) -> Iterator[str]:
    row = tx.one("SHOW data_checksums")
    if row is not None and row[0] != "on":
        yield (
            "The server keeps no checksums of its pages, so a changed byte in a text is not found: "
            "'pg_checksums --enable' adds them while the server is stopped (it is on by default since PostgreSQL 18)."
        )


async def _unreadable(db: Database, table: str, first: int, end: int) -> int:
    """Return how many of these pages cannot be read."""
    try:
        await db.read(lambda tx: tx.one(_READ.format(table), f"({first},0)", f"({end},0)"))
        return 0
    except (DamagedDatabase, DatabaseError) as failure:
        if not isinstance(failure, DamagedDatabase) and not _is_refused(failure):
            raise
    if end - first == 1:
        return 1
    middle = (first + end) // 2
    return await _unreadable(db, table, first, middle) + await _unreadable(db, table, middle, end)


def _is_refused(failure: DatabaseError) -> bool:
    """A value that cannot be unpacked, or a text that is none: what a page without a checksum may turn into."""
    return type(failure) is DatabaseError and failure.message.startswith("The database refused")
