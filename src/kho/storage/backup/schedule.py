"""Makes backups by the clock: in one process of those that serve a store, which holds a lease meanwhile."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kho.kernel import Background, Database, KhoError, Leases, Tx
from kho.kernel.errors import Unavailable
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.folders import private_folder
from kho.storage.backup import files

log = logging.getLogger(__name__)

LEASE = "backup"
AT_WORK = 60 * SECOND
"""How long a process that was killed while it made a backup keeps the lease."""
HOLD_AGAIN = 15.0
LOOK_AGAIN = 60.0
"""Seconds between two looks whether a backup is due, and after one that failed."""
Save = Callable[[Path, Callable[[int, int], None]], Any]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The lease lasts until the next backup is due, so that a restart makes no further one."""

    db: Database
    leases: Leases
    clock: Clock
    background: Background
    save: Save
    """Writes a backup to a file, in a thread; what it reports to may raise to end it."""
    folder: Path
    every: int
    """Microseconds."""
    keep: int

    async def run(self) -> None:
        await self.background.every(LOOK_AGAIN, self._step, name="backup")

    async def _step(self) -> None:
        lease = self.leases.named(LEASE, AT_WORK)
        if not await self.db.read(self._is_due) or not await self.db.write(lease.take):
            return
        try:
            await self._save()
        except KhoError:
            await self.db.write(lease.release)
            if not self.background.stopping:
                raise
            return
        await self.db.write(self.leases.named(LEASE, self.every).hold)
        await asyncio.to_thread(files.prune, self.folder, self.keep)

    def _is_due(self, tx: Tx) -> bool:
        row = tx.one("SELECT until FROM leases WHERE name = $1", LEASE)
        now = self.clock()
        # Later than that, if the setting has become shorter.
        return row is None or not now < row[0] <= now + max(self.every, AT_WORK)

    async def _save(self) -> None:
        path = self.folder / files.named(self.clock())
        await asyncio.to_thread(private_folder, self.folder)
        saving = asyncio.ensure_future(asyncio.to_thread(self.save, path, self._heard))
        while not saving.done():
            await asyncio.wait({saving}, timeout=HOLD_AGAIN)
            await self.db.write(self.leases.named(LEASE, AT_WORK).hold)
        await saving
        log.info("backup: %s", path)

    def _heard(self, done: int, total: int) -> None:
        if self.background.stopping:
            raise Unavailable("The hub stops: the backup is left for the next start.")
