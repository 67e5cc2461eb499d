"""What comes out of reading a file, what cannot be read, how far reading may go, and the frames of the pipe."""

import struct
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kho.lib.chunking.chunker import Content

Kind = Literal["markdown", "text", "code"]


class TextChunk(NamedTuple):
    """A passage of a document, as `kho.lib.chunking.chunker.chunks` cut it."""

    text: str
    heading: tuple[str, ...]
    content: Content


@dataclass(frozen=True, slots=True)
class Readable:
    title: str
    """What the document calls itself, else the name of the file."""
    text: str
    kind: Kind
    """How to cut it: the argument of `kho.lib.chunking.chunker.chunks`."""
    format: str
    """What the file was: pdf, docx, html, csv, …"""
    encoding: str | None = None
    """Of a text file; None when the format has an encoding of its own."""
    language: str | None = None
    """The programming language, of code."""
    notes: tuple[str, ...] = ()
    """What a person should know: a guessed encoding, pages that could not be read."""
    tags: tuple[str, ...] = ()
    author: str | None = None
    published: str | None = None
    """What the file says of itself, in front matter."""
    chunks: tuple[TextChunk, ...] | None = None
    """The passages of the text, when the process of the `Worker` cut it; None when the caller has to."""


class UnreadableFile(Exception):
    """The file has no text for us. The reason completes the sentence "This file cannot be read: …"."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}. {advice}" if advice else reason)
        self.reason = reason
        self.advice = advice
        """What somebody can do about it; may be empty."""

    def __reduce__(self) -> tuple[type["UnreadableFile"], tuple[str, str]]:
        return type(self), (self.reason, self.advice)


@dataclass(frozen=True, slots=True)
class Limits:
    size: int = 50 * 2**20
    """Bytes of a file."""
    unpacked: int = 200 * 2**20
    """Bytes of what is packed inside a file, all together."""
    ratio: int = 200
    """How many times larger than itself a packed part may become."""
    members: int = 5_000
    """Parts of a packed file."""
    pages: int = 5_000
    growth: int = 8
    """How many times more characters than bytes a text may have. Most formats lose when they are read; JSON on one
    line grows seven times at the very most, because of the lines and their indentation."""
    small: int = 4 * 2**20
    """Characters of a text below which its growth does not matter."""
    seconds: float = 60
    """For one file that is read in the worker."""
    memory: int = 2**30
    """Bytes of address space for the worker."""

    def characters(self, format: str, size: int) -> int:
        """The most characters that a file of `size` bytes may become. A table has the names of its columns in every
        record, a PDF or DOCX is packed; nothing becomes longer than the largest file."""
        times = {"csv": 4 * self.growth, "tsv": 4 * self.growth, "pdf": self.ratio, "docx": self.ratio}
        return max(self.small, min(self.size, times.get(format, self.growth) * size))

    @property
    def answer(self) -> int:
        """The most bytes that a worker answers: a text of the largest size, and its passages."""
        return 4 * max(self.small, self.size)


# How a worker and its hub talk: lengths first, then what they are the lengths of.
REQUEST = struct.Struct(">II??")
"""The lengths of the name and of the data, which follow; whether the data is a text somebody wrote instead of a file;
and whether its passages are wanted, too."""
ANSWER = struct.Struct(">III")
"""The lengths of what follows: JSON that says what became of it, the text, and its passages, a line of JSON each."""
