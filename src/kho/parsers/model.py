"""Parsed files, errors and limits of parsing, and the frames of the pipe to the worker process."""

import struct
from typing import Literal, NamedTuple

from kho.lib.chunking.chunker import Content
from kho.lib.dataclass import dataclass

Kind = Literal["markdown", "text", "code"]


class TextChunk(NamedTuple):
    """A passage of a document, as cut by `kho.lib.chunking.chunker.chunks`."""

    text: str
    heading: tuple[str, ...]
    content: Content


@dataclass(frozen=True, slots=True)
class ParsedFile:
    title: str
    """Title in the document, otherwise the name of the file."""
    text: str
    kind: Kind
    """How to chunk it: the argument of `kho.lib.chunking.chunker.chunks`."""
    format: str
    """Format of the file: pdf, docx, html, csv, …"""
    encoding: str | None = None
    """Encoding of a text file; None if the format has an encoding of its own."""
    language: str | None = None
    """Programming language of code."""
    notes: tuple[str, ...] = ()
    """Notes for the user: a guessed encoding, pages that could not be read."""
    tags: tuple[str, ...] = ()
    author: str | None = None
    published: str | None = None
    """From front matter, as are tags and author."""
    chunks: tuple[TextChunk, ...] | None = None
    """Passages of the text, if the process of the `Worker` cut it; None if the caller has to."""

    @property
    def texts(self) -> list[str]:
        """Everything that is kept of it, for whoever looks through it."""
        return [self.title, *self.tags, self.author or "", self.published or "", self.text]


class UnreadableFile(Exception):
    """The file has no text that can be read. The reason completes the sentence "This file cannot be read: …"."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}. {advice}" if advice else reason)
        self.reason = reason
        self.advice = advice
        """What the user can do about it; may be empty."""

    def __reduce__(self) -> tuple[type["UnreadableFile"], tuple[str, str]]:
        return type(self), (self.reason, self.advice)


@dataclass(frozen=True, slots=True)
class ParserLimits:
    size: int = 50 * 2**20
    """Maximum bytes of a file."""
    unpacked: int = 200 * 2**20
    """Maximum unpacked bytes of all parts of a packed file together."""
    ratio: int = 200
    """Maximum ratio of unpacked to packed size of a part."""
    members: int = 5_000
    """Maximum number of parts in a packed file."""
    pages: int = 5_000
    growth: int = 8
    """Maximum characters of text per byte of the file. Most formats shrink when they are read; JSON on one line grows
    seven times at the very most, because of the lines and their indentation."""
    small: int = 4 * 2**20
    """Characters of a text below which its growth does not matter."""
    passages: int = 0
    """Maximum passages of one file, of which one more is made; 0 for any number."""
    seconds: float = 60
    """Timeout for one file that is read in the worker."""
    processor: float = 55
    """Seconds of a processor for one file. The worker ends itself then, also if nobody is left to end it."""
    memory: int = 2**30
    """Bytes of address space for the worker."""

    def characters(self, format: str, size: int) -> int:
        """Return the maximum characters that a file of `size` bytes may become. A table repeats the names of its
        columns in every record, a PDF or DOCX is packed; nothing may become longer than the largest file."""
        times = {"csv": 4 * self.growth, "tsv": 4 * self.growth, "pdf": self.ratio, "docx": self.ratio}
        return max(self.small, min(self.size, times.get(format, self.growth) * size))

    @property
    def answer(self) -> int:
        """Maximum bytes of a worker's answer: a text of the largest size, and its passages."""
        return 4 * max(self.small, self.size)


# Frames between a worker and its hub: lengths first, then the data.
REQUEST = struct.Struct(">II??")
"""Lengths of the name and of the data, which follow; whether the data is a text that a user wrote instead of a file;
and whether its passages are wanted, too."""
ANSWER = struct.Struct(">III")
"""Lengths of what follows: JSON with the outcome, the text, and its passages, one line of JSON each."""
