"""Vietnamese typed without its marks is told from English."""

import pytest

from kho.search.text.language import syllables, typed_without_marks


@pytest.mark.parametrize(
    "text",
    [
        "dong bo du lieu",
        "khong ket noi duoc may chu",
        "tai sao may tinh khong len nguon?",
        "cach cai dat docker tren may tinh",
        "Tran Hung Dao thang quan nguyen nam nao",
        "gia vang hom nay",
        "loi ket noi database",
        "khong",
        "HUONG DAN SU DUNG",
    ],
)
def test_vietnamese_without_marks(text: str) -> None:
    assert typed_without_marks(text)


@pytest.mark.parametrize(
    "text",
    [
        "the cat sat on the mat",
        "what is the price of gold",
        "how do I connect to the database",
        "man in the hat",
        "to do",
        "Không kết nối được",
        "数据库",
        "connection refused",
        "ERR_CONNECTION_REFUSED",
        "3.11.2 404",
        "",
        "!!!",
        "\ud800\x00",
        "hong kong phone number",
        "git push origin main",
    ],
)
def test_everything_else(text: str) -> None:
    assert not typed_without_marks(text)


def test_the_syllables_follow_the_spelling() -> None:
    assert {"nguoi", "nghieng", "khuya", "quyen", "giet", "gi", "yeu", "oanh", "quoc", "xoong"} <= syllables()
    assert not {"ka", "ce", "nge", "ngha", "ghu", "what", "qan", "zoi", "string", "ab"} & syllables()
