"""Keeps a hub's one connection to its broker, or its own broker, in one process: it is taken up again whenever it
breaks, later each time, and another process takes it up when this one falls silent."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from kho.devices.mqtt.lease import BEAT, BrokerLease
from kho.kernel.background import Background
from kho.kernel.errors import KhoError

log = logging.getLogger("kho.devices.mqtt")

FIRST_PAUSE = 1.0
LAST_PAUSE = 60.0


class LeaderTask(Protocol):
    """What is kept open."""

    @property
    def name(self) -> str:
        """Where it is, without what is secret."""
        ...

    def open(self) -> AbstractAsyncContextManager[Callable[[], Awaitable[None]]]:
        """Gives what is to be awaited: it returns never, and raises OSError when the connection breaks."""
        ...


class Holder:
    def __init__(
        self, held: LeaderTask, lease: BrokerLease, background: Background, *, first_pause: float = FIRST_PAUSE
    ) -> None:
        self._held = held
        self._lease = lease
        self._background = background
        self._first_pause = first_pause
        self.there = asyncio.Event()
        """Set while this process has it open."""

    async def run(self) -> None:
        """Works until the hub stops."""
        pause, waits = self._first_pause, False
        while not self._background.stopping:
            if not await self._mine():
                if not waits:
                    log.info("waiting for %s: another process of this hub serves boards there, or just did", self._name)
                waits = True
                await self._background.pause(BEAT)
                continue
            waits = False
            try:
                await self._background.unless_stopping(self._hold())
            except OSError as problem:
                log.warning("no connection to boards at %s: %s", self._name, problem)
            except KhoError as problem:
                log.warning("no connection to boards at %s: %s", self._name, problem.message)
            if self.there.is_set():  # it had come about
                pause = self._first_pause
                self.there.clear()
            await self._background.pause(pause)
            pause = min(LAST_PAUSE, pause * 2)
        await self._lease.release()

    @property
    def _name(self) -> str:
        return self._held.name

    async def _hold(self) -> None:
        async with self._held.open() as work:
            self.there.set()
            log.info("boards are served at %s", self._name)
            await _first(work(), self._keep())

    async def _keep(self) -> None:
        """Returns when another process has taken over, because this one was silent for too long."""
        # Nobody can take over while the database is away.
        while await self._mine(unless_known=True):  # noqa: ASYNC110 - the database tells nobody
            await asyncio.sleep(BEAT)

    async def _mine(self, *, unless_known: bool = False) -> bool:
        try:
            return await self._lease.take()
        except KhoError as problem:
            log.warning("boards: the database is away: %s", problem.message)
            return unless_known


async def _first(*works: Awaitable[Any]) -> None:
    """Until one of them ends, however it ends; then ends the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in done:
        task.result()
