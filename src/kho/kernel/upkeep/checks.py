"""The rules by which a slice finds what is wrong in its own rows."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import orjson

from kho.kernel.ports import Tx
from kho.kernel.upkeep.defect import Cure, Finding, Progress, found
from kho.lib.dataclass import dataclass
from kho.lib.sql import Row, marks, number, update

PAGE = 500
"""Rows that are read at once."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Rows that do not fit to others. `rows` follows SELECT count(*)."""

    table: str
    what: str
    """One of the rows, in words: document."""
    how: str
    """What is wrong with it: without a text."""
    rows: str
    settle: Sequence[str] = ()
    """Statements for SQLite that let what was read out of a damaged file stand by itself: the rows with which these
    belonged together are lost. What can be kept is kept."""
    cure: Cure = "salvage"

    def findings(self, tx: Tx) -> Iterator[Finding]:
        count = number(tx, f"SELECT count(*) {self.rows}")
        yield from found(count, self.what, self.how, self.table, self.cure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks:
    """The checks of a slice on its own rows."""

    rules: Sequence[Rule] = ()
    json: Sequence[tuple[str, tuple[str, ...], tuple[str, ...]]] = ()
    """Tables with columns that hold JSON: the name, the primary key, those columns."""
    json_cure: Cure = "salvage"
    digests: Callable[[Tx, Progress], Iterable[Finding]] = lambda tx, progress: ()
    """Compares rows with the digests that they carry."""
    settles: Callable[[Tx], None] = lambda tx: None
    """As `settle` of the rules, where a statement is not enough. Runs before them."""

    def findings(self, tx: Tx, progress: Progress) -> Iterator[Finding]:
        for table, key, columns in self.json:
            progress(f"Rows of {table}", 0, 0)
            wrong = sum(any(map(_no_json, row)) for row in every(tx, table, key, columns))
            yield from found(wrong, "row", f"unreadable in {table}: {', '.join(columns)}", table, self.json_cure)
        yield from self.quick_findings(tx)
        yield from self.digests(tx, progress)

    def quick_findings(self, tx: Tx) -> Iterator[Finding]:
        for rule in self.rules:
            yield from rule.findings(tx)

    def settle(self, tx: Tx) -> None:
        for table, key, columns in self.json:
            for *place, values in (
                (*row[: len(key)], row[len(key) :]) for row in every(tx, table, key, (*key, *columns))
            ):
                for column, value in zip(columns, values, strict=True):
                    if _no_json(value):  # the row stays, without what was beside it
                        empty = "[]" if str(value).startswith("[") else "{}"
                        update(tx, table, {column: empty}, **dict(zip(key, place, strict=True)))
        self.settles(tx)
        for statement in (one for rule in self.rules for one in rule.settle):
            tx.run(statement)


def every(tx: Tx, table: str, key: Sequence[str], columns: Sequence[str]) -> Iterator[Row]:
    """Yield these columns of every row of a table, page by page in the order of its key."""
    order = ", ".join(key)
    select = f"SELECT {order}, {', '.join(columns)} FROM {table}"
    rows = tx.all(f"{select} ORDER BY {order} LIMIT $1", PAGE)
    while rows:
        yield from (row[len(key) :] for row in rows)
        if len(rows) < PAGE:
            return
        more = f"{select} WHERE ({order}) > ({marks(len(key))}) ORDER BY {order} LIMIT ${len(key) + 1}"
        rows = tx.all(more, *rows[-1][: len(key)], PAGE)


def is_json(text: Any) -> bool:
    try:
        return isinstance(orjson.loads(text), dict | list)
    except (orjson.JSONDecodeError, TypeError):
        return False


def _no_json(value: Any) -> bool:
    return value is not None and value != "" and not is_json(value)
