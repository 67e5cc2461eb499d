"""Searching: words at once, meaning soon, in the right place and in time, whatever is asked."""

import asyncio
import random

import pytest
from tests.search.conftest import Core, T, doc

from kho.kernel.errors import Timeout, Unavailable
from kho.kernel.ports import Database, SearchFilter, Words
from kho.search.indexing.index import Document, Field, Index, Passage, prepare
from kho.search.query import scoring
from kho.search.query.searcher import Searcher, SearchLimits

SOME = 70
"""More than are looked at closely, and fewer than a list has."""


async def test_by_words_at_once_and_by_meaning_soon(core: Core) -> None:
    """The hash embedder knows parts of words: `resetting` is like `presetting`, which no token says."""
    await core.put(doc("a", "Presetting the routers' frequency."), doc("b", "Baking bread at home with little flour."))
    assert await core.keys("frequency") == ["a"]
    found = await core.searcher.search(T, "resetting a router frequencies")
    assert found.pending == 2
    assert all(hit.parts.meaning is None for hit in found.hits)
    await core.settle()
    found = await core.searcher.search(T, "resetting a router frequencies")
    assert found.pending == 0
    assert found.hits[0].passage.key == "a"
    assert found.hits[0].parts.meaning is not None
    assert await core.nearest("resetting a router frequencies", limit=1) == await core.seqs("a")


FILED = {
    "a": doc("a", "The old bridge is closed.", collection="red", kind="note", tags=("x", "y"), created_at=10),
    "b": doc("b", "The new bridge is closed.", collection="red", kind="code", tags=("x",), created_at=20),
    "c": doc("c", "The long bridge is closed.", collection="blue", kind="note", tags=("y",), created_at=30),
    "d": doc("d", "The short bridge is closed."),
}


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (T, "abcd"),
        (SearchFilter("s", "t", ("red",)), "ab"),
        (SearchFilter("s", "t", ("red", "blue")), "abc"),
        (SearchFilter("s", "t", ("",)), "d"),
        (SearchFilter("s", "t", ("Red",)), ""),
        (SearchFilter("s", "t", kinds=("note",)), "ac"),
        (SearchFilter("s", "t", tags=("x",)), "ab"),
        (SearchFilter("s", "t", tags=("x", "y")), "a"),
        (SearchFilter("s", "t", since=20), "bc"),
        (SearchFilter("s", "t", until=20), "ad"),
        (SearchFilter("s", "t", ("red",), ("note", "code"), ("x",), 15, 30), "b"),
        (SearchFilter("s", "u"), ""),
        (SearchFilter("s2", "t"), ""),
        (SearchFilter("", ""), ""),
    ],
)
async def test_filters_hold_in_both_legs(core: Core, where: SearchFilter, expected: str) -> None:
    await core.put(*FILED.values(), doc("e", "The bridge of others.", tenant="v"), doc("f", "The bridge.", space="s3"))
    assert sorted(await core.keys("bridge closed", where)) == list(expected)
    await core.settle()
    assert sorted(await core.keys("bridge closed", where)) == list(expected)
    meant = {seq for key in expected for seq in await core.seqs(key)}
    assert set(await core.nearest("bridge closed", where)) == meant


ODD = ["", " \n\t", "?!…—", "\"'()[]{}", "\0", "\ud800", "\ud83d\0", "\u200b\ufeff", "。、！"]
OPERATORS = ['"', "*", "bridge*", "NEAR", "NEAR(bridge closed, 2)", "bridge AND closed", "bridge OR", "NOT bridge", "-bridge",
             "^bridge", "bridge:closed", "text:bridge", "{bridge}", "bridge + closed", "(bridge", '"bridge', "bridge'", "%", "_",
             "'; DROP TABLE passages; --", "bridge & closed | x !y <-> z", "\\bridge\\", "$1", "{1,2}"]  # fmt: skip


