"""Days and months that a query names, in Vietnamese, Chinese, English or digits: dates, weekdays, today and yesterday.

A weekday is the latest such day up to the newest text that is searched. Today and yesterday are counted from now.
"""

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from kho.lib.clock import DAY, SECOND
from kho.lib.lazy_regex import pattern


class Day(NamedTuple):
    """A day or a month that a query names; the year may be missing."""

    year: int | None
    month: int
    day: int | None

    def holds(self, moment: int) -> bool:
        """`moment` is by the clock of the place where it happened."""
        at = datetime.fromtimestamp(moment // SECOND, UTC)
        return self.month == at.month and self.year in (None, at.year) and self.day in (None, at.day)

    def period(self, newest: date) -> tuple[int, int] | None:
        """Beginning and end by the clock of the place; without a year, the latest up to `newest`. None if there is no
        such day."""
        years = [self.year] if self.year else range(newest.year, newest.year - 9, -1)
        for year in years:
            if not (1 <= year <= 9998 and 1 <= (self.day or 1) <= monthrange(year, self.month)[1]):
                continue
            first = date(year, self.month, self.day or 1)
            if self.year or first <= newest:
                length = 1 if self.day else monthrange(year, self.month)[1]
                start = (first - date(1970, 1, 1)).days * DAY
                return start, start + length * DAY
        return None


class Relative(NamedTuple):
    """A day that is counted from another: so many days back from now, or a weekday."""

    back: int = 0
    weekday: int | None = None
    last_week: bool = False

    def on(self, today: date, newest: date) -> Day | None:
        if self.weekday is None:
            found = today - timedelta(min(self.back, 10_000))
        elif self.last_week:
            found = today - timedelta(today.weekday() + 7 - self.weekday)
        else:
            found = newest - timedelta((newest.weekday() - self.weekday) % 7)
        return Day(found.year, found.month, found.day)


class NamedDays(NamedTuple):
    """What a text names, and the text without it."""

    fixed: list[Day]
    relative: list[Relative]
    rest: str

    def resolved(self, today: date, newest: date) -> list[Day]:
        """A weekday that stands beside a date says nothing more."""
        counted = [one for one in self.relative if one.weekday is None or not self.fixed]
        return [*self.fixed, *(day for one in counted if (day := one.on(today, newest)))]


_NAMES = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = rf"(?P<name>(?:{'|'.join(_NAMES)})[a-z]{{0,6}})"
_YEAR = r"(?:,? (?P<year>\d{4})(?!\d))?"
_DAYS = (
    pattern(r"(?<!\d)(?P<year>\d{4})[-/.年](?P<month>\d{1,2})(?:[-/.月](?P<day>\d{1,2})?[日号]?)?(?!\d)"),
    pattern(r"(?<![\d年])(?P<month>\d{1,2})月(?:(?P<day>\d{1,2})[日号]?)?"),
    pattern(
        r"(?:(?:ng[àa]y )?(?:mùng |mồng |mung |mong )?(?<!\d)(?P<day>\d{1,2}) )?th[áa]ng (?P<month>\d{1,2})"
        r"(?: n[ăa]m (?P<year>\d{4}))?(?!\d)"
    ),
    pattern(r"(?:\bng[àa]y )?(?<![\d/])(?P<day>\d{1,2})/(?P<month>\d{1,2})(?:/(?P<year>\d{4}))?(?![\d/])"),
    pattern(rf"(?<!\d)(?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? {_MONTH}\b{_YEAR}"),
    pattern(rf"\b{_MONTH} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?(?!\d){_YEAR}"),
    pattern(rf"\b(?:in|of|during|since|last|this|early|late|mid) {_MONTH}\b{_YEAR}"),
)
_BACK = (
    (3, pattern("大前天")),
    (2, pattern(r"\bday before yesterday\b|\bh[ôo]m kia\b|前天|前日")),
    (1, pattern(r"\byesterday\b|\blast night\b|\b(?:h[ôo]m|t[ốo]i|[đd][êe]m|chi[ềe]u) qua\b|昨[天日晚夜]")),
    (0, pattern(r"\btoday\b|\btonight\b|\bth(?:is) (?:morning|afternoon|evening)\b"
                r"|\b(?:h[ôo]m|s[áa]ng|tr[ưu]a|chi[ềe]u|t[ốo]i) nay\b|今[天日早晚]")),
)  # fmt: skip
_AGO = pattern(r"\b(?P<back>\d{1,4}) (?:days ago|ng[àa]y tr[ưu][ớo]c)\b|(?<!\d)(?P<han>\d{1,4}) ?天(?:之|以)?前")
_LAST_WEEK = r"(?P<after> (?:of )?last week| tu[ầa]n tr[ưu][ớo]c)?"
_ENGLISH = "mon tues wednes thurs fri satur sun".split()
_VIETNAMESE = ("hai 2", "ba 3", "tư tu 4", "năm nam 5", "sáu sau 6", "bảy bay 7")
_HAN = ("一 1", "二 2", "三 3", "四 4", "五 5", "六 6", "日 天")
_WEEKDAY = {
    name: number for names in (_ENGLISH, _VIETNAMESE, _HAN) for number, one in enumerate(names) for name in one.split()
}
_WEEKDAYS = (
    pattern(rf"\b(?P<en>{'|'.join(_ENGLISH)})day\b{_LAST_WEEK}"),
    # "The second time", "the third person" are no days.
    pattern(
        r"(?<!lần )(?<!lan )(?<!người )(?<!nguoi )(?<!tháng )(?<!thang )(?<!câu )(?<!cau )(?<!cái )(?<!cai )(?<!điều )"
        r"(?<!bài )(?<!phần )(?<!bước )(?<!con )(?<!hạng )(?<!chiếc )(?<!cuốn )(?<!ngôi )(?<!đời )(?<!năm )"
        rf"\b(?:th[ứu] (?P<vi>{'|'.join(' '.join(_VIETNAMESE).split())})|(?P<sunday>ch[ủu] nh[ậa]t))\b{_LAST_WEEK}"
    ),
    pattern(
        r"(?P<before>上个?)?(?<![一二两三几下\d])(?:周|星期|礼拜)(?P<zh>[一二三四五六日天1-6])(?![一二三四五六七八九十次])"
    ),
)
_HAN_NUMBER = pattern("[零〇一二三四五六七八九十]{1,4}(?=[年月日号天])")
_DIGITS = {char: number for number, char in enumerate("零一二三四五六七八九")} | {"〇": 0}
GONE = "…"
"""Stands in the rest of a text where a day was named."""


def days(text: str) -> list[Day]:
    """Return the days and months that a text names by their date."""
    return named_days(text).fixed


def named_days(text: str) -> NamedDays:
    fixed: list[Day] = []
    relative: list[Relative] = []
    text = text.lower()
    for form in _WEEKDAYS:  # before dates: 星期日 has no number of a day
        matches = [*form.finditer(text)]
        text = form.sub(GONE, text)
        relative += (_weekday(match.groupdict()) for match in matches)
    text = _HAN_NUMBER.sub(lambda found: _number(found.group()), text)
    for form in _DAYS:
        matches = [*form.finditer(text)]
        text = form.sub(GONE, text)  # "2 of March" is no month by itself as well
        for match in matches:
            parts = match.groupdict()
            name, day, year = parts.get("name"), parts.get("day"), parts.get("year")
            month = _month(name) if name else int(parts["month"])
            if 1 <= month <= 12:
                fixed.append(Day(int(year) if year else None, month, int(day) if day else None))
    for match in _AGO.finditer(text):
        relative.append(Relative(int(match["back"] or match["han"])))
    text = _AGO.sub(GONE, text)
    for back, form in _BACK:
        if form.search(text):
            relative.append(Relative(back))
            text = form.sub(GONE, text)
    return NamedDays(fixed, relative, text)


def _weekday(found: dict[str, str | None]) -> Relative:
    name = found.get("en") or found.get("zh") or found.get("vi")
    return Relative(weekday=_WEEKDAY[name] if name else 6, last_week=bool(found.get("before") or found.get("after")))


def _number(written: str) -> str:
    """Digits of a number below 100, or of a year, that is written in Han characters."""
    if "十" not in written:
        return "".join(str(_DIGITS[char]) for char in written)
    tens, _, ones = written.partition("十")
    if "十" in ones or len(tens) > 1 or len(ones) > 1:
        return written
    return str(10 * (_DIGITS[tens] if tens else 1) + (_DIGITS[ones] if ones else 0))


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_NAMES, 1) if name.startswith(month))
