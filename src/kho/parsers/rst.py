"""reStructuredText: headings and code blocks are converted to Markdown; the rest stays as it is, which reads well
enough."""

import re
from collections.abc import Iterator

from kho.parsers.clean import clean, tidy
from kho.parsers.encoding import Decoded
from kho.parsers.markdown_writer import fence, heading
from kho.parsers.model import ParsedFile
from kho.parsers.plain import stem, title_of

_LINE = re.compile(r"""([!-/:-@\[-`{-~])\1*[ \t]*$""")
_CODE = re.compile(
    r"( *)\.\. (?:code-block|code|sourcecode|highlight|parsed-literal|ipython)::[ \t]*([\w+#.-]*)[ \t]*$"
)
_COMMENT = re.compile(r"\.\. (?!\[|_|\|)(?![\w:+-]+::)")
_TARGET = re.compile(r"\.\. _[^:]+:")
_OPTION = re.compile(r" +:[\w-]+:")


def of_rst(decoded: Decoded, name: str) -> ParsedFile:
    rows = clean(decoded.text).expandtabs(8).split("\n")
    text = tidy("\n".join(_markdown(rows)))
    return ParsedFile(title_of(text) or stem(name), text, "markdown", "rst", decoded.encoding, notes=decoded.notes)


def _markdown(rows: list[str]) -> Iterator[str]:
    levels: list[tuple[str, bool]] = []
    at = 0
    while at < len(rows):
        row = rows[at]
        title = _title(rows, at)
        if title:
            words, style, lines = title
            if style not in levels:
                levels.append(style)
            yield from ("", heading(levels.index(style) + 1, words), "")
            at += lines
            continue
        code = _CODE.match(row)
        if code or (row.rstrip().endswith("::") and not row.lstrip().startswith("..")):
            indent = len(row) - len(row.lstrip())
            body, stop = _indented(rows, at + 1, indent)
            if not code:
                yield row.rstrip(": ") + ":" if row.strip() != "::" else ""
            if body:
                yield from ("", *fence("\n".join(body), code.group(2) if code else "").split("\n"), "")
            at = stop
            continue
        if _COMMENT.match(row) or _TARGET.match(row):
            _, at = _indented(rows, at + 1, 0)
            yield ""
            continue
        # A table or a quote made of rules must not be read as Markdown's setext headings.
        yield "" if _LINE.match(row) and len(row.strip()) > 3 else row
        at += 1


def _title(rows: list[str], at: int) -> tuple[str, tuple[str, bool], int] | None:
    """Return the words, the style (its character, and whether there is a line above too), and the number of lines; None
    if there is no title here."""
    row = rows[at].rstrip()
    before = rows[at - 1].strip() if at else ""
    if _LINE.match(row) and at + 2 < len(rows) and rows[at + 2].rstrip() == row and len(row) > 2:
        words = rows[at + 1].strip()
        if words and not _LINE.match(words) and len(words) <= len(row):
            return words, (row[0], True), 3
    if row and not row[0].isspace() and not before and at + 1 < len(rows) and not _LINE.match(row):
        under = rows[at + 1].rstrip()
        if _LINE.match(under) and len(under) >= max(2, len(row) * 2 // 3) and under != "::":
            return row, (under[0], False), 2
    return None


def _indented(rows: list[str], at: int, indent: int) -> tuple[list[str], int]:
    """Return the following lines that are indented deeper than `indent`, dedented and without the options of the
    directive, and the index after them."""
    stop = at
    while stop < len(rows) and (not rows[stop].strip() or len(rows[stop]) - len(rows[stop].lstrip()) > indent):
        stop += 1
    first, last = at, stop
    while first < last and (not rows[first].strip() or _OPTION.match(rows[first])):
        first += 1
    while last > first and not rows[last - 1].strip():
        last -= 1
    body = rows[first:last]
    margin = min((len(row) - len(row.lstrip()) for row in body if row.strip()), default=0)
    return [row[margin:] for row in body], stop
