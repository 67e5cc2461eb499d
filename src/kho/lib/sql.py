"""SQL helpers that avoid repetition: rows described once by a dataclass, inserts, IN-lists.

SELECTs, joins and tuned statements stay text in the stores; this is not an ORM. Everything is portable: parameters are
`$1, $2, …`, JSON is TEXT, booleans are 0 and 1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Generic, Protocol, TypeVar

import orjson

from kho.lib.dataclass import dataclass

R = TypeVar("R")
Value = str | int | float | bytes | None
Row = tuple[Any, ...]

BATCH = 500
"""Values in one IN-list."""


class Statements(Protocol):
    """The methods of a transaction that are needed here."""

    def one(self, sql: str, *params: Value) -> Row | None: ...

    def all(self, sql: str, *params: Value) -> list[Row]: ...

    def run(self, sql: str, *params: Value) -> int: ...

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...


@dataclass(frozen=True)
class Table(Generic[R]):
    """A table whose rows are read into the dataclass `row` and written from it.

    The columns are the dataclass's fields, in their order; the tenant is a column that is not in the dataclass. A row
    may span a join of tables: then `write` takes the fields of one of them.
    """

    name: str
    row: type[R]
    json: tuple[str, ...] = ()
    """Fields stored as JSON text."""
    flags: tuple[str, ...] = ()
    """Boolean fields, stored as 0 and 1."""
    names: Mapping[str, str] | None = None
    """Column names that differ from their fields."""

    @cached_property
    def fields(self) -> tuple[str, ...]:
        return tuple(field.name for field in fields(self.row))  # type: ignore[arg-type]  # pyright has no bound for dataclasses

    def column(self, field: str) -> str:
        return (self.names or {}).get(field, field)

    @cached_property
    def columns(self) -> str:
        """All columns, for a SELECT."""
        return ", ".join(map(self.column, self.fields))

    def select(self, alias: str) -> str:
        """Return all columns, each with the alias of its table."""
        return ", ".join(f"{alias}.{self.column(field)}" for field in self.fields)

    @cached_property
    def _decoders(self) -> list[tuple[int, Any]]:
        decoded = {**dict.fromkeys(self.json, orjson.loads), **dict.fromkeys(self.flags, bool)}
        return [(place, decoded[name]) for place, name in enumerate(self.fields) if name in decoded]

    def read(self, row: Row) -> R:
        """Convert a row that was selected by `columns`."""
        if not self._decoders:
            return self.row(*row)
        values = list(row)
        for place, decode in self._decoders:
            if values[place] is not None:
                values[place] = decode(values[place])
        return self.row(*values)

    def read_all(self, rows: Iterable[Row]) -> list[R]:
        return [self.read(row) for row in rows]

    def find(self, tx: Statements, **key: Value) -> R | None:
        """Return the row with this key."""
        return self.first(tx, _equal(tuple(key), 1), *key.values())

    def first(self, tx: Statements, condition: str, *params: Value) -> R | None:
        row = tx.one(f"SELECT {self.columns} FROM {self.name} WHERE {condition}", *params)
        return None if row is None else self.read(row)

    def all(self, tx: Statements, condition: str, *params: Value) -> list[R]:
        """Return the rows that match a condition, which may include ORDER BY and LIMIT."""
        return self.read_all(tx.all(f"SELECT {self.columns} FROM {self.name} WHERE {condition}", *params))

    def write(self, item: R, *, only: Iterable[str] | None = None, without: Iterable[str] = ()) -> dict[str, Value]:
        """Return the columns of an item, or those of some of its fields."""
        left_out = frozenset(without)
        return {
            self.column(name): self.value(name, getattr(item, name))
            for name in only or self.fields
            if name not in left_out
        }

    def value(self, field: str, value: Any) -> Value:
        if value is not None:
            if field in self.json:
                return to_json(value)
            if field in self.flags:
                return int(value)
        return value

    def insert(self, tx: Statements, item: R, *, conflict: str = "", **more: Value) -> int:
        """Insert a row; `more` are columns in addition to the item's, such as the tenant."""
        return insert(tx, self.name, {**more, **self.write(item)}, conflict)

    def insert_many(self, tx: Statements, items: Iterable[R], *, conflict: str = "", **more: Value) -> None:
        insert_many(tx, self.name, [{**more, **self.write(item)} for item in items], conflict)


def to_json(value: Any) -> str:
    return orjson.dumps(value).decode()


def marks(count: int, first: int = 1) -> str:
    """Return placeholders for an IN-list or VALUES: `$2, $3, $4`."""
    return ", ".join(f"${number}" for number in range(first, first + count))


@lru_cache(maxsize=512)
def _insert(table: str, columns: tuple[str, ...], conflict: str) -> str:
    rest = f" ON CONFLICT {conflict}" if conflict else ""
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(len(columns))}){rest}"