async def test_whatever_is_asked_is_text(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."), doc("b", "NEAR the end, AND over."))
    for text in ODD:
        found = await core.searcher.search(T, text)
        assert (found.hits, found.total, found.cursor) == ([], 0, None), repr(text)
    for text in OPERATORS:
        if "bridge" in text:
            assert await core.first(text) == "a", text
        else:
            await core.searcher.search(T, text)
    assert await core.first("NEAR AND") == "b"
    for text in ("the of and", "là và của", "的 了 是", "😀 🇻🇳", "مرحبا هפוך", "bridge\0closed \ud800", "a" * 100_000):
        found = await core.searcher.search(T, text)
        assert all(0 <= hit.score <= 1 for hit in found.hits)
    assert await core.first("bridge\0closed \ud800") == "a"
    assert await core.number("passages") == 2


async def test_a_query_of_ten_megabytes(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."), doc("b", "The museum is open."))
    assert await core.first("the bridge is closed " * 500_000) == "a"
    assert await core.keys("x" * 10_000_000) == []
    assert max(map(len, core.embedder.asked)) <= 8_000


async def test_emoji_are_found(core: Core) -> None:
    await core.put(doc("a", "Party 🎉 tonight"), doc("b", "Quiet evening"))
    assert await core.keys("🎉") == ["a"]


@pytest.mark.parametrize("asked", ["the", "what is it", "The", "là gì", "của", "什么", "为什么"])
async def test_function_words_alone_say_little_about_what_they_find(core: Core, asked: str) -> None:
    texts = {"en": "What is it? The thing.", "vi": "Đó là gì? Của ai?", "zh": "什么？为什么。"}
    await core.put(*(doc(key, text) for key, text in texts.items()))
    for _ in range(2):  # by words alone, then with vectors
        hits = (await core.searcher.search(T, asked)).hits
        assert hits
        assert hits[0].score <= scoring.UNTELLING
        await core.settle()
    quoted = (await core.searcher.search(T, '"what is it"')).hits
    assert quoted[0].passage.key == "en"
    assert quoted[0].score > 0.5


async def test_function_words_alone_still_find_what_has_them(core: Core) -> None:
    await core.put(doc("a", "To be or not to be."), doc("b", "Nothing else here works."))
    assert await core.keys("to be or not to be") == ["a"]


TEXTS = {
    "marked": "Hướng dẫn đồng bộ dữ liệu",
    "unmarked": "Huong dan dong bo du lieu",
    "chinese": "请先检查数据库的连接池设置",
    "camel": "Call getUserById before saveAll.",
    "snake": "Set max_pool_size in the file.",
    "dotted": "Raised by kho.search.query.Searcher today.",
    "code": "error[E0502]: cannot borrow as mutable",
    "path": "See /etc/nginx/nginx.conf for it.",
}


@pytest.mark.parametrize(
    ("asked", "first"),
    [
        ("đồng bộ dữ liệu", "marked"),
        ("dong bo du lieu", "unmarked"),
        ("hướng dẫn", "marked"),
        ("huong dan", "unmarked"),
        ("数据", "chinese"),
        ("连接", "chinese"),
        ("检查设置", "chinese"),
        ("getUserById", "camel"),
        ("user by id", "camel"),
        ("saveall", "camel"),
        ("pool size", "snake"),
        ("max_pool_size", "snake"),
        ("searcher", "dotted"),
        ("kho.search.query", "dotted"),
        ("E0502", "code"),
        ("e0502 borrow", "code"),
        ("nginx.conf", "path"),
        ("/etc/nginx", "path"),
    ],
)
async def test_what_each_language_and_name_is_found_by(core: Core, asked: str, first: str) -> None:
    await core.put(*(doc(key, text) for key, text in TEXTS.items()))
    assert await core.first(asked) == first


async def test_marks_right_before_marks_missing_before_marks_wrong(core: Core) -> None:
    await core.put(doc("wrong", "hương dân"), doc("right", "hướng dẫn"), doc("missing", "huong dan"))
    assert (await core.keys("hướng dẫn"))[0] == "right"
    assert set(await core.keys("huong dan")) == {"right", "missing", "wrong"}


def check(hits: list[tuple[float, scoring.ScoreParts]], lean: float, scale: scoring.Levels) -> None:
    scores = [score for score, _ in hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)
    # The parts give the score, on the scale of such texts.
    looked_at = [(score, parts) for score, parts in hits if score < 1 and (parts.meaning is not None or lean == 1)]
    assert len(looked_at) > 5
    assert [score for score, _ in looked_at] == pytest.approx(
        [scale.place(scoring.score(parts, lean)) for _, parts in looked_at]
    )


async def test_scores_are_explained_by_their_parts(core: Core) -> None:
    words = "bridge closed lorries cracks pillars engineers".split()
    documents = [doc(f"d{n}", " ".join(words[: n % 6 + 1]) + f" and more of {n}") for n in range(40)]
    await core.ready(*documents)
    found = await core.searcher.search(T, "bridge closed cracks pillars", limit=SOME)
    assert len(found.hits) > 10
    check([(hit.score, hit.parts) for hit in found.hits], scoring.AMONG_NOTES.words, scoring.AMONG_NOTES.own)
    by_words = await Searcher(core.db, core.words).search(T, "bridge closed cracks pillars", limit=SOME)
    check([(hit.score, hit.parts) for hit in by_words.hits], 1.0, scoring.COMMON)
    assert all(hit.parts.meaning is None for hit in by_words.hits)


async def test_the_order_goes_on_past_what_was_looked_at(core: Core) -> None:
    chance = random.Random(1)
    words = [f"word{n}" for n in range(12)]
    await core.put(*(doc(f"d{n}", " ".join(chance.sample(words, 6)) + f" tail{n}") for n in range(SOME)))
    await core.put(*(doc(f"near{n}", f"xword0 xword1 xword2 xword3 {n}") for n in range(10)))  # none of the words
    await core.settle()
    found = await core.searcher.search(T, " ".join(words[:4]), limit=200)
    scores = [hit.score for hit in found.hits]
    assert len(scores) > 60
    assert scores == sorted(scores, reverse=True)
    assert len({hit.passage.ref.seq for hit in found.hits}) == len(scores)


async def test_copies_are_shown_once_and_a_document_has_one_place(core: Core) -> None:
    copies = [doc(f"copy{n}", "The bridge is closed.") for n in range(SOME)]
    await core.ready(*copies, doc("other", "The bridge is open.", "Another bridge.", "The bridge is closed."))
    found = await core.searcher.search(T, "bridge closed", limit=200)
    texts = [hit.passage.text for hit in found.hits]
    assert sorted(texts) == ["Another bridge.", "The bridge is closed.", "The bridge is open."]
    keys = await core.keys("bridge closed", per_key=True, limit=200)
    assert sorted(keys) == sorted({"other", *(f"copy{n}" for n in range(SOME))})


async def test_a_slow_model_costs_its_patience_and_no_more(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    slow = core.beside(limits=SearchLimits(patience=0.05))
    slow.embedder.gate = asyncio.Event()
    found = await slow.searcher.search(T, "bridge")
    assert [hit.passage.key for hit in found.hits] == ["a"]
    assert found.notes == ("Keyword search only. The model is not ready yet.",)
    slow.embedder.gate.set()
    assert (await slow.searcher.search(T, "bridge")).notes == ()  # such an answer is not kept


async def test_no_time_is_a_timeout(core: Core) -> None:
    await core.ready(doc("a", "The bridge is closed."))
    for timeout in (0.0, 1e-9, 1e-5):
        with pytest.raises(Timeout):
            await core.searcher.search(T, "bridge", timeout=timeout)
    assert await core.first("bridge") == "a"


async def test_an_index_that_breaks_off_leaves_the_words(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    await core.ready(doc("a", "The bridge is closed."))

    async def broken(*given: object, **named: object) -> None:
        raise Unavailable("The index is away.")

    for verb in ("get", "nearest"):
        with monkeypatch.context() as patch:
            patch.setattr(core.vectors, verb, broken)
            found = await core.searcher.search(T, "bridge")
        assert [hit.passage.key for hit in found.hits] == ["a"]
        assert found.notes == ("Keyword search only. The index is away.",)
    assert (await core.searcher.search(T, "bridge")).notes == ()


def hidden(chance: random.Random, number: int) -> tuple[str, str, Document]:
    """A query, the key of what it is for, and a document that holds it once."""
    letters, digits = "abcdefghijklmnopqrstuvwxyz", "0123456789"

    def word(length: int) -> str:
        return "".join(chance.choices(letters, k=length))

    def code() -> str:
        return "".join(chance.choices(digits, k=4))

    filler = [" ".join(chance.choices(COMMON, k=chance.randrange(10, 40))) for _ in range(2)]
    phrase = " ".join(chance.choices(COMMON, k=4))
    kinds = [
        f"{word(4)}_{word(5)}_{word(3)}",
        f"get{word(5).title()}By{word(4).title()}",
        f"{word(3)}.{word(6)}.{word(4).title()}",
        f"E{code()}",
        f"ERR-{word(3).upper()}-{code()}",
        f"0x{''.join(chance.choices('0123456789abcdef', k=8))}",
        f"/var/{word(4)}/{word(5)}.conf",
        f"{word(5)}::{word(6)}",
        f'"{phrase}"',
        f"What does error {word(2).upper()}{code()} mean?",
    ]
    asked = kinds[number % len(kinds)]
    held = asked.removeprefix("What does error ").removesuffix(" mean?").strip('"')
    return asked, f"hidden{number}", doc(f"hidden{number}", f"{filler[0]} {held} {filler[1]}")


COMMON = (
    "server database connection query index table user file system error update install network memory process "
    "thread request response cache token model passage vector search engine service cluster node disk backup "
    "máy chủ dữ liệu kết nối tìm kiếm bảng người dùng hệ thống lỗi cập nhật mạng bộ nhớ tiến trình yêu cầu "
    "数据 连接 查询 索引 用户 文件 系统 错误 更新 安装 网络 内存 进程 线程 请求 响应 缓存 模型 向量 搜索"
).split()


async def test_200_names_codes_and_phrases_in_10000_chunks(db: Database, words: Words) -> None:
    chance = random.Random(7)
    wanted = [hidden(chance, number) for number in range(200)]
    others = [doc(f"d{n}", " ".join(chance.choices(COMMON, k=chance.randrange(20, 60)))) for n in range(9_800)]
    documents = [*others, *(document for _, _, document in wanted)]
    chance.shuffle(documents)
    index, searcher = Index(words, None, "", lambda: 0), Searcher(db, words)
    prepared = [prepare(document) for document in documents]
    await db.write(lambda tx: index.put(tx, prepared))
    if db.engine == "postgres":  # which would do it by itself, within a minute
        await db.write(lambda tx: tx.script("ANALYZE words_entries; ANALYZE passages"))
    missed: list[str] = []
    for asked, key, _ in wanted:
        found = await searcher.search(T, asked, limit=1)
        if [hit.passage.key for hit in found.hits] != [key]:
            missed.append(asked)
    assert len(missed) <= 2, missed


async def test_fields_count_by_their_weight(core: Core) -> None:
    def record(key: str, title: str, body: str) -> Document:
        return Document("s", "t", key, [Passage((Field(title, 2.0), Field(body), Field("", 0.7)))])

    await core.put(
        record("body", "Something about a thing", "The bridge was closed for a long while"),
        record("title", "The bridge was closed", "Something about a thing for a long while"),
    )
    assert await core.keys("bridge closed") == ["title", "body"]


async def test_the_definition_of_a_name_goes_before_all_that_use_it(core: Core) -> None:
    """Also if the query is written as a program writes it: then many passages have the best score."""
    wrapper = "class TextWrapper:\n    def __init__(self, width=70):\n        self.width = width"
    uses = (f"def fill{n}(text):\n    w = TextWrapper(width={n})\n    return w.fill(text)" for n in range(30))
    await core.ready(doc("class", wrapper), *(doc(f"use{n}", use) for n, use in enumerate(uses)))
    for asked in ("TextWrapper", "TextWrapper()", "class TextWrapper"):
        first = (await core.searcher.search(T, asked)).hits[0]
        assert (first.passage.key, first.score) == ("class", 1.0)
