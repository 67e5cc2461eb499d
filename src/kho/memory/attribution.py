"""Who said a message and when, as it is searched: from the message's own fields, else from its metadata.

Chat programs put the name and the time of a message into its metadata under names of their own; a client is never asked
to say them again.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kho.kernel.ports import Tx
from kho.lib import clock
from kho.lib.clock import SECOND, from_iso
from kho.memory import store
from kho.memory.store import Message

NAMES = ("speaker", "name", "author", "sender", "from", "username", "user_name", "display_name")
TIMES = ("at", "timestamp", "time", "date", "datetime", "sent_at", "created_at", "ts")
MAX_NAME = 100
"""Characters of a name; what is longer is none."""
YEAR_2001, YEAR_2100 = 1_000_000_000, 4_102_444_800
"""Seconds since 1970: what lies between them is a time, and a thousand times that one in milliseconds."""
MONTHS = (
    "January February March April May June July August September October November December"
).split()  # fmt: skip


def speaker(message: Message) -> str | None:
    """The name of who said it; None if nothing but the role is known."""
    if message.speaker:
        return message.speaker
    found = (_name(value) for value in _values(message.metadata, NAMES))
    return next((name for name in found if name), None)


def names(tx: Tx, tenant: str, places: Sequence[tuple[str, str]]) -> list[str]:
    """How those are called who said these messages, by conversation and message id."""
    found = store.by_ids(tx, tenant, places)
    return [speaker(found[place]) or found[place].role for place in places if place in found]


def said_at(message: Message) -> int:
    """When it was said, in microseconds: where it came from, else when it came here."""
    if message.at is not None:
        return message.at
    found = (_moment(value) for value in _values(message.metadata, TIMES))
    return next((moment for moment in found if moment is not None), message.created_at)


def ahead_of_utc(message: Message) -> int | None:
    """How many minutes the clock was ahead of UTC where it was said; None if that is not known."""
    if message.at is not None:
        return message.at_offset
    told = next((value for value in _values(message.metadata, TIMES) if _moment(value) is not None), None)
    return clock.ahead_of_utc(told.strip()) if isinstance(told, str) else None


def local(message: Message) -> int:
    """When it was said, by the clock of the place: that decides on which day."""
    return said_at(message) + (ahead_of_utc(message) or 0) * 60 * SECOND


def day(moment: int, language: str) -> str:
    """The day of a moment in words of the language, as people would ask for it."""
    at = datetime.fromtimestamp(moment // SECOND, UTC)
    if language == "vi":
        return f"ngày {at.day} tháng {at.month} năm {at.year}"
    if language == "zh":
        return f"{at.year}年{at.month}月{at.day}日"
    return f"{at.day} {MONTHS[at.month - 1]} {at.year}"


def _values(metadata: Mapping[str, Any] | None, names: tuple[str, ...]) -> list[Any]:
    return [metadata[name] for name in names if name in metadata] if metadata else []


def _name(value: Any) -> str:
    name = value.get("name") if isinstance(value, dict) else value  # type: ignore[reportUnknownMemberType]
    return name.strip() if isinstance(name, str) and 0 < len(name.strip()) <= MAX_NAME else ""


def _moment(value: Any) -> int | None:
    if isinstance(value, str):
        try:
            return from_iso(value.strip())
        except ValueError:
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        for unit in (1, 1_000):
            if YEAR_2001 <= value / unit < YEAR_2100:
                return int(value / unit * SECOND)
    return None
