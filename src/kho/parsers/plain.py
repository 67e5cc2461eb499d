"""Formats that already are text: Markdown, plain text, program code, configuration."""

import re
from dataclasses import replace
from pathlib import PurePath

from kho.lib.chunking.chunker import kind_of
from kho.lib.chunking.markdown_blocks import markdown
from kho.parsers import front_matter
from kho.parsers.clean import clean, one_line
from kho.parsers.encoding import Decoded
from kho.parsers.model import ParsedFile

_HEAD = 50_000
"""Number of characters at the beginning in which a title is looked for."""
_LINK = re.compile(r"!?\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)")
_TAG = re.compile(r"<[^>\n]{1,500}>")
_HTML_TITLE = re.compile(r"<h1[^>\n]{0,300}>(.{1,500}?)</h1>", re.I | re.S)


def stem(name: str) -> str:
    return one_line(PurePath(name).stem) or name


def of_markdown(decoded: Decoded, name: str, format: str = "markdown") -> ParsedFile:
    return _with_front(
        ParsedFile(stem(name), clean(decoded.text), "markdown", format, decoded.encoding, None, decoded.notes)
    )


def _with_front(found: ParsedFile) -> ParsedFile:
    """Move front matter from the text to the document's fields; the title may also be a heading."""
    front, text = front_matter.split(found.text)
    return replace(
        found,
        title=front.title or title_of(text) or found.title,
        text=text,
        tags=front.tags,
        author=front.author,
        published=front.published,
    )


def of_text(decoded: Decoded, name: str) -> ParsedFile:
    """Parse plain text. If it is written like Markdown, as much is, it is chunked like Markdown."""
    text = clean(decoded.text)
    kind = "markdown" if kind_of(text) == "markdown" else "text"
    found = ParsedFile(stem(name), text, kind, "text", decoded.encoding, notes=decoded.notes)
    return _with_front(found) if kind == "markdown" else found


def of_code(decoded: Decoded, name: str, language: str | None) -> ParsedFile:
    text = clean(decoded.text, compose=decoded.encoding == "windows-1258")
    return ParsedFile(PurePath(name).name, text, "code", "code", decoded.encoding, language, decoded.notes)


def title_of(text: str) -> str:
    """Return the first heading."""
    head = text[:_HEAD]
    for block in markdown(head):
        title = ""
        if block.kind == "heading":
            title = bare(block.title)
        elif block.kind == "html" and (shown := _HTML_TITLE.search(head, block.start, block.end)):
            title = bare(shown.group(1))
        if title:
            return title
    return ""


def bare(text: str) -> str:
    """Return a heading without markup for links, code and emphasis."""
    text = _TAG.sub("", _LINK.sub(r"\1", _IMAGE.sub("", text)))
    return one_line(re.sub(r"\*\*|__|`|\\(?=[^\w\s])", "", text).strip(" *_"))
