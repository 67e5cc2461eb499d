"""Scores the few candidate passages from the indexes more precisely, in the same way on every database.

Keyword score: half is the share of the query's weight that the passage holds, half is BM25 relative to a full match, so
that a weak match stays weak however weak the others are. Semantic score: the model's cosine and the one between
languages, each on the scale that calibrate.py measured. Neither is relative to the best result, so a score means about
the same in every answer.

A query word that no passage has weighs nothing. A passage belongs in the answer if it has a word of the query, or is
closer to it than unrelated texts are (`UNRELATED`). The numbers below that depend on the texts people store are fitted
with `python -m bench.fit`.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kho.kernel.ports import TokenCounts, WordMatches
from kho.lib.chunking.code_blocks import in_words, names_defined
from kho.lib.dataclass import dataclass
from kho.lib.lazy_regex import pattern
from kho.search.indexing.passages import StoredPassage
from kho.search.query.parsed_query import EVENLY, ParsedQuery, flat
from kho.search.text.side_by_side import JOINT
from kho.search.text.tokens import FOLDED, query_tokens, without_marks

if TYPE_CHECKING:
    from kho.search.calibration.calibrate import Array, Likeness

K1, B = 1.2, 0.75
FULL = 2.2 * 0.75
"""BM25 of a token of ordinary frequency in a passage that is about it, in units of its rarity."""
EVERYWHERE = 0.69
"""Rarity of a token that is in every entry."""


class Levels(NamedTuple):
    """Scores of first hits that are mostly noise below, and relevant, very and highly relevant above (see
    relevance.py). They depend on what is searched, so each kind of texts has its own, fitted with `bench.scales`. Where
    no score says that a hit is highly relevant, it is above 1."""

    low: float
    relevant: float
    very: float
    highly: float

    def place(self, score: float) -> float:
        """Bring a score to the scale that all answers share; strictly increasing in 0..1."""
        own, common = (0.0, *self, max(1.0, self.highly + 0.1)), (0.0, *COMMON, 1.0)
        above = next(n for n in range(1, len(own)) if score < own[n] or n == len(own) - 1)
        share = (score - own[above - 1]) / (own[above] - own[above - 1])
        return min(1.0, common[above - 1] + share * (common[above] - common[above - 1]))


COMMON = Levels(0.35, 0.57, 0.66, 0.76)


class Balance(NamedTuple):
    """What counts how much in a score, and how high the scores of right answers are."""

    words: float
    """Share of keywords; the rest is semantic."""
    raw: float = 0.2
    between: float = 0.35
    """Shares of the raw and the cross-language similarity in the semantic score. Their sum is the score of a passage
    that is as close as the related probes; a closer one gets up to 1."""
    own: Levels = COMMON
    foreign: Levels = COMMON
    """Scales of answers whose first hit is in the language of the question, or in another."""


BY_WORDS_ALONE = Balance(1.0)
PROSE = Balance(EVENLY, own=Levels(0.36, 0.38, 0.42, 0.5), foreign=Levels(0.2, 0.25, 0.33, 0.42))
AMONG_CODE = Balance(0.25, own=Levels(0.62, 0.76, 1.1, 1.2))
AMONG_NOTES = Balance(0.2, own=Levels(0.33, 0.39, 0.48, 0.85))
"""Among short texts: they have room for few words, so one that is missing says little."""
ASKED_OF_NOTES = Balance(
    0.05, raw=0.05, between=0.5, own=Levels(0.32, 0.37, 0.49, 0.56), foreign=Levels(0.27, 0.31, 0.45, 0.54)
)
"""If a sentence is asked of them. By the raw similarity, short texts in the language of the question come before all
others, whatever they say."""
_TALK = Levels(0.34, 0.47, 0.66, 0.9)
AMONG_TALK = Balance(0.2, own=_TALK, foreign=_TALK)
"""Among messages of conversations, which are short too, but share words and subjects with those around them."""
NOTE = 300
"""Bytes up to which a text is short."""
WAITING = 0.75
"""Keyword score at which a passage without its vector has a full semantic score."""
FOREIGN = 0.5
"""Share of its semantic score that a passage in another language than the question has as its keyword score, at least:
it cannot have the words. If all passages are in other languages, what it has of them, mostly names, counts on top."""

_NOTHING: TokenCounts = {}, 0
_NAMES = pattern(", | > ")
"""What separates the names in the heading of code."""

BY_WORDS = 20
"""Number of best keyword matches that are scored in detail, beside the nearest by vector."""
NEAREST = 32
"""Number of passages from vector search: detailed scoring changes their order more than that of keyword matches."""
NEAREST_OF_ALL = 12
"""The same for the search that looks in all languages alike."""
TAIL = 0.8
"""Score per keyword share of a passage not scored in detail, if no passage that was has any of the words."""

PHRASE = 0.35
"""Bonus for a quoted phrase that the passage holds exactly, or for a query typed without marks that it holds so."""
NAME = 0.25
"""Bonus for a name that the passage holds whole."""
SPELT = 0.1
"""Bonus for code below a name of several words that is half of the query, in its order: `rgb to hsv`, not `hsv to
rgb`."""
DEFINED = 0.8
"""Least score of the code that defines the name which is all of the query, on the scale that answers share."""
APART = 0.5
"""Weight of a syllable whose neighbours in a Vietnamese query are not beside it in the passage, as part of its weight:
it is part of other words there."""
BESIDE_HEAD = 0.75
"""Lower bound for keyword matches outside the head: the word index gives words in the head a little more, so the others
lose less than a quarter."""

KNOWN_LEAST = 0.5
"""Share of its heaviest word that a query weighs at least."""

UNTELLING = 0.3
"""Score of a full match if the query is made of function words only: nearly every passage has them all."""

SOME_WORDS = 0.15
"""From this keyword share on, the words speak for a passage, also if it has none of them whole."""
UNRELATED: Mapping[tuple[str, str], float] = {
    ("en", "en"): 0.25,
    ("en", "vi"): 0.2,
    ("en", "zh"): 0.21,
    ("vi", "en"): 0.18,
    ("vi", "vi"): 0.21,
    ("vi", "zh"): 0.2,
    ("zh", "en"): 0.21,
    ("zh", "vi"): 0.2,
    ("zh", "zh"): 0.22,
}
"""Cross-language similarity (0: mean of unrelated texts, 1: of related ones) that unrelated texts reach, by the
languages of query and passage. A passage without a word of the query has to be closer."""
UNRELATED_ELSEWHERE = 0.18
"""The same for other languages."""
HOLLOW = 0.72
"""From this similarity to nonsense on (0: an ordinary question, 1: nonsense), a query has to be closer to a passage
than nonsense is. Real queries stay below."""
DOUBTFUL = 0.49
"""From this similarity to nonsense on, the semantic score is lowered."""
DOUBT = 0.6
"""Share of the semantic score that nonsense loses. If the model cannot tell nonsense, passages that are no closer than
nonsense can be lose it."""


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
    """Cross-language similarity."""
    unrelated: float = UNRELATED_ELSEWHERE
    """Similarity that texts reach with this passage without being about it, on the same scale."""
    foreign: bool = False
    """True if it is in another language than the question, which is a sentence."""
    rivals: bool = True
    """False if nothing was found in the language of the question."""
    defines: bool = False
    """True if it is code that defines the name which is all of the query."""
    has_word: bool = False
    """True if it holds one of the words whole; neither function words nor parts of a name count."""


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
    asked: ParsedQuery, matched: WordMatches, passages: Sequence[StoredPassage], counted: Mapping[int, TokenCounts]
) -> list[ScoreParts]:
    """Score how well passages match the words of a query. `counted` is keyed by passage number; a passage that the word
    index does not have counts as holding none of them."""
    rarity = matched.rarity
    weights = {token: importance * rarity.get(token, 0.0) for token, importance in asked.tokens}
    sharp = {token: importance * max(rarity.get(token, 0.0) - EVERYWHERE, 0.01) for token, importance in asked.tokens}
    total, most = _whole(asked, weights, matched) or 1.0, FULL * _whole(asked, sharp, matched) or 1.0
    importance = dict(asked.tokens)
    usual = sum(length for _, length in counted.values()) / max(len(counted), 1) or 1.0
    words, defining = _words_of_syllables(asked, matched), _defining(asked, passages)
    found: list[ScoreParts] = []
    for passage in passages:
        held, length = counted.get(passage.ref.seq, _NOTHING)
        part = {token: APART if token in words and words[token].isdisjoint(held) else 1.0 for token in held}
        share = min(1.0, sum(weights[token] * part[token] for token in held) / total)
        norm = K1 * (1 - B + B * length / usual)
        bm25 = sum(sharp[token] * part[token] * times * (K1 + 1) / (times + norm) for token, times in held.items())
        has_word = any(importance[token] >= FOLDED for token in held)
        close, literal = min(1.0, bm25 / most), _literal(asked, passage)
        found.append(ScoreParts(share, close, literal, defines=passage.ref.seq in defining, has_word=has_word))
    return found


def _words_of_syllables(asked: ParsedQuery, matched: WordMatches) -> dict[str, set[str]]:
    """Return, for each syllable of a Vietnamese query, the pairs with its neighbours that any passage has."""
    found: dict[str, set[str]] = {}
    for pair, _ in asked.tokens:
        if JOINT in pair and matched.holders.get(pair):
            for syllable in pair.split(JOINT):
                found.setdefault(syllable, set()).add(pair)
    return {token: found[bare] for token, _ in asked.words if (bare := without_marks(token)) in found}


def _defining(asked: ParsedQuery, passages: Sequence[StoredPassage]) -> set[int]:
    """Return the numbers of the passages that define the name which is all of the query, as it is written or, if none
    does, however it is written."""
    name = asked.as_identifier
    if not name:
        return set()
    bare = _bare(name)
    headed = {one.ref.seq: bare in map(_bare, _NAMES.split(one.heading)) for one in passages}
    code = [one for one in passages if headed[one.ref.seq] or _is_code(one.text)]
    names = {one.ref.seq: names_defined(one.text) for one in code}
    exactly = {seq for seq, found in names.items() if name in found}
    return exactly or {seq for seq, found in names.items() if bare in map(_bare, found)}


def _bare(name: str) -> str:
    return in_words(name).replace(" ", "")


def _whole(asked: ParsedQuery, weights: Mapping[str, float], matched: WordMatches) -> float:
    """Return the weight of all words of a query. Words that no passage has weigh nothing, except in a sentence: it may
    be in another language than the passages, and the few words that they share by chance must not become all of it.
    Pairs of words that no passage has side by side never weigh anything.

    At least half that of its heaviest word: a small part of an unknown name is no full match."""
    known = {token for token, holders in matched.holders.items() if holders}
    if asked.is_sentence:
        return sum(weight for token, weight in weights.items() if token in known or JOINT not in token)
    # A word with accents has two tokens. It is known if passages have it without accents.
    kept = (weight for token, weight in weights.items() if token in known or without_marks(token) in known)
    return max(sum(kept), KNOWN_LEAST * max(weights.values(), default=0.0))


def of_known_words(asked: ParsedQuery, matched: WordMatches) -> WordMatches:
    """Return keyword matches with shares of what the store knows of the query; the word index counts all of it."""
    weights = {token: importance * matched.rarity.get(token, 0.0) for token, importance in asked.tokens}
    part = (_whole(asked, weights, matched) or 1.0) / (sum(weights.values()) or 1.0)
    return replace(matched, found=[(seq, min(1.0, share / part)) for seq, share in matched.found])


def meaning(likeness: "Likeness", balance: Balance) -> "Array":
    """Return the semantic scores of passages; lower if the query may be nonsense."""
    import numpy as np

    near = np.clip(balance.raw * likeness.raw + balance.between * likeness.between, 0, 1)
    if likeness.hollowness is None:
        doubt = likeness.between < likeness.noise
    else:
        doubt = min(1.0, max(0.0, likeness.hollowness - DOUBTFUL) / (1 - DOUBTFUL))
    return (near * (1 - DOUBT * doubt)).astype(np.float32)


def unrelated(likeness: "Likeness", place: int, spoken: str, written: str) -> float:
    """Return the similarity that texts reach with a passage without being about it."""
    usual = UNRELATED.get((spoken, written), UNRELATED_ELSEWHERE)
    hollow = likeness.hollowness is not None and likeness.hollowness >= HOLLOW
    return max(usual, float(likeness.noise[place])) if hollow else usual


def balance(asked: ParsedQuery, passages: Sequence[StoredPassage], spoken: Collection[str] = ()) -> Balance:
    """Return what counts how much. A question in plain words about code shares few words with it, so keywords count
    less if most passages are code; likewise if most are short. `spoken` are the spaces of conversations."""
    if asked.lean != EVENLY:
        return Balance(asked.lean)
    if sum(passage.ref.space in spoken for passage in passages) * 2 > len(passages):
        return AMONG_TALK
    if sum(_is_code(passage.text) for passage in passages) * 2 > len(passages):
        return AMONG_CODE
    if sum(len(passage.text.encode()) <= NOTE for passage in passages) * 2 > len(passages):
        return ASKED_OF_NOTES if asked.is_sentence else AMONG_NOTES
    return PROSE


def scale(
    balance: Balance, first: StoredPassage, parts: ScoreParts, looked: Sequence[StoredPassage], spoken: Collection[str]
) -> Levels:
    """Return the scale of an answer. If what was found first is not of the kind that most of what was looked at is, as
    a fact among code, it scores as it would among its own kind."""
    if parts.foreign:
        return balance.foreign
    if balance.own == COMMON:
        return COMMON
    if balance != AMONG_CODE:
        return AMONG_CODE.own if _is_code(first.text) else balance.own
    if first.ref.space in {one.ref.space for one in looked if _is_code(one.text)}:  # among code, its documentation too
        return AMONG_CODE.own
    if first.ref.space in spoken:
        return AMONG_TALK.own
    return AMONG_NOTES.own if len(first.text.encode()) <= NOTE else PROSE.own


def placed(one: RankedPassage, scale: Levels, asked: ParsedQuery) -> float:
    """Return the score of a passage on the scale that all answers share."""
    found = scale.place(one.score)
    if not one.parts.defines:
        return found
    if asked.names:  # written as only a program writes it
        return 1.0
    return DEFINED + (1 - DEFINED) * found if scale == AMONG_CODE.own else found


def score(parts: ScoreParts, lean: float) -> float:
    """Combine the parts to a score in 0..1. `lean` is the share of keywords, 1 if there is no semantic search at
    all."""
    words = (parts.words + parts.closeness) / 2
    # Until a passage has its vector, its semantic score is estimated from its words.
    likeness = WAITING * words if parts.meaning is None else parts.meaning
    if parts.foreign:
        lent = FOREIGN * likeness
        words = max(words, lent) if parts.rivals else min(1.0, words + lent)
    return min(1.0, lean * words + (1 - lean) * likeness + parts.literal)


def speaks(parts: ScoreParts, asked: ParsedQuery) -> bool:
    """True if anything speaks for a passage: a word, a phrase or a name of the query, or its meaning. The meaning of
    codes does not count."""
    if parts.literal or parts.has_word or parts.words >= SOME_WORDS:
        return True
    return parts.between is not None and parts.between >= parts.unrelated and not asked.is_code


def quoted(asked: ParsedQuery, passage: StoredPassage) -> bool:
    """True if a passage holds any of the quoted phrases exactly."""
    text = flat(f"{passage.heading}\n{passage.text}")
    return any(phrase in text for phrase in asked.phrases)


def share_of_phrases(asked: ParsedQuery, matched: WordMatches) -> float:
    """Return the least share of the query's weight that a passage that holds a quoted phrase has in the word index."""
    weights = {token: importance * matched.rarity.get(token, 0.0) for token, importance in asked.tokens}
    held = (sum(weights.get(token, 0.0) for token, _ in query_tokens(phrase)) for phrase in asked.phrases)
    return min(1.0, BESIDE_HEAD * min(held) / (_whole(asked, weights, matched) or 1.0))


