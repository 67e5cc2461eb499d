"""Background tasks. Only the hub waits for them, when it stops."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kho.kernel.errors import KhoError
from kho.kernel.limits.allowance import CURRENT
from kho.lib.tenancy import in_no_tenant

T = TypeVar("T")

log = logging.getLogger("kho.background")


class Background:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[bool]] = set()
        self._stopping = asyncio.Event()

    def add(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start work that goes on by itself. It does not inherit the tenant of the call that happens to start it: work
        that needs rows of tenants says whose (`tenancy.for_tenant`, `tenancy.for_all_tenants`)."""
        task = asyncio.get_running_loop().create_task(self.attempt(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def until_stopping(self) -> None:
        await self._stopping.wait()

    async def pause(self, seconds: float) -> None:
        """Sleep, but return early when the hub begins to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def pause_until(self, event: asyncio.Event, seconds: float) -> None:
        """Sleep, but return early when the hub begins to stop or the event is set."""
        happened = asyncio.ensure_future(event.wait())
        pause = asyncio.ensure_future(self.pause(seconds))
        try:
            await asyncio.wait({happened, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            happened.cancel()
            pause.cancel()

    async def every(
        self,
        seconds: float,
        step: Callable[[], Awaitable[float | None]],
        *,
        name: str,
        wake: asyncio.Event | None = None,
    ) -> None:
        """Run `step` repeatedly until the hub stops: after `seconds`, after the shorter pause that the step returned,
        or at once when `wake` is set. A KhoError, such as an unreachable database, is logged once and the step retried
        after the pause."""
        failing = False
        while not self.stopping:
            pause = None
            if wake is not None:
                wake.clear()
            try:
                pause = await step()
                failing = False
            except KhoError as problem:
                if not failing:
                    log.warning("%s: %s It will be tried again.", name, problem.message)
                failing = True
            pause = seconds if pause is None else max(0.0, min(pause, seconds))
            await (self.pause(pause) if wake is None else self.pause_until(wake, pause))

    async def unless_stopping(self, work: Awaitable[T]) -> T | None:
        """Run `work`, cancelling it when the hub begins to stop. For work that can be restarted."""
        task = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not task.done():
                task.cancel()
                # Wait until it has ended: the resources it uses are closed next.
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def drain(self) -> None:
        """End every pause and wait until no task is left."""
        self._stopping.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def attempt(self, work: Callable[[], Awaitable[None]]) -> bool:
        """Do a piece of background work here and now. False if it failed, which is logged: what comes after it goes
        on."""
        CURRENT.set(None)  # nobody waits for it, so a limit of who caused it must not make it fail
        try:
            with in_no_tenant():
                await work()
        except Exception:  # boundary of background work: no caller could handle it
            log.exception("background work failed")
            return False
        return True
