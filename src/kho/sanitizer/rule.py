"""A rule that finds one kind of secret or personal data."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Tier = Literal["secret", "personal"]


@dataclass(frozen=True)
class Rule:
    """One kind of finding. The group `v` (else the whole match) is what gets reported."""

    kind: str
    pattern: re.Pattern[str]
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
