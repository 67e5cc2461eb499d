"""The `Lease` port on both databases: one UPDATE each, in the caller's transaction.

A slice states which of its tables holds the lease and its column names; the clock and the name of the process come with
`Leases`, which the composition root makes once for the whole process.
"""

import os
import uuid
from dataclasses import field

from kho.kernel.ports import Lease, Tx, Value
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass


def _process() -> str:
    """Return a unique owner id: process ids are reused after a restart, and two machines may share one database."""
    return f"{os.getpid()}:{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class SqlLeases:
    """The `Leases` port."""

    clock: Clock
    holder: str = field(default_factory=_process)

    def named(self, name: str, duration: int, *, free_if: str = "FALSE") -> Lease:
        return _NamedLease(self.clock, self.holder, duration, name, free_if)

    def rows(
        self,
        table: str,
        key: tuple[str, ...],
        duration: int,
        *,
        owner: str = "owner",
        until: str = "until",
        nobody: str = "NULL",
        where: str = "TRUE",
    ) -> Lease:
        return _RowLease(self.clock, self.holder, duration, table, key, owner, until, nobody, where)


@dataclass(frozen=True, slots=True)
class _RowLease:
    clock: Clock
    holder: str
    duration: int
    table: str
    key: tuple[str, ...]
    owner: str
    until: str
    nobody: str
    where: str

    def take(self, tx: Tx, *key: Value) -> bool:
        now = self.clock()
        changes = f"{self.owner} = $1, {self.until} = $2"
        condition = f"({self.owner} = $1 OR {self.until} <= $3)"
        return self._update(tx, changes, condition, (self.holder, now + self.duration, now), key)

    def hold(self, tx: Tx, *key: Value) -> bool:
        until = self.clock() + self.duration
        return self._update(tx, f"{self.until} = $1", f"{self.owner} = $2", (until, self.holder), key)

    def release(self, tx: Tx, *key: Value) -> None:
        self._update(tx, f"{self.until} = 0, {self.owner} = {self.nobody}", f"{self.owner} = $1", (self.holder,), key)

    def _update(self, tx: Tx, changes: str, condition: str, values: tuple[Value, ...], key: tuple[Value, ...]) -> bool:
        row = " AND ".join(f"{column} = ${place}" for place, column in enumerate(self.key, len(values) + 1))
        sql = f"UPDATE {self.table} SET {changes} WHERE {condition} AND {row} AND {self.where}"
        return tx.run(sql, *values, *key) == 1


@dataclass(frozen=True, slots=True)
class _NamedLease:
    """A row of the table `leases`, which exists only while somebody holds it."""

    clock: Clock
    holder: str
    duration: int
    name: str
    free_if: str

    def take(self, tx: Tx, *key: Value) -> bool:
        now = self.clock()
        sql = (
            "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
            "SET owner = excluded.owner, until = excluded.until "
            f"WHERE leases.owner = $2 OR leases.until <= $4 OR {self.free_if}"
        )
        changed = tx.run(sql, self.name, self.holder, now + self.duration, now)
        return changed == 1

    def hold(self, tx: Tx, *key: Value) -> bool:
        until = self.clock() + self.duration
        sql = "UPDATE leases SET until = $1 WHERE name = $2 AND owner = $3"
        return tx.run(sql, until, self.name, self.holder) == 1

    def release(self, tx: Tx, *key: Value) -> None:
        tx.run("DELETE FROM leases WHERE name = $1 AND owner = $2", self.name, self.holder)
