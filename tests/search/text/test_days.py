import pytest

from kho.lib.clock import from_iso
from kho.search.text.days import Day, days


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


def test_which_moments_a_day_holds() -> None:
    moment = from_iso("2025-03-02T23:59:59Z")
    assert all(day.holds(moment) for day in (Day(2025, 3, 2), Day(None, 3, 2), Day(2025, 3, None)))
    assert not any(day.holds(moment) for day in (Day(2024, 3, 2), Day(None, 3, 3), Day(None, 4, None)))
