"""Tokenizer of the model: normalises text, marks spaces and splits it into the likeliest pieces (SentencePiece
unigram)."""

import re
import unicodedata
from collections.abc import Iterator

from kho.models.e5.weights import Vocabulary
from kho.models.text import well_formed

SPACE = "▁"
"""Prefix of a word. No piece has it elsewhere, so words are split independently of each other."""
MAX_CACHED_WORDS = 50_000
MAX_CACHED_LENGTH = 24
"""Longer words rarely occur again; a Chinese sentence is one word."""

_spaces = re.compile("  +")


def clean(text: str) -> str:
    """Normalise to NFC, because the model has no letters with separate marks, and replace lone surrogates."""
    return unicodedata.normalize("NFC", well_formed(text))


class Tokenizer:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.begin, self.end, self._unknown = vocabulary.begin, vocabulary.end, vocabulary.unknown
        self._pieces, self._scores, self._normal = vocabulary.pieces, vocabulary.scores, vocabulary.normal
        self._guess = min(self._scores) - 10.0
        """Score of a character that is in no piece."""
        self._reach = vocabulary.reach
        self._words: dict[str, tuple[int, ...]] = {}

    def ids(self, text: str, limit: int) -> list[int]:
        """Return at most `limit` tokens, without the begin and end tokens."""
        found: list[int] = []
        for word in _words(_spaces.sub(" ", clean(text).translate(self._normal))):
            found += self._word(word)
            if len(found) >= limit:
                return found[:limit]
        return found

    def _word(self, word: str) -> tuple[int, ...]:
        known = self._words.get(word)
        if known is None:
            known = self._cut(word)
            if len(word) <= MAX_CACHED_LENGTH:
                if len(self._words) >= MAX_CACHED_WORDS:
                    self._words.clear()
                self._words[word] = known
        return known

    def _cut(self, word: str) -> tuple[int, ...]:
        """Return the pieces with the highest total score (Viterbi)."""
        pieces, scores, reach, unknown = self._pieces, self._scores, self._reach, self._unknown
        letters = len(word)
        best = [0.0] + [-1e30] * letters
        piece = [unknown] * (letters + 1)
        length = [1] * (letters + 1)
        for start in range(letters):
            base = best[start]
            for size in range(1, min(reach.get(word[start], 0), letters - start) + 1):
                number = pieces.get(word[start : start + size])
                if number is not None and number != unknown:
                    score = base + scores[number]
                    if score > best[start + size]:
                        best[start + size], piece[start + size], length[start + size] = score, number, size
            if base + self._guess > best[start + 1]:
                best[start + 1], piece[start + 1], length[start + 1] = base + self._guess, unknown, 1
        cut: list[int] = []
        at = letters
        while at:
            cut.append(piece[at])
            at -= length[at]
        return tuple(cut[::-1])


def _words(text: str) -> Iterator[str]:
    """Yield the words in order, each with the mark of the space before it."""
    if text[:1] == " ":
        text = text[1:]
    for word in text.split(" "):
        yield SPACE + word
