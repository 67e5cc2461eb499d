"""Where a text may be cut: never between a letter and its marks, nor inside an emoji or a pair of surrogates."""

import unicodedata

_JOINER = "\u200d"
_FURTHEST = 64
"""Longer runs of marks are not real text, and are cut anyway."""


def boundary(text: str, place: int) -> int:
    """Return the nearest position at or before `place` where a character begins."""
    if place >= len(text):
        return len(text)
    for back in range(min(place, _FURTHEST)):
        if not _continues(text, place - back):
            return place - back
    return place if place > _FURTHEST else 0


def _continues(text: str, place: int) -> bool:
    char, before = text[place], text[place - 1]
    if char < "\u0300":
        return char == "\n" and before == "\r"
    if before == _JOINER or char == _JOINER or "\ufe00" <= char <= "\ufe0f" or "\U0001f3fb" <= char <= "\U0001f3ff":
        return True
    if "\udc00" <= char <= "\udfff":
        return "\ud800" <= before <= "\udbff"
    if "\u1160" <= char <= "\u11ff":  # vowel or final of a Hangul syllable
        return True
    if "\U0001f1e6" <= char <= "\U0001f1ff":  # second letter of a flag
        letters = 0
        while letters < _FURTHEST and place > letters and "\U0001f1e6" <= text[place - letters - 1] <= "\U0001f1ff":
            letters += 1
        return letters % 2 == 1
    return unicodedata.category(char) in ("Mn", "Mc", "Me")
