"""Removes what no reader can see from a text: control characters, NUL, lone surrogates, odd line ends."""

import re
import unicodedata

_ENDS = re.compile("\r\n?|[\x0b\x85\u2028\u2029]")
_ESCAPES = re.compile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]{0,500}(?:\x07|\x1b\\\\))")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufffe\uffff]")
_GAPS = re.compile("\n{4,}")


def clean(text: str, *, compose: bool = True) -> str:
    """With \\n as the only line end. `compose`: letters and their marks become one character (NFC), as nearly all
    Vietnamese is written; not for code, where a string is as its author wrote it."""
    text = _ENDS.sub("\n", text)
    text = text.replace("\f", "\n\n" if compose else "\n")
    text = _UNSEEN.sub("", _ESCAPES.sub("", text))
    return unicodedata.normalize("NFC", text) if compose else text


def tidy(text: str) -> str:
    """For text that we put together ourselves: no blanks at the ends of lines, no long gaps."""
    rows = (row.rstrip(" \t") for row in text.split("\n"))  # a pattern would take the square of a long run of blanks
    return _GAPS.sub("\n\n\n", "\n".join(rows)).strip() + "\n"


def one_line(text: str, longest: int = 300) -> str:
    """A title: one line, blanks folded."""
    return " ".join(text.split())[:longest].strip()
