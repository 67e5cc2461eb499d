"""Which files of a folder are meant: globs to include and to exclude, and what is left out unless it is named."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

JUNK = frozenset("node_modules bower_components __pycache__ __pypackages__ venv".split())
"""Folders of copies and of what programs made. Hidden ones (.git, .venv, .tox …) are left out anyway; names that a
person could give a folder of notes (build, dist, vendor …) are not among them."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """A pattern without '/' is matched against names, at any depth; one with '/' against the path below the folder.
    `*` stays within a name, `**` does not. Cases and ways of writing the same letter do not matter."""

    include: tuple[str, ...] = ()
    """Everything when empty."""
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, include: str | Sequence[str] | None = None, exclude: str | Sequence[str] | None = None) -> "Patterns":
        """Each is a list, or a text with commas: '*.md, *.txt'. One that begins with '!' excludes."""
        given = list(_several(include))
        refused = [pattern[1:] for pattern in given if pattern.startswith("!")]
        wanted = [pattern for pattern in given if not pattern.startswith("!")]
        return cls(tuple(wanted), (*refused, *_several(exclude)))

    def wants(self, relative: str) -> bool:
        """Whether a file is meant."""
        included = not self.include or any(_matches(pattern, relative) for pattern in self.include)
        return included and not self.excludes(relative)

    def excludes(self, relative: str) -> bool:
        """Whether a file, or a folder with everything in it, is left out."""
        return any(_matches(pattern, relative) for pattern in self.exclude)

    def leaves_out(self, name: str) -> bool:
        """Whether a name is hidden or junk, and no pattern names it."""
        return (name.startswith(".") or name.casefold() in JUNK) and not self._names(name)

    def _names(self, name: str) -> bool:
        parts = [part for pattern in self.include for part in pattern.split("/")]
        if name.startswith("."):
            return any(part.startswith(".") and _matches(part, name) for part in parts)
        return any(_folded(part) == _folded(name) for part in parts)


def _several(given: str | Sequence[str] | None) -> Iterator[str]:
    texts = [given] if isinstance(given, str) else given or ()
    for text in texts:
        for pattern in re.split(r",(?![^{]*\})", text):  # a comma within braces separates nothing
            if trimmed := pattern.strip():
                yield from _without_braces(trimmed)


def _without_braces(pattern: str) -> Iterator[str]:
    """'*.{md,txt}' is '*.md' and '*.txt'."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _without_braces(pattern[: braces.start()] + choice.strip() + pattern[braces.end() :])


def _matches(pattern: str, relative: str) -> bool:
    """Name by name, so that no pattern takes long, whatever it looks like."""
    path = _folded(relative).split("/")
    wanted = [part for part in _folded(pattern).split("/") if part not in ("", ".")]
    if "/" not in pattern.removesuffix("/"):
        wanted = ["**", *wanted]
    if pattern.endswith("/"):
        wanted = [*wanted, "**"]
    reached = {0}
    for part in wanted:
        if part == "**":
            reached = set(range(min(reached, default=len(path) + 1), len(path) + 1))
        else:
            reached = {at + 1 for at in reached if at < len(path) and fnmatchcase(path[at], part)}
    return len(path) in reached


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text).casefold()
