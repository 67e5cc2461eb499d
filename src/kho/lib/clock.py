"""Time as one number: microseconds since 1970 in UTC.

Stores keep it in a BIGINT, which sorts and subtracts the same way on both databases; it becomes text only in input and
output.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

Clock = Callable[[], int]

SECOND = 1_000_000
DAY = 86_400 * SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    return time.time_ns() // 1000


def iso(micros: int) -> str:
    """Format as ISO 8601 in UTC; whole seconds have no fraction, as the contracts print them."""
    moment = _EPOCH + timedelta(microseconds=micros)
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds").replace("+00:00", "Z")


def as_iso(value: Any) -> Any:
    """Format a row's microseconds as `iso`; return anything else unchanged."""
    return iso(value) if isinstance(value, int) else value


def iso_there(micros: int, ahead: int | None) -> str:
    """Format as ISO 8601 by a clock that is so many minutes ahead of UTC."""
    if not ahead:
        return iso(micros)
    moment = (_EPOCH + timedelta(microseconds=micros)).astimezone(timezone(timedelta(minutes=ahead)))
    return moment.isoformat(timespec="microseconds" if moment.microsecond else "seconds")


def ahead_of_utc(text: str) -> int | None:
    """Return how many minutes the clock of an ISO 8601 time is ahead of UTC; None if it does not say. Raises
    ValueError."""
    offset = datetime.fromisoformat(text).utcoffset()
    return None if offset is None else int(offset.total_seconds() // 60)


def from_iso(text: str) -> int:
    """Inverse of `iso`. A time without a zone is UTC. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:  # year 0 or 10000 after conversion to UTC, which `iso` could not show
        raise ValueError(f"out of range: {text}") from None
    return (moment - _EPOCH) // timedelta(microseconds=1)
