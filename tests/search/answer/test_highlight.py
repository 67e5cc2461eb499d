"""Highlights: what folding found, shown in the original text."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.search.answer.highlight import ELLIPSIS, snippet, spans
from kho.search.text.tokens import fold, index_tokens, query_tokens

WORDS = st.sampled_from(
    "Đồng bộ dữ liệu lỗi loi của the stores stored ﬁles Ｆｉｌｅ getUserName user_name nginx.conf /etc/nginx/nginx.conf "
    "E0502 C++ c 3.11.2 数据库 数据 库连接 カタカナ ภาษาไทย 🏠 👨‍👩‍👧 Straße İstanbul מָה https://a.org/x?y=1 wi-fi don't x\u00ady "
    "1,000 ①② ½ ΐ ｶﾞ \ud800 \x00 … . 。".split()
)
TEXT = st.lists(WORDS | st.text(max_size=5), max_size=20).flatmap(
    lambda words: st.sampled_from([" ", "", "\n", ". ", "。"]).map(lambda joint: joint.join(words))
)


@pytest.mark.parametrize(
    ("text", "query", "shown"),
    [
        ("Đồng bộ dữ liệu bị lỗi", "dong bo", ["Đồng", "bộ"]),
        ("dong bo du lieu", "Đồng bộ", ["dong", "bo"]),
        ("Users stored files", "file storing", ["stored", "files"]),
        ("The ﬁles", "file", ["ﬁles"]),
        ("Ｆｕｌｌ width", "full", ["Ｆｕｌｌ"]),
        ("connect to 数据库连接 now", "数据库", ["数据库"]),
        ("数据和数据库", "数据库", ["数据", "数据库"]),
        ("ERR_CONNECTION_REFUSED", "connection refused", ["CONNECTION", "REFUSED"]),
        ("see /etc/nginx/nginx.conf.", "nginx.conf", ["nginx", "nginx.conf"]),
        ("in C++ and c", "C++", ["C++"]),
        ("a soft\u00adhyphen here", "softhyphen", ["soft\u00adhyphen"]),
        ("the kettle of the house", "the kettle", ["kettle"]),
        ("the house", "the", ["the"]),
        ("go 🏠 now", "🏠", ["🏠"]),
        ("nothing here", "absent", []),
        ("", "x", []),
        ("x", "", []),
        ("!!!", "!!!", []),
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_the_words_of_the_query_are_shown(text: str, query: str, shown: list[str], form: str) -> None:
    text = unicodedata.normalize(form, text)  # type: ignore[arg-type]  # one of its two forms
    assert [unicodedata.normalize("NFC", text[start:end]) for start, end in spans(text, query)] == shown


def test_tokens_with_weights_do_as_well_as_a_query() -> None:
    assert spans("stored files", {"file": 1.0}) == [(7, 12)]


@settings(deadline=None, max_examples=300)
@given(TEXT, TEXT)
def test_spans_are_in_order_apart_inside_and_what_was_asked_for(text: str, query: str) -> None:
    asked = {token for token, _ in query_tokens(query)}
    last = 0
    for start, end in spans(text, query):
        assert last <= start < end <= len(text)
        # By itself, a part of a name may be cut further: "1。" of "?y=1。" is "1".
        assert asked & {*index_tokens(text[start:end]), fold(text[start:end])}
        last = end + 1  # those that touch are one


@settings(deadline=None, max_examples=300)
@given(TEXT)
def test_a_text_that_holds_a_telling_word_of_the_query_shows_something(text: str) -> None:
    if any(weight > 0.1 for _, weight in query_tokens(text)):
        assert spans(text, text)


LONG = (
    "The kettle stands in the kitchen. Nobody knows why. " * 5
    + "Then the database refused every connection, and the log said E0502. "
    + "Mọi thứ trở lại bình thường. " * 6
)


def test_a_snippet_is_the_part_that_holds_most_of_the_query() -> None:
    shown, marks = snippet(LONG, "database connection E0502", 120)
    assert shown.startswith(ELLIPSIS)
    assert shown.endswith(ELLIPSIS)
    assert [shown[start:end] for start, end in marks] == ["database", "connection", "E0502"]
    assert len(shown) <= 122


def test_a_snippet_begins_at_a_sentence_if_one_is_near() -> None:
    shown, _ = snippet(LONG, "database refused", 160)
    assert shown[1:].startswith(("Then the database", "Nobody knows why.", "The kettle"))


def test_a_short_text_is_shown_whole() -> None:
    assert snippet("Short text.", "text") == ("Short text.", [(6, 10)])
    assert snippet("", "text") == ("", [])


def test_without_a_hit_the_beginning_is_shown() -> None:
    shown, marks = snippet(LONG, "absent", 60)
    assert shown == "The kettle stands in the kitchen. Nobody knows why. The" + ELLIPSIS
    assert marks == []


def test_chinese_is_cut_between_characters() -> None:
    text = "今天天气很好。" * 30 + "数据库连接失败。" + "明天再说。" * 30
    shown, marks = snippet(text, "数据库", 40)
    assert [shown[start:end] for start, end in marks] == ["数据库"]
    assert 20 <= len(shown) <= 42


@settings(deadline=None, max_examples=300)
@given(TEXT, TEXT, st.integers(1, 60))
def test_a_snippet_is_a_piece_of_the_text_with_its_highlights(text: str, query: str, width: int) -> None:
    shown, marks = snippet(text, query, width)
    bare = shown
    if bare not in text:
        bare = bare.removeprefix(ELLIPSIS) if bare.removeprefix(ELLIPSIS) in text else bare.removesuffix(ELLIPSIS)
        bare = bare if bare in text else bare.removeprefix(ELLIPSIS)
    assert bare in text
    last = 0
    for start, end in marks:
        assert last <= start < end <= len(shown)
        last = end
