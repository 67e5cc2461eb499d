"""Jobs: one owner at a time, progress that survives, cancelling."""

import asyncio
from dataclasses import replace

from tests.research.factories import Desk
from tests.research.ingest_folder import Still

from kho.kernel.ports import Tx
from kho.lib.clock import SECOND
from kho.research.ingest import job_store
from kho.storage.leases import SqlLeases

MINUTE = 60 * SECOND


class Process:
    """One of several that work on the same jobs: its lease is its own, the time is everybody's."""

    def __init__(self, clock: Still) -> None:
        self.clock = clock
        self.leases = SqlLeases(clock)
        self.lease = job_store.lease(self.leases, MINUTE)

    def claim(self, tx: Tx, tenant: str, id: str) -> job_store.Job | None:
        return job_store.claim(tx, self.lease, tenant, id, self.clock())

    def advance(self, tx: Tx, job: job_store.Job, counts: job_store.Counts, report: list[dict[str, str]]) -> bool:
        return job_store.advance(tx, self.lease, job, counts, report, self.clock())


async def test_a_job_has_one_owner_at_a_time_and_can_be_cancelled(desk: Desk) -> None:
    clock = Still()
    now = clock()
    made = job_store.Job(desk.tenant, "j", "ingest", "queued", {}, None, "me", now, now)
    write = desk.db.write
    await write(lambda tx: job_store.create(tx, made))
    waiting = await desk.db.read(lambda tx: job_store.abandoned(tx, now, 100))
    assert "j" in {one.id for one in waiting if one.tenant == desk.tenant}
    processes = [Process(clock) for _ in range(3)]
    claims = await asyncio.gather(*(write(lambda tx, me=me: me.claim(tx, desk.tenant, "j")) for me in processes))
    [(owner, job)] = [(me, one) for me, one in zip(processes, claims, strict=True) if one is not None]
    assert (job.state, job.owner) == ("running", owner.leases.holder)
    counts = job_store.Counts(done=3, total=7, added=2, failed=1)
    failures = [{"path": f"/x/{n}", "reason": "broken"} for n in range(job_store.MAX_FAILURES + 5)]
    assert await write(lambda tx: owner.advance(tx, job, counts, failures))
    other = next(me for me in processes if me is not owner)
    assert not await write(lambda tx: other.advance(tx, job, counts, []))
    shown = await desk.db.read(lambda tx: job_store.need(tx, desk.tenant, "j"))
    assert (shown.counts, len(shown.report)) == (counts, job_store.MAX_FAILURES)
    # When the lease has run out another goes on; the first one notices.
    assert await write(lambda tx: other.claim(tx, desk.tenant, "j")) is None
    clock.now += MINUTE
    taken = await write(lambda tx: other.claim(tx, desk.tenant, "j"))
    assert taken is not None
    assert taken.counts == counts
    assert not await write(lambda tx: owner.advance(tx, job, counts, []))
    assert await write(lambda tx: job_store.cancel(tx, desk.tenant, "j", now))
    assert not await write(lambda tx: other.advance(tx, taken, counts, []))
    assert not await write(lambda tx: job_store.finish(tx, other.lease, taken, "done", None, now))
    assert not await write(lambda tx: job_store.cancel(tx, desk.tenant, "j", now))


async def test_a_finished_job_and_one_that_is_let_go(desk: Desk) -> None:
    me = Process(Still())
    now = me.clock()
    made = job_store.Job(desk.tenant, "one", "ingest", "queued", {}, None, "me", now, now)

    def work(tx: Tx) -> tuple[str, str | None, bool]:
        for id in ("one", "two"):
            job_store.create(tx, replace(made, id=id))
            assert me.claim(tx, desk.tenant, id)
        assert job_store.finish(tx, me.lease, made, "failed", "the disk is full", now + 5)
        me.lease.release(tx, desk.tenant, "two")
        failed = job_store.need(tx, desk.tenant, "one")
        free = {job.id for job in job_store.abandoned(tx, now, 1000) if job.tenant == desk.tenant}
        return failed.state, failed.error, free == {"two"}

    assert await desk.db.write(work) == ("failed", "the disk is full", True)
