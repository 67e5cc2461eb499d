"""The score of a passage: a closer look at the few that the indexes brought, alike on every database.

Words: half is the share of the query's weight that the passage holds, half is BM25 against what a full match would
get, so that a weak match stays weak however weak the others are. Meaning: the model's cosine and the one between
languages, each on the scale that calibrate.py measured. Neither is measured against the best that was found, so a
score means about the same in every answer, and can have a floor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log10
from typing import TYPE_CHECKING

from kho.kernel.ports import TokenCounts
from kho.search.indexing.passages import StoredPassage
from kho.search.query.parsed_query import EVENLY, ParsedQuery, flat
from kho.search.text.tokens import query_tokens

if TYPE_CHECKING:
    from kho.search.calibration.calibrate import Array

K1, B = 1.2, 0.75
FULL = 2.2 * 0.75
"""What BM25 gives to a token of ordinary frequency in a passage that is about it, in units of its rarity."""
EVERYWHERE = 0.69
"""The rarity of a token that is in every entry."""

AS_IT_IS, BETWEEN_LANGUAGES = 0.2, 0.35
"""Shares of the two likenesses in the meaning. Their sum is what a passage gets that is as near as the related ones
among the probes; a nearer one gets up to 1."""

_NOTHING: TokenCounts = {}, 0

AMONG_CODE = 0.25
WAITING = 0.75

PHRASE = 0.35
"""What a quoted phrase adds that the passage holds as it was quoted."""
NAME = 0.25
"""… and a name that it holds whole."""
BESIDE_HEAD = 0.75
"""The word index gives a little more to words in the head; those that are not there lose less than a quarter."""

UNTELLING = 0.3
"""What a full match is worth where the query is made of little words only: nearly every passage has them all."""

CLEAR_WORDS = 0.3
"""From this share of the words on, a passage is about the query, whatever the model says …"""
SOME_WORDS = 0.15
"""… and below this one the words say nothing."""
CLEAR_MEANING = 0.47
"""Where related texts have 1 and unrelated ones 0: what the best passage needs if words do not speak for it."""
STRICT_MEANING, MORE_STRICT, STRICTEST = 0.42, 0.1, 0.75
"""More is asked where the query has neither a known word nor the small words of a sentence: it may be no language at
all. The more passages there are, the nearer the nearest is to nonsense, so it is more with every power of ten. And it
must be nearer than nonsense comes to that very passage, however few there are."""
SOME_MEANING = 0.3


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """What a score is made of."""

    words: float
    """The share of the query's weight that the passage holds."""
    closeness: float = 0.0
    """BM25 against a full match."""
    literal: float = 0.0
    """What phrases and names add."""
    meaning: float | None = None
    """None while the passage waits for its vector."""
    between: float | None = None
    """The likeness between languages, by which nonsense is told."""
    noise: float = 0.0
    """Up to where nonsense comes with this passage, on the same scale."""


def lexical(
    asked: ParsedQuery, rarity: dict[str, float], passages: Sequence[StoredPassage], counted: Mapping[int, TokenCounts]
) -> list[ScoreParts]:
    """How well texts match the words of a query. `counted` is by their numbers; one that the word index does not have
    holds none of them."""
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
    """How much of a score is the words'. A question in plain words about code shares few of them with it."""
    code = sum(_is_code(passage.text) for passage in passages)
    return AMONG_CODE if asked.lean == EVENLY and code * 2 > len(passages) else asked.lean


def score(parts: ScoreParts, lean: float) -> float:
    """In 0..1. `lean` is 1 where no meaning is to be had at all."""
    words = (parts.words + parts.closeness) / 2
    # A passage that waits for its vector is taken to mean about what its words say.
    likeness = WAITING * words if parts.meaning is None else parts.meaning
    return min(1.0, lean * words + (1 - lean) * likeness + parts.literal)


def convincing(parts: Sequence[ScoreParts], asked: ParsedQuery, rarity: dict[str, float]) -> bool:
    """Whether any of the passages is about the query at all. If none is, nothing was found."""
    best_words = max((part.words for part in parts), default=0.0)
    if best_words >= CLEAR_WORDS or any(part.literal for part in parts):
        return True
    if asked.is_code:
        return False
    near = [(part.between, part.noise) for part in parts if part.between is not None]
    if asked.is_speech or best_words:
        return any(between >= CLEAR_MEANING for between, _ in near)
    # No word is known, so each is as rare as can be, and tells how many passages there are.
    entries = exp(max(rarity.values(), default=0.0))
    needed = min(STRICTEST, STRICT_MEANING + MORE_STRICT * log10(max(entries, 1.0)))
    return any(between >= max(needed, noise) for between, noise in near)


def counts(parts: ScoreParts) -> bool:
    """Whether a passage belongs into an answer that has a convincing one."""
    return parts.words >= SOME_WORDS or (parts.between is not None and parts.between >= SOME_MEANING)


def quoted(asked: ParsedQuery, passage: StoredPassage) -> bool:
    """Whether a passage holds anything as it was quoted."""
    text = flat(f"{passage.heading}\n{passage.text}")
    return any(phrase in text for phrase in asked.phrases)


def share_of_phrases(asked: ParsedQuery, rarity: dict[str, float]) -> float:
    """What share of the query's weight the word index gives, at least, to a passage that holds a quoted phrase."""
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
