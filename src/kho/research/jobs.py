"""Jobs in this process: long work that a row in the database stands for, so that it outlives the call and the process.

The row has a lease. Whoever holds it works and renews it; a process that falls silent loses it, and of all the others
exactly one goes on. A process that stops in good order lets go of it at once.
"""

import asyncio
import logging
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial

from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.errors import DatabaseError, KhoError
from kho.kernel.ports import Database, Tx
from kho.lib.clock import SECOND, Clock
from kho.lib.markdown import counted
from kho.research import store_jobs
from kho.research.store_jobs import Counts, Job

log = logging.getLogger("kho.research")

HELD = 30 * SECOND
"""How long a process that fell silent keeps its jobs."""
BEAT = 2.0
"""Seconds between renewals; also how soon a job notices that another process cancelled it."""
POLL = 5.0
"""Seconds between looks for jobs that nobody is at."""
SOON = 1.0
"""Seconds before the first look: most commands are over by then, and should not begin what they cannot finish."""
LOOK = 0.5
"""Seconds between two reports to somebody who waits."""
AT_ONCE = 2
"""Jobs that run in one process; the others wait for their turn."""
LOOKED_AT = 100
FORLORN = 600 * SECOND
"""A job that nobody here may go on with is given up after this time."""

UNEXPECTED = "It failed inside Kho. The log says why."
GIVEN_UP = "Whoever read these files fell silent, and nobody else may read them. Call ingest_documents again."


class Stopped(Exception):
    """The job was cancelled, or another process took it over."""


@dataclass(slots=True)
class Running:
    """A job that this process is at."""

    job: Job
    owner: str
    clock: Clock
    suspect: bool = False
    """Whoever was at it before fell silent: something in it may have been the reason."""
    counts: Counts = field(default_factory=Counts)
    """As they are stored."""
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when somebody in this process cancels it."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self, tx: Tx, counts: Counts, report: list[dict[str, str]]) -> None:
        """In the transaction of a step: it counts only if the job is still ours."""
        now = self.clock()
        if not store_jobs.advance(tx, self.job, self.owner, counts, report, now, now + HELD):
            raise Stopped


Work = Callable[[Running], Awaitable[None]]
"""Does a job to its end. Begun again after a crash, it must not do anything twice."""


