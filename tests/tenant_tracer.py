"""Refuses a statement on a table of tenants that does not name the tenant, on SQLite, which has no row-level security.

Every transaction of this process goes through it, those of hubs that tests open too. Only work of Kho that says
`in_all_tenants` may leave the tenant out. It reads the statement's text, so it knows what the statement says, not what
the engine does; PostgreSQL's own wall is tests/storage/test_tenant_wall.py.
"""

import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar
from unittest.mock import patch

import kho
from kho.kernel.ports import Row, Tx, Value
from kho.lib.tenancy import ALL, reach
from kho.storage.postgres.tenant_wall import DERIVED
from kho.storage.sqlite.database import Sqlite

T = TypeVar("T")
_PACKAGE = str(Path(kho.__file__).parent)
INDEXES = {"words_entries"}
"""Derived on SQLite: `vectors_*` besides."""
_QUIET = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", re.S)
_TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+) \((.*?)\n\)", re.S)
_CREATED = re.compile(r"^\s*tenant TEXT", re.M)
_INNERMOST = re.compile(r"\(([^()]*)\)")
_NAMED = re.compile(
    r"\b(?:FROM|JOIN|UPDATE|INTO|,)\s+(\w+)(?:\s+(?:AS\s+)?(?!(?:WHERE|SET|ON|JOIN|CROSS|LEFT|ORDER|GROUP|LIMIT|USING|UNION|RETURNING|VALUES|SELECT|DO|INNER|DEFAULT)\b)(\w+))?",
    re.I,
)
_UNION = re.compile(r"\bUNION(?: ALL)?\b", re.I)
_CONDITION = re.compile(r"\b(?:WHERE|ON|USING)\b(.*)", re.S | re.I)


class NoTenant(AssertionError):
    """A statement does not name its tenant."""


@cache
def tenants_tables() -> frozenset[str]:
    files = Path(kho.__file__).parent.glob("*/migrations/*.sql")
    made = (match for path in files for match in _TABLE.finditer(path.read_text("utf-8")))
    return frozenset(name for name, columns in (match.groups() for match in made) if _CREATED.search(columns)) - {
        *DERIVED,
        *INDEXES,
    }


@cache
def unnamed(sql: str) -> str | None:
    """Return the table of tenants whose tenant the statement leaves out; None if it names them all."""
    parts = list(_parts(_QUIET.sub("''", sql)))
    return next((table for part in parts for table in _left_out(part)), None)


def _parts(sql: str) -> Iterator[str]:
    """Yield the statement and each SELECT inside of it, without those inside of these."""
    while (match := _INNERMOST.search(sql)) is not None:
        inner = match[1].strip()
        if re.match(r"(?:SELECT|WITH|DELETE|UPDATE|INSERT)\b", inner, re.I):
            yield from _UNION.split(inner)
            sql = f"{sql[: match.start()]} '' {sql[match.end() :]}"
        else:  # a list or a condition belongs to what is around it
            sql = f"{sql[: match.start()]}\x01{inner}\x02{sql[match.end() :]}"
    yield from _UNION.split(sql)


def _left_out(part: str) -> Iterator[str]:
    insert = re.match(r"\s*INSERT INTO (\w+)\s*\x01([^\x02]*)\x02(.*)", part, re.S | re.I)
    if insert is not None:
        table, columns, rest = insert.groups()
        if table in tenants_tables() and not re.search(r"\btenant\b", columns):
            yield table
        part = re.sub(r"\bON CONFLICT\b.*", "", rest, flags=re.S | re.I)
    # What a SELECT lists is separated by commas as tables are; only what follows FROM names tables.
    start = re.search(r"\b(?:FROM|UPDATE)\b", part, re.I)
    if start is None:
        return
    text = part[start.start() :]
    condition = _CONDITION.search(text)
    tables = re.split(r"\b(?:WHERE|SET|GROUP|ORDER)\b", text, maxsplit=1, flags=re.I)[0]
    said = condition[1] if condition else ""
    for table, alias in _NAMED.findall(tables):
        named = rf"(?:\b(?:{alias or table}|{table})\.|(?<![\w.]))tenant\b"
        if table in tenants_tables() and not re.search(named, said):
            yield table


class _Traced:
    """The transaction, as the work sees it."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return self._tx.engine

    def all(self, sql: str, *params: Value) -> list[Row]:
        return self._tx.all(_named(sql), *params)

    def one(self, sql: str, *params: Value) -> Row | None:
        return self._tx.one(_named(sql), *params)

    def run(self, sql: str, *params: Value) -> int:
        return self._tx.run(_named(sql), *params)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._tx.many(_named(sql), rows)

    def script(self, sql: str) -> None:
        self._tx.script(sql)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)


def _named(sql: str) -> str:
    # Tests themselves look at tables as a whole.
    ours = sys._getframe(2).f_code.co_filename.startswith(_PACKAGE)  # pyright: ignore[reportPrivateUsage]
    if ours and (table := unnamed(sql)) is not None:
        raise NoTenant(f"{table}: this statement does not name the tenant, nor does the work say in_all_tenants: {sql}")
    return sql


def _traced(work: Callable[[Tx], T]) -> Callable[[Tx], T]:
    # A test that asks a store directly, and says no tenant, reaches all of them, as with `AdminPostgres`.
    code = getattr(getattr(work, "func", work), "__code__", None)
    ours = code is not None and code.co_filename.startswith(_PACKAGE)
    return work if reach() is ALL or (reach() is None and not ours) else lambda tx: work(_Traced(tx))


@contextmanager
def traced() -> Generator[None]:
    read, write = Sqlite.read, Sqlite.write

    async def traced_read(self: Sqlite, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        return await read(self, _traced(work), timeout=timeout)

    async def traced_write(self: Sqlite, work: Callable[[Tx], T]) -> T:
        return await write(self, _traced(work))

    with patch.object(Sqlite, "read", traced_read), patch.object(Sqlite, "write", traced_write):
        yield
