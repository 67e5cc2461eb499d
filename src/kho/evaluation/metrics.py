"""Metrics of ranked lists: nDCG, recall, reciprocal rank.

Relevance is yes or no; a list that is shorter than asked for ends where it ends.
"""

from collections.abc import Collection, Sequence
from math import floor, log2


def ndcg(found: Sequence[str], relevant: Collection[str], depth: int = 10) -> float:
    """In 0..1: 1 if all that is relevant stands at the top, less the further down it stands."""
    wanted = set(relevant)
    if not wanted:
        raise ValueError("a question without an answer says nothing about a list")
    gain = sum(1 / log2(place + 2) for place, one in enumerate(_once(found)[:depth]) if one in wanted)
    return gain / sum(1 / log2(place + 2) for place in range(min(len(wanted), depth)))


def recall(found: Sequence[str], relevant: Collection[str], depth: int = 5) -> float:
    """The share of what is relevant that is among the first."""
    wanted = set(relevant)
    if not wanted:
        raise ValueError("a question without an answer says nothing about a list")
    return len(wanted & set(_once(found)[:depth])) / len(wanted)


def reciprocal_rank(found: Sequence[str], relevant: Collection[str]) -> float:
    """1 for a relevant one in the first place, 1/2 in the second, 0 if there is none. Its mean is the MRR."""
    return next((1 / place for place, one in enumerate(_once(found), 1) if one in relevant), 0.0)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share lies, between two neighbours in proportion."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _once(found: Sequence[str]) -> list[str]:
    """A second mention of the same thing is worth nothing, and takes no place."""
    return list(dict.fromkeys(found))
