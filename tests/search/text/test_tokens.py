"""Folding: text to the tokens that both databases index."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.search.text.tokens import MAX_QUERY_TOKENS, fold, index_tokens, pieces, plain, query_tokens

TEXT = st.text(
    st.characters()
    | st.sampled_from("đĐăÂếềỆ数据库的Ａｂ１ßŞıİﬁ가한カタカナภาไ́\u200d\u00ad_-./\\:@#+'&,🏠\ud800\x00 aB1"),
    max_size=60,
)


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("Hello, World", "hello, world"),
        ("Đồng bộ dữ liệu", "dong bo du lieu"),
        ("ĐƯỜNG ĐI ĐỨT", "duong di dut"),
        (unicodedata.normalize("NFD", "Tiếng Việt"), "tieng viet"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ１２", "full width12"),
        ("ﬁne ①", "fine 1"),
        ("Straße", "strasse"),
        ("ΣΊΣΥΦΟΣ", "σισυφοσ"),
        ("İstanbul ılık", "istanbul ilik"),
        ("Łódź Ærø Þór", "lodz aero thor"),
        ("𝐁𝐨𝐥𝐝 𝟙𝟚", "bold 12"),
        ("٣٤ ๓", "34 3"),
        ("مُحَمَّد שָׁלוֹם", "محمد שלום"),
        ("soft\u00adhyphen zero\u200dwidth", "softhyphen zerowidth"),
        ("数据库 한국어 が", "数据库 한국어 が"),
        ("", ""),
    ],
)
def test_case_width_and_accents_are_folded(text: str, folded: str) -> None:
    assert fold(text) == folded


@settings(deadline=None)
@given(TEXT)
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@settings(deadline=None)
@given(TEXT)
def test_composition_makes_no_difference(text: str) -> None:
    assert index_tokens(unicodedata.normalize("NFD", text)) == index_tokens(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Users stored the queries quickly", ["user", "store", "the", "queri", "quick"]),
        ("Tiếng Việt", ["tieng", "tiếng", "viet", "việt"]),
        ("hoà bình", ["hoa", "hòa", "binh", "bình"]),
        ("hòa quý", ["hoa", "hòa", "quy", "quý"]),
        ("don’t Beyoncé's", ["dont", "beyonc", "beyoncé"]),
        ("数据库", ["数", "据", "库", "数据", "据库"]),
        ("React状态v2", ["react", "状", "态", "状态", "v2"]),
        ("カタカナ", ["カ", "タ", "カ", "ナ", "カタ", "タカ", "カナ"]),
        ("库", ["库"]),
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("हिन्दी", ["हिन्दी"]),
        ("!?… 🏠", ["🏠"]),
        ("👍🏽 👨‍👩‍👧 🇻🇳❤️", ["👍", "👨", "👩", "👧", "🇻🇳", "❤"]),
        ("", []),
        (" \t\n", []),
        ("!!! --- ___ ... ()[]{} «»", []),
        ("\u0301\u0302 \u200d \ud800 \x00", []),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ('"AND" OR NEAR(x*)', ["and", "or", "near", "x"]),
    ],
)
def test_a_text_becomes_tokens(text: str, tokens: list[str]) -> None:
    assert index_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("snake_case", {"snake_case", "snakecase", "snake", "case"}),
        ("getUserName", {"getusername", "get", "user", "name"}),
        ("HTTPServer2", {"httpserver2", "http", "server"}),
        ("URLs", {"url"}),
        ("my-component", {"my-component", "mycomponent", "my", "component"}),
        ("os.path.join(x)", {"os.path.join", "os.path", "path.join", "os", "path", "join", "x"}),
        (
            "/etc/nginx/nginx.conf",
            {"etc/nginx/nginx.conf", "etc/nginx", "nginx/nginx.conf", "nginx.conf", "etc", "nginx", "conf"},
        ),
        ("src\\foo.py", {"src/foo.py", "foo.py", "src", "foo", "py"}),
        ("C:\\Users", {"c:/users", "c", "user"}),
        ("3.11.2", {"3.11.2", "3.11", "11.2", "3", "11", "2"}),
        ("E0502", {"e0502"}),
        ("0x80070005", {"0x80070005"}),
        ("ERR_TIMED_OUT", {"err_timed_out", "errtimedout", "err", "time", "out"}),
        ("ORA-00942", {"ora-00942", "ora", "00942"}),
        ("CVE-2024-3094", {"cve-2024-3094", "cve", "2024", "3094"}),
        ("code=-32602", {"code", "-32602", "32602"}),
        ("python3", {"python3", "python"}),
        ("C++ c++17", {"c++", "c", "c++17", "17"}),
        ("C#, F#.", {"c#", "c", "f#", "f"}),
        (".NET", {".net", "net"}),
        ("std::vector<int>", {"std::vector", "std", "vector", "int"}),
        ("node.js", {"node.js", "node", "js"}),
        (
            "https://a.org/b/c.html",
            {"https", "a.org/b/c.html", "a.org/b", "b/c.html", "a.org", "a", "org", "b", "c.html", "c", "html"},
        ),
        ("me@example.com", {"me@example.com", "me", "example.com", "exampl", "com"}),
        ("--no-verify", {"--no-verify", "no-verify", "noverify", "no", "verifi"}),
        ("__init__ _word_", {"__init__", "init", "word"}),
        ("AT&T", {"at&t", "at", "t"}),
        ("U.S.", {"u.s", "us", "u", "s"}),
        ("1,000,000", {"1000000"}),
        ("1990–1995", {"1990-1995", "1990", "1995"}),
    ],
)
def test_identifiers_are_tokens_as_a_whole_and_in_parts(text: str, tokens: set[str]) -> None:
    assert set(index_tokens(text)) == tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ＧＰＵ", "gpu"),
        ("getUserName", "get_user_name"),
        ("Wi-Fi", "wifi"),
        ("1.000", "1,000"),
        ("U.S.A.", "USA"),
        ("/var/log/", "var\\log"),
        ("http://example.com/x/", "example.com/x"),
        ("caching", "cached"),
        ("thuý", "thúy"),
        ("1990–1995", "1990-1995"),
        ("it’s", "it's"),
    ],
)
def test_two_ways_of_writing_share_a_token(one: str, other: str) -> None:
    shared = set(index_tokens(one)) & set(index_tokens(other))
    assert max(map(len, shared), default=0) >= min(max(map(len, index_tokens(text))) for text in (one, other)) - 2


def test_a_query_asks_for_each_token_once_and_pairs_rather_than_characters() -> None:
    assert query_tokens("数据库 teapot TEAPOT 库") == [("数据", 1.0), ("据库", 1.0), ("teapot", 1.0), ("库", 1.0)]


def test_the_right_marks_count_more_and_missing_ones_are_forgiven() -> None:
    query = query_tokens("dữ liệu")
    assert query == [("du", 0.6), ("dữ", 0.4), ("lieu", 0.6), ("liệu", 0.4)]
    share = {
        text: sum(weight for token, weight in query if token in index_tokens(text))
        for text in ("dữ liệu", "du lieu", "dự liếu", "việc")
    }
    assert share["dữ liệu"] == pytest.approx(2.0)
    assert share["du lieu"] == share["dự liếu"] == pytest.approx(1.2)
    assert share["việc"] == 0
    assert query_tokens("du lieu") == [("du", 1.0), ("lieu", 1.0)]


@pytest.mark.parametrize(
    "word",
    "the|THE|khong|không|của|bao nhiêu|bao nhieu|khi nào|ở đâu|tại sao|what|who|how many|的|什么|为什么|谁|哪|多少|怎么".split(
        "|"
    ),
)
def test_function_words_count_little(word: str) -> None:
    tokens = query_tokens(word)
    assert tokens
    assert sum(importance for _, importance in tokens) <= 0.1 * max(len(word.split()), len(tokens)) + 1e-9


@pytest.mark.parametrize(
    ("query", "token"),
    [
        ("cửa sổ", "cửa"),  # a door; `của` is a function word
        ("What is AI", "ai"),  # typed in a Vietnamese query it would be `who`
        ("the WHO says", "who"),
        ("US law", "us"),
        ("data do", "data"),
        ("目的", "目的"),
        ("và", "và"),
    ],
)
def test_words_that_look_like_function_words(query: str, token: str) -> None:
    weights = dict(query_tokens(query))
    assert weights[token] == {"cửa": 0.4, "và": 0.04, "目的": 0.6}.get(token, 1.0)


def test_function_words_without_marks_are_known_in_a_vietnamese_query() -> None:
    assert dict(query_tokens("cach cai dat la gi"))["gi"] == 0.1
    assert dict(query_tokens("trong khi dữ liệu"))["trong"] == 0.1
    assert dict(query_tokens("trong"))["trong"] == 0.1
    assert dict(query_tokens("la liga scores"))["la"] == 1.0


@pytest.mark.parametrize(
    "name",
    [
        "getUserName",
        "ERR_CONNECTION_REFUSED",
        "os.path.join",
        "/etc/nginx/nginx.conf",
        "ORA-00942",
        "C++",
        "me@example.com",
    ],
)
def test_the_whole_identifier_outweighs_its_parts(name: str) -> None:
    (whole, most), *rest = query_tokens(name)
    assert most == 1.0
    assert whole == fold(name).strip("/")
    assert 0 < sum(weight for _, weight in rest) <= 1.0 + 1e-3


def test_hyphenated_words_are_words() -> None:
    assert dict(query_tokens("user-friendly")) == {
        "user-friendly": 0.4,
        "userfriendly": 0.2,
        "user": 1.0,
        "friend": 1.0,
    }


def test_a_long_query_is_cut_to_its_most_important_tokens() -> None:
    words = " ".join(f"the word{number}x" for number in range(200))
    tokens = query_tokens(f"{words} special special")
    assert len(tokens) == MAX_QUERY_TOKENS
    assert "the" not in dict(tokens)
    assert tokens[-1] == ("special", 1.0)


def test_of_a_huge_query_the_beginning_and_the_end_are_read() -> None:
    filler = "lorem ipsum dolor sit amet " * 400_000
    tokens = dict(query_tokens(f"Traceback {filler} ZeroDivisionError"))
    assert {"traceback", "zerodivisionerror", "lorem"} <= tokens.keys()


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "a.",
        "aB",
        ".",
        "/",
        "a-",
        "a://",
        "\u200d",
        "a\u0301",
        "\u0301",
        "数",
        "ไ",
        "1,",
        "000,",
        "_",
        "a_",
        "+",
        "c++",
        "a'",
        "a::",
        ".#@$",
        "\ud800",
    ],
)
def test_endless_input_is_read_in_linear_time(unit: str) -> None:
    """A regex that backtracks would not come back from this."""
    index_tokens(unit * (100_000 // len(unit)))
    assert len(query_tokens(unit * 100_000)) <= MAX_QUERY_TOKENS


@settings(deadline=None)
@given(TEXT)
def test_whatever_a_query_asks_for_is_in_the_index_of_the_same_text(text: str) -> None:
    assert {token for token, _ in query_tokens(text)} <= set(index_tokens(text))


@settings(deadline=None)
@given(TEXT)
def test_every_weight_is_a_share(text: str) -> None:
    assert all(0 < importance <= 1 for _, importance in query_tokens(text))


@settings(deadline=None)
@given(TEXT, TEXT)
def test_a_text_keeps_its_tokens_next_to_another(one: str, other: str) -> None:
    assert index_tokens(f"{one}\n{other}") == index_tokens(one) + index_tokens(other)


@settings(deadline=None)
@given(TEXT)
def test_tokens_can_be_stored_and_hold_no_space(text: str) -> None:
    for token in index_tokens(text):
        token.encode("utf-8")
        assert token
        assert not any(char.isspace() or char == "\x00" for char in token)


@settings(deadline=None)
@given(TEXT)
def test_the_short_way_to_the_tokens_is_the_long_one(text: str) -> None:
    long = [token for chunk in text.split() for piece in pieces(chunk) for token in (piece.token, piece.exact) if token]
    assert sorted(index_tokens(text)) == sorted(long)


@settings(deadline=None)
@given(TEXT)
def test_every_piece_lies_within_the_plain_text(text: str) -> None:
    for chunk in text.split():
        length = len(plain(chunk))
        assert all(0 <= piece.start < piece.end <= length for piece in pieces(chunk))
