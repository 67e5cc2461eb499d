"""Sentence boundaries in Vietnamese, Chinese and English: at . ! ? … 。 ！ ？ ； and at the end of a line."""

import re
from collections.abc import Iterator

_END = re.compile(r"([.!?…]++[\"'”’)\]»*_]*+)|[。！？；｡]++[”’」』）】]*+|\n")
"""Takes a run of signs as a whole, whatever follows: looked at from each of its signs, a long one takes hours."""
_WORD_BEFORE = re.compile(r"[\w.]*\Z")

_ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st jr sr vs eg e.g ie i.e cf fig figs eq no nos vol pp ed eds al approx dept est inc ltd co "
    "corp gen col capt sgt rev hon jan feb mar apr jun jul aug sep sept oct nov dec mt ave u.s u.k a.m p.m ph.d "
    "tp ts ths gs pgs bs ks tt vd v.v tr q p".split()
)


def sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the sentences of text[start:end] without gaps: blanks belong to the sentence before them."""
    begin = start
    for stop in _ends(text, start, end):
        while stop < end and text[stop].isspace():
            stop += 1
        if stop > begin:
            yield begin, stop
            begin = stop
    if begin < end:
        yield begin, end


def sentence_starts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the positions between `start` and `end` where a sentence begins."""
    if start == 0:
        yield 0
    for stop in _ends(text, start, end):
        while stop < end and text[stop].isspace():
            stop += 1
        if stop < end:
            yield stop


def _ends(text: str, start: int, end: int) -> Iterator[int]:
    for found in _END.finditer(text, start, end):
        if found[1] and not text[found.end() : min(end, found.end() + 1)].isspace():
            continue
        if found.group().startswith(".") and _goes_on(text, start, found.start(), found.end(), end):
            continue
        yield found.end()


def _goes_on(text: str, start: int, dot: int, after: int, end: int) -> bool:
    """True if a full stop ends no sentence: after an abbreviation or an initial, or before a lowercase letter."""
    following = text[after : min(end, after + 8)].lstrip()
    if following[:1].islower():
        return True
    before = _WORD_BEFORE.search(text[max(start, dot - 12) : dot])
    word = before.group() if before else ""
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper())
