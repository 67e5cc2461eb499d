"""Work that is done once a day, by one of all processes: such as retention."""

from kho.kernel.ports import Database, Leases
from kho.lib.clock import DAY, SECOND, Clock
from kho.lib.dataclass import dataclass

HOUR = 3_600 * SECOND
"""When to ask for the lease again: the process that had it may have ended."""


@dataclass(slots=True, eq=False)
class Daily:
    db: Database
    clock: Clock
    leases: Leases
    name: str
    """Of the lease, which is held for a day: so it is also the memory of when the work was last done."""
    next_at: int = 0

    async def due(self) -> bool:
        """True if this process is to do the work now."""
        now = self.clock()
        if now < self.next_at:
            return False
        self.next_at = now + HOUR
        if not await self.db.write(self.leases.named(self.name, DAY).take):
            return False
        self.next_at = now + DAY
        return True
