"""A model in this process: loaded on first use, and run off the event loop."""

import asyncio
import contextlib
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from kho.kernel.errors import Unavailable
from kho.models.text import estimate_tokens

M = TypeVar("M")
P = TypeVar("P")
T = TypeVar("T")

LOW_PRIORITY = 5
"""Not lower: a thread that waits for a busy CPU while it holds the interpreter lock blocks the event loop."""
PIECE_TOKENS = 256
"""Tokens that background work embeds at a time: a fraction of a second."""
CROWDED = 0.5
"""A thread that waited for a core longer than this share of its CPU time was one too many."""
UNCERTAIN = 0.02
"""Seconds by which the CPU time of a thread may be wrong: Windows counts in ticks."""
LANE_PIECES = 4
"""Pieces for each thread, or fewer threads are used: one whose core others use must not still be at its first piece
when the rest is done."""
MAX_MEASURED = 100_000
"""Characters of a text that are used to estimate its size."""


class ModelThreads(Generic[M]):
    """A thread for callers who wait for an answer, and `lanes` of low priority for background work.

    `alone` is for models that are not thread-safe: then the two take turns, and background work has to come in small
    batches.
    """

    def __init__(self, name: str, load: Callable[[], M], *, lanes: int = 1, alone: bool = False) -> None:
        self._load = load
        self._model: M | None = None
        self._loading = threading.Lock()
        self._turn = threading.Lock() if alone else contextlib.nullcontext()
        self._closed = False
        self._soon = ThreadPoolExecutor(1, f"{name}-soon")
        self._later = ThreadPoolExecutor(lanes, f"{name}-later", initializer=_step_back)
        self._lanes = lanes

    async def soon(self, work: Callable[[M], T]) -> T:
        return await self._run(self._soon, work)

    async def later(self, work: Callable[[M], T]) -> T:
        return await self._run(self._later, work)

    async def later_each(self, pieces: Iterable[P], work: Callable[[M, P], T]) -> list[T]:
        """Do background work piece by piece, so that callers take turns and work for a cancelled caller stops. A thread
        whose core others use leaves the rest to another, so that several are never slower than one."""
        waiting = deque(enumerate(pieces))
        lanes = max(1, min(self._lanes, len(waiting) // LANE_PIECES))
        done: dict[int, T] = {}

        async def lane() -> None:
            nonlocal lanes
            while waiting:
                at, piece = waiting.popleft()
                done[at], crowded = await self.later(lambda model, piece=piece: _watched(work, model, piece))
                if crowded and lanes > 1:
                    lanes -= 1
                    return

        try:
            await asyncio.gather(*(lane() for _ in range(lanes)))
        finally:
            waiting.clear()  # if one lane fails, the others stop
        return [done[at] for at in range(len(done))]

    async def aclose(self) -> None:
        """Wait for running work, and drop what is queued."""
        self._closed = True
        for pool in (self._soon, self._later):
            pool.shutdown(wait=False, cancel_futures=True)
        for pool in (self._soon, self._later):
            await asyncio.to_thread(pool.shutdown)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[M], T]) -> T:
        if self._closed:
            raise Unavailable("the model is no longer in use")

        def run() -> T:
            model = self._loaded()
            with self._turn:
                return work(model)

        return await asyncio.get_running_loop().run_in_executor(pool, run)

    def _loaded(self) -> M:
        with self._loading:
            if self._model is None:
                self._model = self._load()
            return self._model


def _watched(work: Callable[[M, P], T], model: M, piece: P) -> tuple[T, bool]:
    """Return the result, and whether this thread had to wait for a core."""
    wall, cpu = time.monotonic(), time.thread_time()
    result = work(model, piece)
    used = time.thread_time() - cpu
    return result, time.monotonic() - wall - used > max(CROWDED * used, UNCERTAIN)


def batches(texts: Sequence[str], tokens: int = PIECE_TOKENS) -> Iterator[list[str]]:
    """Split texts into batches of about this many tokens; a text is never split."""
    piece: list[str] = []
    size = 0
    for text in texts:
        more = estimate_tokens(text[:MAX_MEASURED])
        if piece and size + more > tokens:
            yield piece
            piece, size = [], 0
        piece.append(text)
        size += more
    if piece:
        yield piece


def _step_back() -> None:
    """Lower the priority of this thread below everything else on the machine. Linux has a priority per thread."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # a sandbox may forbid it
            usual = os.getpriority(os.PRIO_PROCESS, 0)  # the whole process may have been started with a lower one
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), max(usual, LOW_PRIORITY))
