"""Glob patterns that include and exclude files of a folder, and names that are skipped by default."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from kho.lib.dataclass import dataclass
from kho.research.errors import InvalidDocumentRequest

JUNK = frozenset("node_modules bower_components __pycache__ __pypackages__ venv".split())
"""Folders of copied or generated files, skipped by default. Hidden ones (.git, .venv, .tox …) are skipped anyway; names
that a person could give a folder of notes (build, dist, vendor …) are not listed."""
MAX_PATTERNS = 100
"""Maximum patterns of a request after brace expansion: every name in the folder is matched against all of them."""
MAX_LENGTH = 4_096
"""Maximum characters of a pattern, the same as of a path."""
_BRACES = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Patterns:
    """Include and exclude patterns. A pattern without '/' is matched against names at any depth, one with '/' against
    the path below the folder. `*` stays within a name, `**` does not. Matching ignores case and Unicode
    normalization."""

    include: tuple[str, ...] = ()
    """Everything when empty."""
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, include: str | Sequence[str] | None = None, exclude: str | Sequence[str] | None = None) -> "Patterns":
        """Parse patterns: a list, or a text with commas ('*.md, *.txt'). A pattern that begins with '!' excludes.
        Raises InvalidDocumentRequest for more than MAX_PATTERNS patterns, or for one longer than MAX_LENGTH."""
        given = {"patterns": _separated(include), "exclude": _separated(exclude)}
        for parameter, patterns in given.items():
            _check(parameter, patterns)
        included = [one for pattern in given["patterns"] for one in _without_braces(pattern)]
        refused = [pattern[1:] for pattern in included if pattern.startswith("!")]
        wanted = [pattern for pattern in included if not pattern.startswith("!")]
        excluded = [one for pattern in given["exclude"] for one in _without_braces(pattern)]
        return cls(tuple(wanted), (*refused, *excluded))

    def wants(self, relative: str) -> bool:
        """True if the file is included and not excluded."""
        included = not self.include or any(_matches(pattern, relative) for pattern in self.include)
        return included and not self.excludes(relative)

    def excludes(self, relative: str) -> bool:
        """True if the file, or the folder with everything in it, is excluded."""
        return any(_matches(pattern, relative) for pattern in self.exclude)

    def leaves_out(self, name: str) -> bool:
        """True for a hidden or junk name that no include pattern names."""
        return (name.startswith(".") or name.casefold() in JUNK) and not self._names(name)

    def _names(self, name: str) -> bool:
        parts = [part for pattern in self.include for part in pattern.split("/")]
        if name.startswith("."):
            return any(part.startswith(".") and _matches(part, name) for part in parts)
        return any(_folded(part) == _folded(name) for part in parts)


def _separated(given: str | Sequence[str] | None) -> list[str]:
    """Split at commas, except for commas within braces."""
    found: list[str] = []
    for text in [given] if isinstance(given, str) else given or ():
        inside = _within_braces(text)
        begin = 0
        for at, sign in enumerate(text):
            if sign == "," and at not in inside:
                found.append(text[begin:at])
                begin = at + 1
        found.append(text[begin:])
    return [pattern.strip() for pattern in found if pattern.strip()]


def _within_braces(text: str) -> set[int]:
    """Return the positions of commas inside of closed braces."""
    inside: set[int] = set()
    open_at: list[int] = []
    commas: list[int] = []
    for at, sign in enumerate(text):
        if sign == ",":
            commas.append(at)
        elif sign == "{":
            open_at.append(at)
        elif sign == "}" and open_at:
            begin = open_at.pop()
            while commas and commas[-1] > begin:
                inside.add(commas.pop())
    return inside


def _check(parameter: str, patterns: Sequence[str]) -> None:
    if any(len(pattern) > MAX_LENGTH for pattern in patterns):
        raise InvalidDocumentRequest(
            f"A pattern of '{parameter}' has more than {MAX_LENGTH:,} characters.", parameter=parameter
        )
    if sum(map(_expansions, patterns)) > MAX_PATTERNS:
        raise InvalidDocumentRequest(
            f"'{parameter}' stands for more than {MAX_PATTERNS} patterns once its braces are expanded.",
            guidance="Use fewer braces or fewer patterns; '*' matches any part of a name.",
            parameter=parameter,
        )


def _expansions(pattern: str) -> int:
    """Return the number of patterns that brace expansion yields, capped at MAX_PATTERNS + 1: the product of the choices
    of all braces, however nested. Counted without expanding: forty pairs of braces are 2**40 patterns."""
    total = 1
    choices: list[int] = []
    for sign in pattern:
        if sign == "{":
            choices.append(1)
        elif sign == "," and choices:
            choices[-1] += 1
        elif sign == "}" and choices:
            total = min(total * choices.pop(), MAX_PATTERNS + 1)  # capped: more is refused anyway
    return total


def _without_braces(pattern: str) -> Iterator[str]:
    """Expand braces: '*.{md,txt}' becomes '*.md' and '*.txt'."""
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        braces = _BRACES.search(current)
        if braces is None:
            yield current
            continue
        before, after = current[: braces.start()], current[braces.end() :]
        waiting += [before + choice.strip() + after for choice in reversed(braces[1].split(","))]


def _matches(pattern: str, relative: str) -> bool:
    """Match name by name, so that no pattern can take exponential time."""
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
