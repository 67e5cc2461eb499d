"""Orders results: the search score, adjusted slightly by the user's document context and by readers' verdicts.

Both are factors. They reorder passages that are about equally good, while a clearly better one stays ahead: a score
half as high again outweighs the best context, and one a tenth higher outweighs all verdicts.
"""

from collections.abc import Mapping, Sequence

from kho.kernel import paging
from kho.lib.dataclass import dataclass
from kho.lib.sql import digest
from kho.research import views
from kho.research.errors import InvalidQuery
from kho.research.query.feedback import Tally
from kho.search.query import relevance
from kho.search.query.scoring import RankedPassage

CONTEXT = 0.2
"""Maximum share by which the context changes a score, up or down."""
RELATED = 0.1
"""Minimum similarity of the context to any result for it to count at all."""
VERDICTS = 0.05
"""Maximum share by which verdicts change a score."""
DOUBT = 2
"""Pseudo-votes for and against (additive smoothing): one reader alone moves little."""
WHOLE_DOCUMENT = 0.5
"""Weight of a verdict on the whole document for each of its passages."""


@dataclass(frozen=True, slots=True)
class Placed:
    ranked: RankedPassage
    score: float
    context: float | None = None
    """0..1, where 1 is the passage that fits the context best; None without a context."""
    verdict: float | None = None
    """-1..1; None without verdicts."""

    @property
    def relevance(self) -> float:
        return relevance.of_score(self.score)


@dataclass(frozen=True, slots=True)
class OrderedList:
    """The ordered results of a query, from which pages are cut."""

    places: list[Placed]
    notes: tuple[str, ...] = ()
    pending: int = 0

    @property
    def stamp(self) -> str:
        """Digest that distinguishes this list from another answer to the same question."""
        numbers = ",".join(str(one.ranked.seq) for one in self.places)
        return digest(numbers, size=8)


def placed(
    ranked: Sequence[RankedPassage], likeness: Mapping[int, float], verdicts: Mapping[int, float]
) -> list[Placed]:
    """Apply context and verdicts and sort, best first; stable among equals. `likeness` to the context and `verdicts`
    are by passage number."""
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
    """Return the balance of the verdicts, in -1..1."""
    positive = passage.positive + WHOLE_DOCUMENT * document.positive
    negative = passage.negative + WHOLE_DOCUMENT * document.negative
    return (positive - negative) / (positive + negative + DOUBT)


def cursor_for(start: int, listed: OrderedList, mark: str) -> str | None:
    """Return the cursor of the page at `start`; None past the end."""
    return paging.encode([start, mark, listed.stamp]) if start < len(listed.places) else None


def place_of(cursor: str | None, mark: str) -> tuple[int, str | None]:
    """Decode a cursor: the start of the page, and the stamp of its list. Raises InvalidQuery if it belongs to another
    question."""
    found = views.place(cursor, InvalidQuery, int, str, str)
    if found is None:
        return 0, None
    start, asked, stamp = found
    if not 0 <= start <= 1_000_000 or asked != mark:
        raise InvalidQuery(
            "The cursor does not belong to this question. Start again without it.",
            guidance="Send the cursor with the same question, collections and context.",
            parameter="cursor",
        )
    return start, stamp
