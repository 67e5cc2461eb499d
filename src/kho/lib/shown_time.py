"""Times as people read them, always with their zone: UTC, or the zone of this machine for who reads at a terminal."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

_local: ContextVar[bool] = ContextVar("local", default=False)


@contextmanager
def local_times() -> Generator[None]:
    """Context in which times are shown in the zone of this machine."""
    token = _local.set(True)
    try:
        yield
    finally:
        _local.reset(token)


def zone() -> list[str | int]:
    """Return what identifies the zone of this process, which the variable TZ can change."""
    return [*time.tzname, time.timezone]


def minute(iso: str) -> str:
    """Format to the minute: 2026-07-28 09:00 UTC."""
    return _shown(iso, "%Y-%m-%d %H:%M %Z")


def second(iso: str) -> str:
    """Format to the second: 2026-07-28 09:00:05 UTC."""
    return _shown(iso, "%Y-%m-%d %H:%M:%S %Z")


def day(iso: str) -> str:
    """Format as a date: 2026-07-28."""
    return _shown(iso, "%Y-%m-%d")


def _shown(iso: str, form: str) -> str:
    if not iso:
        return ""
    moment = datetime.fromisoformat(iso)
    try:
        return moment.astimezone(None if _local.get() else UTC).strftime(form)
    except (OverflowError, ValueError):  # a year at the end of the calendar, beyond it in the other zone
        return iso
