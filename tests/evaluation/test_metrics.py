"""The measures, against values worked out by hand."""

from math import log2

import pytest

from kho.evaluation.metrics import mean, ndcg, percentile, recall, reciprocal_rank


@pytest.mark.parametrize(
    ("found", "relevant", "expected"),
    [
        (["a", "b"], ["a"], 1.0),
        (["b", "a"], ["a"], 1 / log2(3)),
        (["x", "y", "a"], ["a"], 0.5),
        ([], ["a"], 0.0),
        (["x"] * 3, ["a"], 0.0),
        # two of three, in the second and third place: (1/log2(3) + 1/2) / (1 + 1/log2(3) + 1/2)
        (["x", "a", "b"], ["a", "b", "c"], (0.6309 + 0.5) / (1 + 0.6309 + 0.5)),
        (list("xxxxyyyyzz"), ["a"], 0.0),
        # a second mention takes no place
        (["x", "x", "x", "a"], ["a"], 1 / log2(3)),
        ([*"123456789", "a"], ["a"], 1 / log2(11)),
        ([*"1234567890", "a"], ["a"], 0.0),
        # more is relevant than fits: all ten places taken is perfect
        (list("abcdefghij"), list("abcdefghijkl"), 1.0),
    ],
)
def test_ndcg(found: list[str], relevant: list[str], expected: float) -> None:
    assert ndcg(found, relevant) == pytest.approx(expected, abs=1e-4)


def test_recall_counts_the_first_five() -> None:
    assert recall(list("vwxya"), ["a"]) == 1.0
    assert recall(list("vwxyza"), ["a"]) == 0.0
    assert recall(["a", "x", "b"], ["a", "b", "c", "d"]) == 0.5
    assert recall([], ["a"]) == 0.0


def test_reciprocal_rank() -> None:
    assert reciprocal_rank(["a"], ["a"]) == 1.0
    assert reciprocal_rank(["x", "y", "b", "a"], ["a", "b"]) == pytest.approx(1 / 3)
    assert reciprocal_rank(["x"], ["a"]) == 0.0


def test_a_question_without_an_answer_is_refused() -> None:
    for measure in (ndcg, recall):
        with pytest.raises(ValueError, match="without an answer"):
            measure(["a"], [])


def test_percentiles() -> None:
    values = [4.0, 1.0, 3.0, 2.0]
    assert percentile(values, 0.5) == 2.5
    assert percentile(values, 0.0) == 1.0
    assert percentile(values, 1.0) == 4.0
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([], 0.5) == 0.0
    assert percentile([float(n) for n in range(101)], 0.95) == 95.0
    assert mean([1.0, 2.0]) == 1.5
    assert mean([]) == 0.0
