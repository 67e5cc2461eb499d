import pytest

from kho.search.text.questions import asks


@pytest.mark.parametrize(
    "text",
    ["Where is it?", "Is it? I think so.", "在哪里？", "你吃了吗", "他呢。", "Em ăn chưa", "Đi không", "Vui nhỉ!"],
)
def test_questions(text: str) -> None:
    assert asks(text)


@pytest.mark.parametrize("text", ["It is here.", "我吃了。", "Em chưa ăn.", "Không sao.", "", "吗啡", "Chị không đi."])
def test_other_sentences(text: str) -> None:
    assert not asks(text)
