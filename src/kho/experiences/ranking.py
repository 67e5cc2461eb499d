"""Ranking of contract 003: 0.6 relevance + 0.3 use + 0.1 freshness, each in 0..1."""

from collections.abc import Sequence

from kho.lib.clock import DAY
from kho.lib.dataclass import dataclass

HALF_LIFE = 90 * DAY
"""Age at which freshness has halved."""

VERDICT = 100
"""Weight of one rating, up or down, in queries. Each record has one in advance, so that a rating against it tells."""

HALF_USE = 1_000
"""Queries from which a record has half of what use can give. Every record that is shown counts as used, so a few dozen
queries say little: measured against the most used record found, those that were shown once kept being shown."""


@dataclass(frozen=True, slots=True)
class Candidate:
    id: str
    relevance: float
    query_count: int
    created_at: int
    helpful: int = 0
    unhelpful: int = 0


def use(candidate: Candidate) -> float:
    """Return how much it is used and liked, in 0..1."""
    queries = max(0, candidate.query_count + VERDICT * (1 + candidate.helpful - candidate.unhelpful))
    return queries / (queries + HALF_USE)


def freshness(created_at: int, now: int) -> float:
    return 0.5 ** (max(0, now - created_at) / HALF_LIFE)


def score(candidate: Candidate, now: int) -> float:
    return 0.6 * candidate.relevance + 0.3 * use(candidate) + 0.1 * freshness(candidate.created_at, now)


def ranked(candidates: Sequence[Candidate], sort: str, now: int) -> list[Candidate]:
    """Sort best first; ties: newest first, then smallest id."""

    def key(candidate: Candidate) -> tuple[float, int, str]:
        if sort == "created_at":
            first = 0.0
        elif sort == "query_count":
            first = float(candidate.query_count)
        else:
            first = score(candidate, now)
        return (-first, -candidate.created_at, candidate.id)

    return sorted(candidates, key=key)
