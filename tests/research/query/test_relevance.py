"""What scores are called: the contract's limits, a stretch that never changes an order, and labels that fit."""

import pytest
from tests.research.factories import Desk

from kho.kernel.ports import SearchFilter
from kho.research.ingest.indexing import SPACE
from kho.search.query import relevance


@pytest.mark.parametrize(
    ("score", "name"),
    [
        (1.0, "Highly Relevant"),
        (0.9, "Highly Relevant"),
        (0.8999, "Very Relevant"),
        (0.7, "Very Relevant"),
        (0.6999, "Relevant"),
        (0.5, "Relevant"),
        (0.4999, "Somewhat Relevant"),
        (0.3, "Somewhat Relevant"),
        (0.2999, "Low Relevance"),
        (0.0, "Low Relevance"),
    ],
)
def test_labels_begin_where_the_contract_says(score: float, name: str) -> None:
    assert relevance.label(score) == name


@pytest.mark.parametrize(
    ("score", "said"),
    [(0.4976, "0.49"), (0.5, "0.50"), (0.29, "0.29"), (0.8999, "0.89"), (1.0, "1.00"), (0.0, "0.00"), (0.3, "0.30")],
)
def test_a_score_is_shown_so_that_its_label_fits(score: float, said: str) -> None:
    assert relevance.shown(score) == said
    assert relevance.label(float(said)) == relevance.label(score)


def test_the_stretch_rises_everywhere_and_stays_within_0_and_1() -> None:
    stretched = [relevance.of_score(score / 1000) for score in range(1001)]
    assert stretched == sorted(stretched)
    assert len(set(stretched)) == 1001
    assert (stretched[0], stretched[-1]) == (0.0, 1.0)
    assert relevance.of_score(-1) == 0.0
    assert relevance.of_score(1.7) == 1.0


async def test_better_answers_have_better_labels(desk: Desk) -> None:
    await desk.collection("create", "notes")
    for text in (
        "The kettle switches itself off when its thermostat reaches one hundred degrees.",
        "Descale the kettle with vinegar once a month.",
        "The toaster has a thermostat too.",
        "Bread keeps longest in a cloth bag.",
    ):
        await desk.add("notes", text)
    where = SearchFilter(SPACE, desk.tenant)
    found = await desk.searcher.search(where, "When does the kettle's thermostat switch it off?")
    shown = [relevance.of_score(hit.score) for hit in found.hits]
    assert next(hit.passage.text[:12] for hit in found.hits) == "The kettle s"
    assert shown == sorted(shown, reverse=True)
    assert shown[0] >= relevance.RELEVANT > shown[-1]
