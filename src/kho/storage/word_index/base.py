"""Query planning shared by both word indexes: token weights, and which entries to score.

An index consists of terms. A term is a letter for its type, and a text: "w" and a token, "c" and a collection, "k" and
a kind, "t" and a tag, "e" alone for every entry. One entry in 64 (`PlanLimits.sampled`) has all its terms a second time
with the prefix "s": counting these estimates how common a common term is, at a fraction of the cost.

Weights are integers, so that sums are exact, and equal entries tie in the same way on both databases.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice
from math import isfinite
from typing import Protocol

from kho.kernel.ports import PassageRef, SearchFilter, WordEntry, WordMatches, rarity_of
from kho.lib.dataclass import dataclass
from kho.lib.sql import digest_bytes

MAX_QUERY_TOKENS = 64
MAX_ENTRY_TOKENS = 20_000

IN_BODY, IN_HEAD = 4, 1
"""An entry with the token anywhere gets 4 parts of its weight, and 1 part more if it is in the head."""

QUARTERS = 4
_STEP = 1_000_000


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Limits of a query's search through the index. The same for both engines, so that they give the same answers."""

    rare: int = 1_200
    """Tokens in fewer entries than this are rare: their entries are all scored, unless better ones fill the list
    first."""
    exact: int = 40
    """This many of a list's first results (or a quarter of it) are exact: after them, an entry with only common tokens
    may be missed."""
    reach: int = 1_500
    """Approximate number of entries scored for common tokens."""
    walk: int = 400_000
    """Approximate number of postings read while looking for entries with several common tokens."""
    combined: int = 8
    """Number of the weightiest common tokens that are tried in combinations of two and three."""
    max_clauses: int = 24
    """Combinations in one statement."""
    sampled: int = 64
    """One entry in this many has its terms a second time, for counting. Fixed once an index has entries."""
    enough: int = 64
    """Sampled entries from which a term is not counted exactly: it is in about 4,000, give or take an eighth."""


DEFAULT_LIMITS = PlanLimits()

Term = tuple[str, str]
Scored = list[tuple[int, int]]
"""(seq, points) of entries, best first, newest first among equals."""


@dataclass(frozen=True, slots=True)
class WeightedToken:
    token: str
    weight: int
    frequency: int


Clause = tuple[WeightedToken, ...]
"""Tokens that an entry must all contain."""


class IndexQuery(Protocol):
    """One query on an engine, which holds the tenant, the filter and the weights."""

    def count(self, terms: Sequence[Term]) -> list[int]:
        """Count the tenant's entries that have each term."""
        ...

    def recent(self, limit: int) -> int:
        """Count the tenant's entries in the requested time range, up to `limit`."""
        ...

    def look(
        self, clauses: Sequence[Clause], tokens: Sequence[WeightedToken], newest: int | None, limit: int
    ) -> Scored:
        """Return the best entries that match the filter and any of the clauses; only of the `newest`, if given."""
        ...

    def look_at_newest(self, tokens: Sequence[WeightedToken], newest: int, limit: int) -> Scored:
        """Return the best of the newest entries that match the filter and have all the tokens. For tokens that many
        entries have."""
        ...

    def look_at_all(self, tokens: Sequence[WeightedToken], by_time: bool, limit: int) -> Scored:
        """Return the best of all entries that match the filter, which is known to be narrow, in time or otherwise."""
        ...


def search(
    search: IndexQuery, where: SearchFilter, tokens: Sequence[tuple[str, float]], limit: int, limits: PlanLimits
) -> WordMatches:
    """Run a whole match; what differs between the databases is behind `search`."""
    importance = query_tokens(tokens)
    if not importance:
        return WordMatches([], {})
    groups = filters(where)
    every: Term = ("e", "")
    asked = [every, *(("w", token) for token in importance), *(term for group in groups for term in group)]
    counted = dict(zip(asked, frequencies(search.count, asked, limits), strict=True))
    entries = counted[every]
    holders = {token: counted["w", token] for token in importance}
    rarity = {token: rarity_of(entries, number) for token, number in holders.items()}
    weighed = weigh(importance, rarity, holders)
    known = [item for item in weighed if item.frequency]
    if not known or limit < 1:
        return WordMatches([], rarity, entries, holders)
    fitting = min([entries, *(sum(counted[term] for term in group) for group in groups)])
    timed = where.since is not None or where.until is not None
    in_time = search.recent(limits.reach + 1) if timed else entries
    if min(fitting, in_time) <= min(limits.reach, sum(item.frequency for item in known)):
        found = search.look_at_all(known, in_time < fitting, limit)
    else:
        found = best(known, entries, min(1.0, fitting / max(1, entries)), search, limit, limits)
    total = full_score(weighed)
    return WordMatches([(seq, points / total) for seq, points in found], rarity, entries, holders)


