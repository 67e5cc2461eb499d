"""Answers that are worth keeping for a few minutes: the same question asked again need not leave the machine."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from time import monotonic
from typing import Generic, TypeVar

T = TypeVar("T")


class Answers(Generic[T]):
    def __init__(self, seconds: float, most: int = 256, clock: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds
        self._most = most
        self._clock = clock
        self._kept: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable) -> T | None:
        at, answer = self._kept.get(key, (None, None))
        return answer if at is not None and self._clock() - at < self._seconds else None

    def keep(self, key: Hashable, answer: T) -> None:
        self._kept[key] = self._clock(), answer
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)
