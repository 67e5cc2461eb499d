"""Splits Markdown or plain text into blocks, line by line.

Our own scanner and not a Markdown parser: it needs block boundaries with their positions in the text, in linear time
for any input, and one second for 10 MB. Every line ends up in one block.
"""

import re
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from kho.lib.dataclass import dataclass

Kind = Literal["heading", "paragraph", "fence", "table", "list", "html", "quote", "front", "code"]


@dataclass(frozen=True, slots=True)
class Block:
    kind: Kind
    start: int
    end: int
    """After the last line, its newline included."""
    level: int = 0
    title: str = ""
    """Title of a heading; language of a fence; signature of code."""


class SourceLine(NamedTuple):
    start: int
    end: int
    text: str
    """Without the newline."""

    @property
    def blank(self) -> bool:
        return not self.text or self.text.isspace()


_LINE = re.compile(r"([^\r\n]*)(?:\r\n|\r|\n|\Z)")


def lines(text: str, start: int, end: int) -> list[SourceLine]:
    return [SourceLine(row.start(), row.end(), row.group(1)) for row in _LINE.finditer(text, start, end) if row.group()]


_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_TABLE_RULE = re.compile(r"[ \t]*\|?[ \t:]*-[-|: \t]*$")
_ITEM = re.compile(r" {0,3}(?:[-*+]|[0-9]{1,9}[.)])(?:[ \t]|$)")
_HTML = re.compile(r" {0,3}<(?:[A-Za-z][A-Za-z0-9-]*|/[A-Za-z]|!--|\?|!\[CDATA)")
_RULE = re.compile(r" {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$")


def markdown(text: str) -> Iterator[Block]:
    rows = lines(text, 0, len(text))
    at = _front_matter(rows)
    if at:
        yield Block("front", rows[0].start, rows[at - 1].end)
    while at < len(rows):
        row = rows[at]
        if row.blank:
            at += 1
            continue
        heading = _ATX.match(row.text)
        if heading:
            yield Block("heading", row.start, row.end, len(heading.group(1)), _title(heading.group(2) or ""))
            at += 1
            continue
        kind, stop, level = _extent(rows, at)
        title = ""
        if kind == "heading":
            title = _title(row.text)
        elif kind == "fence":
            title = row.text.strip().lstrip("`~").strip()
        yield Block(kind, row.start, rows[stop - 1].end, level, title)
        at = stop


def _front_matter(rows: list[SourceLine]) -> int:
    if not rows or rows[0].text.rstrip() != "---":
        return 0
    for at, row in enumerate(rows[1:200], start=1):
        if row.text.rstrip() in ("---", "..."):
            return at + 1
    return 0


def _title(text: str) -> str:
    """Strip the closing marks of `## Title ##`."""
    text = text.strip()
    bare = text.rstrip("#")
    return bare.rstrip() if not bare or bare[-1:].isspace() else text


def _extent(rows: list[SourceLine], at: int) -> tuple[Kind, int, int]:
    """Return the kind and level of the block that begins at this line, and the line after its last."""
    text = rows[at].text
    fence = _FENCE.match(text)
    if fence and not (fence.group(1)[0] == "`" and "`" in fence.group(2)):
        return "fence", _fence_end(rows, at, fence.group(1)), 0
    if "|" in text and at + 1 < len(rows) and "|" in rows[at + 1].text and _TABLE_RULE.match(rows[at + 1].text):
        return "table", _while(rows, at + 2, lambda row: "|" in row.text), 0
    if _ITEM.match(text) and not _RULE.match(text):
        return "list", _list_end(rows, at), 0
    if _HTML.match(text):
        return "html", _while(rows, at + 1, lambda row: True), 0
    if text.lstrip().startswith(">"):
        return "quote", _while(rows, at + 1, lambda row: not _interrupts(row.text)), 0
    stop = at + 1
    while stop < len(rows) and not rows[stop].blank:
        underline = _SETEXT.match(rows[stop].text)
        if underline and stop == at + 1:  # below several lines it is usually a horizontal rule
            return "heading", stop + 1, 1 if underline.group(1)[0] == "=" else 2
        if _interrupts(rows[stop].text):
            break
        stop += 1
    return "paragraph", stop, 0


def _while(rows: list[SourceLine], at: int, holds: Callable[[SourceLine], bool]) -> int:
    while at < len(rows) and not rows[at].blank and holds(rows[at]):
        at += 1
    return at


def _interrupts(text: str) -> bool:
    """True if a line begins a new block without a blank line before it."""
    return bool(_ATX.match(text) or _FENCE.match(text) or _ITEM.match(text))


def _fence_end(rows: list[SourceLine], at: int, mark: str) -> int:
    for stop in range(at + 1, len(rows)):
        text = rows[stop].text.strip()
        if text.startswith(mark) and not text.strip(mark[0]):
            return stop + 1
    return len(rows)


def _list_end(rows: list[SourceLine], at: int) -> int:
    """Find the end of a list: items, lines indented below them, and single blank lines between."""
    stop = at + 1
    while stop < len(rows):
        row = rows[stop]
        if row.blank:
            after = rows[stop + 1] if stop + 1 < len(rows) else None
            if after is None or after.blank or not (_ITEM.match(after.text) or after.text.startswith(("  ", "\t"))):
                return stop
        elif _ATX.match(row.text) or (_FENCE.match(row.text) and not row.text.startswith("  ")):
            return stop
        stop += 1
    return stop


def paragraphs(text: str) -> Iterator[Block]:
    start = end = -1
    for row in lines(text, 0, len(text)):
        if row.blank:
            if start >= 0:
                yield Block("paragraph", start, end)
            start = -1
            continue
        start = row.start if start < 0 else start
        end = row.end
    if start >= 0:
        yield Block("paragraph", start, end)
