"""Bytes to text: every encoding that is promised, on sentences of each language."""

import unicodedata

import pytest
from tests.parsers.samples import windows_1258

from kho.parsers import UnreadableFile, read
from kho.parsers.encoding import decode

VIETNAMESE = (
    "Hôm nay trời mưa to, nên chúng tôi ở nhà đọc sách. Cơ sở dữ liệu không kết nối được vì mật khẩu đã hết hạn."
)
SIMPLIFIED = "今天下雨了，我们在家里看书。数据库连接失败，因为密码上周已经过期了，请联系管理员。"
TRADITIONAL = "今天下雨了，我們在家裡看書。資料庫連線失敗，因為密碼上週已經過期了，請聯絡管理員。"
ENGLISH = "The café’s owner said “naïve” people don’t pay — they resume their résumé."
JAPANESE = "今日は雨が降っているので、家で本を読んでいます。データベースに接続できません。"
KOREAN = "오늘은 비가 와서 우리는 집에서 책을 읽고 있습니다. 데이터베이스 연결에 실패했습니다."
RUSSIAN = "Сегодня идёт дождь, и мы читаем книги дома. База данных не отвечает."
WESTERN = [
    ENGLISH,
    "L’été dernier, nous avons été très étonnés par l’œuvre du garçon à Noël, où ça coûte 5 €.",
    "Die Größe der Häuser überrascht täglich, weil Füße müde werden.",
    "Perché però è così, più o meno: la città può dirlo, ciò è già virtù.",
    "Não há soluções fáceis; as ações são públicas e os cães também estão lá.",
    "El niño comió piñas mañana; ¿qué pasó después? ¡Canción rápida!",
    "café",
]
FILLER = "Lots of English text comes first, line after line.\n" * 200


def composed(data: bytes) -> tuple[str, str]:
    found = decode(data)
    return found.encoding, unicodedata.normalize("NFC", found.text)


