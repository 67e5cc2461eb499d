"""Erasure: what each part of Kho holds of tenants and of people, and how that leaves for good.

Each part declares its tables (`erasures` in its `erasure.py`). A purge asks all of them, and so does retention, which
asks those that have a number of days. Rows leave in batches, each in a transaction with what was derived from them.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple, Protocol

import orjson

from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.lib.sql import Row, Value, marks, number

PAGE = 5_000
"""Names that are read at once."""
NAMES = " (names)"
"""Marks the count of rows that stay and only lose a name."""

Vacuum = Callable[[], Awaitable[None]]
"""Rewrites the database file."""
LEFT_IN_POSTGRES = (
    "PostgreSQL's own VACUUM clears the rows' place; its log and archives, and any backup, are yours to look after."
)
LEFT_IN_FILE = (
    "The embedded database's file still holds the text in parts that it no longer uses, until it is rewritten."
)


@dataclass(frozen=True, slots=True)
class Whom:
    """Whose rows are meant: all of a tenant, or in it those of a person, or those from before a time, or both."""

    tenant: str
    names: tuple[str, ...] | None = field(default=None, repr=False)
    """How a person's name is spelt in the store. None: not about a person."""
    before: int | None = None

    @property
    def everything(self) -> bool:
        return self.names is None and self.before is None

    def where(self, owned: str, aged: str) -> tuple[str, list[Value]] | None:
        """Return an SQL condition and its values. `owned` has `{names}` where a list of names goes, `aged` has
        `{before}`; an empty one says that a table knows nobody, or does not age. None: no row can be meant."""
        condition, values = "tenant = $1", list[Value]([self.tenant])
        if self.names is not None:
            if not owned or not self.names:
                return None
            condition += f" AND ({owned.format(names=marks(len(self.names), 2))})"
            values += self.names
        if self.before is not None:
            if not aged:
                return None
            values.append(self.before)
            condition += f" AND ({aged.format(before=f'${len(values)}')})"
        return condition, values


class Gone(NamedTuple):
    """What one batch took."""

    rows: int = 0
    subjects: Sequence[str] = ()
    """Ids that are gone: what the audit trail and kept answers say of them goes, too."""


class Erasure(Protocol):
    """What a part of Kho holds in some tables."""

    @property
    def slice(self) -> str: ...

    @property
    def tables(self) -> Sequence[str]:
        """Tables of which nothing of a tenant is left afterwards, but for what the purge's own record needs."""
        ...

    @property
    def keep_days(self) -> int | None:
        """After so many days rows leave by themselves; None: they stay."""
        ...

    @property
    def wide(self) -> bool:
        """True if it has to see the rows of all tenants."""
        ...

    def tenants(self, tx: Tx) -> Sequence[str]: ...

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        """Yield the names of people that it holds: a purge that goes on after a crash knows only a digest."""
        ...

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        """Return how many rows of each table would leave."""
        ...

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        """Erase about so many rows; none are left once it returns none."""
        ...

    def forget(self, tx: Tx, tenant: str, subjects: Sequence[str]) -> None:
        """Erase what is said of things of a person that have just gone, by their ids."""
        ...


