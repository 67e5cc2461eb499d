"""Helpers that all models share: token estimates, texts without lone surrogates, names of models.

The estimate is for the vocabulary of XLM-RoBERTa (multilingual-e5, bge-m3 and others share it); others are of the same
order. The factors are averages over Vietnamese, Chinese and English prose, Vietnamese without diacritics, Markdown and
code. For a passage of a few sentences the error is rarely more than a fifth.
"""

import hashlib
import re

from kho.lib.lazy_regex import pattern

_latin = pattern("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+")
_digits = pattern("[0-9]+")
_han = pattern("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_marks = pattern("[!-/:-@\\[-`{-~\u2010-\u2e7f\u3000-\u303f\uff00-\uff0f\U0001f000-\U0001faff]")
_others = pattern(
    "[\u0250-\u1dff\u1f00-\u200f\u2e80-\u2fff\u3040-\u33ff\ua000-\uf8ff\uff10-\uffef\U00010000-\U0001efff]"
)

PLAIN_WORD = 1.3
MARKED_WORD = 1.1
"""Mostly Vietnamese: a syllable is a token."""
LONG = 10
"""Letters up to which a word is about one token; longer words are split."""
LETTER = 0.3
"""Tokens that each further letter of a long word adds."""
HAN = 0.68
OTHER_LETTER = 0.45


def estimate_tokens(text: str) -> int:
    tokens = 0.0
    for word in _latin.findall(text):
        tokens += PLAIN_WORD if word.isascii() else MARKED_WORD
        if len(word) > LONG:
            tokens += LETTER * (len(word) - LONG)
    for number in _digits.findall(text):
        tokens += 0.3 + 0.3 * len(number)
    tokens += len(_marks.findall(text)) + HAN * len(_han.findall(text)) + OTHER_LETTER * len(_others.findall(text))
    return round(tokens)


_surrogates = re.compile("[\ud800-\udfff]")


def well_formed(text: str) -> str:
    """Replace lone surrogates, which can be neither sent nor tokenised."""
    return _surrogates.sub("\ufffd", text)


def sendable(text: str) -> str:
    """Return a text that a server accepts: well-formed and not empty."""
    return well_formed(text) or " "


def model_name(model: str, passage_prefix: str, dimension: int | None = None) -> str:
    """Return the name under which vectors are comparable: it includes everything that changes them."""
    parts = [model]
    if dimension is not None:
        parts.append(str(dimension))
    if passage_prefix:
        parts.append(hashlib.blake2b(passage_prefix.encode(), digest_size=4).hexdigest())
    return "/".join(parts)
