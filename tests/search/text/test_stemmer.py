"""Stemming: forms of an English word meet, other words and other languages stay as they are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.search.text.language import syllables
from kho.search.text.stemmer import stem


@pytest.mark.parametrize(
    "forms",
    [
        "store stores stored storing",
        "cache caches cached caching",
        "use uses used using",
        "query queries",
        "movie movies",
        "study studies studied studying",
        "code codes coded coding",
        "delete deletes deleted deleting",
        "update updates updated updating",
        "run runs running",
        "open opens opened opening",
        "process processes processed processing",
        "box boxes",
        "quick quickly",
        "basic basically",
        "probable probably",
        "complete completely",
        "try tries tried trying",
        "die dies died dying",
        "add adds added adding",
        "miss misses missed missing",
        "refer refers referred referring",
        "change changes changed changing",
        "begin begins began begun beginning",
        "write writes writing wrote written",
        "child children",
        "fix fixes fixed fixing",
    ],
)
def test_forms_of_a_word_meet(forms: str) -> None:
    assert len({stem(word) for word in forms.split()}) == 1


@pytest.mark.parametrize(
    "words",
    [
        "status state",
        "news new",
        "bring bre",
        "string str",
        "king ki",
        "red r",
        "speed spe",
        "family fami",
        "species specie",
        "universe university",
        "general generate",
        "bus but",
        "this thi",
        "united unite",
    ],
)
def test_other_words_stay_apart_or_whole(words: str) -> None:
    one, other = words.split()
    assert stem(one) != other
    assert stem(one) != stem(other) or one == "united"


def test_no_vietnamese_syllable_is_touched() -> None:
    assert len(syllables()) > 2_000
    assert {word for word in syllables() if stem(word) != word} == set()


@pytest.mark.parametrize("word", ["e0502", "os.path", "получены", "données", "v2s", "", "s", "x" * 100 + "ing"])
def test_what_is_no_english_word_stays_as_it_is(word: str) -> None:
    assert stem(word) == word


@given(st.text("abcdeginsly", max_size=14))
def test_a_stem_is_never_empty_nor_longer(word: str) -> None:
    assert bool(stem(word)) == bool(word)
    assert len(stem(word)) <= len(word) + 1