def insert(tx: Statements, table: str, row: Mapping[str, Value], conflict: str = "") -> int:
    """Insert a row and return the number of rows added. `conflict` is what follows ON CONFLICT, see `replacing`."""
    return tx.run(_insert(table, tuple(row), conflict), *row.values())


def insert_many(tx: Statements, table: str, rows: Sequence[Mapping[str, Value]], conflict: str = "") -> None:
    """Insert rows that all have the columns of the first."""
    if rows:
        tx.many(_insert(table, tuple(rows[0]), conflict), [tuple(row.values()) for row in rows])


@lru_cache(maxsize=256)
def replacing(key: str, *columns: str) -> str:
    """For `conflict`: if the key exists, set these columns to the values of the insert."""
    return f"({key}) DO UPDATE SET {', '.join(f'{column} = excluded.{column}' for column in columns)}"


NOTHING = "DO NOTHING"
"""For `conflict`: if the key exists, keep the existing row."""


def update(tx: Statements, table: str, changes: Mapping[str, Value], **key: Value) -> int:
    """Set columns of the rows with this key; return how many there are."""
    return tx.run(_update(table, tuple(changes), tuple(key)), *changes.values(), *key.values())


@lru_cache(maxsize=256)
def _update(table: str, columns: tuple[str, ...], key: tuple[str, ...]) -> str:
    sets = ", ".join(f"{column} = ${place}" for place, column in enumerate(columns, 1))
    return f"UPDATE {table} SET {sets} WHERE {_equal(key, len(columns) + 1)}"


def delete(tx: Statements, table: str, **key: Value) -> int:
    """Delete the rows with this key; return how many there were."""
    return tx.run(f"DELETE FROM {table} WHERE {_equal(tuple(key), 1)}", *key.values())


@lru_cache(maxsize=512)
def _equal(columns: tuple[str, ...], first: int) -> str:
    return " AND ".join(f"{column} = ${place}" for place, column in enumerate(columns, first))


def among(tx: Statements, select: str, values: Sequence[Value], *params: Value, rest: str = "") -> list[Row]:
    """Return rows of `{select} IN (values){rest}`, in as many statements as needed. `params` are the select's own."""
    rows: list[Row] = []
    for start in range(0, len(values), BATCH):
        batch = values[start : start + BATCH]
        rows += tx.all(f"{select} IN ({marks(len(batch), len(params) + 1)}){rest}", *params, *batch)
    return rows


def pairs(tx: Statements, select: str, values: Sequence[tuple[Value, Value]], *params: Value) -> list[Row]:
    """Rows of `{select} IN ((a, b), …)`, as `among` for one value."""
    rows: list[Row] = []
    for start in range(0, len(values), BATCH):
        batch = values[start : start + BATCH]
        listed = ", ".join(f"({marks(2, len(params) + 1 + 2 * place)})" for place in range(len(batch)))
        rows += tx.all(f"{select} IN (VALUES {listed})", *params, *(value for pair in batch for value in pair))
    return rows


def number(tx: Statements, sql: str, *params: Value) -> int:
    """Return the one number of a SELECT; 0 if there is no row."""
    row = tx.one(sql, *params)
    return int(row[0]) if row else 0


BEGINNING = re.compile(r"[0-9a-f][0-9a-f-]{5,34}")
"""The beginning of a UUID, of six characters or more: what a narrow table shows of it, and what people copy."""


def full_id(tx: Statements, table: str, tenant: str, given: str) -> str:
    """Return the id that `given` is the beginning of, if there is just one; otherwise `given` itself."""
    if not BEGINNING.fullmatch(given):
        return given
    rows = tx.all(f"SELECT id FROM {table} WHERE tenant = $1 AND id LIKE $2 LIMIT 2", tenant, f"{given}%")
    return str(rows[0][0]) if len(rows) == 1 else given


def where(conditions: Mapping[str, Value | None], first: int = 1) -> tuple[str, list[Value]]:
    """Turn `{"at >=": 5, "actor =": None}` into `at >= $1` and its values; conditions with None are left out."""
    given = [(condition, value) for condition, value in conditions.items() if value is not None]
    text = " AND ".join(f"{condition} ${place}" for place, (condition, _) in enumerate(given, first))
    return text, [value for _, value in given]


def digest_bytes(*parts: str, size: int = 8) -> bytes:
    """Return a few bytes that identify the parts, whatever they contain."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=size).digest()


def digest(*parts: str, size: int = 16) -> str:
    """Return a short, stable digest of texts."""
    return digest_bytes(*parts, size=size).hex()


def number_of(*parts: str) -> int:
    """Return a digest of 64 bits as a number that both databases can store: it compares faster than a text in an index,
    and takes less space."""
    return int.from_bytes(digest_bytes(*parts), "big", signed=True)
