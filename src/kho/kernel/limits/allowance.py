"""What one caller may take in this process, and the refusal when it has."""

import math
import time
from collections.abc import Callable
from contextvars import ContextVar
from threading import Lock
from typing import TypeVar

from kho.kernel.errors import TooManyRequests
from kho.kernel.limits.settings import Limit, LimitSettings
from kho.lib.token_bucket import TokenBucket

X = TypeVar("X")
Y = TypeVar("Y")
Ticks = Callable[[], float]
"""Seconds on a clock that never goes back."""


def setting(name: str) -> str:
    return f"KHO_LIMITS__{name.upper()}"


def described(name: str) -> Limit:
    return next(one for one in LimitSettings.model_fields[name].metadata if isinstance(one, Limit))


def too_many(name: str, most: float, retry_after: float) -> TooManyRequests:
    """Make the refusal of what is over a limit."""
    limit, seconds = described(name), max(1, math.ceil(retry_after))
    return TooManyRequests(
        f"The limit of {most:,} {limit.counts} of one {limit.of} is reached. Nothing was done. "
        f"Try again in {seconds} second{'s' if seconds > 1 else ''}.",
        guidance=f"Wait. If it is too little, whoever runs the hub can set {setting(name)}.",
        limit=name,
        setting=setting(name),
        retry_after=seconds,
    )


class Allowance:
    """What one credential may take in this process. Used from any thread."""

    def __init__(self, settings: LimitSettings, ticks: Ticks) -> None:
        self._settings = settings
        self._ticks = ticks
        self._buckets: dict[str, TokenBucket] = {}
        self._lock = Lock()
        self.open: dict[str, int] = {}
        """How many of what lasts, such as streams, are open."""

    def take(self, name: str, amount: int = 1) -> None:
        """Take from what a limit allows in a minute. Raises TooManyRequests, and takes nothing, if it is not enough."""
        if most := self._most(name):
            with self._lock:
                wait = self._bucket(name).take(amount, self._ticks())
            if wait > 0:
                raise too_many(name, most, wait)

    def need(self, name: str) -> None:
        """Raise TooManyRequests if more was taken already than a limit allows."""
        self.take(name, 0)

    def owe(self, name: str, amount: int) -> None:
        """Take what was used already, though it may be more than the limit allows: the next one waits for it."""
        if self._most(name):
            with self._lock:
                self._bucket(name).owe(amount, self._ticks())

    def _most(self, name: str) -> int:
        return getattr(self._settings, name)

    def _bucket(self, name: str) -> TokenBucket:
        bucket = self._buckets.get(name)
        if bucket is None:
            most = self._most(name)
            bucket = self._buckets[name] = TokenBucket.full(most, most / 60, self._ticks())
        return bucket


CURRENT: ContextVar[Allowance | None] = ContextVar("allowance", default=None)
"""The allowance of the caller that is being served; None for this machine's user and for background work."""


UNMETERED = Allowance(LimitSettings(requests=0, writes=0, embedding=0, model_calls=0), time.monotonic)
"""For background work that a caller with a key has started: nothing of it is counted in a minute, but quotas hold."""


def model_call() -> None:
    """Count a call of a language model. Raises TooManyRequests."""
    if (allowance := CURRENT.get()) is not None:
        allowance.take("model_calls")


def carried(work: Callable[[X], Y]) -> Callable[[X], Y]:
    """Return work that is counted for the same caller in whatever thread it runs."""
    allowance = CURRENT.get()
    if allowance is None:
        return work

    def run(given: X) -> Y:
        mine = CURRENT.set(allowance)
        try:
            return work(given)
        finally:
            CURRENT.reset(mine)

    return run
