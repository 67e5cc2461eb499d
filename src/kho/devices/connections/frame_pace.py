"""How fast the frames of a board are read: so many at once, and so many a second. What reads them waits in between, so
that nothing is lost: the board's own connection fills up, and no other board notices."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from kho.lib.dataclass import dataclass
from kho.lib.token_bucket import TokenBucket

BURST = 5
"""Seconds whose frames may come at once."""


@dataclass(slots=True)
class FramePace:
    per_second: int = 0
    """0: as fast as they come."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    bucket: TokenBucket | None = None

    async def turn(self) -> None:
        """Return when one more frame may be read."""
        if not self.per_second:
            return
        now = self.clock()
        if self.bucket is None:
            self.bucket = TokenBucket.full(self.per_second * BURST, self.per_second, now)
        if (wait := self.bucket.owe(1, now)) > 0:
            await self.pause(wait)
