"""Scores the few candidate passages from the indexes more precisely, in the same way on every database.

Keyword score: half is the share of the query's weight that the passage holds, half is BM25 relative to a full match, so
that a weak match stays weak however weak the others are. Semantic score: the model's cosine and the one between
languages, each on the scale that calibrate.py measured. Neither is relative to the best result, so a score means about
the same in every answer, and can have a threshold.
"""

from collections.abc import Hashable, Mapping, Sequence
from math import exp, log10
from typing import TYPE_CHECKING

from kho.kernel.ports import TokenCounts, WordMatches
from kho.lib.dataclass import dataclass
from kho.search.indexing.passages import StoredPassage
from kho.search.query.parsed_query import EVENLY, ParsedQuery, flat
from kho.search.text.tokens import query_tokens

if TYPE_CHECKING:
    from kho.search.calibration.calibrate import Array

K1, B = 1.2, 0.75
FULL = 2.2 * 0.75
"""BM25 of a token of ordinary frequency in a passage that is about it, in units of its rarity."""
EVERYWHERE = 0.69
"""Rarity of a token that is in every entry."""

AS_IT_IS, BETWEEN_LANGUAGES = 0.2, 0.35
"""Shares of the raw and the cross-language similarity in the semantic score. Their sum is the score of a passage that
is as close as the related probes; a closer one gets up to 1."""

_NOTHING: TokenCounts = {}, 0

AMONG_CODE = 0.25
WAITING = 0.75

BY_WORDS = 20
"""Number of best keyword matches that are scored in detail, beside the nearest by vector."""
NEAREST = 32
"""Number of passages from vector search: detailed scoring changes their order more than that of keyword matches."""
TAIL = 0.8
"""Score per keyword share of a passage not scored in detail, if no passage that was has any of the words."""

PHRASE = 0.35
"""Bonus for a quoted phrase that the passage holds exactly."""
NAME = 0.25
"""Bonus for a name that the passage holds whole."""
BESIDE_HEAD = 0.75
"""Lower bound for keyword matches outside the head: the word index gives words in the head a little more, so the others
lose less than a quarter."""

UNTELLING = 0.3
"""Score of a full match if the query is made of function words only: nearly every passage has them all."""

CLEAR_WORDS = 0.3
"""From this keyword share on, a passage is about the query, whatever the model says."""
SOME_WORDS = 0.15
"""Below this keyword share, the words say nothing."""
CLEAR_MEANING = 0.47
"""Cross-language similarity (0: unrelated, 1: related) that the best passage needs if its words are no evidence."""
STRICT_MEANING, MORE_STRICT, STRICTEST = 0.42, 0.1, 0.75
"""Threshold, its increase per power of ten of passages, and its maximum, for a query with neither a known word nor
function words: it may be no language at all. The more passages there are, the closer the nearest is to nonsense, hence
the increase. And the passage must be closer to the query than nonsense comes to that very passage, however few there
are."""
SOME_MEANING = 0.3


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The components of a score."""

    words: float
    """Share of the query's weight that the passage holds."""
    closeness: float = 0.0
    """BM25 relative to a full match."""
    literal: float = 0.0
    """Bonus for phrases and names."""
    meaning: float | None = None
    """Semantic score; None while the passage waits for its vector."""
    between: float | None = None
    """Cross-language similarity, used to recognise nonsense."""
    noise: float = 0.0
    """Highest similarity that nonsense reaches with this passage, on the same scale."""


@dataclass(frozen=True, slots=True)
class RankedPassage:
    seq: int
    key: str
    score: float
    """In 0..1, comparable between answers."""
    parts: ScoreParts


Label = tuple[str, str, str, str]
"""Space, collection, key and digest of a passage."""


def lexical(
    asked: ParsedQuery, rarity: dict[str, float], passages: Sequence[StoredPassage], counted: Mapping[int, TokenCounts]
) -> list[ScoreParts]:
    """Score how well passages match the words of a query. `counted` is keyed by passage number; a passage that the word
    index does not have counts as holding none of them."""
    weights = {token: importance * rarity.get(token, 0.0) for token, importance in asked.tokens}
    sharp = {token: importance * max(rarity.get(token, 0.0) - EVERYWHERE, 0.01) for token, importance in asked.tokens}
    total, most = sum(weights.values()) or 1.0, FULL * sum(sharp.values()) or 1.0
    usual = sum(length for _, length in counted.values()) / max(len(counted), 1) or 1.0
    found: list[ScoreParts] = []
    for passage in passages:
        held, length = counted.get(passage.ref.seq, _NOTHING)
        share = sum(weights[token] for token in held) / total
        norm = K1 * (1 - B + B * length / usual)
        bm25 = sum(sharp[token] * times * (K1 + 1) / (times + norm) for token, times in held.items())
        found.append(ScoreParts(share, min(1.0, bm25 / most), _literal(asked, passage)))
    return found


def meaning(raw: "Array", between: "Array") -> "Array":
    import numpy as np

    return np.clip(AS_IT_IS * raw + BETWEEN_LANGUAGES * between, 0, 1).astype(np.float32)


