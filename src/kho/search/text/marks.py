"""Reads Vietnamese typed without its marks: `bao hiem y te` as `bảo hiểm y tế`. Queries are read so, and texts when
they are indexed; what is stored and shown stays as it was typed.

A syllable without marks may be any of a dozen words. Which one is meant shows in the texts that are searched: how often
each form occurs in them, and next to which other. Where they are few, everyday words and sentences (vietnamese.txt)
help. The likeliest sequence of forms is found as in any chain of states, one syllable after the other, keeping the best
ways to each form.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from heapq import nlargest
from importlib.resources import files
from itertools import islice, pairwise
from math import log

from kho.search.text.language import typed_without_marks
from kho.search.text.tokens import unaccented

MAX_FORMS = 12
"""Forms of a syllable that are considered, the most frequent ones."""
BESIDE = 0.99
"""Share of the neighbour before it in the probability of a form; the rest is how often it occurs at all."""
EVERYDAY = 0.5
"""Weight of everyday words and sentences, where the texts that are searched have 1."""
MAX_WORDS = 64
"""Words of a query that are read, from the beginning: a query says there what it is about."""
UNSURE = log(2)
"""A second reading counts if it is at least half as likely as the first."""

_WORD = re.compile(r"[^\W\d_]+")

_Way = tuple[float, tuple[str, ...]]
"""The logarithm of its probability, and its forms."""


def readings(text: str, written: Iterable[str] = (), most: int = MAX_WORDS) -> list[str]:
    """Return a text without marks as it reads with them, going by texts that have them: one reading, or two if both are
    likely."""
    places = [(found.start(), found.end()) for found in islice(_WORD.finditer(text), most)]
    words = [text[start:end].lower() for start, end in places]
    forms = _Forms(words)
    for one in written:
        if not typed_without_marks(one):
            forms.add(one)
    ways = _ways(words, forms)
    return [_put(text, places, forms) for chance, forms in ways if chance >= ways[0][0] - UNSURE]


def with_marks(text: str) -> str:
    """Return a text as it is indexed: with its marks, if it is Vietnamese typed without them."""
    return readings(text, most=len(text))[0] if typed_without_marks(text) else text


class _Forms:
    """How often the forms of words occur in texts, and which ones side by side."""

    def __init__(self, words: Iterable[str] = ()) -> None:
        self.of: dict[str, dict[str, float]] = {word: {} for word in words}
        self.pairs: dict[tuple[str, str], float] = {}

    def add(self, text: str) -> None:
        """Count the forms of the known words."""
        words = _words(text)
        wanted = [self.of.get(_bare(word)) for word in words]
        for word, forms in zip(words, wanted, strict=True):
            if forms is not None:
                forms[word] = forms.get(word, 0.0) + 1.0
        for pair, forms in zip(pairwise(words), pairwise(wanted), strict=True):
            if None not in forms:
                self.pairs[pair] = self.pairs.get(pair, 0.0) + 1.0

    def times(self, word: str) -> dict[str, float]:
        """Return the forms of a word and how often they occur, here and in everyday language."""
        here, usual = self.of.get(word, {}), _everyday().of.get(word, {})
        return {form: here.get(form, 0.0) + EVERYDAY * usual.get(form, 0.0) for form in here.keys() | usual.keys()}

    def beside(self, pair: tuple[str, str]) -> float:
        return self.pairs.get(pair, 0.0) + EVERYDAY * _everyday().pairs.get(pair, 0.0)


def _ways(words: Sequence[str], forms: _Forms) -> list[_Way]:
    """Return the two likeliest sequences of forms."""
    ways: dict[str, list[_Way]] = {"": [(0.0, ())]}
    before: dict[str, float] = {}
    for word in words:
        known = forms.times(word) or {word: 1.0}
        total = sum(known.values())
        reached: dict[str, list[_Way]] = {}
        for form in nlargest(MAX_FORMS, known, known.__getitem__):
            usual = (1 - BESIDE) * known[form] / total
            steps = {last: log(BESIDE * forms.beside((last, form)) / before.get(last, 1.0) + usual) for last in ways}
            found = ((sofar + steps[last], (*way, form)) for last, best in ways.items() for sofar, way in best)
            reached[form] = nlargest(2, found)
        ways, before = reached, known
    return nlargest(2, (way for best in ways.values() for way in best))


@cache
def _everyday() -> _Forms:
    lines = (files("kho.search.text") / "vietnamese.txt").read_text("utf-8").splitlines()
    forms = _Forms({_bare(word) for line in lines for word in _words(line)})
    for line in lines:
        forms.add(line)
    return forms


def _words(text: str) -> list[str]:
    return _WORD.findall(unicodedata.normalize("NFC", text).lower())


@lru_cache(maxsize=32_768)
def _bare(word: str) -> str:
    return unaccented(word)


def _put(text: str, places: Sequence[tuple[int, int]], forms: Sequence[str]) -> str:
    """Put forms in the places of the words of a text, with its capitals."""
    result, last = "", 0
    for (start, end), form in zip(places, forms, strict=True):
        word = text[start:end]
        shown = form.upper() if word.isupper() and len(word) > 1 else form.capitalize() if word[0].isupper() else form
        result += text[last:start] + shown
        last = end
    return result + text[last:]
