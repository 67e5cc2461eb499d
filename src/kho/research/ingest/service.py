"""Ingests files and folders as jobs. Files are stored in batches, each in one transaction with the job's progress. So a
crash leaves only whole documents, and a restarted job finds what it stored."""

import asyncio
import logging
import math
import socket
import threading
import uuid
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import field, replace

from cachetools import LRUCache

from kho.kernel import Background, Call, Hint, Leases, Op, Tx
from kho.kernel.limits.allowance import CURRENT, UNMETERED
from kho.kernel.limits.quotas import SOON, Quotas, no_quotas
from kho.kernel.ports import Screen
from kho.lib.dataclass import dataclass
from kho.research import commands, errors, markdown
from kho.research.contract import RESEARCH, ResearchService
from kho.research.errors import FileNotFound, PathRefused, WrongKind
from kho.research.ingest import job_store, plan, report
from kho.research.ingest.allowed_paths import AllowedPaths, Located, Roots
from kho.research.ingest.indexing import Filing
from kho.research.ingest.job_store import MAX_FAILURES, Counts, Job
from kho.research.ingest.jobs import UNEXPECTED, JobLimits, Jobs, Running
from kho.research.ingest.plan import Failure, Plan, Request, Wanted
from kho.research.ingest.prepare import Prepared, Preparing, Reader, Same
from kho.research.library import collection_store
from kho.research.library.document_store import DocumentStore, at_places
from kho.research.model import IngestAnswer, IngestDocuments

log = logging.getLogger("kho.research")

KIND = "ingest"
BATCH = 32
BATCH_CHUNKS = 300
"""Maximum files of a transaction, and the number of chunks at which it is closed: other writers are waiting."""
REMOVED_AT_ONCE = 100
REMEMBERED = 100
"""Jobs whose files with secrets are remembered."""
MAX_KINDS = 50
"""Maximum name endings that a job lists of files that were not read."""
AHEAD = 4
"""Files read and prepared concurrently."""
AHEAD_BYTES = 16 * 2**20
"""Maximum bytes of files prepared concurrently; a larger file is read alone."""


@dataclass(slots=True)
class _Batch:
    filings: list[Filing] = field(default_factory=list[Filing])
    same: list[Same] = field(default_factory=list[Same])
    failures: list[Failure] = field(default_factory=list[Failure])
    chunks: int = 0

    def add(self, one: Prepared) -> None:
        if isinstance(one, Same):
            self.same.append(one)
        elif isinstance(one, Failure):
            self.failures.append(one)
        else:
            self.filings.append(one)
            self.chunks += one.doc.chunks

    def outcomes(self) -> Iterator[tuple[str, str]]:
        """Yield path and outcome of each file, for the debug log."""
        yield from ((one.doc.name, f"{one.doc.chunks} chunks of {one.doc.format}") for one in self.filings)
        yield from ((one.known.path, "the same as before") for one in self.same)
        yield from ((one.path, one.reason) for one in self.failures)

    @property
    def full(self) -> bool:
        return len(self) >= BATCH or self.chunks >= BATCH_CHUNKS

    def __len__(self) -> int:
        return len(self.filings) + len(self.same) + len(self.failures)


