"""How much words and meaning decide, by what is asked and what is found."""

from dataclasses import replace

import pytest

from kho.kernel.ports import PassageRef
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import LITERALLY, UNMARKED, ParsedQuery
from kho.search.query.relevance import label, of_score
from kho.search.query.scoring import Balance, Levels, RankedPassage, ScoreParts

CODE = "def total(items):\n    result = 0\n    for item in items:\n        result += item.price\n    return result"
PROSE = "The bridge was closed after cracks were found in two of its pillars, and it stayed closed all winter. " * 3
NOTE = "Cây cầu bị đóng sau khi phát hiện vết nứt ở hai trụ, và đóng suốt mùa đông."


def passages(*texts: str) -> list[StoredPassage]:
    return [StoredPassage(PassageRef(n, "s", "t"), str(n), 0, str(n), "", text, ()) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("question", "texts", "balance"),
    [
        ("how are prices added up", [CODE, CODE, PROSE], scoring.AMONG_CODE),
        ("how are prices added up", [CODE, PROSE, PROSE], scoring.PROSE),
        ("why was the bridge closed", [PROSE], scoring.PROSE),
        ("why was the bridge closed", [NOTE, NOTE, PROSE], scoring.ASKED_OF_NOTES),
        ("closed bridge", [NOTE, NOTE, PROSE], scoring.AMONG_NOTES),
        ("why was the bridge closed", [NOTE, PROSE], scoring.PROSE),
        ("why was the bridge closed", [PROSE[:298] + "桥"], scoring.PROSE),
        ("why was the bridge closed", [PROSE[:297] + "桥"], scoring.ASKED_OF_NOTES),
        ("sum_of_prices", [NOTE], Balance(LITERALLY)),
        ("vi sao cay cau bi dong", [NOTE], Balance(UNMARKED)),
        ("sum_of_prices", [CODE, CODE], Balance(LITERALLY)),
        ('where is "item.price" used', [CODE, CODE], Balance(LITERALLY)),
        ("vi sao cay cau bi dong", [CODE, CODE], Balance(UNMARKED)),
        ("why was the bridge closed", [], scoring.PROSE),
    ],
)
def test_the_balance(question: str, texts: list[str], balance: Balance) -> None:
    assert scoring.balance(ParsedQuery(question), passages(*texts)) == balance


def test_conversations_have_a_balance_of_their_own() -> None:
    said = passages(NOTE, NOTE, PROSE)
    asked = ParsedQuery("why was the bridge closed")
    assert scoring.balance(asked, said, {"s"}) == scoring.AMONG_TALK
    assert scoring.balance(asked, said, {"other"}) == scoring.ASKED_OF_NOTES


SCALES = [
    ("prices", [CODE, NOTE, NOTE], scoring.AMONG_CODE.own),
    ("prices", [NOTE, CODE, CODE], scoring.AMONG_NOTES.own),
    ("prices", [PROSE, CODE, CODE], scoring.PROSE.own),
    ("prices", [NOTE, NOTE, PROSE], scoring.AMONG_NOTES.own),
    ("sum_of_prices", [NOTE, CODE, CODE], scoring.COMMON),
]


@pytest.mark.parametrize(("question", "texts", "scale"), SCALES)
def test_an_answer_has_the_scale_of_its_first_hit(question: str, texts: list[str], scale: Levels) -> None:
    """A fact found among code is no less right than one among facts."""
    looked = [replace(one, ref=replace(one.ref, space=one.text[:4])) for one in passages(*texts)]
    balance = scoring.balance(ParsedQuery(question), looked)
    assert scoring.scale(balance, looked[0], ScoreParts(1.0), looked, ()) == scale


def test_what_is_said_has_the_scale_of_conversations_among_code_too() -> None:
    looked = [replace(one, ref=replace(one.ref, space=one.text[:4])) for one in passages(NOTE, CODE, CODE)]
    scale = scoring.scale(scoring.AMONG_CODE, looked[0], ScoreParts(1.0), looked, {NOTE[:4]})
    assert scale == scoring.AMONG_TALK.own


def test_a_comment_in_a_file_of_code_has_the_scale_of_code() -> None:
    looked = passages(PROSE, CODE, CODE)
    assert scoring.scale(scoring.AMONG_CODE, looked[0], ScoreParts(1.0), looked, ()) == scoring.AMONG_CODE.own


def test_the_definition_of_the_name_that_is_asked_for_is_highly_relevant() -> None:
    hit = RankedPassage(1, "k", 0.3, ScoreParts(1.0, defines=True))
    asked = ParsedQuery("heap merge")
    assert label(of_score(scoring.placed(hit, scoring.AMONG_CODE.own, asked))) == "Highly Relevant"
    assert scoring.placed(hit, scoring.PROSE.own, asked) == scoring.PROSE.own.place(0.3)
    assert scoring.placed(hit, scoring.COMMON, ParsedQuery("heap_merge")) == 1.0
    other = replace(hit, parts=ScoreParts(1.0))
    assert label(of_score(scoring.placed(other, scoring.AMONG_CODE.own, asked))) == "Low Relevance"