def query_tokens(tokens: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Return the distinct valid tokens, most important first, with their importance."""
    importance: dict[str, float] = {}
    for token, value in tokens:
        if token and value > 0 and isfinite(value):
            importance[token] = max(value, importance.get(token, 0.0))
    return dict(sorted(importance.items(), key=lambda item: -item[1])[:MAX_QUERY_TOKENS])


def filters(where: SearchFilter) -> list[list[Term]]:
    """Return groups of terms: an entry must have one of each group."""
    groups: list[list[Term]] = []
    if where.collections:
        groups.append([("c", name) for name in dict.fromkeys(where.collections)])
    if where.kinds:
        groups.append([("k", name) for name in dict.fromkeys(where.kinds)])
    groups += ([("t", name)] for name in dict.fromkeys(where.tags))
    if where.any_tags:
        groups.append([("t", name) for name in dict.fromkeys(where.any_tags)])
    return groups


def frequencies(count: Callable[[Sequence[Term]], list[int]], terms: Sequence[Term], limits: PlanLimits) -> list[int]:
    """Count the entries that have each term: exact up to some thousands, estimated above."""
    found = [sampled * limits.sampled for sampled in count([(f"s{letter}", text) for letter, text in terms])]
    few = [place for place, number in enumerate(found) if number < limits.enough * limits.sampled]
    for place, number in zip(few, count([terms[place] for place in few]) if few else (), strict=True):
        found[place] = number
    return found


def weigh(importance: dict[str, float], rarity: dict[str, float], counted: dict[str, int]) -> list[WeightedToken]:
    """Weigh tokens: rarer ones more."""
    highest = max(importance.values())
    return [
        WeightedToken(token, max(1, round(_STEP * value / highest * rarity[token])), counted[token])
        for token, value in importance.items()
    ]


def best(
    known: Sequence[WeightedToken], entries: int, fitting: float, search: IndexQuery, limit: int, limits: PlanLimits
) -> Scored:
    """Return the best entries for a query, without reading all that have any of its tokens.

    Rare tokens come first, weightiest first, until no entry with only the rest could still enter the list: exact so
    far. For common tokens, the weightiest combinations are searched, assuming that the share `fitting` of entries
    passes the filter. If there is no rare token, entries with the whole query are searched first.
    """
    ranked = sorted(known, key=lambda item: (-item.weight, item.token))
    rare = [item for item in ranked if item.frequency < limits.rare]
    common = [item for item in ranked if item.frequency >= limits.rare]
    found: dict[int, int] = {}
    while rare:
        if _is_settled(found, [*rare, *common], limit, limits.exact):
            return top(found, limit)
        group, reached = list[Clause](), 0.0
        while rare and (not group or reached + rare[0].frequency * fitting <= limits.reach):
            group.append((rare[0],))
            reached += rare.pop(0).frequency * fitting
        found.update(search.look(group, known, None, limit))
    if not common or _is_settled(found, common, limit, limits.exact):
        return top(found, limit)
    newest = max(limits.reach, limit)
    if len(common) == len(known):
        if expected(common, entries, fitting) > 4 * newest:
            whole = search.look_at_newest(common, newest, limit)
        else:
            whole = search.look([tuple(common)], known, newest, limit)
        if len(whole) >= limit or len(common) == 1:
            return whole
        found.update(whole)
    found.update(search.look(clauses(common, entries, fitting, limits), known, 2 * newest, limit))
    return top(found, limit)


def _is_settled(found: dict[int, int], rest: Iterable[WeightedToken], limit: int, exact: int) -> bool:
    """True if no entry that has only the remaining tokens could be among the best of the list."""
    best = min(limit, max(exact, limit // 4))
    return len(found) >= best and top(found, best)[-1][1] > full_score(rest)


def clauses(common: Sequence[WeightedToken], entries: int, fitting: float, limits: PlanLimits) -> list[Clause]:
    """Choose the combinations to search: the weightiest, as many as the limits `reach` and `walk` allow.

    As the weight of a token is the logarithm of its rarity, these are mostly those that few entries have.
    """
    options: list[tuple[int, float, frozenset[WeightedToken]]] = []
    for size in (1, 2, 3):
        for group in combinations(common[: limits.combined], size):
            number = expected(group, entries, fitting)
            options.append((sum(item.weight for item in group), number, frozenset(group)))
    options.sort(key=lambda option: (-option[0], len(option[2])))
    picked, kept = options[:1], list[tuple[int, float, frozenset[WeightedToken]]]()
    for option in options:
        # A subset of the same tokens covers the option: with a lower weight there may be fewer clauses.
        kept = [*(other for other in kept if not other[2] >= option[2]), option]
        walked = sum(item.frequency for _, _, group in kept for item in group)
        reached = sum(number for _, number, _ in kept)
        if reached <= limits.reach and walked <= limits.walk and len(kept) <= limits.max_clauses:
            picked = kept
    return [tuple(item for item in common if item in group) for _, _, group in picked]


def expected(tokens: Iterable[WeightedToken], entries: int, fitting: float) -> float:
    """Return the expected number of entries with all the tokens, if tokens were independent of each other."""
    number = entries * fitting
    for item in tokens:
        number *= min(1.0, item.frequency / max(1, entries))
    return number


def top(found: dict[int, int], limit: int) -> Scored:
    return sorted(found.items(), key=lambda item: (-item[1], -item[0]))[:limit]


def full_score(weighed: Iterable[WeightedToken]) -> int:
    """Return the score of an entry that has every token in its head."""
    return (IN_BODY + IN_HEAD) * sum(token.weight for token in weighed)


def distinct(entry: WordEntry) -> tuple[list[str], int, bytes]:
    """Return an entry's distinct tokens, those of the head first; the number of those; and each token's count, as a
    byte. At most MAX_ENTRY_TOKENS."""
    both = entry.body
    if entry.head:
        both = dict(entry.head)
        for token, count in entry.body.items():
            both[token] = both.get(token, 0.0) + count
    if len(both) > MAX_ENTRY_TOKENS:
        both = dict(islice(both.items(), MAX_ENTRY_TOKENS))
    return list(both), min(len(entry.head), MAX_ENTRY_TOKENS), bytes(map(_AS_BYTE.__getitem__, both.values()))


def count_of(counts: bytes, place: int) -> float:
    """Return the count of the token at this place. Entries from before tokens were counted have each once."""
    return counts[place] / QUARTERS if counts else 1.0


class _AsByte(dict[float, int]):
    """Counts in quarters, as bytes. More than 63 occurrences count as 63, which makes no difference to BM25."""

    def __missing__(self, count: float) -> int:
        byte = max(1, min(255, round(count * QUARTERS)))
        if len(self) < 10_000:
            self[count] = byte
        return byte


_AS_BYTE = _AsByte()


def marks(filed: PassageRef) -> list[Term]:
    """Return an entry's terms in addition to its tokens."""
    return [("e", ""), ("c", filed.collection), ("k", filed.kind), *(("t", tag) for tag in dict.fromkeys(filed.tags))]


def is_sampled(seq: int, one_in: int) -> bool:
    """True if an entry is in the sample. Hashes the number, because the numbers of two tenants may alternate."""
    return (seq * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 32 < 0x1_0000_0000 // one_in


def scope(where: SearchFilter | PassageRef) -> tuple[str, int]:
    """Return digests of (space, tenant): a mark in every term, and a number in every row.

    A query reads the postings of its own mark; the number, from other bits, protects against two tenants with one mark.
    """
    both = digest_bytes(where.space, where.tenant, size=14)
    return both[:6].hex(), int.from_bytes(both[6:], "big", signed=True)
