"""Counting returns: in batches, after a pause, each exactly once."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal, cast

from tests.timeouts import PATIENCE

from kho.experiences import service
from kho.experiences.service import UsageCounter
from kho.experiences.store import Store
from kho.kernel.background import Background
from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Tx


class Writes:
    """A database that only writes, and can be told to fail."""

    engine: Literal["sqlite"] = "sqlite"

    def __init__(self) -> None:
        self.batches: list[dict[tuple[str, str], int]] = []
        self.failures = 0
        self.written = asyncio.Event()

    async def write(self, work: Callable[[Tx], Any]) -> Any:
        if self.failures:
            self.failures -= 1
            raise DatabaseError
        work(cast(Tx, self))
        self.written.set()

    def many(self, sql: str, rows: list[tuple[int, int, str, str]]) -> None:
        self.batches.append({(tenant, id): times for times, _, tenant, id in rows})

    @property
    def total(self) -> Counter[tuple[str, str]]:
        return sum((Counter(batch) for batch in self.batches), Counter[tuple[str, str]]())


def counting(db: Writes) -> tuple[UsageCounter, Background]:
    background = Background()
    return UsageCounter(cast(Any, db), Store(cast(Any, None)), background, lambda: 1), background


async def test_what_comes_together_is_written_together() -> None:
    db = Writes()
    used, background = counting(db)
    for _ in range(50):
        used.add("t", ["a", "b"])
    used.add("u", ["a"])
    await background.drain()
    assert db.batches == [{("t", "a"): 50, ("t", "b"): 50, ("u", "a"): 1}]


async def test_counts_are_written_within_a_second_without_any_end() -> None:
    assert service.COUNT_INTERVAL < 1
    db = Writes()
    used, background = counting(db)
    used.add("t", ["a"])
    async with asyncio.timeout(PATIENCE):
        await db.written.wait()
    assert db.total == {("t", "a"): 1}
    await background.drain()


async def test_nothing_is_written_where_nothing_was_returned() -> None:
    db = Writes()
    used, background = counting(db)
    used.add("t", [])
    await background.drain()
    assert db.batches == []


async def test_a_failed_batch_is_tried_again_and_counted_once() -> None:
    db = Writes()
    db.failures = service.COUNT_RETRIES - 1
    used, background = counting(db)
    used.add("t", ["a", "b"])
    await background.drain()
    assert db.total == {("t", "a"): 1, ("t", "b"): 1}


async def test_after_too_many_failures_the_counts_wait_for_the_next_query() -> None:
    db = Writes()
    db.failures = service.COUNT_RETRIES
    used, background = counting(db)
    used.add("t", ["a"])
    await background.drain()
    assert db.batches == []
    used.add("t", ["a", "b"])
    await background.drain()
    assert db.total == {("t", "a"): 2, ("t", "b"): 1}
