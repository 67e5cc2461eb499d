"""Pairs of neighbouring words, as tokens of their own. A Vietnamese word is mostly two or three syllables written
apart, each of which occurs in many other words: what tells `bảo hiểm` from `tàu hiểm … bảo vệ` is that they stand
together.
"""

import unicodedata
from collections.abc import Iterator

from kho.search.text.tokens import tokens_of

JOINT = "·"
"""Between the two. No other token has it."""


def pairs(text: str) -> Iterator[str]:
    """Yield the pairs of a text, folded. Punctuation separates."""
    before = ""
    for chunk in unicodedata.normalize("NFC", text).split():
        word = next(iter(tokens_of(chunk)), "")
        if not (word.isascii() and word.isalpha()):
            word = ""
        if before and word and chunk[0].isalnum():
            yield f"{before}{JOINT}{word}"
        before = word if chunk[-1].isalnum() else ""
