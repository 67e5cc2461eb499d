"""Threads that take the work of each owner in turn, so that one with much waiting does not hold up the others."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from kho.storage.unit_of_work import CapturedError

T = TypeVar("T")


class FairThreads:
    """At most `size` threads, started on demand."""

    def __init__(self, size: int, name: str) -> None:
        self._threads = ThreadPoolExecutor(size, thread_name_prefix=name)
        self._waiting: OrderedDict[Hashable, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()
        self._lock = Lock()

    def run(self, owner: Hashable, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start work that is done when its owner's turn comes. What is cancelled before that is never begun."""
        future: Future[T] = Future()
        with self._lock:
            self._threads.submit(self._next)  # Raises RuntimeError once they were shut down.
            self._waiting.setdefault(owner, deque()).append((future, work))
        return asyncio.wrap_future(future)

    def shutdown(self) -> None:
        """Do what waits, then end. Blocks; safe to call again."""
        self._threads.shutdown()

    def _next(self) -> None:
        with self._lock:
            owner, waiting = self._waiting.popitem(last=False)
            future, work = waiting.popleft()
            if waiting:
                self._waiting[owner] = waiting
        if not future.set_running_or_notify_cancel():
            return
        with CapturedError() as captured:
            future.set_result(work())
        if captured.error is not None:
            future.set_exception(captured.error)
            del future, captured  # or the error's traceback and the future would keep each other alive
