"""Refused requests in the audit trail.

A call that a credential does not allow is a row each. Missing and wrong credentials are counted per address and minute,
so that a flood of them fills neither the memory nor the database.
"""

import asyncio
from collections import Counter, deque
from dataclasses import replace

from kho.kernel import AuditEvent, Background, Call, Database, Forbidden, KhoError, Operation
from kho.kernel.audit import record
from kho.kernel.registry import Outcome
from kho.lib.clock import SECOND, Clock
from kho.lib.tenancy import in_tenant

MINUTE = 60 * SECOND
MAX_ADDRESSES = 64
"""Addresses counted separately in one minute. Requests from further ones are counted as `OTHERS`."""
MAX_MINUTES = 60
"""Minutes kept while the database does not answer; the oldest are dropped first."""
OTHERS = "others"
NO_CREDENTIAL = "authenticate"
"""Operation of these rows. They belong to no slice, because the requested operation is unknown."""


class SqlRefusals:
    """Adds rows after the answer: no caller waits, and there is no change whose transaction they could be part of."""

    def __init__(self, db: Database, background: Background, clock: Clock, tenant: str) -> None:
        self._db = db
        self._background = background
        self._clock = clock
        self._tenant = tenant
        """Owner of the counts: requests without a credential have no tenant, so they belong to the hub's own."""
        self._minutes: deque[tuple[int, Counter[str]]] = deque(maxlen=MAX_MINUTES)
        self._running = False
        self._in_order = asyncio.Lock()
        """PostgreSQL would run two writes at once, and the later request could get the earlier number."""

    def observe(self, operation: Operation, call: Call, outcome: Outcome, seconds: float) -> None:
        """Registry observer: add a row for each forbidden call."""
        if isinstance(outcome.error, Forbidden):
            self.forbidden(call, outcome.error)

    def forbidden(self, call: Call, error: Forbidden) -> None:
        event = call.audit_event("", at=self._clock(), door=call.door, **error.details)
        self._background.add(lambda: self._add(call.tenant, [replace(event, outcome="refused")]))

    def unauthorized(self, address: str) -> None:
        minute = self._minute()
        if not self._minutes or self._minutes[-1][0] != minute:
            self._minutes.append((minute, Counter()))
        counts = self._minutes[-1][1]
        counts[address if address in counts or len(counts) < MAX_ADDRESSES else OTHERS] += 1
        if not self._running:
            self._running = True
            self._background.add(self._run)

    async def _run(self) -> None:
        await self._background.every(MINUTE / SECOND, self.write_past, name="Counts of refused credentials")
        try:
            await self._write(len(self._minutes))  # the hub stops: write the current minute, too
        except KhoError:
            return  # the database did not answer until the end, which `every` has logged

    async def write_past(self) -> float:
        """Write the past minutes. Return the seconds until the current one ends."""
        now = self._minute()
        await self._write(sum(minute != now for minute, _ in self._minutes))
        return (now + MINUTE - self._clock()) / SECOND

    async def _write(self, minutes: int) -> None:
        for _ in range(minutes):
            minute, counts = self._minutes.popleft()
            try:
                await self._add(
                    self._tenant,
                    [
                        AuditEvent(
                            tenant=self._tenant,
                            operation=NO_CREDENTIAL,
                            capability="",
                            subject=address,
                            actor="",
                            outcome="refused",
                            details={"requests": requests},
                            at=minute,
                        )
                        for address, requests in counts.items()
                    ],
                )
            except KhoError:
                if len(self._minutes) < MAX_MINUTES:
                    self._minutes.appendleft((minute, counts))
                raise

    async def _add(self, tenant: str, events: list[AuditEvent]) -> None:
        with in_tenant(tenant):
            async with self._in_order:
                await self._db.write(lambda tx: [record(tx, event) for event in events])

    def _minute(self) -> int:
        return self._clock() // MINUTE * MINUTE