class Jobs:
    def __init__(
        self, db: Database, background: Background, clock: Clock, work: Work, may_take: Callable[[Job], bool]
    ) -> None:
        """`may_take` says whether a job that another process left can be finished by this one; it may block."""
        self._db = db
        self._background = background
        self._clock = clock
        self._work = work
        self._may_take = may_take
        self._owner = f"{os.getpid()}:{uuid.uuid4()}"
        self._running: dict[str, Running] = {}
        self._news = asyncio.Event()

    async def begin(self, make: Callable[[Tx], Job]) -> Job:
        """Stores the job that `make` gives, and starts it, or leaves it in the queue if there are enough already."""
        stored = asyncio.ensure_future(self._store(make))
        try:
            return await asyncio.shield(stored)
        except asyncio.CancelledError:  # the row may be on its way already
            self._background.add(partial(self._call_off_stored, stored))
            raise

    async def _store(self, make: Callable[[Tx], Job]) -> Job:
        now = self._clock()
        starts = len(self._running) < AT_ONCE

        def work(tx: Tx) -> Job:
            job = make(tx)
            if starts:
                job = replace(job, state="running", owner=self._owner, lease_until=now + HELD)
            store_jobs.create(tx, job)
            return job

        job = await self._db.write(work)
        if starts:
            self._start(job)
        return job

    async def follow(self, job: Job, call: Call, seconds: float) -> Job:
        """The job when it is over, or as it is after so many seconds. Who gives up waiting before cancels it."""
        until = time.monotonic() + seconds
        reported = -1
        try:
            while True:
                await self._moment(job.id, min(LOOK, until - time.monotonic()))
                job = await self._db.read(partial(store_jobs.need, tenant=job.tenant, id=job.id))
                if job.counts.done > reported:
                    reported = job.counts.done
                    await call.progress(reported, job.counts.total, _so_far(job))
                if job.finished_at is not None or time.monotonic() >= until or self._background.stopping:
                    return job
        except asyncio.CancelledError:
            if not self._background.stopping:
                self._background.add(partial(self._call_off, job))
            raise

    async def cancel(self, tenant: str, id: str) -> bool:
        """From whichever process. False if the job was over already."""

        def work(tx: Tx) -> bool:
            store_jobs.need(tx, tenant, id)
            return store_jobs.cancel(tx, tenant, id, self._clock())

        cancelled = await self._db.write(work)
        if cancelled and id in self._running:
            self._running[id].told.set()
        return cancelled

    async def resume(self) -> None:
        """Takes up jobs that wait and jobs that others left, until the hub stops."""
        await self._background.pause(SOON)
        while not self._background.stopping:
            self._news.clear()
            try:
                await self._take_over()
            except DatabaseError as problem:
                log.warning("jobs wait: %s", problem.message)
            await self._background.pause_until(self._news, POLL)

    async def _take_over(self) -> None:
        now = self._clock()
        for job in await self._db.read(lambda tx: store_jobs.abandoned(tx, now, LOOKED_AT)):
            if len(self._running) >= AT_ONCE or self._background.stopping:
                return
            if job.id in self._running:  # this process was late; its next renewal mends that
                continue
            if await asyncio.to_thread(self._may_take, job):
                if claimed := await self._claim(job):
                    self._start(claimed, suspect=job.owner is not None)
            elif job.updated_at < now - FORLORN and (claimed := await self._claim(job)):
                await self._finish(claimed, GIVEN_UP)

    async def _claim(self, job: Job) -> Job | None:
        now = self._clock()
        return await self._db.write(lambda tx: store_jobs.claim(tx, job.tenant, job.id, self._owner, now, now + HELD))

    def _start(self, job: Job, *, suspect: bool = False) -> None:
        running = Running(job, self._owner, self._clock, suspect)
        self._running[job.id] = running
        self._background.add(partial(self._run, running))

    async def _run(self, running: Running) -> None:
        """To its end, whatever that is. What nobody expects goes on to the log, and the job says that it failed."""
        error: str | None = UNEXPECTED
        over = True
        try:
            over = await self._background.unless_stopping(self._attended(running)) is not None
            error = None
        except (Stopped, DatabaseError) as problem:  # in both cases the job is not ours to finish
            over = False
            if isinstance(problem, DatabaseError):
                log.warning("a job waits: %s", problem.message)
        except KhoError as problem:
            error = problem.message
        finally:
            try:
                if over:
                    await self._finish(running.job, error)
                else:
                    await self._db.write(lambda tx: store_jobs.release(tx, running.job, self._owner))
            finally:
                del self._running[running.job.id]
                running.over.set()
                self._news.set()

    async def _attended(self, running: Running) -> bool:
        """Works, and keeps the lease meanwhile."""
        work = asyncio.ensure_future(self._work(running))
        kept = asyncio.ensure_future(self._keep(running))
        try:
            await asyncio.wait({work, kept}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                kept.result()
                raise Stopped
            work.result()
            return True
        finally:
            work.cancel()
            kept.cancel()
            await asyncio.gather(work, kept, return_exceptions=True)

    async def _keep(self, running: Running) -> None:
        """Until the job is somebody else's, or nobody's."""
        while True:
            try:
                async with asyncio.timeout(BEAT):
                    await running.told.wait()
                return
            except TimeoutError:
                until = self._clock() + HELD
            if not await self._db.write(partial(store_jobs.renew, job=running.job, owner=self._owner, until=until)):
                return

    async def _finish(self, job: Job, error: str | None) -> None:
        now = self._clock()
        state = "done" if error is None else "failed"
        await self._db.write(lambda tx: store_jobs.finish(tx, job, self._owner, state, error, now))

    async def _call_off(self, job: Job) -> None:
        await self.cancel(job.tenant, job.id)

    async def _call_off_stored(self, stored: asyncio.Future[Job]) -> None:
        await self._call_off(await stored)

    async def _moment(self, id: str, seconds: float) -> None:
        """Until the job is over, the hub stops, or so many seconds have passed."""
        running = self._running.get(id)
        over = running.over if running else asyncio.Event()
        await self._background.pause_until(over, max(0.0, seconds))


def _so_far(job: Job) -> str:
    counts = job.counts
    return "Looking for files" if counts.total is None else f"{counts.done:,} of {counted(counts.total, 'file')}"