@dataclass(slots=True, kw_only=True)
class Ingest(ResearchService):
    store: DocumentStore
    reader: Reader
    allowed_paths: AllowedPaths
    background: Background
    leases: Leases
    screen: Screen | None = None
    job_limits: JobLimits = field(default_factory=JobLimits)
    quotas: Quotas = field(default_factory=no_quotas)
    sightings: LRUCache[str, list[str]] = field(default_factory=lambda: LRUCache(REMEMBERED))
    """Files with secrets in them, by the job of this process that stored them."""
    host: str = field(default_factory=socket.gethostname)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(
            db=self.db,
            background=self.background,
            clock=self.clock,
            leases=self.leases,
            work=self._work,
            may_take=self._may_take,
            limits=self.job_limits,
        )

    @RESEARCH.write(
        "ingest_documents",
        toolset="default",
        explained=("patterns", "prune"),
        invalid=errors.invalid_documents,
        text=markdown.ingest,
        cli=commands.INGEST,
        example={"path": "notes", "collection": "papers", "recursive": True},
        failed_in_part=report.failed_in_part,
    )
    async def ingest(self, params: IngestDocuments, call: Call) -> IngestAnswer:
        """Add a file or a folder of this machine to a collection.

        Add a file or folder of this machine to a collection: text, Markdown, HTML, PDF, DOCX, code, notebooks, CSV,
        JSON. Repeat it to take in changes. A long one answers with a job for ingest_status.
        """
        stated = await call.roots()
        roots = self.allowed_paths.for_caller(shared=call.shared, stated=stated)
        located = await asyncio.to_thread(_located, roots, params.path)
        _need_kind(located, params)
        request = Request(
            path=str(located.path),
            folder=located.folder,
            host=self.host,
            shared=call.shared,
            stated=None if stated is None else [*stated],
            recursive=params.recursive,
            patterns=params.patterns or [],
            exclude=params.exclude or [],
            prune=params.prune,
            force=params.force,
        )
        _ = request.matching  # too many patterns are refused now, as the caller's mistake, not later by the job
        now = self.clock()

        def make(tx: Tx) -> Job:
            sub, id = call.principal.sub, str(uuid.uuid4())
            if params.create:
                collection, new = collection_store.find_or_new(tx, call.tenant, params.collection, sub, now)
                if new:
                    collection, new = collection_store.need_stored(tx, call.tenant, collection)
                if new:
                    call.audit(tx, collection.id, at=now, action="create", name=collection.name)
            else:
                collection = collection_store.need(tx, call.tenant, params.collection)
            # The new one is not stored yet.
            count = job_store.unfinished(tx, call.tenant) + 1
            self.quotas.need(tx, "jobs", call.tenant, lambda: count, by_key=call.shared, retry_after=SOON)
            return Job(call.tenant, id, KIND, "queued", request.as_dict(), collection.id, sub, now, now)

        job = await self.jobs.begin(make)
        if params.create:
            self.tell(call.tenant)
        job = await self.jobs.follow(job, call, self._patience(params, call))
        if self.screen is not None:
            self.screen.tell(call, self.sightings.get(job.id, ()))
        if call.receipt is None:
            return await self.db.read(lambda tx: report.ingest(tx, job))
        return await call.commit(self.db, lambda tx: report.ingest(tx, job))

    async def resume(self) -> None:
        """Startup task of the hub: continue jobs that other processes left, until the hub stops."""
        await self.jobs.resume()

    def _patience(self, params: IngestDocuments, call: Call) -> float:
        """Seconds to wait for the job. The CLI shows a progress bar and waits to the end; other doors return in
        time."""
        usual = math.inf if call.door == "cli" else self.settings.wait
        wait = usual if params.wait is None else params.wait
        return wait if call.deadline is None else call.remaining(wait)

    def _may_take(self, job: Job) -> bool:
        """True if this process can continue the job: it must run on the machine that has the files, and may read
        them."""
        if job.kind != KIND:
            return False
        request = Request.of(job)
        if request.host != self.host:
            return False
        try:
            self._roots(request).locate(request.path)
        except PathRefused:
            return False
        except FileNotFound:
            return True  # the job then fails with this error
        return True

    def _roots(self, request: Request) -> Roots:
        return self.allowed_paths.for_caller(shared=request.shared, stated=request.stated)

    async def _work(self, running: Running) -> None:
        job, request = running.job, Request.of(running.job)
        if request.shared:
            CURRENT.set(UNMETERED)
        roots = self._roots(request)
        located = await asyncio.to_thread(roots.locate, request.path)
        found = await self._plan(job, roots, located, request)
        total = found.added + found.changed + found.unchanged + len(found.failures) + len(found.wanted)
        start = Counts(
            done=total - len(found.wanted),
            total=total,
            added=found.added,
            changed=found.changed,
            unchanged=found.unchanged,
            removed=job.counts.removed,
            failed=len(found.failures),
        )
        reported = [one.as_dict() for one in found.failures[:MAX_FAILURES]]

        def begin(tx: Tx) -> None:
            running.advance(tx, start, reported)
            job_store.skip(tx, job, dict(found.skipped.most_common(MAX_KINDS)))

        await self.db.write(begin)
        running.counts = start
        preparing = Preparing(
            job=job,
            roots=roots,
            reader=self.reader,
            clock=self.clock,
            index=self.store.index,
            limit=self.settings.max_file,
            force=request.force,
            suspect=running.suspect,
            screen=self.screen,
            sightings=running.sightings,
        )
        self.sightings[job.id] = running.sightings
        batch = _Batch()
        async with aclosing(ahead(found.wanted, preparing.prepare)) as prepared:
            async for one in prepared:
                batch.add(one)
                if batch.full:
                    await self._keep(running, batch, reported, force=request.force)
                    batch = _Batch()
        if len(batch):
            await self._keep(running, batch, reported, force=request.force)
        for first in range(0, len(found.gone), REMOVED_AT_ONCE):
            await self._prune(running, found.gone[first : first + REMOVED_AT_ONCE], reported)

    async def _plan(self, job: Job, roots: Roots, located: Located, request: Request) -> Plan:
        known = await self.db.read(lambda tx: plan.known(tx, job.tenant, job.collection_id or ""))
        if not located.folder:
            return await asyncio.to_thread(plan.of_file, roots, located, known, request, job)
        stopped = threading.Event()
        try:
            return await asyncio.to_thread(plan.of_folder, roots, located, known, request, job, stopped.is_set)
        finally:
            stopped.set()

    async def _keep(self, running: Running, batch: _Batch, reported: list[dict[str, str]], *, force: bool) -> None:
        job, before, now = running.job, running.counts, self.clock()
        failures = [*reported, *(one.as_dict() for one in batch.failures)][:MAX_FAILURES]

        def work(tx: Tx) -> Counts:
            # Lock first: another job with the same files may be storing them right now.
            collection_store.lock(tx, job.tenant, [job.collection_id or ""])
            there = at_places(tx, job.tenant, [one.doc for one in batch.filings])
            placed = [(one, there.get((one.doc.collection_id, one.doc.place))) for one in batch.filings]
            fresh = [one for one, old in placed if force or old is None or old.hash != one.doc.hash]
            put = self.store.put_documents(tx, job.tenant, fresh, now)
            stale = [(one.known.id, one.mtime) for one in batch.same if one.mtime != one.known.mtime]
            plan.looked_at(tx, job.tenant, stale)
            own = [one.known for one in batch.same if one.known.job_id == job.id]
            added = sum(one.new for one in put) + sum(plan.is_new(known, job) for known in own)
            changed = sum(not one.new for one in put) + sum(not plan.is_new(known, job) for known in own)
            counts = replace(
                before,
                done=before.done + len(batch),
                added=before.added + added,
                changed=before.changed + changed,
                unchanged=before.unchanged + len(batch) - len(batch.failures) - added - changed,
                failed=before.failed + len(batch.failures),
            )
            running.advance(tx, counts, failures)
            return counts

        running.counts = await self.db.write(work)
        reported[:] = failures
        for path, became in batch.outcomes():
            log.debug("file", extra={"fields": {"job": job.id, "path": path, "became": became}})

    async def _prune(self, running: Running, gone: Sequence[plan.Known], reported: list[dict[str, str]]) -> None:
        ids = await asyncio.to_thread(lambda: [one.id for one in gone if plan.has_vanished(one.path)])
        job, before, now = running.job, running.counts, self.clock()

        def work(tx: Tx) -> Counts:
            removed = self.store.remove_documents(tx, job.tenant, ids, now)
            counts = replace(before, removed=before.removed + len(removed))
            running.advance(tx, counts, reported)
            return counts

        running.counts = await self.db.write(work)


