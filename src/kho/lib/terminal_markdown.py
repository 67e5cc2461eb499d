"""Prints Markdown on a terminal: readable on light and dark ones, tables as wide as it is, and with a pager if the text
is longer than the screen, so that what comes first is not scrolled away."""

import os
import re
from collections.abc import Iterator, Sequence
from io import StringIO
from itertools import groupby
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Markdown
from rich.padding import Padding
from rich.text import Text
from rich.theme import Theme

LEAST = 16
"""Columns that a shortened path keeps at least."""
THEME = Theme({"markdown.code": "bold", "markdown.code_block": "none", "markdown.table.border": "dim"})
"""No colours of the background, which are bars of black on a light terminal."""
_CELLS = re.compile(r"(?<!\\)\|")
_PATH = re.compile(r"`*[~/.]?[^`\s]*/[^`]*`*")


class _Passage(CodeBlock):
    """A fenced block as indented plain text."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(str(self.text).rstrip()), (0, 0, 0, 4))


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "fence": _Passage, "code_block": _Passage}


def show(markdown: str) -> None:
    """Print to the terminal at stdout."""
    console = Console(theme=THEME)
    rendered = _Markdown(fitted(markdown, console.width))
    text = StringIO()
    Console(file=text, theme=THEME, width=console.width, force_terminal=True).print(rendered)
    if text.getvalue().count("\n") < console.height or os.environ.get("TERM") == "dumb":
        console.print(rendered)
        return
    os.environ.setdefault("LESS", "FRX")  # colours as they are, and no pager for what fits
    with console.pager(styles=True):
        console.print(rendered)


def fitted(markdown: str, columns: int) -> str:
    """Shorten the paths in tables that are wider than the terminal, in the middle: the ids beside them stay whole."""
    parts = (
        _fitted([*lines], columns) if is_table else lines
        for is_table, lines in groupby(markdown.split("\n"), lambda line: line.startswith("|"))
    )
    return "\n".join(line for lines in parts for line in lines)


def _fitted(lines: Sequence[str], columns: int) -> Iterator[str]:
    rows = [[cell.strip() for cell in _CELLS.split(line)[1:-1]] for line in lines]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=False)]
    over = sum(widths) + 2 * len(widths) + 2 - columns
    for place, column in enumerate(zip(*rows, strict=False)):
        if over > 0 and any(_PATH.fullmatch(cell) for cell in column[2:]):
            room = max(LEAST, widths[place] - over)
            over -= widths[place] - room
            for row in rows[2:]:
                row[place] = shortened(row[place], room)
    return (f"| {' | '.join(row)} |" for row in rows)


def shortened(path: str, room: int) -> str:
    """Leave out the middle of a path: its beginning and its name say most."""
    if cell_len(path) <= room:
        return path
    ticks = len(path) - len(path.lstrip("`"))
    inner, fence = path[ticks : len(path) - ticks], "`" * ticks
    keep = max(2, room - 2 * ticks - 1)
    return f"{fence}{inner[: keep // 3]}…{inner[len(inner) - (keep - keep // 3) :]}{fence}"
