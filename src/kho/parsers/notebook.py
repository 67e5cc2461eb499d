"""Jupyter notebooks: Markdown cells as they are, code fenced, and the first lines of outputs."""

import json
from collections.abc import Iterator
from typing import Any, cast

from kho.parsers.clean import clean, tidy
from kho.parsers.encoding import Decoded
from kho.parsers.markdown_writer import fence, paragraph
from kho.parsers.model import ParsedFile, UnreadableFile
from kho.parsers.plain import stem, title_of

_LINES, _CHARACTERS = 20, 1_500
"""Maximum lines and characters of one output. The beginning shows what a cell does; a thousand lines show nothing
more."""


def of_notebook(decoded: Decoded, name: str) -> ParsedFile:
    try:
        book: object = json.loads(decoded.text)
    except (ValueError, RecursionError) as error:
        raise UnreadableFile(
            "it is not a Jupyter notebook: its JSON is broken", "Open it in Jupyter and save it."
        ) from error
    cells = _cells(_dict(book))
    if cells is None:
        raise UnreadableFile("it is not a Jupyter notebook: it has no cells")
    meta = _dict(_dict(book).get("metadata"))
    language = _text(_dict(meta.get("language_info")).get("name") or _dict(meta.get("kernelspec")).get("language"))
    text = tidy(clean("\n\n".join(part for cell in cells for part in _parts(cell, language))))
    title = _text(meta.get("title")) or title_of(text) or stem(name)
    return ParsedFile(title, text, "markdown", "notebook", decoded.encoding, language or None, decoded.notes)


def _cells(book: dict[str, Any]) -> list[dict[str, Any]] | None:
    """Return the cells of version 4, or of version 3, which kept them in work sheets."""
    held = book.get("cells")
    if held is None and isinstance(book.get("worksheets"), list):
        held = [cell for sheet in _list(book["worksheets"]) for cell in _list(_dict(sheet).get("cells"))]
    return None if held is None else [_dict(cell) for cell in _list(cast("object", held))]


def _parts(cell: dict[str, Any], language: str) -> Iterator[str]:
    source = _text(cell.get("source") or cell.get("input"))
    kind = cell.get("cell_type")
    if kind == "code":
        if source.strip():
            yield fence(source, _text(cell.get("language")) or language)
        for output in _list(cell.get("outputs")):
            shown = _short(_output(_dict(output)))
            if shown:
                yield fence(shown, "text")
    elif kind == "heading":
        level = cell.get("level")
        yield f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {source}"
    elif kind == "raw":
        yield paragraph(source)
    else:
        yield source


def _output(output: dict[str, Any]) -> str:
    kind = output.get("output_type")
    if kind == "stream":
        return _text(output.get("text"))
    if kind in ("error", "pyerr"):
        return f"{_text(output.get('ename'))}: {_text(output.get('evalue'))}"
    return _text(_dict(output.get("data")).get("text/plain") or output.get("text"))


def _short(text: str) -> str:
    rows = clean(text).strip().split("\n")
    kept = "\n".join(rows[:_LINES])[:_CHARACTERS]
    return kept + "\n…" if len(rows) > _LINES or len(kept) == _CHARACTERS else kept


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _text(value: object) -> str:
    """Return a string. In a notebook, multi-line text is a list of lines."""
    if isinstance(value, list):
        return "".join(line for line in cast("list[object]", value) if isinstance(line, str))
    return value if isinstance(value, str) else ""
