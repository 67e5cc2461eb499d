"""Puts foreign text into Markdown safely: escaped, on one line where needed, and in fences that it cannot close."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")

LONGEST = 160
"""Maximum characters of a name or a title on its line."""

_SPECIAL = re.compile(r"([\\`*\[\]<|~]|&(?=#?\w+;))")
_LEADING = re.compile(r"^(\s*)([#+=>-]|\d+[.)](?=\s|$))")
_TICKS = re.compile("`+")


def together(*parts: str) -> str:
    """Join paragraphs, without empty ones."""
    return "\n\n".join(part for part in parts if part)


def facts(facts: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts if value)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


Columns = Mapping[str, Callable[[T], str]]
"""Columns of a listing: name, and function that renders an item's cell."""


def listing(items: Sequence[T] | None, columns: Columns[T]) -> str:
    """Return a table with a row for each item; empty if there are none."""
    return table([*columns], ([shown(item) for shown in columns.values()] for item in items)) if items else ""


def _visible(text: str, *, lines: bool) -> str:
    """Remove control characters, marks that change the writing direction, and characters that only a model sees."""
    if text.replace("\n", "").isprintable():  # the usual case
        return text if lines else text.replace("\n", " ")
    return "".join(sign if sign.isprintable() else _instead(sign, lines) for sign in text)


def _instead(sign: str, lines: bool) -> str:
    category = unicodedata.category(sign)
    if sign in "\n\t":
        return sign if lines else " "
    if category in ("Zl", "Zp"):
        return "\n" if lines else " "
    if category == "Cc":
        return " "
    joiner = sign in "\u200c\u200d"  # joins letters and emoji
    return "" if category in ("Cf", "Cs") and not joiner else sign


def inline(text: str, longest: int = LONGEST) -> str:
    """Render a name or a title, escaped and on one line."""
    plain = " ".join(_visible(text, lines=False).split())
    return _escaped(plain if len(plain) <= longest else plain[: longest - 1] + "…")


def line(text: str) -> str:
    """Render one of our own sentences, which may quote foreign text, on one line."""
    return _escaped(" ".join(_visible(text, lines=False).split()))


def _escaped(text: str) -> str:
    return _LEADING.sub(r"\1\\\2", _SPECIAL.sub(r"\\\1", text))


def code(text: str) -> str:
    plain = " ".join(_visible(text, lines=False).split())
    ticks = "`" * (_longest_ticks(plain) + 1)
    padding = " " if plain.startswith("`") or plain.endswith("`") else ""
    return f"{ticks}{padding}{plain}{padding}{ticks}"


def cell_code(text: str | None) -> str:
    """Render code in a table cell, where even code must not contain a bar."""
    return code(text.replace("|", "\\|")) if text else ""


def fenced(text: str, language: str = "text") -> str:
    plain = _lines(text)
    fence = "`" * max(3, _longest_ticks(plain) + 1)
    return f"{fence}{language}\n{plain}\n{fence}"


def quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _lines(text).splitlines())


def _lines(text: str) -> str:
    return _visible(text.replace("\r\n", "\n").replace("\r", "\n"), lines=True).strip("\n")


def _longest_ticks(text: str) -> int:
    return max((len(run) for run in _TICKS.findall(text)), default=0)


def counted(number: int, what: str) -> str:
    """Format a number with its noun: 1 document, 2,000 documents."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
