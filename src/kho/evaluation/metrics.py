"""Metrics of ranked lists: nDCG, recall, reciprocal rank.

Relevance is binary; a list that is shorter than requested is evaluated as it is.
"""

from collections.abc import Collection, Sequence
from math import floor, log2


def ndcg(found: Sequence[str], relevant: Collection[str], depth: int = 10) -> float:
    """Return nDCG in 0..1: 1 if everything relevant is at the top, less the further down it is."""
    wanted = set(relevant)
    if not wanted:
        raise ValueError("a question without an answer says nothing about a list")
    gain = sum(1 / log2(place + 2) for place, one in enumerate(_once(found)[:depth]) if one in wanted)
    return gain / sum(1 / log2(place + 2) for place in range(min(len(wanted), depth)))


def recall(found: Sequence[str], relevant: Collection[str], depth: int = 5) -> float:
    """Return the share of the relevant ids that is among the first `depth`."""
    wanted = set(relevant)
    if not wanted:
        raise ValueError("a question without an answer says nothing about a list")
    return len(wanted & set(_once(found)[:depth])) / len(wanted)


def reciprocal_rank(found: Sequence[str], relevant: Collection[str]) -> float:
    """Return 1 if the first is relevant, 1/2 if the second is the first relevant one, 0 if none is. Its mean is the
    MRR."""
    return next((1 / place for place, one in enumerate(_once(found), 1) if one in relevant), 0.0)


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which this share lies, interpolated between neighbours."""
    if not values:
        return 0.0
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def _once(found: Sequence[str]) -> list[str]:
    """Remove duplicates: a repeated id gains nothing, and takes no place."""
    return list(dict.fromkeys(found))
