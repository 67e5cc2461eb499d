"""What the chain over the audit trail costs: python -m bench.audit [--quick]

Writers add rows to the trail with and without the chain, in turns: the same database without the trigger that lets rows
wait for their link, with it, and with a sealer that works all the time. Then CPU for each row that is sealed and
verified. The CPU of PostgreSQL is its client's only.
"""

import argparse
import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from statistics import median

from bench.storage import Figure, Store, insert_with_words, measure, opened

from kho.audit.sealer import Sealer
from kho.audit.verification import Verification
from kho.kernel.audit import AuditEvent, record
from kho.kernel.background import Background
from kho.kernel.ports import Tx
from kho.lib.clock import system_clock
from kho.storage.leases import SqlLeases

TENANT = "tenant"
TRIGGER = "audit_waits_for_its_link"
TAKE_AWAY = {"sqlite": f"DROP TRIGGER {TRIGGER}", "postgres": f"ALTER TABLE audit DISABLE TRIGGER {TRIGGER}"}
GIVE_BACK = {
    "sqlite": f"CREATE TRIGGER {TRIGGER} AFTER INSERT ON audit "
    "BEGIN INSERT INTO audit_unsealed (tenant, number) VALUES (NEW.tenant, NEW.number); END",
    "postgres": f"ALTER TABLE audit ENABLE TRIGGER {TRIGGER}",
}
WRITERS = 8


def write_row(tx: Tx, number: int) -> None:
    event = AuditEvent(
        tenant=TENANT,
        operation="update_document",
        capability="documents",
        subject=f"handbook/chapter-{number}",
        actor="minh@example.com",
        reason="the figures of last year were wrong",
        request_id=f"01234567-89ab-cdef-0123-{number:012}",
        details={"before_revision": number, "after_revision": number + 1, "title": "Hiệu suất năm ngoái"},
    )
    record(tx, event)


def sealer_of(store: Store, background: Background) -> Sealer:
    leases = SqlLeases(system_clock)
    return Sealer(db=store.db, background=background, clock=system_clock, leases=leases)


async def beside_a_sealer(store: Store, work: Callable[[Tx, int], None], seconds: float) -> Figure:
    """Writers while a sealer never rests. It has to catch up first with what was written before."""
    background = Background()
    sealer = sealer_of(store, background)
    await sealer.seal_all(TENANT)

    async def seal() -> None:
        while True:
            await sealer.step()
            await asyncio.sleep(0)

    sealing = asyncio.create_task(seal())
    try:
        return await measure(store.db, work, WRITERS, seconds)
    finally:
        sealing.cancel()
        with suppress(asyncio.CancelledError):
            await sealing


async def write_table(store: Store, name: str, work: Callable[[Tx, int], None], rounds: int, seconds: float) -> None:
    without: list[Figure] = []
    waiting: list[Figure] = []
    sealed: list[Figure] = []
    for _ in range(rounds):
        await store.db.write(lambda tx: tx.run(TAKE_AWAY[store.db.engine]))
        without.append(await measure(store.db, work, WRITERS, seconds))
        await store.db.write(lambda tx: tx.run(GIVE_BACK[store.db.engine]))
        waiting.append(await measure(store.db, work, WRITERS, seconds))
        sealed.append(await beside_a_sealer(store, work, seconds))
    speed = median(one.per_second for one in without)
    print(
        f"{store.name:<18} {name:<28} {speed:>9,.0f} {_ratio(waiting, without):>9.2f} {_ratio(sealed, without):>9.2f} "
        f"{median(one.cpu_micros for one in without):>8.0f} {median(one.cpu_micros for one in waiting):>8.0f}"
    )


def _ratio(some: Sequence[Figure], others: Sequence[Figure]) -> float:
    return median(one.per_second / other.per_second for one, other in zip(some, others, strict=True))


async def row_table(store: Store, rows: int) -> None:
    """CPU of a row that is written, sealed and verified, with nothing else going on."""
    sealer = sealer_of(store, Background())
    await sealer.seal_all(TENANT)
    cpu = [time.process_time()]
    await store.db.write(lambda tx: [write_row(tx, number) for number in range(rows)])
    cpu.append(time.process_time())
    began = time.perf_counter()
    await sealer.seal_all(TENANT)
    sealing = time.perf_counter() - began
    cpu.append(time.process_time())

    async def progress(done: int, total: int) -> None:
        return None

    began = time.perf_counter()
    trail = await Verification(store.db, TENANT).run(progress)
    verifying = time.perf_counter() - began
    cpu.append(time.process_time())
    wrote, sealed, verified = (
        (after - start) / count * 1e6
        for start, after, count in zip(cpu[:-1], cpu[1:], (rows, rows, trail.sealed), strict=True)
    )
    print(
        f"{store.name:<18} {wrote:>12.1f} {sealed:>11.1f} {rows / sealing:>10,.0f} {verified:>13.1f} "
        f"{trail.sealed / verifying:>12,.0f}"
    )


async def main(quick: bool) -> None:
    rounds, seconds, rows = (1, 0.3, 2_000) if quick else (5, 1.0, 20_000)
    random.seed(1)
    async with opened() as (sqlite, _, postgres):
        stores = (sqlite, postgres)
        print(f"{WRITERS} writers, writes/s without the chain; with it as a share of that; CPU µs of a write")
        columns = f"{'without':>9} {'with':>9} {'+ sealer':>9} {'without':>8} {'with':>8}"
        print(f"{'store':<18} {'what is written':<28} {columns}")
        for store in stores:
            with_words = insert_with_words(store.words)

            def a_write(tx: Tx, number: int, with_words: Callable[[Tx, int], None] = with_words) -> None:
                with_words(tx, number)
                write_row(tx, number)

            await write_table(store, "a row of the trail alone", write_row, rounds, seconds)
            await write_table(store, "with a row and 100 tokens", a_write, rounds, seconds)
        print(
            f"\n{'store':<18} {'written, µs':>12} {'sealed, µs':>11} {'rows/s':>10} {'verified, µs':>13} {'rows/s':>12}"
        )
        for store in stores:
            await row_table(store, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough figures")
    options = parser.parse_args()
    asyncio.run(main(options.quick))
