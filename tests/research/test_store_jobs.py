"""Jobs: one owner at a time, progress that survives, cancelling."""

import asyncio
from dataclasses import replace

from tests.research.desk import Desk
from tests.research.shelf import Still

from kho.kernel.ports import Tx
from kho.lib.clock import SECOND
from kho.research import store_jobs
from kho.storage.leases import SqlLeases

MINUTE = 60 * SECOND


class Process:
    """One of several that work on the same jobs: its lease is its own, the time is everybody's."""

    def __init__(self, clock: Still) -> None:
        self.clock = clock
        self.leases = SqlLeases(clock)
        self.lease = store_jobs.lease(self.leases, MINUTE)

    def claim(self, tx: Tx, tenant: str, id: str) -> store_jobs.Job | None:
        return store_jobs.claim(tx, self.lease, tenant, id, self.clock())

    def advance(self, tx: Tx, job: store_jobs.Job, counts: store_jobs.Counts, report: list[dict[str, str]]) -> bool:
        return store_jobs.advance(tx, self.lease, job, counts, report, self.clock())


async def test_a_job_has_one_owner_at_a_time_and_can_be_cancelled(desk: Desk) -> None:
    clock = Still()
    now = clock()
    made = store_jobs.Job(desk.tenant, "j", "ingest", "queued", {}, None, "me", now, now)
    write = desk.db.write
    await write(lambda tx: store_jobs.create(tx, made))
    waiting = await desk.db.read(lambda tx: store_jobs.abandoned(tx, now, 100))
    assert "j" in {one.id for one in waiting if one.tenant == desk.tenant}
    processes = [Process(clock) for _ in range(3)]
    claims = await asyncio.gather(*(write(lambda tx, me=me: me.claim(tx, desk.tenant, "j")) for me in processes))
    [(owner, job)] = [(me, one) for me, one in zip(processes, claims, strict=True) if one is not None]
    assert (job.state, job.owner) == ("running", owner.leases.holder)
    counts = store_jobs.Counts(done=3, total=7, added=2, failed=1)
    failures = [{"path": f"/x/{n}", "reason": "broken"} for n in range(store_jobs.MAX_FAILURES + 5)]
    assert await write(lambda tx: owner.advance(tx, job, counts, failures))
    other = next(me for me in processes if me is not owner)
    assert not await write(lambda tx: other.advance(tx, job, counts, []))
    shown = await desk.db.read(lambda tx: store_jobs.need(tx, desk.tenant, "j"))
    assert (shown.counts, len(shown.report)) == (counts, store_jobs.MAX_FAILURES)
    # When the lease has run out another goes on; the first one notices.
    assert await write(lambda tx: other.claim(tx, desk.tenant, "j")) is None
    clock.now += MINUTE
    taken = await write(lambda tx: other.claim(tx, desk.tenant, "j"))
    assert taken is not None
    assert taken.counts == counts
    assert not await write(lambda tx: owner.advance(tx, job, counts, []))
    assert await write(lambda tx: store_jobs.cancel(tx, desk.tenant, "j", now))
    assert not await write(lambda tx: other.advance(tx, taken, counts, []))
    assert not await write(lambda tx: store_jobs.finish(tx, other.lease, taken, "done", None, now))
    assert not await write(lambda tx: store_jobs.cancel(tx, desk.tenant, "j", now))


async def test_a_finished_job_and_one_that_is_let_go(desk: Desk) -> None:
    me = Process(Still())
    now = me.clock()
    made = store_jobs.Job(desk.tenant, "one", "ingest", "queued", {}, None, "me", now, now)

    def work(tx: Tx) -> tuple[str, str | None, bool]:
        for id in ("one", "two"):
            store_jobs.create(tx, replace(made, id=id))
            assert me.claim(tx, desk.tenant, id)
        assert store_jobs.finish(tx, me.lease, made, "failed", "the disk is full", now + 5)
        me.lease.release(tx, desk.tenant, "two")
        failed = store_jobs.need(tx, desk.tenant, "one")
        free = {job.id for job in store_jobs.abandoned(tx, now, 1000) if job.tenant == desk.tenant}
        return failed.state, failed.error, free == {"two"}

    assert await desk.db.write(work) == ("failed", "the disk is full", True)
