"""Turns for owners who share something slow: one of each owner at a time, and who waits is let in owner by owner."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Hashable
from contextlib import asynccontextmanager


class Turns:
    """At most `size` at once. What one owner has waiting never holds up another for longer than one of its turns."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._busy: set[Hashable] = set()
        self._waiting: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @asynccontextmanager
    async def turn(self, owner: Hashable) -> AsyncGenerator[None, None]:
        """Wait for the owner's turn, which lasts until the block is left."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(mine)
        self._let_in()
        try:
            await mine
            yield
        finally:
            if not mine.cancelled():  # cancelled while it waited: it had no turn
                self._busy.discard(owner)
                self._free += 1
                self._let_in()

    def _let_in(self) -> None:
        for owner in [*self._waiting]:
            if not self._free:
                return
            if owner not in self._busy and self._next(owner):
                self._busy.add(owner)
                self._free -= 1

    def _next(self, owner: Hashable) -> bool:
        """Begin the turn of the owner's first that still waits; the owner's others wait behind those of all others."""
        waiting = self._waiting.pop(owner)
        while waiting:
            first = waiting.popleft()
            if not first.cancelled():
                first.set_result(None)
                break
        else:
            return False
        if waiting:
            self._waiting[owner] = waiting
        return True
