"""A deadline that several pieces of work share: each may take what the ones before have left."""

from collections.abc import Callable
from time import monotonic

from kho.kernel.errors import Timeout

Left = Callable[[], float]
"""Seconds until the deadline; raises Timeout when there are none."""


def until(seconds: float) -> Left:
    """So many seconds from now."""
    deadline = monotonic() + seconds

    def left() -> float:
        remaining = deadline - monotonic()
        if remaining <= 0:
            raise Timeout
        return remaining

    return left
