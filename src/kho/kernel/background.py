"""Work that follows an answer. Nobody waits for it but the hub, when it stops."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from kho.kernel.errors import KhoError

T = TypeVar("T")

log = logging.getLogger("kho.background")


class Background:
    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def add(self, work: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def pause(self, seconds: float) -> None:
        """Sleeps, but not past the moment when the hub begins to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def pause_until(self, event: asyncio.Event, seconds: float) -> None:
        """Pauses, but not past the event."""
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
        """Does `step` again and again until the hub stops: every so many seconds, or when the step says (it may return
        a shorter pause), or at once when `wake` is set. A failure that is no bug, such as a database that is away, is
        logged once and the step tried again after the pause."""
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
                    log.warning("%s: %s It is tried again.", name, problem.message)
                failing = True
            pause = seconds if pause is None else max(0.0, min(pause, seconds))
            await (self.pause(pause) if wake is None else self.pause_until(wake, pause))

    async def unless_stopping(self, work: Awaitable[T]) -> T | None:
        """Does `work`, or breaks it off when the hub begins to stop. For what can be begun again."""
        task = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not task.done():
                task.cancel()
                # Until it has let go: what it uses is closed next.
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def drain(self) -> None:
        """Ends every pause and waits until nothing is left to do."""
        self._stopping.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Exception:  # the boundary of background work: nobody above could act on it
            log.exception("background work failed")
