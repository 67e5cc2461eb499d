"""Work that follows an answer."""

import asyncio
import logging

import pytest
from tests.timeouts import PATIENCE

from kho.kernel.background import Background


async def test_drain_waits_for_everything_even_what_work_adds() -> None:
    background, done = Background(), list[str]()
    gate = asyncio.Event()

    async def first() -> None:
        await gate.wait()
        done.append("first")
        background.add(second)

    async def second() -> None:
        done.append("second")

    background.add(first)
    draining = asyncio.create_task(background.drain())
    await asyncio.sleep(0)
    assert not draining.done()
    gate.set()
    await draining
    assert done == ["first", "second"]


async def test_drain_ends_pauses() -> None:
    background, done = Background(), list[str]()

    async def patient() -> None:
        await background.pause(3600)
        done.append("woken")

    background.add(patient)
    async with asyncio.timeout(PATIENCE):
        await background.drain()
        await background.pause(3600)  # from now on nobody pauses
    assert done == ["woken"]


async def test_a_pause_ends_by_itself() -> None:
    async with asyncio.timeout(PATIENCE):
        await Background().pause(0.001)


async def test_a_failure_is_logged_and_takes_nothing_else_down(caplog: pytest.LogCaptureFixture) -> None:
    background, done = Background(), list[str]()

    async def fail() -> None:
        raise RuntimeError("no luck")

    async def succeed() -> None:
        done.append("done")

    with caplog.at_level(logging.ERROR):
        background.add(fail)
        background.add(succeed)
        await background.drain()
    assert done == ["done"]
    assert "no luck" in caplog.text
