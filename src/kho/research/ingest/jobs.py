"""Runs ingest jobs. A job is a row in the database, so that it outlives the call and the process.

The row has a lease. The process that holds it works and renews it. A process that dies lets it expire, and exactly one
other process continues. A process that stops normally releases it at once.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, field
from functools import partial

from kho.kernel import AuditEvent, Background, Call, Database, DatabaseError, KhoError, Lease, Leases, Tx
from kho.kernel.audit import record
from kho.lib.clock import SECOND, Clock
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.lib.tenancy import for_tenant, in_tenant
from kho.research.ingest import job_store
from kho.research.ingest.job_store import Counts, Job

log = logging.getLogger("kho.research")

LOOKED_AT = 100
"""Maximum abandoned jobs read in one query."""

MAX_NAMED = 20
"""Files with secrets that an audit row names at most."""
UNEXPECTED = "It failed inside Kho. The log says why."
GIVEN_UP = "The process that read these files stopped, and no other may read them. Start the ingest again."


@dataclass(frozen=True, slots=True)
class JobLimits:
    lease: int = 30 * SECOND
    """Lease duration: how long a dead process keeps its jobs."""
    renew_every: float = 2.0
    """Seconds between lease renewals; also the delay until a job notices that another process cancelled it."""
    look_every: float = 5.0
    """Seconds between polls for abandoned jobs."""
    first_look: float = 1.0
    """Seconds before the first poll: most CLI commands are over by then, and should not start what they cannot
    finish."""
    report_every: float = 0.5
    """Seconds between progress reports to a waiting caller."""
    at_once: int = 2
    """Maximum concurrent jobs of a process; the others wait in the queue."""
    given_up_after: int = 600 * SECOND
    """An abandoned job that this process may not continue is failed after this time."""


class Stopped(Exception):
    """The job was cancelled, or another process took it over."""


@dataclass(slots=True)
class Running:
    """A job that this process runs."""

    job: Job
    lease: Lease
    clock: Clock
    suspect: bool = False
    """The previous process died while running it: one of the files may have crashed it."""
    counts: Counts = field(default_factory=Counts)
    """Counts as stored."""
    sightings: list[str] = field(default_factory=list[str])
    """Files with secrets in them that it stored."""
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when it is cancelled from within this process."""
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def advance(self, tx: Tx, counts: Counts, report: list[dict[str, str]]) -> None:
        """Store the progress within a step's transaction. Raises Stopped, which rolls the step back, if the job is no
        longer ours."""
        if not job_store.advance(tx, self.lease, self.job, counts, report, self.clock()):
            raise Stopped


Work = Callable[[Running], Awaitable[None]]
"""Runs a job to its end. It is restarted after a crash, so it must not do anything twice."""