def _is_code(text: str) -> bool:
    return 30 * sum(map(text.count, "(){}[]=;_")) > len(text)


def _literal(asked: ParsedQuery, passage: StoredPassage) -> float:
    typed = PHRASE if asked.typed and asked.typed.lower() in passage.text.lower() else 0.0
    typed += SPELT if _is_code(passage.text) and _says_a_name(asked, passage) else 0.0
    if not asked.phrases and not asked.names:
        return typed
    text = flat(f"{passage.heading}\n{passage.text}")
    phrases = sum(phrase in text for phrase in asked.phrases) / max(len(asked.phrases), 1)
    names = sum(name in text for name in asked.names) / max(len(asked.names), 1)
    return PHRASE * phrases + NAME * names + typed


def _says_a_name(asked: ParsedQuery, passage: StoredPassage) -> bool:
    """True if at least half of a query is one of the names of several words in the heading of a passage."""
    said = f" {asked.in_words} "
    names = (name for name in _NAMES.split(passage.heading) if " " in name and f" {name} " in said)
    return any(2 * name.count(" ") + 2 >= said.count(" ") - 1 for name in names)


def worth_a_look(matched: WordMatches, near: Sequence[int]) -> list[int]:
    """Return the best keyword matches and the nearest by vector; only keyword matches, but more, if there are no near
    ones."""
    most = BY_WORDS if near else BY_WORDS + NEAREST
    return list(dict.fromkeys([*(seq for seq, _ in matched.found[:most]), *near]))


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


def order(one: RankedPassage) -> tuple[float, bool, int]:
    """Sort key: best first; among equals what defines the name that is asked for, then the newest."""
    return -one.score, not one.parts.defines, -one.seq
