"""Sentences and the places where a text may be cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.lib.chunking.graphemes import boundary
from kho.lib.chunking.sentences import sentence_starts, sentences


@pytest.mark.parametrize(
    "expected",
    [
        ["One. ", "Two! ", "Three?"],
        ["Version 3.11.2 costs 2.50 now. ", "Really…\n", "Yes"],
        ["Dr. Smith met Mr. J. Doe at 5 p.m. yesterday. ", "Then he left."],
        ["See e.g. Python. ", "It works."],
        ["TP. Hồ Chí Minh đông dân. ", "Đúng không?"],
        ["数据库连接失败。", "请重试！", "好的；", "再见"],
        ['He said "Stop." ', "She did."],
        ["他说：“停。”", "她停了。"],
        ["first line\n", "second line\n\n", "third"],
        ["no end"],
    ],
)
def test_a_text_comes_apart_into_sentences(expected: list[str]) -> None:
    text = "".join(expected)
    assert [text[start:end] for start, end in sentences(text, 0, len(text))] == expected
    longer = f"xx{text}yy"
    assert [longer[start:end] for start, end in sentences(longer, 2, len(text) + 2)] == expected


@given(st.text(st.sampled_from("aA1. !?…。；\n\"'") | st.characters(), max_size=60))
def test_sentences_leave_no_gap(text: str) -> None:
    found = list(sentences(text, 0, len(text)))
    assert "".join(text[start:end] for start, end in found) == text
    assert {start for start, _ in found} - {0} <= set(sentence_starts(text, 0, len(text)))


@pytest.mark.parametrize(
    ("text", "place", "cut"),
    [
        ("abc", 2, 2),
        ("abc", 9, 3),
        ("abc", 0, 0),
        ("e\u0301a", 1, 0),
        ("xe\u0323\u0302", 3, 1),
        ("a👍🏽b", 2, 1),
        ("a👨\u200d👩b", 2, 1),
        ("a👨\u200d👩b", 3, 1),
        ("🇻🇳🇯🇵", 3, 2),
        ("🇻🇳🇯🇵", 2, 2),
        ("a\ud83d\ude00", 2, 1),
        ("a\r\nb", 2, 1),
        ("กำ", 1, 1),
        ("a" + "\u0301" * 500, 300, 300),
    ],
)
def test_a_character_is_never_cut(text: str, place: int, cut: int) -> None:
    assert boundary(text, place) == cut


@given(st.text(st.sampled_from("a\u0301\u200d👨🇻\r\n\ud83d\ude00"), max_size=100), st.integers(0, 120))
def test_a_boundary_is_at_or_before_the_place(text: str, place: int) -> None:
    assert 0 <= boundary(text, place) <= min(place, len(text))
