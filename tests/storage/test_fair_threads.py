import asyncio
import threading

import pytest

from kho.storage.fair_threads import FairThreads


async def test_owners_take_turns_however_much_one_has_waiting() -> None:
    threads, order, begun, go = FairThreads(1, "fair"), list[str](), threading.Event(), threading.Event()
    first = threads.run("one", lambda: (begun.set(), go.wait()))
    await asyncio.to_thread(begun.wait)
    many = [threads.run("one", lambda: order.append("one")) for _ in range(50)]
    late = [threads.run(owner, lambda owner=owner: order.append(owner)) for owner in ("two", "three", "two")]
    go.set()
    await asyncio.gather(first, *many, *late)
    assert order[:6] == ["one", "two", "three", "one", "two", "one"]
    assert len(order) == 53
    threads.shutdown()


async def test_answers_and_errors_reach_those_who_wait() -> None:
    threads = FairThreads(2, "fair")
    assert await threads.run(None, lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await threads.run(None, lambda: 1 // 0)
    assert await threads.run(None, threading.get_ident) != threading.get_ident()
    threads.shutdown()


async def test_what_is_cancelled_while_it_waits_is_never_begun() -> None:
    threads, done, begun, go = FairThreads(1, "fair"), list[int](), threading.Event(), threading.Event()
    first = threads.run("one", lambda: (begun.set(), go.wait()))
    await asyncio.to_thread(begun.wait)
    second, third = threads.run("one", lambda: done.append(2)), threads.run("one", lambda: done.append(3))
    second.cancel()
    await asyncio.sleep(0)  # the loop passes it on
    go.set()
    await asyncio.gather(first, third)
    assert done == [3]
    threads.shutdown()


async def test_what_waits_is_done_before_they_end_and_nothing_is_taken_after() -> None:
    threads, done = FairThreads(1, "fair"), list[int]()
    waiting = [threads.run("one", lambda number=number: done.append(number)) for number in range(20)]
    await asyncio.to_thread(threads.shutdown)
    await asyncio.gather(*waiting)
    assert done == list(range(20))
    with pytest.raises(RuntimeError):
        threads.run("one", lambda: None)
    threads.shutdown()