async def ahead(
    wanted: Sequence[Wanted], prepare: Callable[[Wanted], Awaitable[Prepared]]
) -> AsyncGenerator[Prepared, None]:
    """Prepare files concurrently and yield the outcomes in order. Close it when leaving early: tasks may still be
    running."""
    waiting: deque[tuple[Wanted, asyncio.Future[Prepared]]] = deque()
    room = AHEAD_BYTES
    try:
        for one in wanted:
            while waiting and (len(waiting) == AHEAD or one.file.size > room):
                yield await _outcome(*waiting[0])
                room += waiting.popleft()[0].file.size
            room -= one.file.size
            waiting.append((one, asyncio.ensure_future(prepare(one))))
        while waiting:
            yield await _outcome(*waiting[0])
            waiting.popleft()
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)


async def _outcome(wanted: Wanted, task: asyncio.Future[Prepared]) -> Prepared:
    """Return the outcome of a file. An unexpected exception is that file's failure: the other files are still read."""
    await asyncio.wait({task})
    problem = task.exception()
    if problem is None:
        return task.result()
    log.error("%s could not be prepared", wanted.path, exc_info=problem)
    return Failure(wanted.path, UNEXPECTED, "INTERNAL")


def _need_kind(located: Located, params: IngestDocuments) -> None:
    found = "folder" if located.folder else "file"
    if params.kind not in (None, found):
        again = Op("ingest_documents", path=params.path, collection=params.collection)
        raise WrongKind(
            f"'{params.path}' is a {found}, not a {params.kind}.",
            guidance=Hint("To add it, call ", again, "."),
            path=params.path,
        )


def _located(roots: Roots, path: str) -> Located:
    located = roots.locate(path)
    try:
        str(located.path).encode()
    except UnicodeEncodeError:
        why = "Its name is not UTF-8."
        raise PathRefused(why, guidance="Rename it and try again.") from None
    return located
