"""How much words and meaning decide, by what is asked and what is found."""

import pytest

from kho.kernel.ports import PassageRef
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import LITERALLY, UNMARKED, ParsedQuery
from kho.search.query.scoring import Balance

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
