"""Writes Markdown that the chunker reads back as intended: plain text must not turn into a heading or a list."""

import re
from collections.abc import Iterable, Sequence

_LOOKS_LIKE_MARKS = re.compile(
    r"^( {0,3})(#{1,6}(?=[ \t]|$)|`{3}|~{3}|(?:=+|-+|[-*_](?:[ \t]*[-*_]){2,})[ \t]*$)", re.M
)
_TICKS = re.compile("`{3,}")


def heading(level: int, text: str) -> str:
    return f"{'#' * min(max(level, 1), 6)} {' '.join(text.split())}"


def paragraph(text: str) -> str:
    """Escape lines that would be read as a heading, a rule or a fence with a backslash."""
    return _LOOKS_LIKE_MARKS.sub(r"\1\\\2", text)


def fence(code: str, language: str = "") -> str:
    longest = max((len(run) for run in _TICKS.findall(code)), default=2)
    mark = "`" * (longest + 1)
    return f"{mark}{language}\n{code.strip(chr(10))}\n{mark}"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell(text) for text in cells) + " |"


def rule(columns: int) -> str:
    return "|" + " --- |" * columns


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format a table. The first row is the header; short rows are padded."""
    width = max(len(cells) for cells in rows)
    filled = [[*cells, *[""] * (width - len(cells))] for cells in rows]
    return "\n".join([row(filled[0]), rule(width), *(row(cells) for cells in filled[1:])])


def item(text: str, depth: int = 0, number: int | None = None) -> str:
    """Format a list item; further lines of its text are indented below it."""
    mark = "- " if number is None else f"{number}. "
    indent = "  " * depth
    return indent + mark + text.strip().replace("\n", f"\n{indent}{' ' * len(mark)}")
