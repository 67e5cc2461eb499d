"""How much words and meaning decide, by what is asked and what is found."""

import pytest

from kho.kernel.ports import PassageRef
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import EVENLY, LITERALLY, UNMARKED, ParsedQuery

CODE = "def total(items):\n    result = 0\n    for item in items:\n        result += item.price\n    return result"
PROSE = "The bridge was closed after cracks were found in two of its pillars, and it stayed closed all winter. " * 3
NOTE = "Cây cầu bị đóng sau khi phát hiện vết nứt ở hai trụ, và đóng suốt mùa đông."


def passages(*texts: str) -> list[StoredPassage]:
    return [StoredPassage(PassageRef(n, "s", "t"), str(n), 0, str(n), "", text, ()) for n, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("question", "texts", "lean"),
    [
        ("how are prices added up", [CODE, CODE, PROSE], scoring.AMONG_CODE),
        ("how are prices added up", [CODE, PROSE, PROSE], EVENLY),
        ("why was the bridge closed", [PROSE], EVENLY),
        ("why was the bridge closed", [NOTE, NOTE, PROSE], scoring.AMONG_NOTES),
        ("why was the bridge closed", [NOTE, PROSE], EVENLY),
        ("why was the bridge closed", [PROSE[:298] + "桥"], EVENLY),
        ("why was the bridge closed", [PROSE[:297] + "桥"], scoring.AMONG_NOTES),
        ("sum_of_prices", [NOTE], LITERALLY),
        ("vi sao cay cau bi dong", [NOTE], UNMARKED),
        ("sum_of_prices", [CODE, CODE], LITERALLY),
        ('where is "item.price" used', [CODE, CODE], LITERALLY),
        ("vi sao cay cau bi dong", [CODE, CODE], UNMARKED),
        ("why was the bridge closed", [], EVENLY),
    ],
)
def test_the_lean(question: str, texts: list[str], lean: float) -> None:
    assert scoring.lean(ParsedQuery(question), passages(*texts)) == lean
