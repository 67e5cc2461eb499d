"""A summary made of the conversation's own sentences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.memory.chats import PLANTED, chat

from kho.memory.extractive_summary import SPEAKERS, Said, shorter, spoken, summary


def said(language: str, first: int = 0, last: int = 54) -> list[Said]:
    return [Said(role, content) for role, content in chat(language)[first:last]]


@pytest.mark.parametrize("language", ["vi", "en", "zh"])
def test_facts_stay_and_small_talk_goes(language: str) -> None:
    text = summary(said(language), 1_200)
    assert all(fact in text for fact in PLANTED[language]), text
    assert len(text) <= 1_200
    assert text.startswith(f"- {SPEAKERS[language]['user']}")
    for thanks in ("Dạ em cảm ơn bác sĩ", "Thanks, that helps", "好的，谢谢医生"):
        assert thanks not in text


@pytest.mark.parametrize("language", ["vi", "en", "zh"])
def test_the_language_is_told(language: str) -> None:
    assert spoken(said(language)) == language


@pytest.mark.parametrize("language", ["vi", "en", "zh"])
def test_what_is_made_shorter_keeps_the_facts(language: str) -> None:
    brief = shorter(summary(said(language), 2_000), 500)
    assert len(brief) <= 500
    assert sum(fact in brief for fact in PLANTED[language]) >= 5, brief


def test_nothing_said_is_nothing_to_summarise() -> None:
    assert summary([], 500) == ""
    assert summary([Said("user", "Hi!"), Said("assistant", "Hello.")], 500) == ""
    assert summary([Said("user", "   ")], 500) == ""


def test_a_sentence_without_end_is_cut() -> None:
    text = summary([Said("user", "The budget is 500 dollars " + "and so on, " * 200)], 1_000)
    assert "500 dollars" in text
    assert len(text) < 400


def test_names_and_the_question_of_a_short_answer_are_kept() -> None:
    talk = [Said("user", "When does the dentist open?", "Minh"), Said("user", "On Thursday.", "Lan")]
    assert summary(talk, 500) == "- Minh: When does the dentist open?\n- Lan: On Thursday."


def test_each_sentence_once() -> None:
    text = summary([Said("user", "The code is 4711."), Said("user", "The code is 4711.")], 500)
    assert text.count("4711") == 1


@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), st.text(max_size=400)), max_size=12), st.integers(0, 900)
)
@settings(deadline=None, max_examples=150)
def test_it_is_never_too_long(messages: list[tuple[str, str]], most: int) -> None:
    assert len(summary([Said(*one) for one in messages], most)) <= most
