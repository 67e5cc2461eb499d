"""Turns: one of each owner, owner by owner, and none is lost when who waits goes away."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from kho.parsers.turns import Turns

pytestmark = pytest.mark.anyio


class Hall:
    """Visitors who come in by turns and stay until they are sent out. Named by their owner and a number."""

    def __init__(self, size: int) -> None:
        self.turns = Turns(size)
        self.inside: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}
        self._leave: dict[str, asyncio.Event] = {}

    async def comes(self, *visitors: str) -> None:
        for visitor in visitors:
            self._leave[visitor] = asyncio.Event()
            self.tasks[visitor] = asyncio.create_task(self._visit(visitor))
        await settled()

    async def leaves(self, visitor: str) -> None:
        self._leave[visitor].set()
        await self.tasks.pop(visitor)
        await settled()

    async def gives_up(self, visitor: str) -> None:
        task = self.tasks.pop(visitor)
        task.cancel()
        await asyncio.wait([task])
        await settled()

    async def _visit(self, visitor: str) -> None:
        async with self.turns.turn(visitor[0]):
            self.inside.append(visitor)
            try:
                await self._leave[visitor].wait()
            finally:
                self.inside.remove(visitor)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@asynccontextmanager
async def hall(size: int) -> AsyncGenerator[Hall]:
    made = Hall(size)
    try:
        yield made
    finally:
        for task in made.tasks.values():
            task.cancel()
        if made.tasks:
            await asyncio.wait(made.tasks.values())


async def test_one_of_each_owner_at_a_time() -> None:
    async with hall(2) as one:
        await one.comes("a1", "a2", "b1", "c1")
        assert one.inside == ["a1", "b1"]
        await one.leaves("b1")
        assert one.inside == ["a1", "c1"], "a has its turn already"
        await one.leaves("c1")
        assert one.inside == ["a1"]
        await one.leaves("a1")
        assert one.inside == ["a2"]


async def test_who_has_much_waiting_lets_the_others_in_between() -> None:
    async with hall(1) as one:
        await one.comes("a1", "a2", "a3", "b1", "c1")
        order: list[str] = []
        while one.inside:
            [visitor] = one.inside
            order.append(visitor)
            await one.leaves(visitor)
        assert order == ["a1", "b1", "c1", "a2", "a3"] or order == ["a1", "a2", "b1", "c1", "a3"]
        assert order.index("b1") < order.index("a3")


async def test_who_goes_away_takes_no_turn_with_it() -> None:
    async with hall(1) as one:
        await one.comes("a1", "b1", "b2", "c1")
        await one.gives_up("b1")
        await one.gives_up("a1")
        assert one.inside in (["b2"], ["c1"])
        await one.leaves(one.inside[0])
        await one.leaves(one.inside[0])
        assert one.inside == []
        await one.comes("d1")
        assert one.inside == ["d1"]


async def test_who_is_cancelled_just_as_its_turn_begins_gives_it_back() -> None:
    async with hall(1) as one:
        await one.comes("a1", "b1", "c1")
        one._leave["a1"].set()  # pyright: ignore[reportPrivateUsage]
        await one.tasks.pop("a1")  # b1 has been let in, and has not run since
        await one.gives_up("b1")
        assert one.inside == ["c1"]
