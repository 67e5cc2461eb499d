"""Highlights: the positions of a query's words in the original text, and the snippet that shows most of them.

Folding changes lengths (decomposed accents, ligatures, soft hyphens), so the positions that tokens.py gives in the
plain form are mapped back, letter by letter.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kho.lib.chunking.graphemes import boundary
from kho.lib.chunking.sentences import sentence_starts
from kho.search.text.tokens import FUNCTION_WORD, pieces, plain, query_tokens, tokens_of

Span = tuple[int, int]
Query = str | Mapping[str, float]
"""The query as typed, or its tokens with their importance."""

ELLIPSIS = "…"
_CHUNK = re.compile(r"\S+")
_MAX_CHUNK_LENGTH = 4_096
"""Text without white space (Chinese, blobs) is processed in chunks of this length."""


class _Hit(NamedTuple):
    start: int
    end: int
    token: str
    weight: float


def spans(text: str, query: Query) -> list[Span]:
    """Return the spans of the query's words, in order; adjacent ones are merged."""
    merged: list[Span] = []
    for hit in sorted(_hits(text, _wanted(query))):
        if merged and hit.start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], hit.end))
        else:
            merged.append((hit.start, hit.end))
    return merged


def snippet(text: str, query: Query, width: int = 240) -> tuple[str, list[Span]]:
    """Return about `width` characters of the text that hold the most of the query, and the highlights in them.

    The snippet begins at a sentence if one begins near enough, otherwise at a word, and has … where it was cut.
    """
    wanted = _wanted(query)
    hits = sorted(_hits(text, wanted))
    start, end = _cut(text, *_best_window(hits, width), width)
    shown = text[start:end]
    lead = ELLIPSIS if text[:start].strip() else ""
    tail = ELLIPSIS if text[end:].strip() else ""
    return lead + shown + tail, [(at + len(lead), to + len(lead)) for at, to in spans(shown, wanted)]


def _wanted(query: Query) -> Mapping[str, float]:
    """Return the tokens to highlight. Function words are left out, unless there is nothing else."""
    tokens = dict(query_tokens(query)) if isinstance(query, str) else dict(query)
    telling = {token: weight for token, weight in tokens.items() if weight > FUNCTION_WORD}
    # So are single letters that are only parts: a query for C++ does not mean every c.
    longer = {token: weight for token, weight in telling.items() if weight >= 1 or len(token) > 1 or token > "~"}
    return longer or telling or tokens


def _hits(text: str, wanted: Mapping[str, float]) -> Iterator[_Hit]:
    if not wanted:
        return
    for found in _CHUNK.finditer(text):
        start, end = found.span()
        while start < end:
            stop = end if end - start <= _MAX_CHUNK_LENGTH else boundary(text, start + _MAX_CHUNK_LENGTH)
            chunk = text[start:stop]
            if not wanted.keys().isdisjoint(tokens_of(chunk)):
                yield from _hits_in(chunk, start, wanted)
            start = stop


def _hits_in(chunk: str, offset: int, wanted: Mapping[str, float]) -> Iterator[_Hit]:
    places: list[Span] | None = None
    for piece in pieces(chunk):
        token = piece.token if piece.token in wanted else piece.exact
        if token not in wanted:
            continue
        weight = wanted[token] + (wanted.get(piece.exact, 0.0) if token != piece.exact else 0.0)
        if chunk.isascii():
            yield _Hit(offset + piece.start, offset + piece.end, token, weight)
            continue
        places = _places(chunk) if places is None else places
        if places:
            yield _Hit(offset + places[piece.start][0], offset + places[piece.end - 1][1], token, weight)
        else:
            yield _Hit(offset, offset + len(chunk), token, weight)


def _places(chunk: str) -> list[Span]:
    """Map each character of the plain form to the span of the letter that it comes from. Empty if the letters, each
    normalised by itself, give another form; then the whole chunk is highlighted."""
    places: list[Span] = []
    forms: list[str] = []
    start = 0
    for end in range(1, len(chunk) + 1):
        if end < len(chunk) and _belongs(chunk[end]):
            continue
        form = plain(chunk[start:end])
        forms.append(form)
        places.extend([(start, end)] * len(form))
        start = end
    return places if "".join(forms) == plain(chunk) else []


def _belongs(char: str) -> bool:
    """True if a character can combine with the one before it."""
    return char >= "\u00ad" and (
        unicodedata.combining(char) > 0
        or unicodedata.category(char) in ("Mn", "Mc", "Cf")
        or "\u1160" <= char <= "\u11ff"
        or "\uff9e" <= char <= "\uff9f"
    )


def _best_window(hits: list[_Hit], width: int) -> Span:
    """Return the span from the first to the last hit of the window that holds the most weight, each token counted once;
    the first among equals."""
    best, place = 0.0, (0, 0)
    inside: dict[str, int] = {}
    weight, first = 0.0, 0
    for last, hit in enumerate(hits):
        if not inside.get(hit.token):
            weight += hit.weight
        inside[hit.token] = inside.get(hit.token, 0) + 1
        while hit.end - hits[first].start > width and first < last:
            gone = hits[first]
            inside[gone.token] -= 1
            if not inside[gone.token]:
                weight -= gone.weight
            first += 1
        if weight > best + 1e-9:
            best, place = weight, (hits[first].start, max(hit.end, hits[first].end))
    return place


def _cut(text: str, first: int, last: int, width: int) -> Span:
    """Widen the window to about `width`, from the start of a sentence or a word to the end of a word."""
    room = max(0, width - (last - first))
    start = max(0, first - (room // 2 if last + room // 2 <= len(text) else room - (len(text) - last)))
    begins = [place for place in sentence_starts(text, max(0, start - 1), first + 1) if start <= place <= first]
    if start > 0:
        start = begins[0] if begins else _word_start(text, start, first)
    end = min(len(text), max(start + width, min(last, start + 2 * width)))
    if end < len(text):
        end = _word_end(text, end, min(last, end))
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _word_start(text: str, place: int, latest: int) -> int:
    """Return the start of the first word at `place` or soon after."""
    for at in range(place, min(latest, place + 24)):
        if text[at - 1].isspace():
            return at
    return boundary(text, place)


def _word_end(text: str, place: int, earliest: int) -> int:
    for at in range(place, max(earliest, place - 24), -1):
        if text[at].isspace():
            return at
    return max(boundary(text, place), 0)
