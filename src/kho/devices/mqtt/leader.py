"""Keeps the connection to the broker, or the embedded broker, in exactly one process (leader). It is reopened whenever
it breaks, with growing pauses, and another process takes over when the leader's lease expires or it is known to have
ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import Any, Protocol

from kho.devices.connections.boards import ConnectedBoards
from kho.kernel import Background, Database, KhoError, Lease, Leases
from kho.lib.clock import SECOND
from kho.lib.dataclass import dataclass

log = logging.getLogger("kho.devices.mqtt")

FIRST_PAUSE = 1.0
LAST_PAUSE = 60.0
DURATION = 15 * SECOND
BEAT = 5.0
"""Seconds between lease attempts: the leader renews, the others check whether it is free."""
OWNER_GONE = "NOT EXISTS (SELECT 1 FROM device_owners WHERE process = leases.owner)"
"""Condition under which the lease is free before it expires: its holder has been removed from device_owners."""


@dataclass(frozen=True, slots=True)
class BrokerLease:
    db: Database
    lease: Lease
    boards: ConnectedBoards

    async def take(self) -> bool:
        """Take or renew the lease; False while another process has it."""
        await self.boards.reachable()
        if await self.db.write(self.lease.take):
            return True
        await self.boards.sweep()
        return await self.db.write(self.lease.take)

    async def release(self) -> None:
        """Release the lease, so that another process continues at once."""
        await self.db.write(self.lease.release)


def broker_lease(db: Database, leases: Leases, name: str, boards: ConnectedBoards) -> BrokerLease:
    return BrokerLease(db, leases.named(name, DURATION, free_if=OWNER_GONE), boards)


class LeaderTask(Protocol):
    """What the leader keeps open."""

    @property
    def name(self) -> str:
        """Address without secrets."""
        ...

    def open(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Open the connection and return the work to await: it never returns, and raises OSError when the connection
        breaks."""
        ...


@dataclass(slots=True, kw_only=True)
class Leader:
    task: LeaderTask
    lease: BrokerLease
    background: Background
    first_pause: float = FIRST_PAUSE
    there: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while this process has the connection open."""

    async def run(self) -> None:
        """Keep the task open whenever this process holds the lease, until the hub stops."""
        pause, waits = self.first_pause, False
        while not self.background.stopping:
            if not await self._mine():
                if not waits:
                    log.info(
                        "waiting for %s: another process of this hub serves boards there, or just did", self.task.name
                    )
                waits = True
                await self.background.pause(BEAT)
                continue
            waits = False
            try:
                await self.background.unless_stopping(self._hold())
            except (OSError, KhoError) as problem:
                log.warning("no connection to boards at %s: %s", self.task.name, problem)
            if self.there.is_set():  # it was open: reset the back-off
                pause = self.first_pause
                self.there.clear()
            await self.background.pause(pause)
            pause = min(LAST_PAUSE, pause * 2)
        await self.lease.release()

    async def _hold(self) -> None:
        async with self.task.open() as work:
            self.there.set()
            log.info("boards are served at %s", self.task.name)
            await _first(work(), self._keep())

    async def _keep(self) -> None:
        """Renew the lease; return when another process has taken over because this one was silent too long."""
        # While the database is down nobody can take over, so keep going.
        while await self._mine(unless_known=True):  # noqa: ASYNC110 - the database sends no event
            await asyncio.sleep(BEAT)

    async def _mine(self, *, unless_known: bool = False) -> bool:
        try:
            return await self.lease.take()
        except KhoError as problem:
            log.warning("boards: the database is away: %s", problem.message)
            return unless_known


async def _first(*works: Awaitable[Any]) -> None:
    """Wait until one ends or fails, then cancel the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