def lean(asked: ParsedQuery, passages: Sequence[StoredPassage]) -> float:
    """Return the share of keywords in the score. A question in plain words about code shares few words with it, so it
    gets a lower share if most passages are code."""
    code = sum(_is_code(passage.text) for passage in passages)
    return AMONG_CODE if asked.lean == EVENLY and code * 2 > len(passages) else asked.lean


def score(parts: ScoreParts, lean: float) -> float:
    """Combine the parts to a score in 0..1. `lean` is 1 if there is no semantic search at all."""
    words = (parts.words + parts.closeness) / 2
    # Until a passage has its vector, its semantic score is estimated from its words.
    likeness = WAITING * words if parts.meaning is None else parts.meaning
    return min(1.0, lean * words + (1 - lean) * likeness + parts.literal)


def convincing(parts: Sequence[ScoreParts], asked: ParsedQuery, rarity: dict[str, float]) -> bool:
    """True if any of the passages is about the query at all. If none is, nothing was found."""
    best_words = max((part.words for part in parts), default=0.0)
    if best_words >= CLEAR_WORDS or any(part.literal for part in parts):
        return True
    if asked.is_code:
        return False
    near = [(part.between, part.noise) for part in parts if part.between is not None]
    if asked.is_speech or best_words:
        return any(between >= CLEAR_MEANING for between, _ in near)
    # No word is known, so each has the maximum rarity, from which the number of passages follows.
    entries = exp(max(rarity.values(), default=0.0))
    needed = min(STRICTEST, STRICT_MEANING + MORE_STRICT * log10(max(entries, 1.0)))
    return any(between >= max(needed, noise) for between, noise in near)


def counts(parts: ScoreParts) -> bool:
    """True if a passage belongs in an answer that has a convincing one."""
    return parts.words >= SOME_WORDS or (parts.between is not None and parts.between >= SOME_MEANING)


def quoted(asked: ParsedQuery, passage: StoredPassage) -> bool:
    """True if a passage holds any of the quoted phrases exactly."""
    text = flat(f"{passage.heading}\n{passage.text}")
    return any(phrase in text for phrase in asked.phrases)


def share_of_phrases(asked: ParsedQuery, rarity: dict[str, float]) -> float:
    """Return the least share of the query's weight that the word index gives to a passage that holds a quoted
    phrase."""
    weights = {token: importance * rarity.get(token, 0.0) for token, importance in asked.tokens}
    held = (sum(weights.get(token, 0.0) for token, _ in query_tokens(phrase)) for phrase in asked.phrases)
    return BESIDE_HEAD * min(held) / (sum(weights.values()) or 1.0)


def _is_code(text: str) -> bool:
    return 30 * sum(map(text.count, "(){}[]=;_")) > len(text)


def _literal(asked: ParsedQuery, passage: StoredPassage) -> float:
    if not asked.phrases and not asked.names:
        return 0.0
    text = flat(f"{passage.heading}\n{passage.text}")
    phrases = sum(phrase in text for phrase in asked.phrases) / max(len(asked.phrases), 1)
    names = sum(name in text for name in asked.names) / max(len(asked.names), 1)
    return PHRASE * phrases + NAME * names


def worth_a_look(matched: WordMatches, near: Sequence[tuple[int, float]]) -> list[int]:
    """Return the best keyword matches and the nearest by vector; only keyword matches, but more, if there are no near
    ones."""
    most = BY_WORDS if near else BY_WORDS + NEAREST
    return list(dict.fromkeys([seq for seq, _ in (*matched.found[:most], *near)]))


def attainable(asked: ParsedQuery, looked: Sequence[StoredPassage], parts: Sequence[ScoreParts], lean: float) -> float:
    """Return the score of a perfect passage. If all passages are in other languages than the question, they cannot have
    its words, so the semantic score has to do."""
    if lean == 1.0 or any(one.language in (asked.language, "") for one in looked):
        return 1.0
    best = max((part.words for part in parts), default=1.0)
    return lean * max(best, 0.3) + (1 - lean)


def tail(
    matched: WordMatches, labels: dict[int, Label], ranked: Sequence[RankedPassage], most: float
) -> list[RankedPassage]:
    """Score the keyword matches that were not scored in detail: ranked after all others, by keyword share, at the rate
    of the last one scored in detail. `most` is the score of a full match."""
    last = next((one for one in reversed(ranked) if one.parts.words >= SOME_WORDS), None)
    lowest, rate = (last.score, last.score / last.parts.words) if last else (most, most * TAIL)
    return [
        RankedPassage(seq, labels[seq][2], min(lowest, rate * share), ScoreParts(share, share))
        for seq, share in matched.found
        if seq in labels
    ]


def once(ranked: Sequence[RankedPassage], labels: dict[int, Label], per_key: bool) -> list[RankedPassage]:
    """Keep only the best-ranked passage of each document, or of each text."""
    kept: dict[Hashable, RankedPassage] = {}
    for one in ranked:
        *document, digest = labels[one.seq]
        kept.setdefault(tuple(document) if per_key else digest, one)
    return list(kept.values())


def order(one: RankedPassage) -> tuple[float, int]:
    """Sort key: best first, newest first among equals."""
    return -one.score, -one.seq
