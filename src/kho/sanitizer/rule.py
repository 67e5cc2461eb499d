"""What a rule is made of."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Tier = Literal["secret", "personal"]


class Pattern:
    """A regular expression that is compiled on first use. There are two hundred, whose compilation would make up a
    good part of the start of a process that may never scan anything."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self.pattern = source
        self.flags = flags

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, self.flags)

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._compiled.match(text, at)

    def search(self, text: str) -> re.Match[str] | None:
        return self._compiled.search(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._compiled.finditer(text)


@dataclass(frozen=True)
class Rule:
    """One kind of finding. The group `v` (else the whole match) is what gets reported."""

    kind: str
    pattern: Pattern
    # Lower-case literals, one of which every match contains. They are looked for in the lower-cased text.
    anchors: tuple[str, ...]
    accept: Callable[[re.Match[str]], bool] = lambda match: True
    # True: the pattern is matched where an anchor stands. False: it is searched for if any anchor is present, for
    # kinds whose fixed part is not at the front; such a pattern opens with a look-behind to stay linear.
    at_anchor: bool = True
    tier: Tier = "secret"
    # Lower wins when findings overlap: 0 for formats that speak for themselves, 1 for values judged by context.
    rank: int = 0


def span_of(match: re.Match[str]) -> tuple[int, int]:
    return match.span("v") if "v" in match.re.groupindex else match.span()


def value_of(match: re.Match[str]) -> str:
    start, end = span_of(match)
    return match.string[start:end]
