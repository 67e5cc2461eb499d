"""Which process of a hub holds the boards' broker: one, until it says so no longer, or is known to have ended."""

from dataclasses import dataclass
from typing import Protocol

from kho.kernel.ports import Database, Lease, Leases
from kho.lib.clock import SECOND

DURATION = 15 * SECOND
BEAT = 5.0
"""Seconds between two looks: of who holds it, to hold it on, and of the others, to see whether it is free."""
OWNER_GONE = "NOT EXISTS (SELECT 1 FROM device_owners WHERE process = leases.owner)"
"""A process that was given up holds nothing: where that can be told, nobody waits for the end of its time."""


class Present(Protocol):
    """What is known of the hub's processes."""

    async def reachable(self) -> None:
        """From now on the others can tell this process from one that was killed."""
        ...

    async def sweep(self) -> None:
        """Gives up those that have ended."""
        ...


@dataclass(frozen=True, slots=True)
class BrokerLease:
    db: Database
    lease: Lease
    present: Present

    async def take(self) -> bool:
        """Takes it or holds it on; False while another process has it."""
        await self.present.reachable()
        if await self.db.write(self.lease.take):
            return True
        await self.present.sweep()
        return await self.db.write(self.lease.take)

    async def release(self) -> None:
        """Lets another process go on at once."""
        await self.db.write(self.lease.release)


def broker_lease(db: Database, leases: Leases, name: str, present: Present) -> BrokerLease:
    return BrokerLease(db, leases.named(name, DURATION, free_if=OWNER_GONE), present)
