"""What leaves by setting, once a day: the same erasures as of a purge with a date."""

from kho.administration.purge.purges import BATCH, Erasures
from kho.kernel import AuditEvent, Background, Database, Tx, audit
from kho.kernel.upkeep.daily import Daily
from kho.kernel.upkeep.erasure import Erasure, Whom
from kho.lib.clock import DAY, Clock, iso
from kho.lib.dataclass import dataclass

LEASE = "retention"
LOOK_EVERY = 60.0
"""Seconds until it is asked again whether a day has passed."""
OPERATION = "remove_old"


@dataclass(slots=True, kw_only=True, eq=False)
class Retention:
    db: Database
    background: Background
    clock: Clock
    daily: Daily
    erasures: Erasures

    async def run(self) -> None:
        """Work until the hub stops, on the rows of all tenants."""
        await self.background.every(LOOK_EVERY, self.step, name="Retention")

    async def step(self) -> None:
        kept = [erasure for erasure in self.erasures() if erasure.keep_days is not None]
        if not kept or not await self.daily.due():
            return
        now = self.clock()
        for erasure in kept:
            assert erasure.keep_days is not None
            for tenant in await self.db.read(erasure.tenants):
                await self._remove(erasure, Whom(tenant, None, now - erasure.keep_days * DAY))

    async def _remove(self, erasure: Erasure, whom: Whom) -> None:
        said = False

        def work(tx: Tx) -> int:
            if not said and (rows := sum(erasure.count(tx, whom).values())):
                audit.record(tx, self._event(erasure, whom, rows))
            return erasure.erase(tx, whom, BATCH).rows

        while not self.background.stopping and await self.db.write(work):
            said = True

    def _event(self, erasure: Erasure, whom: Whom, rows: int) -> AuditEvent:
        assert whom.before is not None
        return AuditEvent(
            tenant=whom.tenant,
            operation=OPERATION,
            capability=erasure.slice,
            subject="",
            actor="",
            details={"rows": rows, "before": iso(whom.before)},
            at=self.clock(),
        )
