"""Picks the parser for a file and runs it in this process."""

import re
from dataclasses import replace

from kho.lib.chunking.chunker import kind_of
from kho.parsers import front_matter
from kho.parsers.clean import clean, one_line
from kho.parsers.csv_tables import of_table
from kho.parsers.docx import of_docx
from kho.parsers.encoding import Decoded, decode
from kho.parsers.formats import format_of, signature
from kho.parsers.html_pages import of_html
from kho.parsers.json_files import readable_json, readable_lines
from kho.parsers.model import ParsedFile, ParserLimits, UnreadableFile
from kho.parsers.notebook import of_notebook
from kho.parsers.pdf import of_pdf
from kho.parsers.plain import of_code, of_markdown, of_text, title_of
from kho.parsers.rst import of_rst

_DEFAULT = ParserLimits()
_FIRST_LINE = 120
"""Maximum characters of the first line if it is used as the title."""


def read(data: bytes, name: str, *, limits: ParserLimits = _DEFAULT) -> ParsedFile:
    """Return the text of a file. The format follows from the name and the first bytes; nothing but these bytes is
    opened.

    An untrusted file may use up all memory and time: `Worker` reads it in another process.
    """
    if len(data) > limits.size:
        raise UnreadableFile(
            f"it has {len(data) / 2**20:.1f} MB, more than {limits.size / 2**20:.1f} MB", "Split it into smaller files."
        )
    if not data:
        raise UnreadableFile("it is empty")
    format, language = format_of(data, name)
    if format == "pdf":
        found = of_pdf(data, name, limits)
    elif format == "docx":
        found = of_docx(data, name, limits)
    else:
        binary = signature(data)
        if binary:
            raise UnreadableFile(f"it is binary: {binary}")
        found = _of_text(decode(data), name, format, language)
    if not re.search(r"\S", found.text):
        raise UnreadableFile("it has no text")
    longest = limits.characters(format, len(data))
    if len(found.text) > longest:
        raise UnreadableFile(
            f"its text has {len(found.text):,} characters, more than {longest:,}",
            "Split it into smaller files.",
        )
    return found


def read_text(text: str) -> ParsedFile:
    """Parse a text that a user wrote, most likely Markdown. Without a title of its own, its first line is the title.
    The result may be blank."""
    text = clean(text)
    front, text = front_matter.split(text)
    title = front.title or title_of(text) or _first_line(text)
    return ParsedFile(
        title, text, kind_of(text), "markdown", tags=front.tags, author=front.author, published=front.published
    )


def _first_line(text: str) -> str:
    line = one_line(next((line for line in text.splitlines() if line.strip()), ""), _FIRST_LINE + 1)
    if len(line) <= _FIRST_LINE:
        return line
    end = line.rfind(" ", 0, _FIRST_LINE)
    return f"{line[: end if end > 0 else _FIRST_LINE]} …"


def _of_text(decoded: Decoded, name: str, format: str, language: str | None) -> ParsedFile:
    match format:
        case "markdown":
            return of_markdown(decoded, name)
        case "rst":
            return of_rst(decoded, name)
        case "html":
            return of_html(decoded, name)
        case "notebook":
            return of_notebook(decoded, name)
        case "csv" | "tsv":
            return of_table(decoded, name, format)
        case "json" | "jsonl":
            text = clean(decoded.text, compose=False)
            shown = readable_json(text) if format == "json" else readable_lines(text)
            return replace(of_code(replace(decoded, text=shown), name, "json"), format=format)
        case "code":
            found = of_code(decoded, name, language)
            return replace(found, format=language) if language in ("yaml", "toml", "xml") else found
        case _:
            return of_text(decoded, name)
