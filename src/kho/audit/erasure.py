"""What the audit trail holds of tenants and people: the personal text of its rows. The rows stay, and the chain still
verifies."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import orjson

from kho.audit.retention import BATCH, OWN, erase
from kho.audit.sealer import Sealer
from kho.kernel.audit import PURGE
from kho.kernel.ports import Tx, Value
from kho.kernel.upkeep.erasure import PAGE, Erasure, Gone, Nameless, Whom, distinct, holds, quoted
from kho.lib.dataclass import dataclass
from kho.lib.sql import marks, number
from kho.search.core import Core

PURGES = f"audit.operation = '{PURGE}' AND audit.capability = 'administration'"
FURTHER = "SELECT number FROM audit_subjects WHERE tenant = $1 AND subject IN ({})"


def erasures(core: Core) -> list[Erasure]:
    db, background, clock, leases = core.db, core.background, core.clock, core.leases
    return [Trail(Sealer(db=db, background=background, clock=clock, leases=leases))]


@dataclass(frozen=True, slots=True)
class Trail(Nameless):
    sealer: Sealer
    slice: str = "audit"
    tables: Sequence[str] = ("audit", "audit_subjects", "audit_links", "audit_unsealed", "audit_checkpoints")

    def names(self, tx: Tx, tenant: str) -> Iterator[str]:
        yield from distinct(tx, "audit", "actor", tenant)
        yield from distinct(tx, "audit", "subject", tenant)
        yield from distinct(tx, "audit_subjects", "subject", tenant)
        last = 0
        detailed = "tenant = $1 AND number > $2 AND details <> $3 ORDER BY number LIMIT $4"
        sql = f"SELECT number, details FROM audit WHERE {detailed}"
        while rows := tx.all(sql, tenant, last, "{}", PAGE):
            for _, details in rows:
                yield from _texts(orjson.loads(details))
            last = rows[-1][0]

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        if (meant := self._meant(tx, whom)) is None:
            return {}
        condition, values = meant
        return {"audit": number(tx, f"SELECT count(*) FROM audit WHERE {condition}", *values)}

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        if (meant := self._meant(tx, whom)) is None:
            return Gone()
        return Gone(self._erase(tx, whom.tenant, *meant, limit))

    def forget(self, tx: Tx, tenant: str, subjects: Sequence[str]) -> None:
        """Erase the text of rows about things that are gone."""
        listed = marks(len(subjects), 2)
        mine = f"subject IN ({listed}) OR number IN ({FURTHER.format(listed)})"
        condition = f"tenant = $1 AND erased_at IS NULL AND ({mine})"
        while self._erase(tx, tenant, condition, [tenant, *subjects], BATCH):
            pass

    def _erase(self, tx: Tx, tenant: str, condition: str, values: Sequence[Value], limit: int) -> int:
        sql = f"SELECT number FROM audit WHERE {condition} LIMIT ${len(values) + 1}"
        numbers = [one for (one,) in tx.all(sql, *values, limit)]
        if numbers:
            self.sealer.seal_in(tx, tenant)  # only the text of linked rows can go
            erase(tx, tenant, numbers, self.sealer.clock())
        return len(numbers)

    def _meant(self, tx: Tx, whom: Whom) -> tuple[str, list[Value]] | None:
        condition, values = "tenant = $1 AND erased_at IS NULL", list[Value]([whom.tenant])
        if whom.before is not None:
            values.append(whom.before)
            condition += f" AND at < ${len(values)}"
        if whom.names is None:
            return f"{condition} AND NOT ({OWN}) AND NOT ({PURGES})", values
        if not whom.names:
            return None
        people = marks(len(whom.names), len(values) + 1)
        values += whom.names
        mentions = [mark for name in quoted(whom.names) for mark in (f":{name}", f"[{name}", f",{name},", f",{name}]")]
        return (
            f"{condition} AND (actor IN ({people}) OR subject IN ({people}) OR number IN ({FURTHER.format(people)}) "
            f"OR {holds(tx, 'details', len(mentions), len(values) + 1)})",
            [*values, *mentions],
        )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        inside = cast(dict[str, Any] | list[Any], value)
        for one in inside.values() if isinstance(inside, dict) else inside:
            yield from _texts(one)
