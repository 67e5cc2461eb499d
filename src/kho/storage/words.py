"""What the two word indexes share: which tokens of a query count, how much, and which may bring entries in.

Weights are whole numbers, so that sums are exact, and equal entries tie alike on both databases.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from math import isfinite, log
from time import monotonic

from kho.kernel.ports import Tx

MAX_QUERY_TOKENS = 32
MAX_ENTRY_TOKENS = 20_000

IN_BODY, IN_HEAD = 4, 1
"""An entry with the token anywhere gets 4 parts of its weight, and 1 part more if it is in the head."""

COMMON = 2_000
"""Tokens in more entries than this are costly to follow and to count."""
NEGLIGIBLE = 0.15
"""Entries that hold nothing but common tokens are left out, as long as their score could not pass this."""
TOO_MANY = 10_000
"""More entries than this are not walked for the sake of partial matches …"""
FAIR_LENGTH = 200
"""… once there are this many better ones."""
KEPT = 600.0
"""Seconds for which the count of a common token is believed, unless the index grows or shrinks by a tenth."""
MOST_KEPT = 20_000
ENTRIES_KEPT = 10.0

_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class Weighed:
    token: str
    weight: int
    frequency: int
    leads: bool = True
    """Whether the token brings entries in, or only adds to those that other tokens brought. One that only adds is
    common, and counts in full wherever it stands: that a common word is in the head says little."""


Found = list[tuple[str, int]]
"""Keys with their points, best first."""


class Counts:
    """How many entries there are, and how many hold a token. Small counts are asked for every time; large ones cost
    a walk over thousands of entries, hardly change, and are kept for a while."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], tuple[int, float]] = {}
        self._kept: dict[tuple[str, str, str], tuple[int, int, float]] = {}

    def entries(self, tx: Tx, space: str, tenant: str) -> int:
        kept = self._entries.get((space, tenant))
        now = monotonic()
        if kept and now - kept[1] < ENTRIES_KEPT:
            return kept[0]
        row = tx.one("SELECT count(*) FROM words_entries WHERE space = $1 AND tenant = $2", space, tenant)
        count = row[0] if row else 0
        if count > COMMON:
            self._entries[space, tenant] = (count, now)
        return count

    def of(
        self, space: str, tenant: str, entries: int, tokens: Iterable[str], ask: Callable[[list[str]], list[int]]
    ) -> dict[str, int]:
        now = monotonic()
        found: dict[str, int] = {}
        unknown: list[str] = []
        for token in tokens:
            kept = self._kept.get((space, tenant, token))
            if kept and now - kept[2] < KEPT and abs(entries - kept[1]) * 10 <= kept[1]:
                found[token] = kept[0]
            else:
                unknown.append(token)
        if unknown:
            if len(self._kept) > MOST_KEPT:
                self._kept.clear()
            for token, count in zip(unknown, ask(unknown), strict=True):
                found[token] = count
                if count > COMMON:
                    self._kept[space, tenant, token] = (count, entries, now)
        return found


def chosen(tokens: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The distinct tokens that count, the most important first, with their importance."""
    importance: dict[str, float] = {}
    for token, value in tokens:
        if token and value > 0 and isfinite(value):
            importance[token] = max(value, importance.get(token, 0.0))
    return dict(sorted(importance.items(), key=lambda item: -item[1])[:MAX_QUERY_TOKENS])


def weigh(importance: dict[str, float], entries: int, frequencies: dict[str, int]) -> list[Weighed]:
    """Rarer tokens weigh more. The commonest only follow, as far as what they alone would bring in is negligible."""
    most = max(importance.values())
    weighed = [
        Weighed(token, max(1, round(_STEP * value / most * log(1 + (entries + 10) / (frequency + 1)))), frequency)
        for token, value in importance.items()
        for frequency in [frequencies[token]]
    ]
    left = NEGLIGIBLE * sum(item.weight for item in weighed)
    follows: set[str] = set()
    for item in sorted(weighed, key=lambda item: -item.frequency):
        left -= item.weight
        if item.frequency <= COMMON or left < 0:
            break
        follows.add(item.token)
    return [replace(item, leads=item.token not in follows) for item in weighed]


Ask = Callable[[list[Weighed], bool], Found]
"""Finds the best of the entries that hold any leading token, or every one of them."""


def best(weighed: list[Weighed], limit: int, ask: Ask) -> Found:
    """The best entries for a query.

    First only the rarest tokens lead, just enough of them: whatever holds the whole query is among these. That is
    the answer if the list is full and its last entry beats whatever the other tokens could bring in, or if it is of
    a fair length and following the others would take too long. If even the rarest token is that common, entries that
    hold several tokens are looked for first.
    """
    rarest = sorted(weighed, key=lambda item: item.frequency)[:3]
    if len(rarest) > 1 and rarest[0].frequency > TOO_MANY:
        found = ask([replace(item, leads=item in rarest) for item in weighed], True)
        if len(found) >= min(limit, FAIR_LENGTH):
            return found
    fewer, enough, more = set[str](), 0, 0
    for item in sorted(weighed, key=lambda item: item.frequency):
        if not item.leads:
            continue
        wanted = FAIR_LENGTH if item.frequency > TOO_MANY else limit
        if item.frequency <= COMMON or enough < wanted:
            fewer.add(item.token)
            enough += item.frequency
        else:
            more += item.frequency
    if more:
        narrow = [replace(item, leads=item.token in fewer) for item in weighed]
        found = ask(narrow, False)
        unseen = full_score(item for item in narrow if not item.leads)
        if len(found) == limit and found[-1][1] > unseen:
            return found
        if len(found) >= min(limit, FAIR_LENGTH) and more > TOO_MANY:
            return found
    return ask(weighed, False)


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