@pytest.mark.parametrize(
    "text", [VIETNAMESE, SIMPLIFIED, ENGLISH, JAPANESE, KOREAN, RUSSIAN, "Không tìm thấy tệp", "abc"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_unicode_with_a_mark(text: str, encoding: str) -> None:
    assert composed(("\ufeff" + text).encode(encoding)) == (encoding, text)


@pytest.mark.parametrize(
    "text", [VIETNAMESE, SIMPLIFIED, TRADITIONAL, ENGLISH, JAPANESE, "Không tìm thấy tệp", "abc\n"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_unicode_without_a_mark(text: str, encoding: str) -> None:
    assert composed(text.encode(encoding)) == (encoding, text)


@pytest.mark.parametrize("text", [VIETNAMESE, VIETNAMESE.upper(), "Không tìm thấy tệp", FILLER + VIETNAMESE])
def test_vietnamese_of_windows_comes_out_composed(text: str) -> None:
    data = windows_1258(text)
    assert composed(data) == ("windows-1258", text)
    found = read(data, "ghi chú.txt")
    assert found.text == text
    assert found.encoding == "windows-1258"
    assert found.notes == ("The encoding windows-1258 was guessed.",)
    assert read(b"x = 1  # " + data, "a.py").text == "x = 1  # " + text


@pytest.mark.parametrize("text", [SIMPLIFIED, TRADITIONAL, "数据库连接失败", "密码", FILLER + SIMPLIFIED + FILLER])
def test_chinese_of_the_mainland(text: str) -> None:
    assert composed(text.encode("gb18030")) == ("gb18030", text)


@pytest.mark.parametrize("text", [TRADITIONAL, "資料庫連線失敗", FILLER + TRADITIONAL + FILLER])
def test_chinese_of_taiwan(text: str) -> None:
    assert composed(text.encode("big5")) == ("big5", text)


@pytest.mark.parametrize("text", WESTERN)
def test_western_european(text: str) -> None:
    assert composed(text.encode("cp1252")) == ("windows-1252", text)


@pytest.mark.parametrize(
    ("text", "codec", "encoding"),
    [
        (JAPANESE, "shift_jis", "cp932"),
        (JAPANESE, "euc_jp", "euc_jp"),
        (KOREAN, "euc_kr", "euc_kr"),
        (RUSSIAN, "cp1251", "windows-1251"),
        ("Zażółć gęślą jaźń, całą noc pisał książkę o źródłach.", "cp1250", "windows-1250"),
    ],
)
def test_others_are_told_too(text: str, codec: str, encoding: str) -> None:
    assert composed(text.encode(codec)) == (encoding, text)


@pytest.mark.parametrize(
    ("declaration", "codec", "encoding"),
    [
        ('<meta charset="iso-8859-2">', "iso8859-2", "iso8859-2"),
        ("<meta http-equiv='Content-Type' content='text/html; charset=windows-1257'>", "cp1257", "windows-1257"),
        ('<?xml version="1.0" encoding="ISO-8859-1"?>', "cp1252", "windows-1252"),
        ("# -*- coding: iso-8859-15 -*-", "iso8859-15", "iso8859-15"),
        ("#!/usr/bin/python\n# vim: set fileencoding=koi8-r :", "koi8-r", "koi8-r"),
    ],
)
def test_a_declared_charset_counts(declaration: str, codec: str, encoding: str) -> None:
    word = "Я" if codec == "koi8-r" else "ü"
    assert composed(f"{declaration}\n{word}".encode(codec)) == (encoding, f"{declaration}\n{word}")


@pytest.mark.parametrize(
    "named", ["utf-8", "base64", "rot13", "zip", "unicode_escape", "idna", "no-such-thing", "utf-7"]
)
def test_a_declaration_that_is_no_charset_or_wrong_is_passed_over(named: str) -> None:
    assert composed(f'<meta charset="{named}">café'.encode("cp1252"))[1].endswith("café")


def test_valid_utf8_wins_over_a_wrong_declaration() -> None:
    assert decode('<meta charset="iso-8859-1">đã'.encode()).text.endswith("đã")


def test_utf8_with_a_broken_place_stays_utf8_and_says_so() -> None:
    found = decode(VIETNAMESE.encode() + b"\xff" + VIETNAMESE.encode()[:-1] + b"\xe1")
    assert found.encoding == "utf-8"
    assert found.notes == ("2 broken characters were replaced.",)


@pytest.mark.parametrize(
    "data",
    [
        bytes(range(256)) * 20,
        b"\x7fELF\x02\x01\x01" + bytes(range(100)) * 9,
        b"\x89PNG\r\n\x1a\n" + bytes(200),
        b"PK\x03\x04" + bytes(range(60)) * 9,
        b"\x1f\x8b\x08\x00" + bytes(range(100)) * 9,
        b"\0" * 1000,
        b"\xff\xfe" + bytes(range(0xD8, 0xE0)) * 500,
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a.html", "a.csv", "a.json", "a", "a.ipynb"])
def test_binary_content_under_the_name_of_a_text(data: bytes, name: str) -> None:
    with pytest.raises(UnreadableFile, match=r"binary|not valid in that encoding"):
        read(data, name)


def test_what_no_reader_sees_is_left_out() -> None:
    dirty = "one\0\x07\x08 two\r\nthree\rfour\x1b[31m red\x1b[0m\u2028five\x7f\x85six\fseven\ufeff" + "." * 3000
    found = read(dirty.encode(), "a.txt")
    assert found.text.rstrip(".") == "one two\nthree\nfour red\nfive\nsix\n\nseven"
    assert found.notes == ("NUL characters were left out.",)


def test_half_characters_are_left_out() -> None:
    assert read("\ufeffa\ud800b".encode("utf-16-le", "surrogatepass"), "a.txt").text == "a\ufffdb"
    assert read(rb'{"a": "x\ud800y", "b": "\u0111\u00e3"}', "a.json").text == '{"a": "xy", "b": "đã"}'


def test_letters_and_marks_become_one_character_but_not_in_code() -> None:
    parted = unicodedata.normalize("NFD", VIETNAMESE)
    assert read(parted.encode(), "a.md").text == VIETNAMESE
    assert read(parted.encode(), "a.py").text == parted
