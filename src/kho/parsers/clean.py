"""Removes from a text what nobody reads: control characters, NUL, lone surrogates, odd line ends, piles of marks."""

import re
import unicodedata

from kho.lib.combining_marks import limited

_ENDS = re.compile("\r\n?|[\x0b\x85\u2028\u2029]")
_ESCAPES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,500}(?:\x07|\x1b\\\\))")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_GAPS = re.compile("\n{4,}")


def clean(text: str, *, compose: bool = True) -> str:
    """Remove invisible characters and make \\n the only line end. `compose` combines letters and their marks into one
    character (NFC), as nearly all Vietnamese is written; not for code, where a string stays as its author wrote it."""
    text = _ENDS.sub("\n", text)
    text = text.replace("\f", "\n\n" if compose else "\n")
    text = limited(_UNSEEN.sub("", _ESCAPES.sub("", text)))
    return unicodedata.normalize("NFC", text) if compose else text


def tidy(text: str) -> str:
    """Remove trailing blanks and long gaps, for text that we assembled ourselves."""
    rows = (row.rstrip(" \t") for row in text.split("\n"))  # a regex would be quadratic on long runs of blanks
    return _GAPS.sub("\n\n\n", "\n".join(rows)).strip() + "\n"


def one_line(text: str, longest: int = 300) -> str:
    """Return the text as a title: one line, blanks collapsed."""
    return " ".join(text.split())[:longest].strip()
