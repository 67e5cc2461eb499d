"""What comes out of reading a file, what cannot be read, and how far reading may go."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["markdown", "text", "code"]


@dataclass(frozen=True, slots=True)
class Readable:
    title: str
    """What the document calls itself, else the name of the file."""
    text: str
    kind: Kind
    """How to cut it: the argument of `kho.search.chunk.chunks`."""
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


class Unreadable(Exception):
    """The file has no text for us. The reason completes the sentence "This file cannot be read: …"."""

    def __init__(self, reason: str, advice: str = "") -> None:
        super().__init__(f"{reason}. {advice}" if advice else reason)
        self.reason = reason
        self.advice = advice
        """What somebody can do about it; may be empty."""

    def __reduce__(self) -> tuple[type["Unreadable"], tuple[str, str]]:
        return type(self), (self.reason, self.advice)


@dataclass(frozen=True, slots=True)
class Limits:
    size: int = 50 * 2**20
    """Bytes of a file."""
    unpacked: int = 200 * 2**20
    """Bytes of what is packed inside a file, all together, and characters of its text."""
    ratio: int = 200
    """How many times larger than itself a packed part may become."""
    members: int = 5_000
    """Parts of a packed file."""
    pages: int = 5_000
    seconds: float = 60
    """For one file that is read in the worker."""
    memory: int = 2**30
    """Bytes of address space for the worker."""
