"""The order of results: the search core's score, moved a little by what its reader works on and by readers' verdicts.

Both are factors, so they move passages that are about equally good past each other, and a clearly better one stays
ahead: it takes half as much again to outweigh the best context, and a tenth more to outweigh all verdicts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from kho.kernel import paging
from kho.research import views
from kho.research.errors import InvalidQuery
from kho.research.query import relevance
from kho.research.query.feedback import Tally
from kho.search.query.ranking_cache import RankedPassage

CONTEXT = 0.2
"""How far the context moves a score, up or down."""
RELATED = 0.1
"""The likeness that the context needs to some result before it counts at all."""
VERDICTS = 0.05
"""How far verdicts move a score, at most."""
DOUBT = 2
"""Pseudo-votes for and against (additive smoothing): one reader alone moves little."""
WHOLE_DOCUMENT = 0.5
"""What a verdict on the document counts for each of its passages."""


@dataclass(frozen=True, slots=True)
class Placed:
    ranked: RankedPassage
    score: float
    context: float | None = None
    """In 0..1, where 1 is the passage that fits the context best; None without a context."""
    verdict: float | None = None
    """In -1..1; None if nobody gave one."""

    @property
    def relevance(self) -> float:
        return relevance.of_score(self.score)


@dataclass(frozen=True, slots=True)
class Listed:
    """One ordered list. Pages are cut from it."""

    places: list[Placed]
    notes: tuple[str, ...] = ()
    pending: int = 0

    @property
    def stamp(self) -> str:
        """Tells it from another answer to the same question."""
        numbers = ",".join(str(one.ranked.seq) for one in self.places)
        return blake2b(numbers.encode(), digest_size=8).hexdigest()


def placed(
    ranked: Sequence[RankedPassage], likeness: Mapping[int, float], verdicts: Mapping[int, float]
) -> list[Placed]:
    """Best first; among equals as they were. `likeness` to the context and `verdicts` are by the passages' numbers."""
    best = max(likeness.values(), default=0.0)
    found: list[Placed] = []
    for one in ranked:
        context = None if best < RELATED else likeness.get(one.seq, 0.0) / best
        verdict = verdicts.get(one.seq)
        score = one.score
        if context is not None:
            score *= 1 + CONTEXT * (2 * context - 1)
        if verdict is not None:
            score *= 1 + VERDICTS * verdict
        found.append(Placed(one, score, context, verdict))
    return sorted(found, key=lambda one: -one.score)


def verdict(passage: Tally, document: Tally) -> float:
    """The balance of the verdicts, in -1..1."""
    positive = passage.positive + WHOLE_DOCUMENT * document.positive
    negative = passage.negative + WHOLE_DOCUMENT * document.negative
    return (positive - negative) / (positive + negative + DOUBT)


def cursor_for(start: int, listed: Listed, mark: str) -> str | None:
    """Where the page that begins at `start` is found, if there is one."""
    return paging.encode([start, mark, listed.stamp]) if start < len(listed.places) else None


def place_of(cursor: str | None, mark: str) -> tuple[int, str | None]:
    """Where a page begins, and the stamp of the list that it is cut from."""
    found = views.place(cursor, InvalidQuery, int, str, str)
    if found is None:
        return 0, None
    start, asked, stamp = found
    if not 0 <= start <= 1_000_000 or asked != mark:
        raise InvalidQuery(
            "The cursor does not belong to this question. Start again without it.",
            guidance="Send the cursor with the very same question, collections and context.",
            parameter="cursor",
        )
    return start, stamp
