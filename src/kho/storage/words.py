"""What the two word indexes share: which tokens of a query count, how much, and which may bring entries in.

Weights are whole numbers, so that sums are exact, and equal entries tie alike on both databases.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import isfinite, log

MAX_QUERY_TOKENS = 32
MAX_ENTRY_TOKENS = 20_000

IN_BODY, IN_HEAD = 4, 1
"""An entry with the token anywhere gets 4 parts of its weight, and 1 part more if it is in the head."""

COMMON = 2_000
"""Tokens in more entries than this are costly to follow …"""
NEGLIGIBLE = 0.15
"""… and entries that hold nothing else are left out, as long as their score could not pass this."""

_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class Weighed:
    token: str
    weight: int
    leads: bool
    """Whether the token brings entries in, or only adds to those that other tokens brought."""


def chosen(tokens: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The distinct tokens that count, the most important first, with their importance."""
    importance: dict[str, float] = {}
    for token, value in tokens:
        if token and value > 0 and isfinite(value):
            importance[token] = max(value, importance.get(token, 0.0))
    return dict(sorted(importance.items(), key=lambda item: -item[1])[:MAX_QUERY_TOKENS])


def weigh(importance: dict[str, float], entries: int, frequencies: Sequence[int]) -> list[Weighed]:
    """`frequencies` says, for each token in order, how many of the `entries` hold it."""
    most = max(importance.values())
    weights = [
        max(1, round(_STEP * value / most * log(1 + (entries + 10) / (frequency + 1))))
        for value, frequency in zip(importance.values(), frequencies, strict=True)
    ]
    negligible = NEGLIGIBLE * sum(weights)
    follows: set[int] = set()
    for index in sorted(range(len(weights)), key=lambda index: -frequencies[index]):
        negligible -= weights[index]
        if frequencies[index] <= COMMON or negligible < 0:
            break
        follows.add(index)
    return [
        Weighed(token, weight, index not in follows)
        for index, (token, weight) in enumerate(zip(importance, weights, strict=True))
    ]


def full_score(weighed: Iterable[Weighed]) -> int:
    """What an entry gets that has every token in its head."""
    return (IN_BODY + IN_HEAD) * sum(token.weight for token in weighed)


def distinct(head: Sequence[str], body: Sequence[str]) -> tuple[list[str], list[str]]:
    """The head's tokens, and those of head and body together: once each, and at most MAX_ENTRY_TOKENS."""
    return (
        list(dict.fromkeys(head))[:MAX_ENTRY_TOKENS],
        list(dict.fromkeys((*head, *body)))[:MAX_ENTRY_TOKENS],
    )


def digest(*parts: str) -> bytes:
    """64 bits that stand for the parts, whatever they contain."""
    return blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
