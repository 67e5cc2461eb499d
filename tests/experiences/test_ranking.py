"""The ranking formula, to the digit."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.experiences.ranking import HALF_LIFE, VERDICT, Candidate, freshness, ranked, score, use
from kho.lib.clock import DAY

NOW = 1_767_225_600_000_000


def candidate(id: str = "a", relevance: float = 0.0, count: int = 0, age: float = 0, **verdicts: int) -> Candidate:
    return Candidate(id, relevance, count, NOW - round(age * DAY), **verdicts)


@pytest.mark.requirement("003.sort.formula")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (candidate(relevance=1.0, unhelpful=1), 0.6 + 0.1),
        (candidate(relevance=0.5, unhelpful=1), 0.3 + 0.1),
        (candidate(relevance=0.95, count=45), 0.57 + 0.3 * 145 / 1145 + 0.1),
        (candidate(count=900), 0.3 * 0.5 + 0.1),  # a thousand with the hundred in advance
        (candidate(age=90, unhelpful=1), 0.05),
        (candidate(age=180, unhelpful=1), 0.025),
        (candidate(relevance=0.8, count=900, age=90), 0.48 + 0.15 + 0.05),
    ],
)
def test_the_weights_are_six_three_and_one(found: Candidate, expected: float) -> None:
    assert score(found, NOW) == pytest.approx(expected, abs=1e-12)


@pytest.mark.requirement("003.sort.recency")
def test_freshness_halves_every_ninety_days() -> None:
    assert HALF_LIFE == 90 * DAY
    assert [freshness(NOW - days * DAY, NOW) for days in (0, 90, 180)] == [1.0, 0.5, 0.25]
    assert freshness(NOW + DAY, NOW) == 1.0  # another machine's clock may be ahead


def test_a_verdict_is_worth_a_hundred_queries_and_use_is_never_negative() -> None:
    assert VERDICT == 100
    assert use(candidate(count=3, helpful=2, unhelpful=1)) == use(candidate(count=103)) == 203 / 1203
    assert use(candidate(count=3, unhelpful=1)) == 3 / 1003
    assert use(candidate(count=3, unhelpful=5)) == 0


def test_a_few_queries_more_do_not_outweigh_a_better_match() -> None:
    shown, better = candidate("shown", relevance=0.5, count=40), candidate("better", relevance=0.55)
    assert [each.id for each in ranked([shown, better], "relevance", NOW)] == ["better", "shown"]


Candidates = st.lists(
    st.builds(
        Candidate,
        st.uuids().map(str),
        st.floats(0, 1),
        st.integers(0, 10**9),
        st.integers(0, NOW + DAY),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    max_size=20,
    unique_by=lambda found: found.id,
)


@pytest.mark.requirement("003.sort.relevance", "003.sort.query-count", "003.sort.recency")
@settings(deadline=None)
@given(Candidates)
def test_each_part_is_between_nothing_and_one(found: list[Candidate]) -> None:
    for each in found:
        assert 0 <= use(each) <= 1
        assert 0 <= freshness(each.created_at, NOW) <= 1
        assert 0 <= score(each, NOW) <= 1 + 1e-12


@pytest.mark.requirement("003.sort.descending")
@settings(deadline=None)
@given(Candidates, st.sampled_from(["relevance", "query_count", "created_at"]), st.randoms(use_true_random=False))
def test_the_order_depends_on_the_candidates_only(found: list[Candidate], sort: str, chance: Random) -> None:
    shuffled = list(found)
    chance.shuffle(shuffled)
    assert ranked(shuffled, sort, NOW) == ranked(found, sort, NOW)
    in_order = ranked(found, sort, NOW)
    values = [score(each, NOW) if sort == "relevance" else float(getattr(each, sort)) for each in in_order]
    assert values == sorted(values, reverse=True)


@pytest.mark.requirement("003.sort.descending")
def test_equals_come_newest_first_then_by_id() -> None:
    same = [candidate("b"), candidate("a"), candidate("d", age=-1), candidate("c", age=-2)]
    for sort in ("relevance", "query_count", "created_at"):
        assert [each.id for each in ranked(same, sort, NOW)] == ["c", "d", "a", "b"]


def test_an_empty_list_is_ranked() -> None:
    assert ranked([], "relevance", NOW) == []
