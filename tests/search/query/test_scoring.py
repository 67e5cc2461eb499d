"""What a passage scores."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest

from kho.kernel.ports import PassageRef, TokenCounts, WordMatches
from kho.search.calibration.calibrate import Likeness
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.relevance import label, of_score
from kho.search.query.scoring import DOUBT, DOUBTFUL, HOLLOW, SOME_WORDS, UNRELATED, UNRELATED_ELSEWHERE, ScoreParts

RARE, COMMON = 5.0, 0.8


def passage(text: str, heading: str = "", weights: tuple[tuple[int, float], ...] = ()) -> StoredPassage:
    return StoredPassage(PassageRef(1, "s", "t"), "k", 0, "d", heading, text, weights)


def look(query: str, *passages: StoredPassage, **rarity: float) -> list[ScoreParts]:
    asked = ParsedQuery(query)
    numbered = [replace(one, ref=replace(one.ref, seq=seq)) for seq, one in enumerate(passages)]
    counted = {one.ref.seq: count(one, asked) for one in numbered}
    matched = matches(asked, {token for held, _ in counted.values() for token in held}, **rarity)
    return scoring.lexical(asked, matched, numbered, counted)


def matches(asked: ParsedQuery, known: Collection[str] | None = None, **rarity: float) -> WordMatches:
    """Of a query whose tokens are all known, or these."""
    tokens = [token for token, _ in asked.tokens]
    holders = {token: int(known is None or token in known) for token in tokens}
    return WordMatches([], {token: rarity.get(token, RARE) for token in tokens}, 100, holders)


def count(stored: StoredPassage, asked: ParsedQuery) -> TokenCounts:
    """What the word index would have counted."""
    spans, start = list[Field](), 0
    for length, weight in stored.weights or ((len(stored.text), 1.0),):
        spans.append(Field(stored.text[start : start + length], weight))
        start += length
    [part] = prepare(Document("s", "t", "k", [Passage(tuple(spans), stored.heading)])).parts
    wanted = {token for token, _ in asked.tokens}
    held = {token: part.head.get(token, 0) + part.body.get(token, 0) for token in wanted & {*part.head, *part.body}}
    return held, part.length


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("bridge closed", passage("The bridge is closed."), passage("The bridge is open.")),
        ("bridge", passage("Bridge, bridge, bridge."), passage("A bridge and a tunnel.")),
        ("bridge", passage("A bridge."), passage("A bridge " + "and many other things " * 20)),
        ("bridge", passage("It is closed.", heading="The bridge"), passage("The bridge: it is closed.")),
        ("bridge", passage("bridge\nclosed", weights=((7, 2.0), (6, 1.0))), passage("bridge\nclosed")),
        ("hướng dẫn", passage("hướng dẫn"), passage("huong dan")),
        ("hướng dẫn", passage("hướng dẫn"), passage("hương dân")),
        ('"bridge closed"', passage("the bridge closed today"), passage("closed the bridge today")),
        ("getUserById", passage("call getUserById here"), passage("get the user by its id")),
        ("数据库", passage("检查数据库"), passage("检查数据的库存")),
    ],
)
def test_the_better_of_two(query: str, better: StoredPassage, worse: StoredPassage) -> None:
    first, second = look(query, better, worse)
    assert scoring.score(first, 1.0) > scoring.score(second, 1.0)


def test_a_rare_word_counts_more() -> None:
    rare, common = look("zeugma server", passage("zeugma"), passage("server"), server=COMMON)
    assert rare.words > 0.8
    assert common.words < 0.2
    assert rare.words + common.words == pytest.approx(1)


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [("bridge closed", "The closed bridge", 1.0), ("bridge closed", "Nothing of it", 0.0), ("bridge closed", "", 0.0)],
)
def test_shares(query: str, text: str, words: float) -> None:
    [parts] = look(query, passage(text))
    assert parts.words == pytest.approx(words)
    assert 0 <= parts.closeness <= 1


def test_no_passages_and_no_tokens() -> None:
    assert look("bridge") == []
    assert look("", passage("bridge")) == [ScoreParts(0.0)]
    nothing = WordMatches([], {})
    assert scoring.lexical(ParsedQuery("bridge"), nothing, [passage("bridge")], {1: ({}, 1)})[0].words == 0
    assert scoring.lexical(ParsedQuery("bridge"), nothing, [passage("bridge")], {})[0].words == 0


def test_every_part_of_a_quotation_adds() -> None:
    both, one, none = look(
        '"a bridge" "was closed"',
        passage("A bridge was closed."), passage("The road by a  Bridge"), passage("closed was bridge a"),
    )  # fmt: skip
    assert (both.literal, one.literal, none.literal) == (scoring.PHRASE, scoring.PHRASE / 2, 0)
    assert [
        scoring.quoted(ParsedQuery('"was closed"'), passage(text)) for text in ("It was\nclosed", "closed was")
    ] == [
        True,
        False,
    ]
    assert scoring.quoted(ParsedQuery('"the news"'), passage("It was closed.", heading="The News"))


def test_what_a_quotation_weighs_at_least() -> None:
    asked = ParsedQuery('"bridge closed" yesterday')
    assert 0 < scoring.share_of_phrases(asked, matches(asked)) <= 0.8 * 2 / 3
    assert scoring.share_of_phrases(ParsedQuery('"bridge closed"'), WordMatches([], {})) == 0


@pytest.mark.parametrize(
    ("parts", "lean", "score"),
    [
        (ScoreParts(1.0, 1.0), 1.0, 1.0),
        (ScoreParts(1.0, 0.0), 1.0, 0.5),
        (ScoreParts(0.5, 0.5, meaning=0.0), 0.5, 0.25),
        (ScoreParts(0.0, 0.0, meaning=1.0), 0.5, 0.5),
        (ScoreParts(1.0, 1.0, 0.35, 1.0), 0.5, 1.0),
        (ScoreParts(1.0, 1.0), 0.5, 0.5 + 0.5 * scoring.WAITING),
        (ScoreParts(0.0), 0.5, 0.0),
    ],
)
def test_scores(parts: ScoreParts, lean: float, score: float) -> None:
    assert scoring.score(parts, lean) == pytest.approx(score)


@pytest.mark.parametrize(
    ("query", "text", "words"),
    [
        ("bridge qzxv", "bridge", 1.0),  # what nobody has weighs nothing
        ("foo bar bridge", "bridge", 1.0),
        ("title:bridge", "bridge", 0.8),  # a part of a name that nobody has
        ("bridge'; DROP TABLE x; --", "bridge", 1.0),
        ("what is the qzxv of the bridge", "bridge", 0.5),  # a sentence
        ("cây qzxv", "cay", 0.6),  # other marks
        ("the qzxv", "the", 0.1),  # a sentence with a function word
    ],
)
def test_words_that_nobody_has(query: str, text: str, words: float) -> None:
    [parts] = look(query, passage(text))
    assert parts.words == pytest.approx(words, abs=0.1)


def test_keyword_matches_are_shares_of_what_is_known() -> None:
    asked = ParsedQuery("foo bar tunnel")
    found = replace(matches(asked, {"tunnel"}), found=[(1, 1 / 3), (2, 0.1)])
    assert scoring.of_known_words(asked, found).found == [(1, pytest.approx(1)), (2, pytest.approx(0.3))]
    all_known = replace(matches(asked), found=[(1, 1 / 3)])
    assert scoring.of_known_words(asked, all_known).found == [(1, pytest.approx(1 / 3))]


KEYWORDS, CODE = ParsedQuery("qzxv brrt"), ParsedQuery("INV-2041")


@pytest.mark.parametrize(
    ("parts", "asked", "expected"),
    [
        (ScoreParts(SOME_WORDS), KEYWORDS, True),
        (ScoreParts(SOME_WORDS - 0.01), KEYWORDS, False),
        (ScoreParts(SOME_WORDS - 0.01, has_word=True), KEYWORDS, True),
        (ScoreParts(0.0, literal=0.1), KEYWORDS, True),
        (ScoreParts(0.0, meaning=1.0, between=0.3, unrelated=0.3), KEYWORDS, True),
        (ScoreParts(0.0, meaning=1.0, between=0.29, unrelated=0.3), KEYWORDS, False),
        (ScoreParts(0.0, meaning=1.0, between=0.9, unrelated=0.3), CODE, False),
        (ScoreParts(0.0), KEYWORDS, False),
    ],
)
def test_what_speaks_for_a_passage(parts: ScoreParts, asked: ParsedQuery, expected: bool) -> None:
    assert scoring.speaks(parts, asked) is expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [("bridge qzxv", True), ("the qzxv", False), ("hướng", True), ("bridge_of_sighs", False), ("bridge-closed", True)],
)
def test_a_word_is_neither_a_function_word_nor_a_part_of_a_name(query: str, expected: bool) -> None:
    [parts] = look(query, passage("the bridge: huong"))
    assert parts.has_word is expected


def like(hollowness: float | None, noise: float = 0.9) -> Likeness:
    near = np.array([1.0], np.float32)
    return Likeness(near, near, near * noise, hollowness)


def test_how_close_unrelated_texts_come() -> None:
    usual = UNRELATED["en", "zh"]
    assert scoring.unrelated(like(0.0), 0, "en", "zh") == usual
    assert scoring.unrelated(like(None), 0, "en", "zh") == usual
    assert scoring.unrelated(like(HOLLOW - 0.01), 0, "en", "") == UNRELATED_ELSEWHERE
    assert scoring.unrelated(like(HOLLOW), 0, "en", "zh") == pytest.approx(0.9)  # closer than nonsense
    assert scoring.unrelated(like(HOLLOW, 0.0), 0, "en", "zh") == usual
    assert {(one, other) for one in ("en", "vi", "zh") for other in ("en", "vi", "zh")} == {*UNRELATED}


def test_the_meaning_of_what_is_like_nonsense_is_doubted() -> None:
    even = scoring.Balance(0.5)
    full = even.raw + even.between
    scores = [float(scoring.meaning(like(hollow), even)[0]) for hollow in (0.0, DOUBTFUL, (DOUBTFUL + 1) / 2, 1.0, 2.0)]
    assert scores == pytest.approx([full, full, full * (1 - DOUBT / 2), full * (1 - DOUBT), full * (1 - DOUBT)])
    cannot_tell = [float(scoring.meaning(like(None, noise), even)[0]) for noise in (0.9, 1.1)]
    assert cannot_tell == pytest.approx([full, full * (1 - DOUBT)])


def test_a_passage_in_another_language_cannot_have_the_words() -> None:
    parts = ScoreParts(0.0, 0.0, meaning=0.6)
    assert scoring.score(parts, 0.5) == pytest.approx(0.3)
    assert scoring.score(replace(parts, foreign=True), 0.5) == pytest.approx(0.3 + 0.5 * scoring.FOREIGN * 0.6)
    named = replace(parts, words=0.8, closeness=0.8)  # but names it may share
    assert scoring.score(replace(named, foreign=True), 0.5) == scoring.score(named, 0.5)
    alone = replace(named, words=0.4, closeness=0.4, foreign=True, rivals=False)
    assert scoring.score(alone, 0.5) == pytest.approx(0.5 * (0.4 + scoring.FOREIGN * 0.6) + 0.3)


@pytest.mark.parametrize(
    "kind", [scoring.PROSE, scoring.AMONG_NOTES, scoring.ASKED_OF_NOTES, scoring.AMONG_CODE, scoring.AMONG_TALK]
)
def test_scales_keep_the_order_and_lead_to_the_labels(kind: scoring.Balance) -> None:
    for scale in (kind.own, kind.foreign):
        assert [scale.place(score) for score in scale] == pytest.approx([*scoring.COMMON])
        assert scale.place(0.0) == 0.0
        assert scale.place(1.0) == 1.0 or scale.highly >= 1.0
        placed = [scale.place(n / 200) for n in range(201)]
        assert placed == sorted(set(placed))
        assert label(of_score(scale.place(scale.relevant))) == "Relevant"
        assert label(of_score(scale.place(scale.very))) == "Very Relevant"


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("报销要先贴发票再填单最后交财务", "仓库要换新的发票机"),
        ("kettle lid handle spout base cord plug switch", "lid"),
    ],
)
def test_one_word_of_a_long_query_is_no_full_match(query: str, text: str) -> None:
    """Though nobody knows its other words, and it has no function words that would make it a sentence."""
    [long] = look(query, passage(text))
    assert long.words < 0.5


def test_one_known_word_of_a_few_keywords_is_all_that_counts() -> None:
    [short] = look("lid zzqx", passage("lid"))
    assert short.words == pytest.approx(1.0)


COPY = "def copytree(src, dst):\n    names = os.listdir(src)\n    return _copytree(names, src, dst)"
HELPER = "def _copytree(entries, src, dst):\n    for entry in entries:\n        copy(entry, dst)"
DUE = "export function dueDate(invoice: Invoice, days: number) {\n  return invoice.day + days;\n}"


@pytest.mark.parametrize(
    ("query", "text", "defines"),
    [
        ("copytree", COPY, True),
        ("copytree()", COPY, True),
        ("copy tree", COPY, True),
        ("due date", DUE, True),
        ("duedate", DUE, True),
        ("def copytree", COPY, True),
        ("tree copy", COPY, False),
        ("listdir", COPY, False),
        ("copy a tree of files", COPY, False),
        ("copytree", "Call def copytree to copy a folder with everything in it.", False),
    ],
)
def test_a_plain_word_is_the_name_that_code_defines(query: str, text: str, defines: bool) -> None:
    [parts] = look(query, passage(text))
    assert parts.defines is defines


def test_the_name_as_it_is_written_goes_before_the_same_words() -> None:
    assert [one.defines for one in look("copytree", passage(COPY), passage(HELPER))] == [True, False]
    assert [one.defines for one in look("copyTree", passage(COPY), passage(HELPER))] == [True, True]


def test_a_name_in_words_counts_in_its_order() -> None:
    way = "def convert(a, b, c):\n    return ((a + b) * c[0], (a - b) * c[1])"
    there = passage(way, heading="colors.py > rgb to hsv")
    back = passage(way, heading="colors.py > hsv to rgb")
    first, second = look("convert rgb to hsv", there, back)
    assert first.literal == pytest.approx(second.literal + scoring.SPELT)
    long = "which of these makes hsv to rgb values of a picture"
    assert look(long, back)[0].literal == 0
    assert look("rgb to hsv", passage("Colours, told in plain words.", heading="rgb to hsv"))[0].literal == 0


def test_syllables_apart_count_less_than_the_word_that_they_make() -> None:
    together, apart = look("bảo hiểm", passage("mua bảo hiểm"), passage("Hiểm họa cháy, bảo vệ rừng"))
    assert together.words == pytest.approx(1.0)
    assert apart.words < 0.5
