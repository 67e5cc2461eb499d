"""Piles of combining marks are found wherever they are, and nothing that anybody writes is."""

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.lib.combining_marks import MOST, has_too_many, limited

MARKS = "\u0301\u0323\u3099\u0f71\uff9e\U0001e944"


@given(
    st.integers(0, 300), st.integers(0, 3 * MOST), st.integers(0, 300), st.sampled_from(MARKS), st.sampled_from(MARKS)
)
def test_a_pile_is_found_at_any_place_and_cut(before: int, marks: int, behind: int, one: str, other: str) -> None:
    pile = ((one + other) * marks)[:marks]
    text = "đường " * (before // 6) + "x" * (before % 6) + pile + "y" * behind
    assert has_too_many(text) == (marks > MOST)
    assert limited(text) == text.replace(pile, pile[:MOST])
    assert not has_too_many(limited(text))


@pytest.mark.parametrize(
    "text", ["Nguyễn Thị Ánh Tuyết", "消防演习", "हिन्दी में", "ﾄﾞｯｸﾞ ﾊﾟﾝ", "שָׁלוֹם", "a" * 1000, "\u0301" * MOST]
)
def test_what_people_write_stays(text: str) -> None:
    for form in ("NFC", "NFD", "NFKD"):
        shown = unicodedata.normalize(form, text) * 100 if len(text) < MOST else text
        assert not has_too_many(shown)
        assert limited(shown) == shown


def test_two_megabytes_of_marks_take_no_quarter_of_an_hour() -> None:
    """In a process of its own, which can be ended: normalising such a text cannot."""
    code = (
        "from kho.kernel.errors import InvalidParams\nfrom kho.kernel.validation import check_values\n"
        "from kho.parsers import read\n"
        "pile = 'a' + '\\u0301\\u0323' * 500_000\n"
        "try:\n    check_values({'id': [pile]})\nexcept InvalidParams as error:\n    print(error.message, error.details)\n"
        "print(len(read(pile.encode(), 'a.txt').text))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=120)
    said, length = done.stdout.splitlines()
    assert said == "Text must not have more than 50 combining marks on one letter. {'field': 'id[0]'}"
    assert int(length) < MOST + 3
