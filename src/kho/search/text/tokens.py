"""Folding: text to the tokens that both databases index.

Case, width and accents are folded (đ too, which Unicode does not decompose), so that Vietnamese typed without marks
still finds its record. A word with marks is also indexed as it is written, so that the right marks count more. English
words are stemmed lightly. Scripts without spaces become single characters and overlapping pairs. Identifiers, paths and
codes are one token as a whole, and their parts are tokens too (see compounds.py).

A text is split at white space first, and the tokens of each piece are cached: words repeat, so most of a text is looked
up, not computed.
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
from kho.search.text.language import typed_without_marks
from kho.search.text.stemmer import stem
from kho.search.text.stopwords import ENGLISH, HAN, HAN_PAIRS, KANA, UNMARKED, VIETNAMESE

MAX_QUERY_TOKENS = 64
QUERY_BEGINNING, QUERY_END = 6_000, 2_000
"""Maximum characters read from the beginning and the end of a query: in a stack trace, the first and last lines say
most."""

FOLDED, EXACT = 0.6, 0.4
"""Query weights of the two forms of a word with marks. A text without the marks gets most of the weight, one with the
same marks all of it, one with other marks as much as one with none."""
FUNCTION_WORD = 0.1
HALF_FUNCTION_PAIR = 0.6
"""A pair of Han characters of which one is a function word mostly straddles two words."""

_REMEMBERED = 48
"""Longest piece that is cached, in characters. Longer ones hardly ever repeat."""

CJK = (
    "\u3005\u3007\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u31a0-\u31bf\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U000323af"
)
"""Han, Kana, Bopomofo and Hangul: indexed as single characters and pairs of them."""

UNSPACED = (
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf\u1000-\u1049\u1050-\u109d\u1780-\u17d3\u17d7\u17dc\u17dd"
    "\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa7f"
)
"""Thai, Lao, Myanmar and Khmer: the same, but a letter keeps its marks."""

EMOJI = (
    "\u231a\u231b\u23e9-\u23f3\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    "\U0001f000-\U0001f0ff\U0001f1e6-\U0001f1ff\U0001f300-\U0001f3fa\U0001f400-\U0001faff"
)
"""Emoji. Skin tones (1f3fb-1f3ff) are left out: they say little, and are dropped as other marks are."""

# Zero-width joiners, soft hyphens, direction marks, variation selectors and skin tones: invisible, or irrelevant to
# search. They are removed, so that a word with one inside is still one word.
_UNSEEN = pattern(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]+"
)
# A lone surrogate cannot be stored, NUL and the private areas mean nothing: they separate words, as a space does.
_NO_TEXT = pattern("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\ufffd-\uffff]")
_DASHES = pattern("[\u2010-\u2013\u2212]")
_APOSTROPHES = pattern("[\u2018\u2019\u02bc\u2032]")
_FOREIGN_DIGITS = pattern(r"[^\W\D0-9]")

# Accents: of Latin, Greek and Cyrillic letters, Hebrew points, Arabic vowel signs and the tatweel. Marks of other
# scripts, such as the Japanese voicing mark, form letters.
ACCENTS = pattern(
    "[\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]+"
)
# Letters that look like another with a stroke, but that Unicode does not decompose.
_STROKES = str.maketrans(
    {"đ": "d", "ð": "d", "ı": "i", "ł": "l", "ø": "o", "ħ": "h", "ŧ": "t", "æ": "ae", "œ": "oe", "þ": "th", "ĸ": "k"}
)

_SCRIPTS = pattern(
    f"(?P<cjk>[{CJK}]+)|(?P<unspaced>[{UNSPACED}]+)|(?P<flag>[\U0001f1e6-\U0001f1ff]{{2}})|(?P<emoji>[{EMOJI}])"
    f"|(?P<spaced>[^{CJK}{UNSPACED}{EMOJI}]+)"
)
_VIETNAMESE = pattern("[ăâđêôơưĂÂĐÊÔƠƯạ-ỹẠ-Ỹ]")
_TONE_ON_LAST = pattern("(?<!q)(o[àáảãạ]|o[èéẻẽẹ]|u[ỳýỷỹỵ])$")


class Piece(NamedTuple):
    """One token, or two forms of the same word, and its position in the plain form of the text."""

    token: str
    exact: str
    """Form with marks; empty if it is the same as `token` or has no marks."""
    word: str
    """Folded but not stemmed, to recognise function words; empty for names."""
    start: int
    end: int
    share: float
    """Importance in a query; 0 if it is for the index only."""
    capitals: bool = False


def plain(text: str) -> str:
    """Normalise to NFKC (half width, no ligatures) without invisible characters; dashes, apostrophes and digits get one
    form. Case and accents stay."""
    if text.isascii():
        return _NO_TEXT.sub(" ", text)
    text = unicodedata.normalize("NFKC", _NO_TEXT.sub(" ", _UNSEEN.sub("", text)))
    text = _APOSTROPHES.sub("'", _DASHES.sub("-", _UNSEEN.sub("", text)))
    return _FOREIGN_DIGITS.sub(lambda found: str(unicodedata.decimal(found.group(), "")), text)


def unaccented(text: str) -> str:
    """Convert to lower case without accents; đ, ł, ø and the like become the letters they are typed as."""
    if text.isascii():
        return text.lower()
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()
    # Case folding can introduce accents.
    bare = ACCENTS.sub("", unicodedata.normalize("NFKD", bare)).translate(_STROKES)
    return unicodedata.normalize("NFC", bare)


def fold(text: str) -> str:
    """Convert to lower case, half width, no accents."""
    return unaccented(plain(text))


def without_marks(token: str) -> str:
    """Return the token that the same word has without its accents."""
    return token if token.isascii() else stem(unaccented(token))


def index_tokens(text: str) -> list[str]:
    """Return every token of a text, in order and with repetitions."""
    tokens: list[str] = []
    for piece in text.split():
        tokens += tokens_of(piece)
    return tokens


def query_tokens(text: str) -> list[tuple[str, float]]:
    """Return the distinct tokens to look for, each with its importance in 0..1, in the order of the text.

    At most 64. If there are more, those of the most important words are kept; among equals those that occur more often,
    then those that come first.
    """
    if len(text) > QUERY_BEGINNING + QUERY_END:
        text = f"{text[:QUERY_BEGINNING]} {text[-QUERY_END:]}"
    little = ENGLISH
    if typed_without_marks(text):
        little = ENGLISH | UNMARKED
    elif _VIETNAMESE.search(unicodedata.normalize("NFC", text)) or typed_without_marks(fold(text)):
        little = ENGLISH | VIETNAMESE  # for words that have no marks: khi, cho, trong
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
    """Yield every piece of a text without white space, with positions in `plain(text)`."""
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
    """Return the tokens of a text without white space."""
    return _remembered(piece) if len(piece) <= _REMEMBERED else _worked_out(piece)


@lru_cache(maxsize=131_072)
def _remembered(piece: str) -> tuple[str, ...]:
    return tuple(_worked_out(piece))


def _worked_out(text: str) -> list[str]:
    """Return the tokens of `pieces(text)` without building the pieces, which cost more than the rest."""
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
    """Return the word with its marks. Vietnamese writes both `hòa` and `hoà`: they are mapped to one form."""
    lower = unicodedata.normalize("NFC", word.casefold())
    return _TONE_ON_LAST.sub(_tone_on_first, lower)


def _tone_on_first(found: re.Match[str]) -> str:
    first, last = found.group()
    letter, tone = unicodedata.normalize("NFD", last)
    return unicodedata.normalize("NFC", first + tone) + letter


def _letters(run: str) -> list[str]:
    """Split into letters, each with its marks."""
    letters: list[str] = []
    for char in run:
        if letters and unicodedata.category(char) in ("Mn", "Mc"):
            letters[-1] += char
        else:
            letters.append(char)
    return letters


def _run(letters: list[str], start: int) -> Iterator[Piece]:
    """Yield single letters, then pairs. A query uses only the pairs, unless there is just one letter."""
    places = [start]
    for letter in letters:
        places.append(places[-1] + len(letter))
    alone = len(letters) == 1
    for letter, (at, end) in zip(letters, pairwise(places), strict=True):
        yield Piece(letter, "", letter, at, end, 1.0 if alone else 0.0)
    for index, (one, other) in enumerate(pairwise(letters)):
        yield Piece(one + other, "", one + other, places[index], places[index + 2], 1.0)


def _meaning(piece: Piece, little: frozenset[str], shouted: bool) -> float:
    """Return 1 for a word with a meaning of its own, a small weight for a function word."""
    word = piece.word
    if not word:
        return 1.0
    if word[0] > "\u2e7f":  # beyond the alphabets
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
