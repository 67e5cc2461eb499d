"""What leaves the trail, by setting or because somebody asks for it: the personal text of rows, or whole old rows.

Either is a row of the trail itself. One of an erasure names the places in the chain, so that text which somebody else
erased is found. When rows leave, a checkpoint keeps the place and digest of the last of them, so that the rest still
verifies, and how many left when is known.
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
from kho.lib.sql import among, where

LEASE = "audit_retention"
INTERVAL = 3_600
"""Seconds between two looks at whether a day has passed."""
SETTLE = 15.0
"""Seconds after the start, in which rows that commands have written get their links: only those can leave."""
BATCH = 500
ERASE_OLD, ERASE, REMOVE = "erase_old_text", "erase_text", "remove_old_rows"
"""Operations of the rows that say so. They hold no personal text, and what they say is needed later."""
NAMES = (ERASE_OLD, ERASE)
"""Those that name places whose text was erased."""
CAPABILITY = "audit"
OWN = f"audit.capability = '{CAPABILITY}' AND audit.operation IN ('{ERASE_OLD}', '{ERASE}', '{REMOVE}')"
Run = tuple[int, int]
"""First and last of places that follow each other."""


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

    async def run(self) -> None:
        """Keep to the settings until the hub stops. The sealer goes on meanwhile: many rows take their time."""
        await self.background.pause(SETTLE)
        await self.background.every(INTERVAL, self.step, name="Retention of the audit trail")

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
        now = self.clock()
        due = await self.db.read(
            lambda tx: [one for one in _old(tx, tenant, before, now) if not one.erased and not one.own]
        )
        if due:
            said = {"before": iso(before), "days": self.settings.keep_text_days}
            await self.db.write(lambda tx: _name(tx, tenant, ERASE_OLD, now, [one.place for one in due], **said))
        for start in range(0, len(due), BATCH):
            if self.background.stopping:
                return start
            batch = [one.number for one in due[start : start + BATCH]]
            await self.db.write(lambda tx, batch=batch: _erase(tx, tenant, batch, self.clock()))
        return len(due)

    async def remove(self, tenant: str, before: int) -> int:
        """Let the oldest rows leave, those from before a time. Return how many there were."""
        old = await self.db.read(lambda tx: list(_old(tx, tenant, before, self.clock())))
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
        said = {"rows": gone, "before": iso(before), "days": self.settings.keep_rows_days}
        said |= {"place": place, "digest": row[0].hex()}
        number = _record(tx, tenant, REMOVE, now, **said)
        sql = "INSERT INTO audit_checkpoints (tenant, place, digest, number, at) VALUES ($1, $2, $3, $4, $5)"
        tx.run(sql, tenant, place, row[0], number, now)


def erase(tx: Tx, tenant: str, numbers: Iterable[int], now: int) -> None:
    """Erase the personal text of linked rows, and add a row that names their places."""
    numbers = [*numbers]
    select = "SELECT place FROM audit_links WHERE tenant = $1 AND salt IS NOT NULL AND number"
    places = [place for (place,) in among(tx, select, numbers, tenant)]
    if places:
        _name(tx, tenant, ERASE, now, places)
    _erase(tx, tenant, numbers, now)


def _erase(tx: Tx, tenant: str, numbers: Iterable[int], now: int) -> None:
    """Erase the text, and the salt: the digests then say nothing about it."""
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
    sealed_at: int
    erased: int
    own: int
    """1 for a row that says what was erased or removed: on its own it is no reason for another one."""


def _old(tx: Tx, tenant: str, before: int, now: int) -> Iterator[_Old]:
    """Yield the rows at the beginning of the chain that are from before a time. Rows behind a newer one stay as long as
    that. One from the future, or from after its own link, tells of a clock that was wrong: it keeps nothing, and goes
    with an old row behind it."""
    undated: list[_Old] = []
    place = chain.beginning(tx, tenant).place
    sql = (
        "SELECT link.place, link.number, audit.at, link.sealed_at, CASE WHEN link.salt IS NULL THEN 1 ELSE 0 END, "
        f"CASE WHEN {OWN} THEN 1 ELSE 0 END FROM audit_links AS link "
        "JOIN audit ON audit.tenant = link.tenant AND audit.number = link.number "
        "WHERE link.tenant = $1 AND link.place > $2 ORDER BY link.place LIMIT $3"
    )
    while rows := [_Old(*row) for row in tx.all(sql, tenant, place, BATCH)]:
        for row in rows:
            if row.at > min(now, row.sealed_at):
                undated.append(row)
            elif row.at >= before:
                return
            else:
                yield from undated
                undated.clear()
                yield row
        place = rows[-1].place


def _remove(tx: Tx, tenant: str) -> int:
    """Delete a batch of rows before the chain's beginning, with their links. Return how many there were."""
    sql = "SELECT number FROM audit_links WHERE tenant = $1 AND place <= $2 ORDER BY place LIMIT $3"
    keys: list[Row] = [(tenant, *row) for row in tx.all(sql, tenant, chain.beginning(tx, tenant).place, BATCH)]
    for table in ("audit_subjects", "audit", "audit_links"):
        tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND number = $2", keys)
    return len(keys)


def _name(tx: Tx, tenant: str, operation: str, now: int, places: Sequence[int], **details: object) -> None:
    _record(tx, tenant, operation, now, rows=len(places), places=runs(places), **details)


def runs(places: Iterable[int]) -> list[Run]:
    found: list[Run] = []
    for place in sorted(places):
        if found and found[-1][1] == place - 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return found


def _record(tx: Tx, tenant: str, operation: str, now: int, **details: object) -> int:
    event = AuditEvent(
        tenant=tenant, operation=operation, capability=CAPABILITY, subject="", actor="", details=details, at=now
    )
    return audit.record(tx, event)
