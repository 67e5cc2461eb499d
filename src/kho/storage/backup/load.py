"""Loads a backup, or another store, into tables that hold nothing: in the caller's transaction, so as a whole or not at
all."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import orjson

from kho.kernel.errors import KhoError
from kho.kernel.ports import PassageRef, Tx
from kho.lib.clock import Clock
from kho.lib.sql import among, marks
from kho.storage import migrate, tables
from kho.storage.backup.format import NewerBackup, Source, Start, VectorBatch
from kho.storage.vector_index import base, postgres, sqlite

ROWS_AT_ONCE = 200


class NotLoadable(KhoError):
    """The backup does not fit this program. Nothing was changed."""

    code = "NOT_LOADABLE"


def check(start: Start, known: Sequence[migrate.Migration]) -> None:
    """Refuse a backup that is newer than this program, or of another program. `known` are the migrations for the
    database that the backup was made of."""
    numbers = {(one.slice, one.number) for one in known}
    slices = {one.slice for one in known}
    for slice, number, _ in start.migrations:
        if slice in slices and (slice, number) not in numbers:
            raise NewerBackup(
                f"The backup was made by a newer Kho ({start.kho}; it has migration {slice}/{number:03}). "
                "Nothing was changed. Upgrade Kho, then restore it."
            )
    migrate.missing(known, {(slice, number): sha for slice, number, sha in start.migrations})


def is_current(start: Start, known: Sequence[migrate.Migration]) -> bool:
    """True if the store of the backup was up to date with this program."""
    return {(one.slice, one.number) for one in known} <= {(slice, number) for slice, number, _ in start.migrations}


def build(tx: Tx, source: Source, known: Sequence[migrate.Migration], program: migrate.Program, clock: Clock) -> None:
    """Make the tables as they were when the backup was made, load it, and bring all up to date. For a database without
    tables."""
    had = {(slice, number) for slice, number, _ in source.start.migrations}
    migrate.apply(tx, [one for one in known if (one.slice, one.number) in had], clock)
    fill(tx, source)
    migrate.apply(tx, [one for one in known if (one.slice, one.number) not in had], clock)
    migrate.sign(tx, known, program, clock())
    leave_to_the_indexes(tx, source.start, clock)


def empty(tx: Tx, start: Start) -> None:
    """Remove every row of a store on PostgreSQL from the tables that a backup has, and its indexes."""
    stored = [table.name for table in start.tables]
    others = [name for name in tables.all_names(tx) if tables.is_derived(name)]
    indexes = [name for name in others if name.startswith("vectors_")]
    gone = ", ".join([*stored, *(name for name in others if name not in indexes)])
    with _without_triggers(tx, stored):
        tx.script(f"TRUNCATE {gone}")
    for name in indexes:
        tx.script(f"DROP TABLE {name}")


def fill(tx: Tx, source: Source) -> None:
    """Load all rows and vectors into tables that have the columns of the backup. What a migration put into them goes
    first. The word index is left to be made again, and vectors that did not come along."""
    there = {table.name: {*table.columns} for table in tables.stored(tx)}
    for table in source.start.tables:
        if not there.get(table.name, set()) >= {*table.columns}:
            raise NotLoadable(
                f"The backup has a table that this Kho does not know as it is: {table.name}. Nothing was changed. "
                "Restore it with the program that it was made by."
            )
    with _without_triggers(tx, [*there]):
        for table in reversed(source.start.tables):
            tx.run(f"DELETE FROM {table.name}")
        for batch in source.batches():
            if isinstance(batch, VectorBatch):
                _vectors(tx, source.start, batch)
                continue
            columns = source.start.columns(batch.table)
            insert = f"INSERT INTO {batch.table} ({', '.join(columns)}) VALUES ({marks(len(columns))})"
            for some in _some(batch.rows):
                tx.many(insert, some)
    _count_on(tx, source.start)


def _some(rows: Iterable[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    rest = iter(rows)
    while some := list(islice(rest, ROWS_AT_ONCE)):
        yield some


@contextmanager
def _without_triggers(tx: Tx, names: Sequence[str]) -> Generator[None]:
    """Triggers keep people from changing rows that must stay, and follow up on what they write; what is loaded here was
    written under them already, and comes in as it was."""
    if tx.engine == "postgres":
        for name in names:
            tx.script(f"ALTER TABLE {name} DISABLE TRIGGER USER")
        yield
        for name in names:
            tx.script(f"ALTER TABLE {name} ENABLE TRIGGER USER")
        return
    triggers = tx.all("SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY rowid")
    for name, _ in triggers:
        tx.script(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        tx.script(sql)


def _vectors(tx: Tx, start: Start, batch: VectorBatch) -> None:
    size = 2 * start.dimension
    by_seq = {seq: batch.halves[place * size : (place + 1) * size] for place, seq in enumerate(batch.seqs)}
    select = "SELECT seq, space, tenant, collection, kind, tags, created_at FROM passages WHERE seq"
    rows = [
        (PassageRef(seq, space, tenant, collection, kind, tuple(orjson.loads(tags)), created_at), by_seq[seq])
        for seq, space, tenant, collection, kind, tags, created_at in among(tx, select, [*by_seq])
    ]
    (sqlite if tx.engine == "sqlite" else postgres).put_halves(tx, start.model, start.dimension, rows)


def _count_on(tx: Tx, start: Start) -> None:
    """Numbers that the database gives to rows go on after the last one, which may be of a row that is gone."""
    found = tables.counters(tx)
    for table in start.tables:
        if table.last is None:
            continue
        if tx.engine == "sqlite":
            if tx.run("UPDATE sqlite_sequence SET seq = max(seq, $1) WHERE name = $2", table.last, table.name) == 0:
                tx.run("INSERT INTO sqlite_sequence (name, seq) VALUES ($1, $2)", table.name, table.last)
        elif table.name in found and table.last > 0:
            tx.one("SELECT setval(pg_get_serial_sequence($1, $2), $3)", table.name, found[table.name][0], table.last)


def leave_to_the_indexes(tx: Tx, start: Start, clock: Clock) -> None:
    """For a store that was loaded and is up to date. The slices file their rows again when they open, as long as no
    form is recorded; passages without a vector wait for one."""
    tx.run("DELETE FROM search_state WHERE name LIKE 'form:%'")
    chosen = tx.one("SELECT value FROM search_state WHERE name = 'model'")
    if chosen is None or not chosen[0]:
        return  # a hub that has a model finds that there was none, and lets all of them wait
    known = base.look_up(tx, tx.engine, start.model)
    lacks = "" if known is None else f" AND NOT EXISTS (SELECT 1 FROM vectors_{known.number} AS v WHERE v.seq = p.seq)"
    waiting = f"SELECT p.seq, p.tenant, $1, 0 FROM passages AS p WHERE p.seq > 0{lacks}"
    tx.run(f"INSERT INTO vector_queue (seq, tenant, due_at, attempts) {waiting}", clock())


def purges_since(tx: Tx, at: int) -> list[dict[str, Any]]:
    """Return what was purged from a store after a moment, if it has such a record."""
    found = [table for table in tables.stored(tx) if table.name == "purges"]
    if not found or "at" not in found[0].columns:
        return []
    columns = found[0].columns
    rows = tx.all(f"SELECT {', '.join(columns)} FROM purges WHERE at > $1 ORDER BY at", at)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def carry_over(tx: Tx, purges: Sequence[dict[str, Any]]) -> None:
    """What was purged after the backup was made must not come back with it. Record these purges as not finished: they
    are done again, by the next hub if by nobody before."""
    for purge in purges:
        row = {**purge, "finished_at": None} if "finished_at" in purge else purge
        tx.run(f"INSERT INTO purges ({', '.join(row)}) VALUES ({marks(len(row))})", *row.values())
