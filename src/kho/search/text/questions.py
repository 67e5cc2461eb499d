"""Tells questions from other sentences, in Vietnamese, Chinese and English."""

from kho.lib.lazy_regex import pattern

_ASKS = pattern(r"[?？]|[吗呢么][。.!！~～…]*\s*$|(?:^|\s)(?:không|chưa|nhỉ|hả)[.!…]*\s*$")


def asks(text: str) -> bool:
    """True if a text reads as a question."""
    return bool(_ASKS.search(text))
