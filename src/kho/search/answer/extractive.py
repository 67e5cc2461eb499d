"""Extractive answers: quotes the few sentences of the best passages that say most about the question."""

from collections.abc import Iterator, Sequence
from math import log

from kho.lib.chunking.graphemes import boundary
from kho.lib.chunking.sentences import sentences
from kho.lib.dataclass import dataclass
from kho.search.answer.highlight import spans
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.searcher import SearchHit
from kho.search.text.language import language
from kho.search.text.tokens import index_tokens

SENTENCES, CHARACTERS = 3, 500
"""Maximum sentences and characters of an answer."""
MAX_QUOTE_LENGTH = 240
"""Maximum characters of one sentence; a longer one is cut to the part around the words of the question."""
PASSAGES = 8
"""Maximum number of passages that are quoted from."""
FAR_BEHIND = 0.8
"""Passages that score less than this share of the best are not quoted."""
AS_GOOD = 0.9
"""If a passage in the question's language reaches this share of the best score, only that language is quoted."""
ASKED_FOR = 0.5
"""Replaces FAR_BEHIND if a language was asked for, so that more passages in that language qualify."""
QUOTABLE = 0.3
"""Minimum score of the best passage: below it, one in twenty answers the question, and a quotation looks like an
answer."""
NO_WORDS = 0.5
"""Worth of a sentence with none of the words, where having all of them adds 1: it may be in another language."""
AGAIN = 0.3
"""Factor for a word that an earlier sentence already has."""
WORTH_ADDING = 0.35
"""Share of the first sentence's worth that a further one needs."""
SAME = 0.75
"""Share of common words from which two sentences count as the same."""


@dataclass(frozen=True, slots=True)
class Quote:
    hit: int
    """Index in the list of hits, from 0."""
    start: int
    end: int
    """Span in the passage's text."""
    text: str
    """With … where a long sentence was cut."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    hit: int
    start: int
    end: int
    tokens: frozenset[str]


def quotes(question: str, hits: Sequence[SearchHit], wanted: str = "") -> list[Quote]:
    """Return quotes in the order of the hits, then of the text; in the wanted language, or the question's, if there is
    something good in it."""
    best = max((hit.score for hit in hits), default=0.0)
    if best < QUOTABLE:
        return []
    found: list[_Sentence] = list(_sentences(hits, (ASKED_FOR if wanted else FAR_BEHIND) * best))
    understood = [one for one in found if hits[one.hit].passage.language == (wanted or language(question))]
    if wanted or any(hits[one.hit].score >= AS_GOOD * best for one in understood):
        found = understood or found
    weights = _weights(question, found)
    chosen: list[_Sentence] = []
    covered: set[str] = set()
    first, room = 0.0, CHARACTERS
    while found and len(chosen) < SENTENCES and room > 0:
        worths = [_worth(one, hits, weights, covered) for one in found]  # the first of equals wins: they are in order
        worth = max(worths)
        best = found[worths.index(worth)]
        # Without a common word there is no criterion, so the beginning of the best passage is used.
        if chosen and (worth < WORTH_ADDING * first or not weights.keys() & best.tokens):
            break
        first = first or worth
        found = [one for one in found if one is not best and not _same(one, best)]
        length = min(best.end - best.start, MAX_QUOTE_LENGTH)
        if chosen and length > room:
            continue
        chosen.append(best)
        covered |= best.tokens
        room -= length
    return [_quote(one, hits, weights) for one in sorted(chosen, key=lambda one: (one.hit, one.start))]


def _sentences(hits: Sequence[SearchHit], floor: float) -> Iterator[_Sentence]:
    for number, hit in enumerate(hits[:PASSAGES]):
        if hit.score < floor:
            continue
        text = hit.passage.text
        for start, end in sentences(text, 0, len(text)):
            start, end = _trimmed(text, start, end)
            tokens = frozenset(index_tokens(text[start:end]))
            if tokens:
                yield _Sentence(number, start, end, tokens)


def _weights(question: str, found: Sequence[_Sentence]) -> dict[str, float]:
    """Return the weight of each word of the question: lower, the more of these sentences have it."""
    weights: dict[str, float] = {}
    for token, importance in ParsedQuery(question).tokens:
        holders = sum(token in one.tokens for one in found)
        weights[token] = importance * log(1 + (len(found) + 1) / (holders + 1))
    return weights


def _worth(one: _Sentence, hits: Sequence[SearchHit], weights: dict[str, float], covered: set[str]) -> float:
    total = sum(weights.values()) or 1.0
    held = sum(
        weight * (AGAIN if token in covered else 1.0) for token, weight in weights.items() if token in one.tokens
    )
    return hits[one.hit].score * (NO_WORDS + held / total)


def _same(one: _Sentence, other: _Sentence) -> bool:
    return len(one.tokens & other.tokens) >= SAME * len(one.tokens | other.tokens)


def _quote(one: _Sentence, hits: Sequence[SearchHit], weights: dict[str, float]) -> Quote:
    text, start, end = hits[one.hit].passage.text, one.start, one.end
    if end - start > MAX_QUOTE_LENGTH:
        asked_for = spans(text[start:end], weights)
        first = start + (asked_for[0][0] if asked_for else 0)
        if first + MAX_QUOTE_LENGTH // 2 > start + MAX_QUOTE_LENGTH:
            start = _word(text, first - MAX_QUOTE_LENGTH // 4)
        end = max(_word(text, start + MAX_QUOTE_LENGTH), start + 1) if start + MAX_QUOTE_LENGTH < end else end
        start, end = _trimmed(text, start, end)
    before = "…" if start > one.start else ""
    after = "…" if end < one.end else ""
    return Quote(one.hit, start, end, f"{before}{' '.join(text[start:end].split())}{after}")


def _word(text: str, place: int) -> int:
    """Return the nearest earlier position where a word begins; in a script without spaces, where a character does."""
    for at in range(place, max(place - 24, 0), -1):
        if text[at - 1].isspace():
            return at
    return boundary(text, place)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
