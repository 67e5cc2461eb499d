"""What a passage scores."""

import math
from dataclasses import replace

import pytest

from kho.kernel.ports import PassageRef, TokenCounts
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.scoring import CLEAR_MEANING, CLEAR_WORDS, SOME_MEANING, SOME_WORDS, STRICTEST, ScoreParts

RARE, COMMON = 5.0, 0.8


def passage(text: str, heading: str = "", weights: tuple[tuple[int, float], ...] = ()) -> StoredPassage:
    return StoredPassage(PassageRef(1, "s", "t"), "k", 0, "d", heading, text, weights)


def look(query: str, *passages: StoredPassage, **rarity: float) -> list[ScoreParts]:
    asked = ParsedQuery(query)
    numbered = [replace(one, ref=replace(one.ref, seq=seq)) for seq, one in enumerate(passages)]
    counted = {one.ref.seq: count(one, asked) for one in numbered}
    return scoring.lexical(asked, {token: rarity.get(token, RARE) for token, _ in asked.tokens}, numbered, counted)


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
    assert scoring.lexical(ParsedQuery("bridge"), {}, [passage("bridge")], {1: ({}, 1)})[0].words == 0
    assert scoring.lexical(ParsedQuery("bridge"), {}, [passage("bridge")], {})[0].words == 0


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
    rarity = dict.fromkeys((token for token, _ in asked.tokens), RARE)
    assert 0 < scoring.share_of_phrases(asked, rarity) <= 0.8 * 2 / 3
    assert scoring.share_of_phrases(ParsedQuery('"bridge closed"'), {}) == 0


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


SPEECH, KEYWORDS = ParsedQuery("what is it about"), ParsedQuery("qzxv brrt")


@pytest.mark.parametrize(
    ("parts", "asked", "expected"),
    [
        ([], SPEECH, False),
        ([ScoreParts(CLEAR_WORDS)], KEYWORDS, True),
        ([ScoreParts(CLEAR_WORDS - 0.01)], KEYWORDS, False),
        ([ScoreParts(0.0, literal=0.1)], KEYWORDS, True),
        ([ScoreParts(0.0, between=CLEAR_MEANING, meaning=1.0)], SPEECH, True),
        ([ScoreParts(0.0, between=CLEAR_MEANING - 0.01, meaning=1.0)], SPEECH, False),
        ([ScoreParts(0.0, between=CLEAR_MEANING, meaning=1.0)], KEYWORDS, False),
        ([ScoreParts(0.1), ScoreParts(0.0, between=CLEAR_MEANING, meaning=1.0)], KEYWORDS, True),
        ([ScoreParts(0.0, between=STRICTEST, meaning=1.0)], KEYWORDS, True),
        ([ScoreParts(0.0, between=STRICTEST, meaning=1.0, noise=STRICTEST + 0.1)], KEYWORDS, False),
        ([ScoreParts(0.0, between=0.9, noise=1.0), ScoreParts(0.0, between=0.8, noise=0.4)], KEYWORDS, True),
        ([ScoreParts(0.0, between=CLEAR_MEANING, noise=1.0)], SPEECH, True),
    ],
)
def test_convincing(parts: list[ScoreParts], asked: ParsedQuery, expected: bool) -> None:
    rarity = {token: math.log(110) for token, _ in asked.tokens}  # what nobody holds, among a hundred passages
    assert scoring.convincing(parts, asked, rarity) is expected


def test_the_more_passages_the_more_is_asked_of_what_may_be_nonsense() -> None:
    near = [ScoreParts(0.0, between=0.6, meaning=1.0)]
    found = [scoring.convincing(near, KEYWORDS, {"qzxv": math.log(entries)}) for entries in (10, 50, 1_000, 10**6)]
    assert found == [True, True, False, False]


def test_however_few_passages_nonsense_comes_no_nearer_than_it_does() -> None:
    near = [ScoreParts(0.0, between=0.8, meaning=1.0, noise=0.85)]
    assert not any(scoring.convincing(near, KEYWORDS, {"qzxv": math.log(entries)}) for entries in (2, 4, 8, 10**6))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (ScoreParts(SOME_WORDS), True),
        (ScoreParts(SOME_WORDS - 0.01), False),
        (ScoreParts(0.0, between=SOME_MEANING), True),
        (ScoreParts(0.0, between=SOME_MEANING - 0.01), False),
    ],
)
def test_counts(parts: ScoreParts, expected: bool) -> None:
    assert scoring.counts(parts) is expected
