"""What the tables of the database hold: what people stored, what Kho can make again from it, or what only matters to
processes that run now. For everything that looks at a store as a whole, such as backups and checks.

Tables are read from the database, so that a slice's new table counts as what people stored until it is named here.
"""

import re
from graphlib import TopologicalSorter

from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass

REBUILT = re.compile(r"words_\w+|vectors_\d+\w*|vector_(models|owners|outbox|deliveries|queue)")
"""Indexes, each in the form of its engine, what lists them, and what is on its way to them. They are made from
`passages`, and vectors are computed again where none come along."""
PASSING = {"leases", "device_owners", "device_requests", "vector_identity"}
"""What belongs to running processes, or to this very store."""
HISTORY = "migrations"
NOTES = {"api_key_changes", "search_state", "search_versions"}
"""What stands in a store that nobody has written to yet."""

_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name",
    "postgres": "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
    "AND relkind IN ('r', 'p') ORDER BY relname",
}
_COLUMNS = {
    "sqlite": "SELECT name FROM pragma_table_info($1) ORDER BY cid",
    "postgres": "SELECT attname FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped "
    "ORDER BY attnum",
}
_KEY = {
    "sqlite": "SELECT name FROM pragma_table_info($1) WHERE pk > 0 ORDER BY pk",
    "postgres": "SELECT a.attname FROM pg_index AS i, unnest(i.indkey) WITH ORDINALITY AS k (attnum, place), "
    "pg_attribute AS a WHERE i.indrelid = to_regclass($1) AND i.indisprimary AND a.attrelid = i.indrelid "
    "AND a.attnum = k.attnum ORDER BY k.place",
}
_COUNTERS = {
    "sqlite": "SELECT name, '', seq FROM sqlite_sequence",
    "postgres": "SELECT t.relname, a.attname, q.last_value FROM pg_depend AS d "
    "JOIN pg_class AS s ON s.oid = d.objid AND s.relkind = 'S' JOIN pg_class AS t ON t.oid = d.refobjid "
    "JOIN pg_attribute AS a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid "
    "JOIN pg_sequences AS q ON q.schemaname = current_schema() AND q.sequencename = s.relname "
    "WHERE d.deptype IN ('a', 'i') AND t.relnamespace = current_schema()::regnamespace",
}
_REFERENCES = {
    "sqlite": 'SELECT DISTINCT "table" FROM pragma_foreign_key_list($1)',
    "postgres": "SELECT DISTINCT r.relname FROM pg_constraint AS c JOIN pg_class AS r ON r.oid = c.confrelid "
    "WHERE c.conrelid = to_regclass($1) AND c.contype = 'f'",
}


@dataclass(frozen=True, slots=True)
class StoredTable:
    name: str
    columns: tuple[str, ...]
    """By name: the order in a database depends on which migrations it went through."""
    key: tuple[str, ...]
    """Of the primary key; all columns if there is none."""


def all_names(tx: Tx) -> list[str]:
    return [row[0] for row in tx.all(_TABLES[tx.engine])]


def stored(tx: Tx) -> list[StoredTable]:
    """Return the tables that hold what people stored, and what it was filed as; referenced ones before those that
    refer to them."""
    names = [name for name in all_names(tx) if _is_stored(name)]
    order = TopologicalSorter(
        {name: sorted({row[0] for row in tx.all(_REFERENCES[tx.engine], name)} & {*names} - {name}) for name in names}
    )
    return [_described(tx, name) for name in order.static_order()]


def counters(tx: Tx) -> dict[str, tuple[str, int]]:
    """Return, by table, the column that the database numbers (on PostgreSQL) and the last number that it gave: numbers
    of rows that are gone are not given again."""
    return {table: (column, last or 0) for table, column, last in tx.all(_COUNTERS[tx.engine])}


def holding(tx: Tx) -> list[str]:
    """Return the tables with something that somebody stored: rows that Kho keeps of itself do not count."""
    names = [table.name for table in stored(tx) if table.name not in NOTES]
    return [name for name in names if tx.one(f"SELECT 1 FROM {name} LIMIT 1") is not None]


def is_derived(name: str) -> bool:
    """True for what is not in a backup, because it is made again or belongs to running processes."""
    return name in PASSING - {"vector_identity"} or REBUILT.fullmatch(name) is not None


def _is_stored(name: str) -> bool:
    return name not in PASSING and name != HISTORY and REBUILT.fullmatch(name) is None


def _described(tx: Tx, name: str) -> StoredTable:
    columns = tuple(sorted(row[0] for row in tx.all(_COLUMNS[tx.engine], name)))
    return StoredTable(name, columns, tuple(row[0] for row in tx.all(_KEY[tx.engine], name)) or columns)
