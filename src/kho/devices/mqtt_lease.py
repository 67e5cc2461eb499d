"""Which process of a hub holds the boards' broker: one, until it says so no longer, or is known to have ended."""

from typing import Protocol

from kho.kernel.ports import Database, Tx
from kho.lib.clock import SECOND, Clock

HELD = 15 * SECOND
BEAT = 5.0
"""Seconds between two looks: of who holds it, to hold it on, and of the others, to see whether it is free."""


class Present(Protocol):
    """What is known of the hub's processes."""

    @property
    def process(self) -> str: ...

    async def reachable(self) -> None:
        """From now on the others can tell this process from one that was killed."""
        ...

    async def sweep(self) -> None:
        """Gives up those that have ended."""
        ...


class Lease:
    def __init__(self, db: Database, clock: Clock, name: str, present: Present) -> None:
        self._db = db
        self._clock = clock
        self._name = name
        self._present = present

    async def take(self) -> bool:
        """Whether it is this process's for now, taken or held on. One that was killed holds nothing: where that can be
        told, nobody waits for the end of its time."""
        if await self._db.read(self._is_anothers):
            await self._present.sweep()
            if await self._db.read(self._is_anothers):
                return False
        await self._present.reachable()
        return await self._db.write(self._take)

    async def let_go(self) -> None:
        """Lets another process go on at once."""
        await self._db.write(
            lambda tx: tx.run("DELETE FROM leases WHERE name = $1 AND owner = $2", self._name, self._present.process)
        )

    def _is_anothers(self, tx: Tx) -> bool:
        return (
            tx.one(
                "SELECT 1 FROM leases JOIN device_owners ON process = leases.owner "
                "WHERE name = $1 AND leases.owner <> $2 AND leases.until >= $3",
                self._name,
                self._present.process,
                self._clock(),
            )
            is not None
        )

    def _take(self, tx: Tx) -> bool:
        now = self._clock()
        changed = tx.run(
            "INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE "
            "SET owner = excluded.owner, until = excluded.until WHERE leases.owner = $2 OR leases.until < $4 "
            "OR NOT EXISTS (SELECT 1 FROM device_owners WHERE process = leases.owner)",
            self._name,
            self._present.process,
            now + HELD,
            now,
        )
        return changed == 1
