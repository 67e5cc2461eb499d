"""An ingest as a job: progress, waiting, cancelling, and going on after a process stopped or fell silent."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.research.factories import Desk, settings
from tests.research.ingest_folder import Gated, IngestFolder, Plain

from kho import parsers
from kho.kernel.call import Call
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND
from kho.lib.tenancy import for_all_tenants
from kho.research import model
from kho.research.errors import JobNotFound
from kho.research.ingest import job_store, jobs, service
from kho.research.ingest.allowed_paths import Located
from kho.research.ingest.jobs import JobLimits
from kho.research.ingest.plan import Failure, Wanted
from kho.research.ingest.prepare import Prepared
from kho.research.ingest.walk import File
from kho.research.model import JobAnswer

FILES = 70
LIMITS = JobLimits(first_look=0.0, look_every=0.01)


@pytest.fixture
async def shelf(desk: Desk, tmp_path: Path) -> AsyncIterator[IngestFolder]:
    shelf = IngestFolder(desk, tmp_path / "notes", reader=Gated(free=40), job_limits=LIMITS)
    shelf.folder.mkdir()
    shelf.many(FILES)
    await desk.collection("create", "papers")
    yield shelf
    gated(shelf).gate.set()
    await shelf.background.drain()


def gated(shelf: IngestFolder) -> Gated:
    assert isinstance(shelf.reader, Gated)
    return shelf.reader


def another(shelf: IngestFolder) -> IngestFolder:
    """As another process would be."""
    return IngestFolder(shelf.desk, shelf.folder, shelf.clock, Plain(), job_limits=LIMITS)


async def status(shelf: IngestFolder, id: str) -> JobAnswer:
    return await shelf.reports.job_status(model.JobById(job_id=id), shelf.desk.call())


async def cancel(shelf: IngestFolder, id: str) -> JobAnswer:
    return await shelf.reports.cancel_job(model.JobById(job_id=id), shelf.desk.call())


async def test_past_the_wait_the_answer_is_a_job_that_goes_on(shelf: IngestFolder) -> None:
    answer = await shelf.answer(wait=0)
    assert (answer.status, answer.job.state) == ("running", "running")
    assert f'ingest_status(job_id="{answer.job.job_id}")' in answer.message
    await gated(shelf).reached.wait()
    halfway = await shelf.until(answer.job.job_id, lambda row: row.counts.done > 0)
    assert (halfway.counts.total, halfway.counts.done) == (FILES, 32)
    assert len(await shelf.docs()) == 32
    assert (await status(shelf, answer.job.job_id)).job.added == 32
    gated(shelf).gate.set()
    await shelf.until(answer.job.job_id, lambda row: row.finished_at is not None)
    shown = await status(shelf, answer.job.job_id)
    assert (shown.job.state, shown.job.added, shown.job.done) == ("done", FILES, FILES)
    listed = await shelf.reports.list_jobs(model.ListJobs(limit=5), shelf.desk.call())
    assert [job.job_id for job in listed.jobs] == [answer.job.job_id]
    with pytest.raises(JobNotFound):
        await status(replace(shelf, desk=shelf.desk.neighbour()), answer.job.job_id)


async def test_somebody_who_waits_hears_how_far_it_is(shelf: IngestFolder) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        heard.append((done, total, message))
        if done:
            gated(shelf).gate.set()

    job = await shelf.ingest(call=shelf.desk.call(progress=progress))
    assert job.added == FILES
    assert (32, FILES, f"32 of {FILES} files") in heard
    assert [done for done, _, _ in heard] == sorted({done for done, _, _ in heard})


async def test_the_command_line_waits_to_the_end(shelf: IngestFolder) -> None:
    impatient = IngestFolder(shelf.desk, shelf.folder, shelf.clock, shelf.reader, settings=settings(wait=0))
    assert (await impatient.answer()).status == "running"
    gated(shelf).gate.set()
    done = await impatient.answer(call=Call(shelf.desk.call().principal, "cli"))
    assert done.status == "success"
    await impatient.background.drain()


async def test_who_gives_up_the_call_cancels_the_job(shelf: IngestFolder) -> None:
    waiting = asyncio.ensure_future(shelf.ingest())
    await gated(shelf).reached.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    [job] = (await shelf.reports.list_jobs(model.ListJobs(limit=5), shelf.desk.call())).jobs
    row = await shelf.until(job.job_id, lambda row: row.finished_at is not None)
    assert row.state == "cancelled"
    gated(shelf).gate.set()
    await shelf.background.drain()
    kept = len(await shelf.docs())
    assert kept in (0, 32)  # whole batches only
    rest = await another(shelf).ingest()
    assert (rest.added, rest.unchanged) == (FILES - kept, kept)


async def test_any_process_can_cancel(shelf: IngestFolder) -> None:
    shelf = replace(shelf, job_limits=replace(LIMITS, renew_every=0.01))
    waiting = asyncio.ensure_future(shelf.answer())
    await gated(shelf).reached.wait()
    [job] = (await shelf.reports.list_jobs(model.ListJobs(limit=5), shelf.desk.call())).jobs
    other = another(shelf)
    assert (await cancel(other, job.job_id)).job.state == "cancelled"
    answer = await waiting
    assert (answer.status, answer.job.state) == ("error", "cancelled")
    assert "cancelled" in answer.message
    assert "already ended" in (await cancel(other, job.job_id)).message
    await shelf.background.drain()  # it ends although the gate is shut


async def test_a_hub_that_stops_lets_another_go_on_at_once(shelf: IngestFolder) -> None:
    answer = await shelf.answer(wait=0)
    id = answer.job.job_id
    await gated(shelf).reached.wait()
    await shelf.until(id, lambda row: row.counts.done > 0)
    await shelf.background.drain()
    left = await shelf.row(id)
    assert (left.state, left.owner, left.lease_until) == ("running", None, 0)
    others = [another(shelf), another(shelf)]
    for other in others:
        other.background.add(for_all_tenants(other.service.resume))
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    for other in others:
        await other.background.drain()
    # As if nothing had happened: those of before count as added, too.
    assert (row.state, row.counts) == ("done", job_store.Counts(done=FILES, total=FILES, added=FILES))
    assert len(await shelf.docs()) == FILES


async def test_a_silent_process_loses_its_job_and_notices(shelf: IngestFolder) -> None:
    answer = await shelf.answer(wait=0)
    id = answer.job.job_id
    await gated(shelf).reached.wait()
    await shelf.until(id, lambda row: row.counts.done > 0)
    other = another(shelf)
    other.background.add(for_all_tenants(other.service.resume))
    shelf.clock.now += LIMITS.lease + SECOND
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    assert (row.state, row.counts.added) == ("done", FILES)
    gated(shelf).gate.set()
    await shelf.background.drain()
    assert (await shelf.row(id)) == row
    await other.background.drain()


async def test_a_file_that_may_have_ended_a_hub_is_read_at_a_distance(shelf: IngestFolder) -> None:
    """Plain files are read in the hub. One that it died of would be its end again and again."""
    shelf.write("part2/zz-deadly.txt", "a word or two, " * 1_500_000)
    id = (await shelf.answer(wait=0)).job.job_id
    await gated(shelf).reached.wait()
    async with parsers.Worker(parsers.ParserLimits(memory=64 * 2**20)) as worker:
        other = IngestFolder(shelf.desk, shelf.folder, shelf.clock, worker, job_limits=LIMITS)
        other.background.add(for_all_tenants(other.service.resume))
        shelf.clock.now += LIMITS.lease + SECOND
        row = await shelf.until(id, lambda row: row.finished_at is not None)
        await other.background.drain()
    assert (row.state, row.counts.added, row.counts.failed) == ("done", FILES, 1)
    [bad] = row.report
    assert bad["path"].endswith("zz-deadly.txt")
    assert "more than 64 MB of memory" in bad["reason"]
    gated(shelf).gate.set()
    await shelf.background.drain()


async def test_a_process_does_not_take_over_from_itself(shelf: IngestFolder, caplog: pytest.LogCaptureFixture) -> None:
    id = (await shelf.answer(wait=0)).job.job_id
    await gated(shelf).reached.wait()
    shelf.clock.now += LIMITS.lease + SECOND
    shelf.background.add(for_all_tenants(shelf.service.resume))
    await another(shelf).ingest("part0")  # time for many looks
    gated(shelf).gate.set()
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    assert (row.state, row.counts.done) == ("done", FILES)
    await shelf.background.drain()
    assert caplog.records == []


async def test_an_interrupted_force_reads_nothing_twice(shelf: IngestFolder) -> None:
    await another(shelf).ingest()
    shelf.clock.now += SECOND
    id = (await shelf.answer(wait=0, force=True)).job.job_id
    await gated(shelf).reached.wait()
    await shelf.until(id, lambda row: row.counts.done > 0)
    await shelf.background.drain()

    class Counting(Plain):
        count = 0

        async def read(self, data: bytes, name: str, *, suspect: bool = False) -> parsers.ParsedFile:
            self.count += 1
            assert not suspect  # the hub before stopped in good order
            return await super().read(data, name)

    other = IngestFolder(shelf.desk, shelf.folder, shelf.clock, Counting(), job_limits=LIMITS)
    other.background.add(for_all_tenants(other.service.resume))
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    await other.background.drain()
    assert (row.counts.changed, row.counts.added) == (FILES, 0)
    assert isinstance(other.reader, Counting)
    assert other.reader.count == FILES - 32


async def test_jobs_wait_for_their_turn(shelf: IngestFolder) -> None:
    gated(shelf).free = 0
    answers = [await shelf.answer(wait=0) for _ in range(LIMITS.at_once + 2)]
    assert [answer.job.state for answer in answers] == ["running"] * LIMITS.at_once + ["queued"] * 2
    assert "waiting in the queue" in answers[-1].message
    await cancel(shelf, answers[-1].job.job_id)
    shelf.background.add(for_all_tenants(shelf.service.resume))
    gated(shelf).gate.set()
    rows = [await shelf.until(one.job.job_id, lambda row: row.finished_at is not None) for one in answers]
    assert [row.state for row in rows] == ["done"] * (LIMITS.at_once + 1) + ["cancelled"]
    # The same folder several times at once: nothing is doubled, and each file counts as new once.
    assert sum(row.counts.added for row in rows) == FILES
    assert len(await shelf.docs()) == FILES


async def test_a_job_of_another_machine_is_left_alone_and_given_up_in_the_end(shelf: IngestFolder) -> None:
    id = (await shelf.answer(wait=0)).job.job_id
    await gated(shelf).reached.wait()
    await shelf.background.drain()

    def elsewhere(tx: Tx) -> int:
        row = job_store.need(tx, shelf.desk.tenant, id)
        request = {**row.request, "host": "elsewhere"}
        tx.run("DELETE FROM research_jobs WHERE tenant = $1 AND id = $2", shelf.desk.tenant, id)
        job_store.create(tx, replace(row, request=request))
        return row.updated_at

    since = await shelf.desk.db.write(elsewhere)
    other = another(shelf)
    other.background.add(for_all_tenants(other.service.resume))
    await other.ingest()
    assert (await shelf.row(id)).state == "running"
    shelf.clock.now = since + LIMITS.given_up_after + SECOND
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    assert (row.state, row.error) == ("failed", jobs.GIVEN_UP)
    await other.background.drain()


async def test_a_stored_job_with_too_many_patterns_fails_and_is_not_taken_up_again(shelf: IngestFolder) -> None:
    """Such a job may be there from a version that took it."""
    id = (await shelf.answer(wait=0)).job.job_id
    await gated(shelf).reached.wait()
    await shelf.background.drain()

    def with_braces(tx: Tx) -> None:
        row = job_store.need(tx, shelf.desk.tenant, id)
        tx.run("DELETE FROM research_jobs WHERE tenant = $1 AND id = $2", shelf.desk.tenant, id)
        job_store.create(tx, replace(row, request={**row.request, "patterns": ("{a,b}" * 40).split(",")}))

    await shelf.desk.db.write(with_braces)
    other = another(shelf)
    other.background.add(for_all_tenants(other.service.resume))
    row = await shelf.until(id, lambda row: row.finished_at is not None)
    assert row.state == "failed"
    assert "'patterns' stands for more than 100 patterns" in (row.error or "")
    await other.background.drain()


async def test_a_collection_that_is_deleted_meanwhile_ends_the_job(shelf: IngestFolder) -> None:
    waiting = asyncio.ensure_future(shelf.answer())
    await gated(shelf).reached.wait()
    await shelf.desk.collection("delete", "papers", confirm=True)
    gated(shelf).gate.set()
    answer = await waiting
    assert (answer.status, answer.job.state) == ("error", "failed")
    assert "deleted meanwhile" in answer.message
    assert await shelf.desk.count("passages") == 0


async def test_few_files_are_in_memory_at_a_time_and_a_large_one_alone(tmp_path: Path) -> None:
    inside: list[int] = []
    most: list[list[int]] = []

    async def prepare(wanted: Wanted) -> Prepared:
        inside.append(wanted.file.size)
        most.append([*inside])
        for _ in range(3):
            await asyncio.sleep(0)
        inside.remove(wanted.file.size)
        return Failure(wanted.path, "", "")

    sizes = [10, 20, 30, 40, 50, service.AHEAD_BYTES - 5, service.AHEAD_BYTES * 3, 60, 70]
    wanted = [Wanted(File(Located(tmp_path, tmp_path, False), "", size, 0), str(size), None) for size in sizes]
    came = [one async for one in service.ahead(wanted, prepare)]
    assert [one.path for one in came if isinstance(one, Failure)] == [str(size) for size in sizes]
    assert max(map(len, most)) == service.AHEAD
    assert all(len(held) == 1 for held in most if max(held) > service.AHEAD_BYTES // 2)
