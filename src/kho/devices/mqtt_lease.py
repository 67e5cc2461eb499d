"""Which process of a hub holds the boards' broker: one, until it says so no longer."""

from kho.kernel.clock import SECOND, Clock
from kho.kernel.ports import Database, Tx

HELD = 15 * SECOND
BEAT = 5.0
"""Seconds between two looks: of who holds it, to hold it on, and of the others, to see whether it is free."""


class Lease:
    def __init__(self, db: Database, clock: Clock, name: str, owner: str) -> None:
        self._db = db
        self._clock = clock
        self._name = name
        self._owner = owner

    async def take(self) -> bool:
        """Whether it is this process's for now, taken or held on."""
        now = self._clock()

        def work(tx: Tx) -> bool:
            changed = tx.run(
                "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
                "SET owner = excluded.owner, until = excluded.until WHERE leases.owner = $2 OR leases.until < $4",
                self._name,
                self._owner,
                now + HELD,
                now,
            )
            return changed == 1

        return await self._db.write(work)

    async def let_go(self) -> None:
        """Lets another process go on at once."""
        await self._db.write(
            lambda tx: tx.run("DELETE FROM leases WHERE name = $1 AND owner = $2", self._name, self._owner)
        )
