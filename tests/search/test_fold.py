"""Folding: text to the tokens that both databases index."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.search.fold import fold, index_tokens, query_tokens

TEXT = st.text(st.characters(codec="utf-8") | st.sampled_from("đĐăÂếềỆ数据库Ａｂ１ßŞıİﬁ가한カタカナ"), max_size=60)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello, World", "hello, world"),
        ("Đồng bộ dữ liệu", "dong bo du lieu"),
        ("ĐƯỜNG ĐI ĐỨT", "duong di dut"),
        ("Tiếng Việt", "tieng viet"),
        (unicodedata.normalize("NFD", "Tiếng Việt"), "tieng viet"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ１２", "full width12"),
        ("ﬁne ①", "fine 1"),
        ("Straße", "strasse"),
        ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
        ("数据库", "数据库"),
        ("한국어", "한국어"),
        ("", ""),
    ],
)
def test_case_width_and_accents_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


@settings(deadline=None)
@given(TEXT)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert index_tokens(fold(text)) == index_tokens(text)


@settings(deadline=None)
@given(TEXT)
def test_composition_makes_no_difference(text: str) -> None:
    assert index_tokens(unicodedata.normalize("NFD", text)) == index_tokens(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("setState(prev => prev + 1)", ["setstate", "prev", "prev", "1"]),
        ("snake_case foo-bar a.b", ["snake", "case", "foo", "bar", "a", "b"]),
        ("数据库", ["数", "据", "库", "数据", "据库"]),
        ("React状态v2", ["react", "状", "态", "状态", "v2"]),
        ("カタカナ", ["カ", "タ", "カ", "ナ", "カタ", "タカ", "カナ"]),
        ("库", ["库"]),
        ("!?… 🏠", []),
    ],
)
def test_a_text_becomes_tokens(text: str, tokens: list[str]) -> None:
    assert index_tokens(text) == tokens


def test_a_query_asks_for_each_token_once_and_pairs_rather_than_characters() -> None:
    assert query_tokens("数据库 kettle KETTLE 库") == [("数据", 1.0), ("据库", 1.0), ("kettle", 1.0), ("库", 1.0)]


@pytest.mark.parametrize("word", ["the", "THE", "không", "khong", "của", "的"])
def test_function_words_count_little(word: str) -> None:
    assert [importance for _, importance in query_tokens(word)] == [0.1]


@settings(deadline=None)
@given(TEXT)
def test_whatever_a_query_asks_for_is_in_the_index_of_the_same_text(text: str) -> None:
    assert {token for token, _ in query_tokens(text)} <= set(index_tokens(text))


@settings(deadline=None)
@given(TEXT, TEXT)
def test_a_text_keeps_its_tokens_next_to_another(one: str, other: str) -> None:
    both = set(index_tokens(f"{one}\n{other}"))
    assert set(index_tokens(one)) | set(index_tokens(other)) <= both


@settings(deadline=None)
@given(TEXT)
def test_tokens_are_words_without_space_or_sign(text: str) -> None:
    for token in index_tokens(text):
        assert token.isalnum() or all(char.isalnum() or unicodedata.combining(char) for char in token)
