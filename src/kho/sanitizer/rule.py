"""A rule that finds one kind of secret or personal data."""

import re
from collections.abc import Callable
from typing import Literal

from kho.lib.dataclass import dataclass

Tier = Literal["secret", "personal"]


@dataclass(frozen=True)
class Rule:
    """Finds one kind of secret or personal data. The group `v`, or else the whole match, is reported."""

    kind: str
    pattern: re.Pattern[str]
    # Lower-case literals, one of which every match contains. They are searched for in the lower-cased text.
    anchors: tuple[str, ...]
    accept: Callable[[re.Match[str]], bool] = lambda match: True
    # True: the pattern is matched at the position of an anchor. False: it is searched for if any anchor is present, for
    # kinds whose fixed part is not at the front; such a pattern begins with a look-behind to stay linear.
    at_anchor: bool = True
    tier: Tier = "secret"
    # Lower wins when findings overlap: 0 for unmistakable formats, 1 for values judged by context.
    rank: int = 0


def span_of(match: re.Match[str]) -> tuple[int, int]:
    return match.span("v") if "v" in match.re.groupindex else match.span()


def value_of(match: re.Match[str]) -> str:
    start, end = span_of(match)
    return match.string[start:end]
