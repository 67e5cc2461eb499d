"""Letters with very many combining marks.

Bringing a text into one Unicode form sorts the marks of each letter, in quadratic time and without letting go of the
interpreter: 40,000 marks on one letter stop everything for 7 seconds, a megabyte of them for a quarter of an hour. No
writing system puts more than a handful on one letter; Unicode itself calls a text with more than 30 unsafe to stream.
"""

import re
import unicodedata
from functools import cache

MOST = 50
"""Marks on one letter that are taken as they are: some dozens are written for fun."""
_STEP = MOST + 1
_HALF = _STEP // 2


def has_too_many(text: str) -> bool:
    """True if more than `MOST` marks follow each other. Looks at every 51st character, which so many marks cannot
    evade, and around it only if that is a mark: a search through a large text would take seconds."""
    if len(text) <= MOST or text.isascii():
        return False
    mark, half, run = _patterns()
    for found in mark.finditer(text[::_STEP]):
        place = found.start() * _STEP
        near = half.match(text, place) or half.match(text, max(0, place - _HALF))
        if near and run.search(text, max(0, place - MOST), place + _STEP):
            return True
    return False


def limited(text: str) -> str:
    """Drop what one letter has beyond `MOST` marks."""
    return _patterns()[2].sub(lambda found: found.group()[:MOST], text) if has_too_many(text) else text


@cache
def _patterns() -> "list[re.Pattern[str]]":
    """Patterns of one mark, of half of too many, and of too many. A character also counts if it becomes a mark in
    another form, as half-width voicing does."""
    ranges: list[list[int]] = []
    for code in range(0x300, 0x1F000):
        if not _is_mark(chr(code)):
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    inside = "".join(f"{re.escape(chr(first))}-{re.escape(chr(last))}" for first, last in ranges)
    return [re.compile(f"[{inside}]{times}") for times in ("", f"{{{_HALF}}}", f"{{{_STEP},}}")]


def _is_mark(char: str) -> bool:
    return bool(unicodedata.combining(char) or unicodedata.combining(unicodedata.normalize("NFKD", char)[0]))
