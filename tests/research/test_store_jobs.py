"""Jobs: one owner at a time, progress that survives, cancelling."""

import asyncio
from dataclasses import replace

from tests.research.desk import Desk

from kho.kernel.ports import Tx
from kho.research import store_jobs


async def test_a_job_has_one_owner_at_a_time_and_can_be_cancelled(desk: Desk) -> None:
    now = desk.clock()
    made = store_jobs.Job(desk.tenant, "j", "ingest", "queued", {}, None, "me", store_jobs.Counts(), now, now)
    write = desk.db.write
    await write(lambda tx: store_jobs.create(tx, made))
    waiting = await desk.db.read(lambda tx: store_jobs.abandoned(tx, now, 100))
    assert "j" in {one.id for one in waiting if one.tenant == desk.tenant}
    claims = await asyncio.gather(
        *(write(lambda tx, me=me: store_jobs.claim(tx, desk.tenant, "j", me, now, now + 60)) for me in "abc")
    )
    [(owner, job)] = [(me, one) for me, one in zip("abc", claims, strict=True) if one is not None]
    assert (job.state, job.owner) == ("running", owner)
    counts = store_jobs.Counts(done=3, total=7, added=2, failed=1)
    failures = [{"path": f"/x/{n}", "reason": "broken"} for n in range(store_jobs.MOST_FAILURES + 5)]
    assert await write(lambda tx: store_jobs.advance(tx, job, owner, counts, failures, now + 1, now + 61))
    assert not await write(lambda tx: store_jobs.advance(tx, job, "other", counts, [], now, now))
    shown = await desk.db.read(lambda tx: store_jobs.need(tx, desk.tenant, "j"))
    assert (shown.counts, len(shown.report)) == (counts, store_jobs.MOST_FAILURES)
    # When the lease has run out another goes on; the first one notices.
    taken = await write(lambda tx: store_jobs.claim(tx, desk.tenant, "j", "later", now + 100, now + 200))
    assert taken is not None
    assert taken.counts == counts
    assert not await write(lambda tx: store_jobs.advance(tx, job, owner, counts, [], now + 101, now + 161))
    assert await write(lambda tx: store_jobs.cancel(tx, desk.tenant, "j", now + 102))
    assert not await write(lambda tx: store_jobs.advance(tx, taken, "later", counts, [], now + 103, now + 163))
    assert not await write(lambda tx: store_jobs.finish(tx, taken, "later", "done", None, now + 104))
    assert not await write(lambda tx: store_jobs.cancel(tx, desk.tenant, "j", now + 105))


async def test_a_finished_job_and_one_that_is_let_go(desk: Desk) -> None:
    now = desk.clock()
    made = store_jobs.Job(desk.tenant, "one", "ingest", "queued", {}, None, "me", store_jobs.Counts(), now, now)

    def work(tx: Tx) -> tuple[str, str | None, bool]:
        for id in ("one", "two"):
            store_jobs.create(tx, replace(made, id=id))
            assert store_jobs.claim(tx, desk.tenant, id, "me", now, now + 60)
        assert store_jobs.finish(tx, made, "me", "failed", "the disk is full", now + 5)
        store_jobs.release(tx, replace(made, id="two"), "me")
        failed = store_jobs.need(tx, desk.tenant, "one")
        free = {job.id for job in store_jobs.abandoned(tx, now, 1000) if job.tenant == desk.tenant}
        return failed.state, failed.error, free == {"two"}

    assert await desk.db.write(work) == ("failed", "the disk is full", True)
