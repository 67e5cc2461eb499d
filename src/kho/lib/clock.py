"""Time, as one number: microseconds since 1970 in UTC.

Stores keep it in a BIGINT, which sorts and subtracts alike on both databases; text appears only at the edges.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], int]

SECOND = 1_000_000
DAY = 86_400 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    return time.time_ns() // 1000


def iso(micros: int) -> str:
    """ISO 8601 in UTC; whole seconds stay short, as the contracts print them."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """The inverse of `iso`. A time without a zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:  # in the year 0 or 10000 once the zone is taken off: `iso` could not show it
        raise ValueError(f"out of range: {text}") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)