class Nameless:
    """Base of an erasure without retention of its own, and that names nobody unless it says so."""

    keep_days: int | None = None
    wide: bool = False

    def tenants(self, tx: Tx) -> Sequence[str]:
        return ()

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        yield from ()

    def forget(self, tx: Tx, tenant: str, subjects: Sequence[str]) -> None:
        """Does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Nameless):
    """Erasure of a table whose rows stand for themselves, with what belongs to each of them."""

    slice: str
    table: str
    key: tuple[str, ...] = ("id",)
    """With the tenant: which row."""
    more: tuple[str, ...] = ()
    """Further columns that `derived` needs."""
    owners: tuple[str, ...] = ()
    """Columns with a name: the row is that person's, and leaves."""
    authors: tuple[str, ...] = ()
    """Columns with a name: the row is everybody's, and loses the name."""
    owned: str = ""
    """SQL condition instead of `owners`, with `{names}`."""
    aged: str = ""
    """SQL condition for rows from before a time, with `{before}`; empty if they do not age."""
    below: tuple[tuple[str, str], ...] = ()
    """Tables whose rows belong to one of these, and the column that names it by the first column of the key."""
    derived: Callable[[Tx, str, Sequence[Row]], None] | None = None
    """Drops what was made of rows, while those below them are there: gets the tenant, and of each row its key and
    `more`."""
    known: bool = False
    """True if the first column of the key is an id that callers and the audit trail know."""
    keep_days: int | None = None

    @property
    def tables(self) -> Sequence[str]:
        return (self.table, *(table for table, _ in self.below))

    def tenants(self, tx: Tx) -> Sequence[str]:
        return [tenant for (tenant,) in tx.all(f"SELECT DISTINCT tenant FROM {self.table}")]

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        for column in (*self.owners, *self.authors):
            yield from distinct(tx, self.table, column, tenant)

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        found: dict[str, int] = {}
        if (meant := self._meant(whom)) is not None:
            condition, values = meant
            found[self.table] = number(tx, f"SELECT count(*) FROM {self.table} WHERE {condition}", *values)
            for table, column in self.below:
                some = (
                    ""
                    if whom.everything
                    else f" AND {column} IN (SELECT {self.key[0]} FROM {self.table} WHERE {condition})"
                )
                found[table] = number(tx, f"SELECT count(*) FROM {table} WHERE tenant = $1{some}", *values)
        for column in self._unnamed(whom):
            condition, values = _named(whom, column)
            name = f"{self.table}{NAMES}"
            rows = number(tx, f"SELECT count(*) FROM {self.table} WHERE {condition}", *values)
            found[name] = found.get(name, 0) + rows
        return found

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        meant = self._meant(whom)
        gone = Gone() if meant is None else self._delete(tx, whom.tenant, *meant, limit)
        if gone.rows:
            return gone
        if whom.everything:  # rows whose own row is missing
            leftovers = (
                delete_some(tx, table, (column,), "tenant = $1", [whom.tenant], limit) for table, column in self.below
            )
            return Gone(next((len(rows) for rows in leftovers if rows), 0))
        return Gone(sum(self._take_names(tx, whom, column, limit) for column in self._unnamed(whom)))

    def _meant(self, whom: Whom) -> tuple[str, list[Value]] | None:
        owned = self.owned or " OR ".join(f"{column} IN ({{names}})" for column in self.owners)
        return whom.where(owned, self.aged)

    def _unnamed(self, whom: Whom) -> Sequence[str]:
        return self.authors if whom.names and whom.before is None else ()

    def _delete(self, tx: Tx, tenant: str, condition: str, values: list[Value], limit: int) -> Gone:
        rows = delete_some(tx, self.table, self.key, condition, values, limit, self.more)
        if rows and self.derived is not None:
            self.derived(tx, tenant, rows)
        for table, column in self.below:
            tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND {column} = $2", [(tenant, row[0]) for row in rows])
        return Gone(len(rows), [str(row[0]) for row in rows] if self.known else ())

    def _take_names(self, tx: Tx, whom: Whom, column: str, limit: int) -> int:
        condition, values = _named(whom, column)
        keys = ", ".join(self.key)
        return tx.run(
            f"UPDATE {self.table} SET {column} = '' WHERE tenant = $1 AND ({keys}) IN "
            f"(SELECT {keys} FROM {self.table} WHERE {condition} LIMIT ${len(values) + 1})",
            *values,
            limit,
        )


def delete_some(
    tx: Tx,
    table: str,
    key: Sequence[str],
    condition: str,
    values: Sequence[Value],
    limit: int,
    more: Sequence[str] = (),
) -> list[Row]:
    """Delete at most so many rows, as many as share their keys; return key and `more` of each. The condition names the
    tenant as $1."""
    keys = ", ".join(key)
    return tx.all(
        f"DELETE FROM {table} WHERE tenant = $1 AND ({keys}) IN "
        f"(SELECT {keys} FROM {table} WHERE {condition} LIMIT ${len(values) + 1}) RETURNING {', '.join((*key, *more))}",
        *values,
        limit,
    )


def distinct(tx: Tx, table: str, column: str, tenant: str) -> Iterator[str]:
    """Yield the different texts of a column, a page at a time."""
    last = ""
    sql = f"SELECT DISTINCT {column} FROM {table} WHERE tenant = $1 AND {column} > $2 ORDER BY {column} LIMIT $3"
    while rows := tx.all(sql, tenant, last, PAGE):
        for (text,) in rows:
            yield text
        last = rows[-1][0]


def holds(tx: Tx, column: str, count: int, first: int) -> str:
    """Return an SQL condition: the text contains one of so many parameters, case and all."""
    find = "instr" if tx.engine == "sqlite" else "strpos"
    return " OR ".join(f"{find}({column}, ${place}) > 0" for place in range(first, first + count)) or "1 = 0"


def quoted(texts: Sequence[str]) -> list[str]:
    """Return how texts stand in JSON, as values of their own."""
    return [orjson.dumps(text).decode() for text in texts]


def _named(whom: Whom, column: str) -> tuple[str, list[Value]]:
    names = whom.names or ()
    return f"tenant = $1 AND {column} IN ({marks(len(names), 2)})", [whom.tenant, *names]
