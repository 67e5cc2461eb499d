"""Days and months that a query names, in Vietnamese, Chinese, English or digits."""

from datetime import UTC, datetime
from typing import NamedTuple

from kho.lib.clock import SECOND
from kho.lib.lazy_regex import pattern


class Day(NamedTuple):
    """A day or a month that a query names; the year may be missing."""

    year: int | None
    month: int
    day: int | None

    def holds(self, moment: int) -> bool:
        at = datetime.fromtimestamp(moment // SECOND, UTC)
        return self.month == at.month and self.year in (None, at.year) and self.day in (None, at.day)


_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = rf"(?P<name>(?:{'|'.join(_NAMES)})[a-z]{{0,6}})"
_YEAR = r"(?:,? (?P<year>\d{4})(?!\d))?"
_DAYS = (
    pattern(r"(?<!\d)(?P<year>\d{4})[-/.年](?P<month>\d{1,2})(?:[-/.月](?P<day>\d{1,2})?)?(?!\d)"),
    pattern(r"(?<![\d年])(?P<month>\d{1,2})月(?:(?P<day>\d{1,2})[日号])?"),
    pattern(r"(?:(?<!\d)(?P<day>\d{1,2}) )?tháng (?P<month>\d{1,2})(?: năm (?P<year>\d{4}))?(?!\d)"),
    pattern(r"(?<![\d/])(?P<day>\d{1,2})/(?P<month>\d{1,2})(?:/(?P<year>\d{4}))?(?![\d/])"),
    pattern(rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b{_YEAR}"),
    pattern(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?!\d){_YEAR}"),
    pattern(rf"\b(?:in|of|during|since|last|this|early|late|mid) {_MONTH}\b{_YEAR}"),
)


def days(text: str) -> list[Day]:
    """Return the days and months that a text names, in Vietnamese, Chinese, English or digits."""
    found: list[Day] = []
    text = text.lower()
    for form in _DAYS:
        matches = [*form.finditer(text)]
        text = form.sub("…", text)  # "2 of March" is no month by itself as well
        for match in matches:
            parts = match.groupdict()
            name, day, year = parts.get("name"), parts.get("day"), parts.get("year")
            month = _month(name) if name else int(parts["month"])
            if 1 <= month <= 12:
                found.append(Day(int(year) if year else None, month, int(day) if day else None))
    return found


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_NAMES, 1) if name.startswith(month))
