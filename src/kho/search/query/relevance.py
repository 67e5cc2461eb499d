"""Maps search scores to relevance values and labels.

The search core's score is comparable between answers, but has its own scale (scoring.py), which the points below
stretch so that the contract's labels mean what they say: of first hits called highly relevant at least 85 in 100 are
right, of very relevant 65, of relevant 40. `python -m bench.scales` fits it, docs/performance.md has the figures.

The mapping is strictly increasing, so it never changes an order.
"""

from bisect import bisect_right
from typing import Literal

Label = Literal["Highly Relevant", "Very Relevant", "Relevant", "Somewhat Relevant", "Low Relevance"]

POINTS = ((0.0, 0.0), (0.35, 0.3), (0.57, 0.5), (0.66, 0.7), (0.76, 0.9), (1.0, 1.0))
"""Pairs of search score and relevance; linear in between."""

LOW = 0.3
"""Below this relevance a result is noise more often than not."""
RELEVANT = 0.5
VERY = 0.7

_NAMES: tuple[tuple[float, Label], ...] = (
    (0.9, "Highly Relevant"),
    (VERY, "Very Relevant"),
    (RELEVANT, "Relevant"),
    (LOW, "Somewhat Relevant"),
    (0.0, "Low Relevance"),
)


def of_score(score: float) -> float:
    """Return the relevance of a score, in 0..1, rounded to four places."""
    score = min(max(score, 0.0), 1.0)
    above = min(bisect_right(POINTS, score, key=lambda point: point[0]), len(POINTS) - 1)
    (low, least), (high, most) = POINTS[above - 1], POINTS[above]
    return round(least + (most - least) * (score - low) / (high - low), 4)


def shown(relevance: float) -> str:
    """Format with two places, cut off rather than rounded: 0.4976 must not be shown as 0.50, which has another
    label."""
    return f"{round(relevance * 10_000) // 100 / 100:.2f}"


def label(relevance: float) -> Label:
    """Return the label of a relevance in 0..1."""
    return next(name for least, name in _NAMES if relevance >= least)
