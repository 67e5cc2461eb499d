"""Several files at a time, as many as fit in memory, in their order."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from kho.research.ingest.jobs import UNEXPECTED
from kho.research.ingest.plan import Failure, Wanted
from kho.research.ingest.prepare import Prepared

log = logging.getLogger("kho.research")

AHEAD = 4
"""Files that are read and prepared at the same time."""
AHEAD_BYTES = 16 * 2**20
"""Bytes of files at the same time; a larger file is read alone."""


async def ahead(
    wanted: Sequence[Wanted], prepare: Callable[[Wanted], Awaitable[Prepared]]
) -> AsyncGenerator[Prepared, None]:
    """What comes of the files. Close it when you leave early: it has begun more than it gave."""
    waiting: deque[tuple[Wanted, asyncio.Future[Prepared]]] = deque()
    room = AHEAD_BYTES
    try:
        for one in wanted:
            while waiting and (len(waiting) == AHEAD or one.file.size > room):
                yield await _outcome(*waiting[0])
                room += waiting.popleft()[0].file.size
            room -= one.file.size
            waiting.append((one, asyncio.ensure_future(prepare(one))))
        while waiting:
            yield await _outcome(*waiting[0])
            waiting.popleft()
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)


async def _outcome(wanted: Wanted, task: asyncio.Future[Prepared]) -> Prepared:
    """A file that Kho itself stumbles over is that file's failure: the others are read all the same."""
    await asyncio.wait({task})
    problem = task.exception()
    if problem is None:
        return task.result()
    log.error("%s could not be prepared", wanted.path, exc_info=problem)
    return Failure(wanted.path, UNEXPECTED, "INTERNAL")
