"""CSV and TSV to Markdown tables that fit into one passage: rows in groups, each with the header above it.

A table too wide for that is written as records, one heading per row and one line per column, because a row of forty
values says nothing without the names of its columns.
"""

import csv
import io
import re
from collections.abc import Iterator

from kho.lib.chunking.chunker import SIZE, estimate
from kho.parsers.clean import clean
from kho.parsers.encoding import Decoded
from kho.parsers.markdown_writer import cell, row, rule
from kho.parsers.model import ParsedFile
from kho.parsers.plain import of_text, stem

_NUMBER = re.compile(r"[-+]?[.,\s]*+\d[\d.,\s]*+%?$")
_SEEN = 50
"""Number of rows that are sampled to detect the delimiter."""
_MAX_COLUMN_NAME = 100
"""Maximum characters of a column's name in a record: it is repeated in every row, and a long one would multiply the
file."""


def of_table(decoded: Decoded, name: str, format: str) -> ParsedFile:
    """Parse a table. A file that is not a regular table is read as text."""
    text = clean(decoded.text)
    sign = "\t" if format == "tsv" else _sign(text)
    try:
        rows = [
            cells for cells in csv.reader(io.StringIO(text, newline="\n"), delimiter=sign) if any(map(str.strip, cells))
        ]
    except csv.Error:
        return of_text(Decoded(text, decoded.encoding, (*decoded.notes, "It is not a regular table.")), name)
    if not rows:
        return ParsedFile(stem(name), "", "markdown", format, decoded.encoding, notes=decoded.notes)
    header, body = _header(rows)
    shown = "\n".join(_records(header, body) if _is_wide(header, body) else _groups(header, body)) + "\n"
    return ParsedFile(stem(name), shown, "markdown", format, decoded.encoding, notes=decoded.notes)


def _sign(text: str) -> str:
    """Return the delimiter that gives the most of the first rows the same number of columns."""
    head = text[:100_000].split("\n")[:_SEEN]

    def evenness(sign: str) -> tuple[int, int]:
        counts = [len(cells) for cells in csv.reader(head, delimiter=sign, strict=False) if cells]
        usual = max(set(counts), key=counts.count, default=1)
        return (counts.count(usual) if usual > 1 else 0, usual)

    return max(",;\t|", key=evenness)


def _header(rows: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Split off the first row as header, unless it contains a number; then the columns are numbered."""
    width = max(map(len, rows))
    first = rows[0]
    if len(rows) > 1 and any(_NUMBER.match(text.strip()) for text in first):
        return [f"column {number + 1}" for number in range(width)], rows
    extra = [f"column {number + 1}" for number in range(len(first), width)]
    names = [text.strip() or f"column {number + 1}" for number, text in enumerate(first)]
    return [*names, *extra], rows[1:]


def _is_wide(header: list[str], body: list[list[str]]) -> bool:
    if not body:
        return False
    above = estimate(row(header)) + estimate(rule(len(header)))
    usual = sum(estimate(row(cells)) for cells in body[:_SEEN]) // len(body[:_SEEN])
    return above > SIZE // 2 or above + usual > SIZE


def _groups(header: list[str], body: list[list[str]]) -> Iterator[str]:
    above = [row(header), rule(len(header))]
    room = SIZE - sum(map(estimate, above))
    yield from above
    cost = 0
    for cells in body:
        line = row([*cells, *[""] * (len(header) - len(cells))])
        more = estimate(line)
        if cost and cost + more > room:
            yield ""
            yield from above
            cost = 0
        cost += more
        yield line


def _records(header: list[str], body: list[list[str]]) -> Iterator[str]:
    names = [cell(column)[:_MAX_COLUMN_NAME] for column in header]
    for number, cells in enumerate(body, start=1):
        yield f"## Row {number}"
        yield ""
        for column, text in zip(names, cells, strict=False):
            if text.strip():
                yield f"- {column}: {cell(text)}"
        yield ""
