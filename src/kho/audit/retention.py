"""What leaves the trail, by setting or because somebody asks for it: the personal text of rows, or whole old rows.

Either is a row of the trail itself. When rows leave, a checkpoint keeps the place and digest of the last of them, so
that the rest still verifies, and how many left when is known.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from typing import NamedTuple

from kho.audit import chain
from kho.audit.settings import AuditSettings
from kho.kernel import AuditEvent, Background, Database, Leases, Tx, audit
from kho.kernel.ports import Row, Value
from kho.kernel.upkeep.daily import Daily
from kho.lib.clock import DAY, Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import where

LEASE = "audit_retention"
BATCH = 500
ERASE, REMOVE = "erase_old_text", "remove_old_rows"
"""Operations of the rows that say so. They hold no personal text, and what they say is needed later."""
CAPABILITY = "audit"
OWN = f"audit.capability = '{CAPABILITY}' AND audit.operation IN ('{ERASE}', '{REMOVE}')"


@dataclass(slots=True, kw_only=True, eq=False)
class Retention:
    db: Database
    background: Background
    clock: Clock
    leases: Leases
    settings: AuditSettings
    daily: Daily = field(init=False)

    def __post_init__(self) -> None:
        self.daily = Daily(self.db, self.clock, self.leases, LEASE)

    async def step(self) -> None:
        """Once a day, erase and remove what is older than the settings allow."""
        text, rows = self.settings.keep_text_days, self.settings.keep_rows_days
        if (text is None and rows is None) or not await self.daily.due():
            return
        now = self.clock()
        for tenant in await self.db.read(chain.tenants):
            if text is not None:
                await self.erase(tenant, now - text * DAY)
            if rows is not None:
                await self.remove(tenant, now - rows * DAY)

    async def erase(self, tenant: str, before: int) -> int:
        """Erase the personal text of rows from before a time. Return how many there were."""
        numbers = await self.db.read(
            lambda tx: [one.number for one in _old(tx, tenant, before) if not one.erased and not one.own]
        )
        said = False
        for start in range(0, len(numbers), BATCH):
            if self.background.stopping:
                return start
            batch = numbers[start : start + BATCH]

            def work(tx: Tx, batch: Sequence[int] = batch, said: bool = said) -> None:
                if not said:
                    _record(tx, tenant, ERASE, self.clock(), rows=len(numbers), before=iso(before))
                erase(tx, tenant, batch, self.clock())

            await self.db.write(work)
            said = True
        return len(numbers)

    async def remove(self, tenant: str, before: int) -> int:
        """Let the oldest rows leave, those from before a time. Return how many there were."""
        old = await self.db.read(lambda tx: list(_old(tx, tenant, before)))
        if any(not one.own for one in old):
            await self.db.write(lambda tx: self._move_beginning(tx, tenant, old[-1].place, before))
        # Also what was left when a process ended before it was done.
        while not self.background.stopping and await self.db.write(lambda tx: _remove(tx, tenant)):
            pass
        return len(old)

    def _move_beginning(self, tx: Tx, tenant: str, place: int, before: int) -> None:
        gone = place - chain.beginning(tx, tenant).place
        row = tx.one("SELECT digest FROM audit_links WHERE tenant = $1 AND place = $2", tenant, place)
        if row is None or gone <= 0:  # another process was faster
            return
        now = self.clock()
        said = {"rows": gone, "before": iso(before), "place": place, "digest": row[0].hex()}
        number = _record(tx, tenant, REMOVE, now, **said)
        sql = "INSERT INTO audit_checkpoints (tenant, place, digest, number, at) VALUES ($1, $2, $3, $4, $5)"
        tx.run(sql, tenant, place, row[0], number, now)


def erase(tx: Tx, tenant: str, numbers: Iterable[int], now: int) -> None:
    """Erase the personal text of linked rows, and the salt: the digests then say nothing about it."""
    keys: list[tuple[Value, ...]] = [(tenant, number) for number in numbers]
    key = "tenant = $1 AND number = $2"
    tx.many(f"UPDATE audit_links SET salt = NULL WHERE {key} AND salt IS NOT NULL", keys)
    tx.many(
        "UPDATE audit SET subject = '', actor = '', reason = '', request_id = '', details = '{}', erased_at = $1 "
        "WHERE tenant = $2 AND number = $3 AND erased_at IS NULL",
        [(now, *one) for one in keys],
    )
    tx.many(f"DELETE FROM audit_subjects WHERE {key}", keys)


def matching(tx: Tx, tenant: str, *, actor: str | None, subject: str | None, until: int | None) -> list[int]:
    """Return the linked rows with personal text about these, without our own."""
    text, values = where({"audit.tenant =": tenant, "audit.actor =": actor, "audit.at <": until})
    if subject is not None:
        mark = f"${len(values) + 1}"
        values.append(subject)
        text += (
            f" AND (audit.subject = {mark} OR EXISTS (SELECT 1 FROM audit_subjects AS further WHERE "
            f"further.tenant = audit.tenant AND further.number = audit.number AND further.subject = {mark}))"
        )
    rows = tx.all(
        "SELECT audit.number FROM audit JOIN audit_links AS link ON link.tenant = audit.tenant "
        f"AND link.number = audit.number WHERE {text} AND link.salt IS NOT NULL AND NOT ({OWN}) ORDER BY audit.number",
        *values,
    )
    return [number for (number,) in rows]


class _Old(NamedTuple):
    place: int
    number: int
    at: int
    erased: int
    own: int
    """1 for a row that says what was erased or removed: on its own it is no reason for another one."""


def _old(tx: Tx, tenant: str, before: int) -> Iterator[_Old]:
    """Yield the rows at the beginning of the chain that are from before a time. Rows behind a newer one stay as long as
    that."""
    place = chain.beginning(tx, tenant).place
    sql = (
        f"SELECT link.place, link.number, audit.at, CASE WHEN link.salt IS NULL THEN 1 ELSE 0 END, "
        f"CASE WHEN {OWN} THEN 1 ELSE 0 END FROM audit_links AS link "
        "JOIN audit ON audit.tenant = link.tenant AND audit.number = link.number "
        "WHERE link.tenant = $1 AND link.place > $2 ORDER BY link.place LIMIT $3"
    )
    while rows := [_Old(*row) for row in tx.all(sql, tenant, place, BATCH)]:
        for row in rows:
            if row.at >= before:
                return
            yield row
        place = rows[-1].place


def _remove(tx: Tx, tenant: str) -> int:
    """Delete a batch of rows before the chain's beginning, with their links. Return how many there were."""
    sql = "SELECT number FROM audit_links WHERE tenant = $1 AND place <= $2 ORDER BY place LIMIT $3"
    keys: list[Row] = [(tenant, *row) for row in tx.all(sql, tenant, chain.beginning(tx, tenant).place, BATCH)]
    for table in ("audit_subjects", "audit", "audit_links"):
        tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND number = $2", keys)
    return len(keys)


def _record(tx: Tx, tenant: str, operation: str, now: int, **details: object) -> int:
    event = AuditEvent(
        tenant=tenant, operation=operation, capability=CAPABILITY, subject="", actor="", details=details, at=now
    )
    return audit.record(tx, event)
