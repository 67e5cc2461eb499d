"""The sealer: links committed rows of the trail, so that writers never wait for each other.

It runs in every long-lived process; a lease decides which of them works. A link is made from what is committed and
cannot change any more, outside of any write; the write only adds it, and only if the chain still ends where it did. So
two sealers at once cannot fork a chain, and one that is killed leaves nothing half done.
"""

import os

from kho.audit import chain
from kho.audit.chain import Head, Link
from kho.kernel import Background, Database, Lease, Leases, Tx, UniqueViolation
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass

INTERVAL = 3.0
"""Seconds between two looks for rows without a link."""
LEASE, LEASE_DURATION = "audit_chain", 5 * SECOND
"""With the interval: after the death of the process that worked, another one goes on within ten seconds."""
BATCH = 200
"""Rows in one write."""
ROUNDS = 50
"""Batches of each tenant, until it is looked again whose rows wait."""
BREATH = 0.01
"""Seconds between two writes, in which others can write: after an upgrade a whole trail waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class Sealer:
    db: Database
    background: Background
    clock: Clock
    leases: Leases

    async def run(self) -> None:
        """Seal until the hub stops. It works on the rows of all tenants."""
        await self.background.pause(INTERVAL)
        await self.background.every(INTERVAL, self.step, name="Audit trail")

    async def step(self) -> float | None:
        """Link what waits, a batch of each tenant in turn, so that nobody waits for the long trail of another tenant.
        Return 0 to go on at once."""
        tenants = await self.db.read(chain.waiting_tenants)
        if tenants and await self.db.write(self._lease.take):
            for _ in range(ROUNDS):
                tenants = [one for one in tenants if await self.seal(one, leased=True) == BATCH]
                if not tenants or self.background.stopping:
                    break
                await self.background.pause(BREATH)
            else:
                return 0.0
        return None

    async def seal_all(self, tenant: str) -> None:
        """Link everything of a tenant that is committed by now, for work that needs the links."""
        while await self.seal(tenant):
            pass

    async def seal(self, tenant: str, *, leased: bool = False) -> int:
        """Link a batch of rows. Return how many; 0 if none waits, or if another process was faster (or has the lease by
        now, with `leased`)."""
        before, links = await self.db.read(lambda tx: self._next(tx, tenant))
        if not links:
            return 0

        def add(tx: Tx) -> int:
            if (leased and not self._lease.hold(tx)) or chain.head(tx, tenant) != before:
                return 0
            chain.append(tx, tenant, links)
            return len(links)

        try:
            return await self.db.write(add)
        except UniqueViolation:  # another process wrote at the same moment
            return 0

    def seal_in(self, tx: Tx, tenant: str) -> None:
        """Link everything that this transaction sees, in it. Raises UniqueViolation if another process was faster."""
        while links := self._next(tx, tenant)[1]:
            chain.append(tx, tenant, links)

    @property
    def _lease(self) -> Lease:
        return self.leases.named(LEASE, LEASE_DURATION)

    def _next(self, tx: Tx, tenant: str) -> tuple[Head, list[Link]]:
        before = end = chain.head(tx, tenant)
        links: list[Link] = []
        for row in chain.waiting(tx, tenant, BATCH):
            link = chain.made(row, end, os.urandom(chain.SALT_BYTES), self.clock())
            links.append(link)
            end = Head(link.place, link.digest)
        return before, links
