"""What a score is called.

The search core's score means the same in every answer, but its scale is its own: of passages that score 0.6, about
half answer the question. The points below stretch it so that the contract's labels say what they seem to say. They were
measured on questions with known answers in Vietnamese, Chinese and English, asked of texts in the same language, in
another one and in all three at once. Of other questions than those that they were chosen by, the share of right answers
among results of a label is: highly relevant 94 %, very 78 %, relevant 50 %, somewhat 13 %, low 4 %.

The stretch rises everywhere, so it never changes an order.
"""

from bisect import bisect_right

from kho.research.results import Label

POINTS = ((0.0, 0.0), (0.35, 0.3), (0.57, 0.5), (0.66, 0.7), (0.76, 0.9), (1.0, 1.0))
"""Scores of the core, and the relevance that each is; straight lines in between."""

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
    """In 0..1, to four places."""
    score = min(max(score, 0.0), 1.0)
    above = min(bisect_right(POINTS, score, key=lambda point: point[0]), len(POINTS) - 1)
    (low, least), (high, most) = POINTS[above - 1], POINTS[above]
    return round(least + (most - least) * (score - low) / (high - low), 4)


def shown(relevance: float) -> str:
    """To two places, cut off rather than rounded: 0.4976 is not yet what 0.50 is called."""
    return f"{round(relevance * 10_000) // 100 / 100:.2f}"


def label(relevance: float) -> Label:
    """`relevance` is in 0..1."""
    return next(name for least, name in _NAMES if relevance >= least)
