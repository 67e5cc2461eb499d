"""Refused requests in the audit trail.

A call that a credential does not allow is a row each. Missing and wrong credentials, and requests for a foreign host or
from a foreign page, are counted per address and minute, and what a limit refuses (429) per caller, operation, limit and
minute, so that a flood of them fills neither the memory nor the database.
"""

import asyncio
from collections import Counter, deque
from dataclasses import field, replace
from typing import NamedTuple

from kho.kernel import AuditEvent, Background, Call, Database, Forbidden, KhoError, Operation
from kho.kernel.audit import record
from kho.kernel.registry import Outcome
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants

MINUTE = 60 * SECOND
MAX_ADDRESSES = 64
"""Addresses counted separately in one minute. Requests from further ones are counted as `OTHERS`."""
MAX_LIMITED = 256
"""Same for what limits refuse."""
MAX_MINUTES = 60
"""Minutes kept while the database does not answer; the oldest are dropped first."""
OTHERS = "others"
NO_CREDENTIAL = "authenticate"
"""Operation of these rows. They belong to no slice, because the requested operation is unknown."""
LIMITED = 429


class Counted(NamedTuple):
    """What is counted together, and becomes one row."""

    tenant: str
    capability: str
    operation: str
    subject: str
    actor: str
    limit: str = ""

    def event(self, minute: int, requests: int) -> AuditEvent:
        details = {"requests": requests, **({"limit": self.limit} if self.limit else {})}
        known = {name: value for name, value in self._asdict().items() if name != "limit"}
        return AuditEvent(**known, outcome="refused", details=details, at=minute)


@dataclass(slots=True)
class Minute:
    begins: int
    addresses: Counter[Counted] = field(default_factory=Counter[Counted])
    limited: Counter[Counted] = field(default_factory=Counter[Counted])

    def events(self) -> list[AuditEvent]:
        counts = (*self.addresses.items(), *self.limited.items())
        return [counted.event(self.begins, requests) for counted, requests in counts]


class SqlRefusals:
    """Adds rows after the answer: no caller waits, and there is no change whose transaction they could be part of."""

    def __init__(self, db: Database, background: Background, clock: Clock, tenant: str) -> None:
        self._db = db
        self._background = background
        self._clock = clock
        self._tenant = tenant
        """Owner of the counts: requests without a credential have no tenant, so they belong to the hub's own."""
        self._minutes: deque[Minute] = deque(maxlen=MAX_MINUTES)
        self._running = False
        self._in_order = asyncio.Lock()
        """PostgreSQL would run two writes at once, and the later request could get the earlier number."""

    def observe(self, operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        """Registry observer: add a row for each forbidden call, and count what a limit refused."""
        if isinstance(outcome.error, Forbidden):
            self.forbidden(call, outcome.error)
        elif outcome.error is not None and outcome.error.status == LIMITED:
            self.limited(call, outcome.error)

    def forbidden(self, call: Call, error: Forbidden) -> None:
        event = call.audit_event("", at=self._clock(), door=call.door, **error.details)
        self._background.add(lambda: self._add([replace(event, outcome="refused")]))

    def unauthorized(self, address: str) -> None:
        self.turned_away(address, NO_CREDENTIAL)

    def turned_away(self, address: str, operation: str) -> None:
        counted = Counted(self._tenant, "", operation, address, "")
        _add_to(self._current().addresses, counted, counted._replace(subject=OTHERS), MAX_ADDRESSES)

    def limited(self, call: Call, error: KhoError) -> None:
        """`limit` among the error's details says which limit it was."""
        capability, _, operation = call.operation.partition("/")
        limit = str(error.details.get("limit", ""))
        counted = Counted(call.tenant, capability, operation, "", call.principal.sub, limit)
        _add_to(self._current().limited, counted, Counted(call.tenant, "", "", "", OTHERS), MAX_LIMITED)

    def _current(self) -> Minute:
        minute = self._minute()
        if not self._minutes or self._minutes[-1].begins != minute:
            self._minutes.append(Minute(minute))
        if not self._running:
            self._running = True
            self._background.add(self._run)
        return self._minutes[-1]

    async def _run(self) -> None:
        await self._background.every(MINUTE / SECOND, self.write_past, name="Counts of refused requests")
        try:
            await self._write(len(self._minutes))  # the hub stops: write the current minute, too
        except KhoError:
            return  # the database did not answer until the end, which `every` has logged

    async def write_past(self) -> float:
        """Write the past minutes. Return the seconds until the current one ends."""
        now = self._minute()
        await self._write(sum(minute.begins != now for minute in self._minutes))
        return (now + MINUTE - self._clock()) / SECOND

    async def _write(self, minutes: int) -> None:
        for _ in range(minutes):
            minute = self._minutes.popleft()
            try:
                await self._add(minute.events())
            except KhoError:
                if len(self._minutes) < MAX_MINUTES:
                    self._minutes.appendleft(minute)
                raise

    async def _add(self, events: list[AuditEvent]) -> None:
        with in_all_tenants():  # a minute's counts may be of several
            async with self._in_order:
                await self._db.write(lambda tx: [record(tx, event) for event in events])

    def _minute(self) -> int:
        return self._clock() // MINUTE * MINUTE


def _add_to(counts: Counter[Counted], counted: Counted, others: Counted, most: int) -> None:
    counts[counted if counted in counts or len(counts) < most else others] += 1
