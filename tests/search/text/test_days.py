from datetime import date

import pytest

from kho.lib.clock import from_iso
from kho.search.text.days import Day, days, named_days


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what happened on 2025-03-02?", [Day(2025, 3, 2)]),
        ("on 2 March 2025", [Day(2025, 3, 2)]),
        ("on March 2nd, 2025", [Day(2025, 3, 2)]),
        ("the 2nd of March", [Day(None, 3, 2)]),
        ("in March 2025", [Day(2025, 3, None)]),
        ("what may happen, march on", []),
        ("ngày 2 tháng 3 năm 2025", [Day(2025, 3, 2)]),
        ("hồi tháng 3", [Day(None, 3, None)]),
        ("hôm 2/3", [Day(None, 3, 2)]),
        ("2025年3月2日", [Day(2025, 3, 2)]),
        ("3月2号说了什么", [Day(None, 3, 2)]),
        ("version 3.11 of 40/50 apples", []),
        ("", []),
    ],
)
def test_days_that_a_query_names(text: str, expected: list[Day]) -> None:
    assert days(text) == expected


TODAY, NEWEST = date(2026, 3, 18), date(2026, 3, 17)
"""A Wednesday and a Tuesday."""


@pytest.mark.parametrize(
    ("text", "day", "rest"),
    [
        ("what did Lan say on Monday", (3, 16), "what did lan say on …"),
        ("on Wednesday", (3, 11), "on …"),  # nothing was said on the 18th yet
        ("Tuesday", (3, 17), "…"),
        ("Monday last week", (3, 9), "…"),
        ("yesterday evening", (3, 17), "… evening"),
        ("the day before yesterday", (3, 16), "the …"),
        ("3 days ago", (3, 15), "…"),
        ("today", (3, 18), "…"),
        ("hôm thứ hai", (3, 16), "hôm …"),
        ("thu bay lan noi gi", (3, 14), "… lan noi gi"),
        ("chủ nhật", (3, 15), "…"),
        ("hom qua an gi", (3, 17), "… an gi"),
        ("thứ hai tuần trước", (3, 9), "…"),
        ("ngay 12 thang 3", (3, 12), "…"),
        ("周一小李", (3, 16), "…小李"),
        ("星期日", (3, 15), "…"),
        ("上周三", (3, 11), "…"),
        ("昨天吃了什么", (3, 17), "…吃了什么"),
        ("大前天", (3, 15), "…"),
        ("三月十六日", (3, 16), "…"),
        ("Monday 16 March", (3, 16), "… …"),
    ],
)
def test_days_that_are_counted(text: str, day: tuple[int, int], rest: str) -> None:
    named = named_days(text)
    assert [(one.month, one.day) for one in named.resolved(TODAY, NEWEST)] == [day]
    assert named.rest == rest


@pytest.mark.parametrize(
    "text", ["lần thứ hai", "người thứ ba", "一周一次", "下周一", "Sundays", "the sun", "thứ mười"]
)
def test_what_is_no_day(text: str) -> None:
    assert named_days(text).resolved(TODAY, NEWEST) == []


def test_periods() -> None:
    start, end = Day(None, 3, 17).period(NEWEST) or (0, 0)
    assert (start, end) == (from_iso("2026-03-17"), from_iso("2026-03-18"))
    assert (Day(None, 3, 18).period(NEWEST) or (0, 0))[0] == from_iso("2025-03-18")
    assert Day(None, 2, None).period(NEWEST) == (from_iso("2026-02-01"), from_iso("2026-03-01"))
    assert (Day(None, 2, 29).period(NEWEST) or (0, 0))[0] == from_iso("2024-02-29")
    assert Day(2026, 2, 30).period(NEWEST) is None


def test_which_moments_a_day_holds() -> None:
    moment = from_iso("2025-03-02T23:59:59Z")
    assert all(day.holds(moment) for day in (Day(2025, 3, 2), Day(None, 3, 2), Day(2025, 3, None)))
    assert not any(day.holds(moment) for day in (Day(2024, 3, 2), Day(None, 3, 3), Day(None, 4, None)))
