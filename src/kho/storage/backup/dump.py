"""Reads a store, as it was at one moment, in the form that a backup has."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO

from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Row
from kho.lib.clock import Clock
from kho.lib.sql import number
from kho.storage import migrate, tables
from kho.storage.backup.format import Batch, Manifest, Source, Start, TableStart, VectorBatch, Writer
from kho.storage.backup.snapshot import Snapshot
from kho.storage.vector_index import base, postgres, sqlite

VECTORS_AT_ONCE = 512
Report = Callable[[int, int], None]
"""Hears how many bytes are done, and of about how many."""


class Dump:
    """A store as a `Source`. The older its migrations, the fewer tables it may have; nothing is brought up to date."""

    def __init__(self, snapshot: Snapshot, kho: str, clock: Clock) -> None:
        self._snapshot = snapshot
        applied, _ = migrate.history(snapshot)
        history = [(slice, number, sha) for (slice, number), sha in sorted(applied.items())]
        if not history:
            raise DatabaseError("There is no store of Kho, so there is nothing to back up.")
        at = clock()
        stored = tables.stored(snapshot)
        model, self._model = _model(snapshot) if any(one.name == "search_state" for one in stored) else ("", None)
        counters = tables.counters(snapshot)
        described = [
            TableStart(one.name, one.columns, counters[one.name][1] if one.name in counters else None) for one in stored
        ]
        names = [one.name for one in stored]
        if self._model is not None:
            names.append(f"vectors_{self._model.number}")
        rows = sum(number(snapshot, f"SELECT count(*) FROM {name}") for name in names)
        dimension = 0 if self._model is None else self._model.dimension
        self.start = Start(kho, snapshot.engine, at, history, described, rows, model, dimension)

    def batches(self) -> Iterator[Batch | VectorBatch]:
        for table in self.start.tables:
            columns = ", ".join(table.columns)
            yield Batch(table.name, self._snapshot.rows(f"SELECT {columns} FROM {table.name}"))
        if self._model is not None:
            yield from self._vectors(self._model)

    def _vectors(self, known: base.Model) -> Iterator[VectorBatch]:
        engine = sqlite if self._snapshot.engine == "sqlite" else postgres
        rows = self._snapshot.rows(engine.halves(known))
        while some := list(islice(rows, VECTORS_AT_ONCE)):
            yield VectorBatch([row[0] for row in some], b"".join(map(self._half, some)))

    def _half(self, row: Row) -> bytes:
        return row[1] if self._snapshot.engine == "sqlite" else postgres.as_half(row[1])


def _model(snapshot: Snapshot) -> tuple[str, base.Model | None]:
    """Return the model whose vectors the passages have, if these are in this database: an index server has its own."""
    row = snapshot.one("SELECT value FROM search_state WHERE name = 'model'")
    model, _, engine = (row[0] if row else "").rpartition(" ")
    known = base.look_up(snapshot, snapshot.engine, model) if engine == "database" else None
    there = known is not None and f"vectors_{known.number}" in tables.all_names(snapshot)
    return (model, known) if there else ("", None)


def write(source: Source, out: IO[bytes], report: Report) -> Manifest:
    """Write a whole backup."""
    writer = Writer(out, source.start)
    done = 0
    for batch in source.batches():
        if isinstance(batch, VectorBatch):
            writer.vectors(batch)
            counts = iter([len(batch.seqs)])
        else:
            counts = writer.rows(batch.table, batch.rows)
        for count in counts:
            done += count
            report(writer.written, writer.written * source.start.rows // max(done, 1))
    return writer.end()
