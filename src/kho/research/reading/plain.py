"""Formats that are text already: Markdown, plain text, program code, configuration."""

import re
from pathlib import PurePath

from kho.research.reading.clean import clean, one_line
from kho.research.reading.encoding import Decoded
from kho.research.reading.model import Readable
from kho.search.blocks import markdown
from kho.search.chunk import kind_of

_HEAD = 50_000
"""A title stands within the first this many characters, or nowhere."""
_FRONT_TITLE = re.compile(r"""^title\s*[:=]\s*(?:"([^"\n]+)"|'([^'\n]+)'|([^\n#]+))""", re.M | re.I)
_TOML_FRONT = re.compile(r"\+\+\+\n(.{0,20000}?)\n\+\+\+\n", re.S)
_LINK = re.compile(r"!?\[([^\]\n]{0,300})\]\([^)\n]{0,2000}\)")
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)")
_TAG = re.compile(r"<[^>\n]{1,500}>")
_HTML_TITLE = re.compile(r"<h1[^>\n]{0,300}>(.{1,500}?)</h1>", re.I | re.S)


def stem(name: str) -> str:
    return one_line(PurePath(name).stem) or name


def of_markdown(decoded: Decoded, name: str, format: str = "markdown") -> Readable:
    text = clean(decoded.text)
    return Readable(title_of(text) or stem(name), text, "markdown", format, decoded.encoding, notes=decoded.notes)


def of_text(decoded: Decoded, name: str) -> Readable:
    """Plain text that is written like Markdown, as many are, is cut like Markdown."""
    text = clean(decoded.text)
    kind = "markdown" if kind_of(text) == "markdown" else "text"
    title = (title_of(text) if kind == "markdown" else "") or stem(name)
    return Readable(title, text, kind, "text", decoded.encoding, notes=decoded.notes)


def of_code(decoded: Decoded, name: str, language: str | None) -> Readable:
    text = clean(decoded.text, compose=decoded.encoding == "windows-1258")
    return Readable(PurePath(name).name, text, "code", "code", decoded.encoding, language, decoded.notes)


def title_of(text: str) -> str:
    """The title of the front matter, else the first heading."""
    head = text[:_HEAD]
    toml = _TOML_FRONT.match(head)
    if toml and (found := _front_title(toml.group(1))):
        return found
    for block in markdown(head):
        title = ""
        if block.kind == "front":
            title = _front_title(head[block.start : block.end])
        elif block.kind == "heading":
            title = bare(block.title)
        elif block.kind == "html" and (shown := _HTML_TITLE.search(head, block.start, block.end)):
            title = bare(shown.group(1))
        if title:
            return title
    return ""


def _front_title(front: str) -> str:
    found = _FRONT_TITLE.search(front)
    return one_line(next(filter(None, found.groups()), "")) if found else ""


def bare(text: str) -> str:
    """A heading without the marks for links, code and emphasis."""
    text = _TAG.sub("", _LINK.sub(r"\1", _IMAGE.sub("", text)))
    return one_line(re.sub(r"\*\*|__|`|\\(?=[^\w\s])", "", text).strip(" *_"))
