"""Whether a query asks for more than who said something and when."""

import pytest

from kho.search.query.speakers import words
from kho.search.text.speech import asks_for_questions, has_content, is_about_speech


@pytest.mark.parametrize(
    "text", ["what did say on", "nói gì hôm", "noi gi vao luc", "说了什么", "告诉过我们什么", "", "messages from"]
)
def test_nothing_else(text: str) -> None:
    assert not has_content(words(text), "noi" in text)


@pytest.mark.parametrize(
    "text", ["what did eat", "ăn gì", "an gi luc nay com", "吃了什么", "about the boiler", "2 pipes"]
)
def test_something_else(text: str) -> None:
    assert has_content(words(text), "gi" in text)


def test_speech() -> None:
    assert all(map(is_about_speech, ("what did she say", "Lan kể gì", "他说了什么")))
    assert not any(map(is_about_speech, ("pnpm", "12 March", "小李")))


def test_questions() -> None:
    assert all(
        map(asks_for_questions, ("what did Lan ask", "Lan hỏi gì", "lan hoi gi", "小李问了什么", "Anna's questions"))
    )
    assert not any(map(asks_for_questions, ("basking", "xin hỏi giá", "hội chợ", "请问几点", "问题解决了")))