@dataclass(slots=True, kw_only=True)
class Jobs:
    db: Database
    background: Background
    clock: Clock
    leases: Leases
    work: Work
    may_take: Callable[[Job], bool]
    """True if this process can finish a job that another one left; may block."""
    limits: JobLimits = field(default_factory=JobLimits)
    lease: Lease = field(init=False)
    running: dict[str, Running] = field(default_factory=dict[str, Running], init=False)
    news: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def __post_init__(self) -> None:
        self.lease = job_store.lease(self.leases, self.limits.lease)

    async def begin(self, make: Callable[[Tx], Job]) -> Job:
        """Store the job that `make` returns and start it, or leave it queued if `at_once` jobs are running."""
        stored = asyncio.ensure_future(self._store(make))
        try:
            return await asyncio.shield(stored)
        except asyncio.CancelledError:  # the row may already be on its way to the database
            self.background.add(partial(self._call_off_stored, stored))
            raise

    async def _store(self, make: Callable[[Tx], Job]) -> Job:
        starts = len(self.running) < self.limits.at_once

        def work(tx: Tx) -> Job:
            job = make(tx)
            job_store.create(tx, job)
            return (job_store.claim(tx, self.lease, job.tenant, job.id, self.clock()) if starts else None) or job

        job = await self.db.write(work)
        if starts:
            self._start(job)
        return job

    async def follow(self, job: Job, call: Call, seconds: float) -> Job:
        """Wait up to `seconds` for the job and return its state. A caller that is cancelled while waiting cancels the
        job."""
        until = time.monotonic() + seconds
        reported = -1
        try:
            while True:
                await self._moment(job.id, min(self.limits.report_every, until - time.monotonic()))
                job = await self.db.read(partial(job_store.need, tenant=job.tenant, id=job.id))
                if job.counts.done > reported:
                    reported = job.counts.done
                    await call.progress(reported, job.counts.total, _so_far(job))
                if job.finished_at is not None or time.monotonic() >= until or self.background.stopping:
                    return job
        except asyncio.CancelledError:
            if not self.background.stopping:
                self.background.add(partial(self._call_off, job))
            raise

    async def cancel(self, tenant: str, id: str, call: Call | None = None) -> bool:
        """Cancel a job, whichever process runs it. False if it was already finished. `call` is given when a user
        cancels it, for the audit log."""

        def work(tx: Tx) -> bool:
            job_store.need(tx, tenant, id)
            now = self.clock()
            cancelled = job_store.cancel(tx, tenant, id, now)
            if cancelled is not None:
                _audit(tx, cancelled, now)
                if call is not None:
                    call.audit(tx, id, at=now, collection_id=cancelled.collection_id)
            return cancelled is not None

        cancelled = await self.db.write(work)
        if cancelled and id in self.running:
            self.running[id].cancelled.set()
        return cancelled

    async def resume(self) -> None:
        """Run queued and abandoned jobs until the hub stops."""
        await self.background.pause(self.limits.first_look)
        await self.background.every(self.limits.look_every, self._take_over, name="jobs", wake=self.news)

    async def _take_over(self) -> None:
        now = self.clock()
        for job in await self.db.read(lambda tx: job_store.abandoned(tx, now, LOOKED_AT)):
            if len(self.running) >= self.limits.at_once or self.background.stopping:
                return
            if job.id in self.running:  # our lease expired because we were late; the next renewal corrects that
                continue
            if await asyncio.to_thread(self.may_take, job):
                if claimed := await self._claim(job):
                    self._start(claimed, suspect=job.owner is not None)
            elif job.updated_at < now - self.limits.given_up_after and (claimed := await self._claim(job)):
                await self._finish(claimed, GIVEN_UP)

    async def _claim(self, job: Job) -> Job | None:
        return await self.db.write(lambda tx: job_store.claim(tx, self.lease, job.tenant, job.id, self.clock()))

    def _start(self, job: Job, *, suspect: bool = False) -> None:
        running = Running(job, self.lease, self.clock, suspect)
        self.running[job.id] = running
        self.background.add(for_tenant(job.tenant, partial(self._run, running)))

    async def _run(self, running: Running) -> None:
        """Run a job and finish it or release its lease. An unexpected exception marks the job as failed and goes on to
        the log."""
        error: str | None = UNEXPECTED
        over = True
        try:
            over = await self.background.unless_stopping(self._attended(running)) is not None
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
                    await self._finish(running.job, error, running.sightings)
                else:
                    await self.db.write(lambda tx: self.lease.release(tx, running.job.tenant, running.job.id))
            finally:
                del self.running[running.job.id]
                running.over.set()
                self.news.set()

    async def _attended(self, running: Running) -> bool:
        """Run the work and renew the lease meanwhile."""
        work = asyncio.ensure_future(self.work(running))
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
        """Renew the lease until the job is cancelled or the lease is lost."""
        while True:
            try:
                async with asyncio.timeout(self.limits.renew_every):
                    await running.cancelled.wait()
                return
            except TimeoutError:
                if not await self.db.write(lambda tx: self.lease.hold(tx, running.job.tenant, running.job.id)):
                    return

    async def _finish(self, job: Job, error: str | None, sightings: Sequence[str] = ()) -> None:
        now, state = self.clock(), "done" if error is None else "failed"

        def work(tx: Tx) -> None:
            ended = job_store.finish(tx, self.lease, job, state, error, now)
            if ended is not None:
                _audit(tx, ended, now, sightings)

        await self.db.write(work)

    async def _call_off(self, job: Job) -> None:
        with in_tenant(job.tenant):
            await self.cancel(job.tenant, job.id)

    async def _call_off_stored(self, stored: asyncio.Future[Job]) -> None:
        await self._call_off(await stored)

    async def _moment(self, id: str, seconds: float) -> None:
        """Wait until the job is over, the hub stops, or `seconds` have passed."""
        running = self.running.get(id)
        over = running.over if running else asyncio.Event()
        await self.background.pause_until(over, max(0.0, seconds))


def _audit(tx: Tx, job: Job, now: int, sightings: Sequence[str] = ()) -> None:
    """Write the audit event of a finished job, if it changed anything, in the name of the caller who started it. One
    event per ingest, however it ended."""
    counts = {name: count for name, count in asdict(job.counts).items() if name in ("added", "changed", "removed")}
    if any(counts.values()):
        secrets = {"secrets": sightings[:MAX_NAMED]} if sightings else {}
        event = AuditEvent(
            tenant=job.tenant,
            operation="ingest_documents",
            capability="research",
            subject=job.id,
            actor=job.sub,
            details={"collection_id": job.collection_id, "state": job.state, "failed": job.failed, **counts, **secrets},
            at=now,
        )
        record(tx, event)


def _so_far(job: Job) -> str:
    counts = job.counts
    return "Looking for files" if counts.total is None else f"{counts.done:,} of {counted(counts.total, 'file')}"
