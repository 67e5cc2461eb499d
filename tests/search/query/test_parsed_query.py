"""What a query looks like."""

import pytest

from kho.search.query.parsed_query import EVENLY, LITERALLY, MAX_QUERY_LENGTH, UNMARKED, ParsedQuery, flat


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ('say "Hello World" now', ("hello world",)),
        ("“Đồng bộ” và «dữ  liệu»", ("dong bo", "du lieu")),
        ("「数据库」是什么", ("数据库",)),
        ("`max_pool_size`", ("max_pool_size",)),
        ('"a" and ""', ()),
        ('"x" is not "y z"', ("y z",)),
        ('"   "', ()),
        ('an inch is 2.54" and no more', ()),
        ('"across\nlines"', ()),
        ('"' + "x" * 201 + '"', ()),
        ("it's John's", ()),
    ],
)
def test_phrases(text: str, phrases: tuple[str, ...]) -> None:
    assert ParsedQuery(text).phrases == phrases


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("call getUserById now", ("getuserbyid",)),
        ("max_pool_size", ("max_pool_size",)),
        ("std::vector and a->b", ("std::vector", "a->b")),
        ("kho.search.query", ("kho.search.query",)),
        ("/etc/nginx/nginx.conf", ("etc/nginx/nginx.conf",)),
        ("E0502 ERR-42 x86_64", ("e0502", "err-42", "x86_64")),
        ("0xdeadbeef and 1a2b3c", ("0xdeadbeef", "1a2b3c")),
        ("exit code -2147483648", ("-2147483648",)),
        ("请问getUserById是什么", ("getuserbyid",)),
        ("错误E0502怎么办", ("e0502",)),
        ("How do I reset the router?", ()),
        ("Làm thế nào để đặt lại bộ định tuyến?", ()),
        ("怎么重置路由器", ()),
        ("in 2024 there were 12 of them", ()),
        ("", ()),
    ],
)
def test_names(text: str, names: tuple[str, ...]) -> None:
    assert ParsedQuery(text).names == names


@pytest.mark.parametrize(
    ("text", "lean"),
    [
        ("How do I reset the router?", EVENLY),
        ("Làm thế nào để đặt lại bộ định tuyến?", EVENLY),
        ("怎么重置路由器", EVENLY),
        ("router", EVENLY),
        ("getUserById", LITERALLY),
        ("error E0502", LITERALLY),
        ('who said "to be or not"', LITERALLY),
        ("why does the compiler complain about E0502 in a loop that borrows", EVENLY),
        ("lam the nao de dat lai bo dinh tuyen", UNMARKED),
        ('lam the nao "dat lai" bo dinh tuyen', LITERALLY),
    ],
)
def test_what_decides(text: str, lean: float) -> None:
    assert ParsedQuery(text).lean == lean


@pytest.mark.parametrize(
    ("text", "speech"),
    [
        ("How do I reset the router?", True),
        ("router reset", False),
        ("lỗi của máy chủ", True),
        ("máy chủ", False),
        ("loi cua may chu", True),
        ("什么是数据库", True),
        ("数据库", False),
        ("qzxv brrt flmp", False),
    ],
)
def test_speech(text: str, speech: bool) -> None:
    assert ParsedQuery(text).is_speech is speech


@pytest.mark.parametrize(
    "text",
    ["a" * 10**7, "字" * 10**6, "_" * 10**6, '"' * 10**6, "1" * 10**6, "aA" * 10**6, "a." * 10**6, "\ud800\0" * 10**6],
)
def test_only_the_beginning_of_a_long_query_is_read(text: str) -> None:
    """It would take minutes if a word were read as often as it has letters."""
    asked = ParsedQuery(text)
    assert len(asked.beginning) == MAX_QUERY_LENGTH
    assert len(asked.tokens) <= 64
    assert len(asked.names) <= 32
    assert asked.lean in (EVENLY, LITERALLY, UNMARKED)
    assert isinstance(asked.phrases, tuple)


def test_flat() -> None:
    assert flat("  Đồng\tbộ \n Dữ　Liệu ") == "dong bo du lieu"
