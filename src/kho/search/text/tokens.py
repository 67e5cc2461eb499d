"""Folding: text to the tokens that both databases index.

Case, width and accents are folded (đ too, which Unicode does not decompose), so that Vietnamese typed without marks
still finds its record; a word with marks is a second token as it stands, so that the right marks count more. English
words are stemmed lightly. Scripts without spaces become single characters and overlapping pairs. Identifiers, paths
and codes are one token as a whole, and their parts are tokens too (see compounds.py).

A text is split at white space first, and what a piece becomes is remembered: words repeat, so most of a text is looked
up, not worked out.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import add
from typing import NamedTuple

from kho.lib.lazy_regex import pattern
from kho.search.text.compounds import MAX_TOKEN_LENGTH, parts
from kho.search.text.stemmer import stem
from kho.search.text.stopwords import ENGLISH, HAN, HAN_PAIRS, KANA, UNMARKED, VIETNAMESE
from kho.search.text.unaccented_vietnamese import typed_without_marks
from kho.search.text.unicode import CJK, EMOJI, UNSPACED, plain, unaccented

MAX_QUERY_TOKENS = 64
QUERY_BEGINNING, QUERY_END = 6_000, 2_000
"""Of a longer query only this many characters are read: of a stack trace, the first lines and the last say most."""

FOLDED, EXACT = 0.6, 0.4
"""What the two forms of a word with marks weigh in a query. A text without the marks gets most of the weight, one
with the same marks all of it, one with other marks as much as one with none."""
FUNCTION_WORD = 0.1
HALF_FUNCTION_PAIR = 0.6
"""A pair of Han characters of which one is a function word mostly straddles two words."""

_REMEMBERED = 48
"""Longer pieces hardly ever come again."""

_SCRIPTS = pattern(
    f"(?P<cjk>[{CJK}]+)|(?P<unspaced>[{UNSPACED}]+)|(?P<flag>[\U0001f1e6-\U0001f1ff]{{2}})|(?P<emoji>[{EMOJI}])"
    f"|(?P<spaced>[^{CJK}{UNSPACED}{EMOJI}]+)"
)
_VIETNAMESE = pattern("[ăâđêôơưĂÂĐÊÔƠƯạ-ỹẠ-Ỹ]")
_TONE_ON_LAST = pattern("(?<!q)(o[àáảãạ]|o[èéẻẽẹ]|u[ỳýỷỹỵ])$")


class Piece(NamedTuple):
    """One token, or two that stand for the same word, and where it is in the plain form of the text."""

    token: str
    exact: str
    """With its marks; empty if that is the same, or if it has none."""
    word: str
    """Folded but not stemmed, to tell function words; empty for names."""
    start: int
    end: int
    share: float
    """Its importance in a query; 0 if it is for the index only."""
    capitals: bool = False


def fold(text: str) -> str:
    """Lower case, half width, no accents."""
    return unaccented(plain(text))


def index_tokens(text: str) -> list[str]:
    """Every token of a text, in order, each as often as it occurs."""
    tokens: list[str] = []
    for piece in text.split():
        tokens += tokens_of(piece)
    return tokens


def query_tokens(text: str) -> list[tuple[str, float]]:
    """The distinct tokens to look for, each with its importance in 0..1, in the order of the text.

    At most 64. Where there are more, those of the most important words are kept; among equals those that occur more
    often, then those that come first.
    """
    if len(text) > QUERY_BEGINNING + QUERY_END:
        text = f"{text[:QUERY_BEGINNING]} {text[-QUERY_END:]}"
    little = ENGLISH
    if typed_without_marks(text):
        little = ENGLISH | UNMARKED
    elif _VIETNAMESE.search(unicodedata.normalize("NFC", text)) or typed_without_marks(fold(text)):
        little = ENGLISH | VIETNAMESE  # those that have no marks: khi, cho, trong
    shouted = text.isupper()
    found: dict[str, tuple[float, float]] = {}
    times: dict[str, int] = {}
    for chunk in text.split():
        for piece in pieces(chunk):
            weight = piece.share * _meaning(piece, little, shouted)
            if weight <= 0:
                continue
            forms = [(piece.token, FOLDED), (piece.exact, EXACT)] if piece.exact else [(piece.token, 1.0)]
            for token, part in forms:
                before = found.get(token, (0.0, 0.0))
                found[token] = (max(before[0], round(weight * part, 4)), max(before[1], weight))
                times[token] = times.get(token, 0) + 1
    if len(found) > MAX_QUERY_TOKENS:
        best = sorted(found, key=lambda token: (-found[token][1], -times[token]))[:MAX_QUERY_TOKENS]
        kept = set(best)
        found = {token: value for token, value in found.items() if token in kept}
    return [(token, importance) for token, (importance, _) in found.items()]


def pieces(text: str) -> Iterator[Piece]:
    """Every piece of a text without white space, with places in `plain(text)`."""
    text = plain(text)
    if text.isascii():
        yield from _spaced(text, 0)
        return
    for found in _SCRIPTS.finditer(text):
        if found.lastgroup == "spaced":
            yield from _spaced(found.group(), found.start())
        elif found.lastgroup == "cjk":
            yield from _run(list(found.group()), found.start())
        elif found.lastgroup == "unspaced":
            yield from _run(_letters(found.group()), found.start())
        else:
            yield Piece(found.group(), "", "", found.start(), found.end(), 1.0)


def tokens_of(piece: str) -> Sequence[str]:
    """The tokens of a text without white space."""
    return _remembered(piece) if len(piece) <= _REMEMBERED else _worked_out(piece)


@lru_cache(maxsize=131_072)
def _remembered(piece: str) -> tuple[str, ...]:
    return tuple(_worked_out(piece))


def _worked_out(text: str) -> list[str]:
    """The tokens of `pieces(text)`, without the pieces: they cost more than the rest."""
    word = text.lstrip('("').rstrip('.,;:!?)"')
    if word.isascii() and word.isalpha() and len(word) <= MAX_TOKEN_LENGTH and (word.islower() or word.istitle()):
        return [stem(word.lower())]
    text = plain(text)
    tokens: list[str] = []
    for found in _SCRIPTS.finditer(text):
        run = found.group()
        if found.lastgroup == "spaced":
            for piece in _spaced(run, 0):
                tokens.append(piece.token)
                if piece.exact:
                    tokens.append(piece.exact)
        elif found.lastgroup == "cjk":
            tokens += run
            tokens += map(add, run, run[1:])
        elif found.lastgroup == "unspaced":
            letters = _letters(run)
            tokens += letters
            tokens += map(add, letters, letters[1:])
        else:
            tokens.append(run)
    return tokens


def _spaced(text: str, offset: int) -> Iterator[Piece]:
    for start, end, form, share, leaf in parts(text):
        folded = unaccented(form)
        if not leaf:
            yield Piece(folded, "", "", offset + start, offset + end, share)
            continue
        if not folded:
            continue
        exact = "" if form.isascii() else _exact(form)
        yield Piece(
            stem(folded), "" if exact == folded else exact, folded, offset + start, offset + end, share, form.isupper()
        )


def _exact(word: str) -> str:
    """The word with its marks. Vietnamese writes `hòa` and `hoà`: one of them stands for both."""
    lower = unicodedata.normalize("NFC", word.casefold())
    return _TONE_ON_LAST.sub(_tone_on_first, lower)


def _tone_on_first(found: re.Match[str]) -> str:
    first, last = found.group()
    letter, tone = unicodedata.normalize("NFD", last)
    return unicodedata.normalize("NFC", first + tone) + letter


def _letters(run: str) -> list[str]:
    """A letter with the marks that belong to it."""
    letters: list[str] = []
    for char in run:
        if letters and unicodedata.category(char) in ("Mn", "Mc"):
            letters[-1] += char
        else:
            letters.append(char)
    return letters


def _run(letters: list[str], start: int) -> Iterator[Piece]:
    """Single letters, then pairs. A query asks for the pairs, unless there is but one letter."""
    places = [start]
    for letter in letters:
        places.append(places[-1] + len(letter))
    alone = len(letters) == 1
    for letter, (at, end) in zip(letters, pairwise(places), strict=True):
        yield Piece(letter, "", letter, at, end, 1.0 if alone else 0.0)
    for index, (one, other) in enumerate(pairwise(letters)):
        yield Piece(one + other, "", one + other, places[index], places[index + 2], 1.0)


def _meaning(piece: Piece, little: frozenset[str], shouted: bool) -> float:
    """1 for a word with a meaning of its own, little for a function word."""
    word = piece.word
    if not word:
        return 1.0
    if word[0] > "\u2e7f":  # past the alphabets
        if word in HAN_PAIRS:
            return FUNCTION_WORD
        hollow = sum(char in HAN or char in KANA for char in word)
        if hollow == len(word):
            return FUNCTION_WORD
        return HALF_FUNCTION_PAIR if hollow else 1.0
    if piece.exact:
        return FUNCTION_WORD if piece.exact in VIETNAMESE else 1.0
    if piece.capitals and len(word) > 1 and not shouted:
        return 1.0  # IT, US, WHO and AI are names
    return FUNCTION_WORD if word in little else 1.0
