"""Word index on SQLite: FTS5 as a bare inverted index to find entries, and a row per entry to score it.

Every term begins with a mark of its (space, tenant), so that a query reads its own tenant's postings only.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from zlib import crc32

from kho.kernel.ports import SearchFilter, TokenCounts, Tx, WordEntry, WordMatches
from kho.lib.sql import digest_bytes
from kho.storage.word_index import base

NUMPY_PAYS, LOADING_NUMPY_PAYS = 40, 250
"""Rows from which numpy is faster: if it is loaded already, and if it has to be loaded first."""

# Tokens that the tokenizer 'ascii' neither splits nor changes; a surrogate cannot be stored.
_AS_IT_IS = re.compile("(?!0x)[0-9a-z\x80-\ud7ff\ue000-\U0010ffff]{1,64}")
_FIRST, _LAST = -(2**63), 2**63 - 1

_COUNTS = """
SELECT json_group_array((SELECT count(*) FROM words_index WHERE words_index MATCH asked.value) ORDER BY asked.key)
FROM json_each($1) AS asked
"""
_RECENT = """
SELECT count(*) FROM
(SELECT 1 FROM words_entries WHERE scope = $1 AND created_at >= $2 AND created_at <= $3 LIMIT $4)
"""
# The order is that of the index itself, so that the scan ends with the limit.
_LOOK = """
SELECT entries.seq, entries.heads, entries.tokens
FROM words_index CROSS JOIN words_entries AS entries ON entries.seq = words_index.rowid
WHERE words_index MATCH $1 AND entries.scope = $2 AND entries.created_at >= $3 AND entries.created_at <= $4
ORDER BY words_index.rowid DESC LIMIT $5
"""
_IN_TIME = "SELECT seq, heads, tokens FROM words_entries WHERE scope = $1 AND created_at >= $2 AND created_at <= $3"
_AND_FITTING = " AND seq IN (SELECT rowid FROM words_index WHERE words_index MATCH $4)"

# With "=", SQLite would scan the scope instead of looking up the numbers.
_COUNTED = """
SELECT seq, tokens, counts, length FROM words_entries
WHERE seq IN (SELECT value FROM json_each($1)) AND NOT scope <> $2
"""

MAX_CACHED_TERMS = 200_000
"""Tokens whose terms are cached."""

Row = tuple[int, int, bytes]


class SqliteWords:
    """The `Words` port."""

    def __init__(self, limits: base.PlanLimits = base.DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._forms = _Forms()

    def put(self, tx: Tx, entries: Iterable[WordEntry]) -> None:
        rows: list[tuple[int, int, int, int, bytes, bytes, int]] = []
        terms: list[tuple[int, str]] = []
        if len(self._forms) > MAX_CACHED_TERMS:
            self._forms.clear()
        for entry in entries:
            filed = entry.ref
            tokens, heads, counts = base.distinct(entry)
            forms = list(map(self._forms.__getitem__, tokens))
            plain = [term for term, _ in forms]
            plain += (_term(term) for term in base.marks(filed))
            if base.is_sampled(filed.seq, self._limits.sampled):
                plain += [f"s{term}" for term in plain]
            mark, number = base.scope(filed)
            rows.append(
                (
                    filed.seq,
                    number,
                    filed.created_at,
                    heads,
                    b"".join([number for _, number in forms]),
                    counts,
                    entry.length,
                )
            )
            terms.append((filed.seq, mark + f" {mark}".join(plain)))
        tx.many(
            "INSERT INTO words_entries (seq, scope, created_at, heads, tokens, counts, length) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            rows,
        )
        tx.many("INSERT INTO words_index (rowid, terms) VALUES ($1, $2)", terms)

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        gone = json.dumps(list(seqs))
        there = "SELECT seq FROM words_entries WHERE seq IN (SELECT value FROM json_each($1))"
        tx.run(f"DELETE FROM words_index WHERE rowid IN ({there})", gone)
        tx.run("DELETE FROM words_entries WHERE seq IN (SELECT value FROM json_each($1))", gone)

    def match(self, tx: Tx, where: SearchFilter, tokens: Sequence[tuple[str, float]], limit: int) -> WordMatches:
        return base.search(_Search(tx, where), where, tokens, limit, self._limits)

    def in_time(self, tx: Tx, where: SearchFilter, limit: int, *, newest_first: bool = False) -> list[int]:
        return _Search(tx, where).in_time("DESC" if newest_first else "ASC", limit)

    def counted(
        self, tx: Tx, where: SearchFilter, seqs: Sequence[int], tokens: Iterable[str]
    ) -> dict[int, TokenCounts]:
        wanted = [(token, _number(token)) for token in tokens]
        found: dict[int, TokenCounts] = {}
        for seq, numbers, counts, length in tx.all(_COUNTED, json.dumps(list(seqs)), base.scope(where)[1]):
            places = ((token, _place(numbers, number)) for token, number in wanted)
            held = {token: base.count_of(counts, place) for token, place in places if place >= 0}
            found[seq] = held, length or len(numbers) // 4
        return found


class _Search:
    def __init__(self, tx: Tx, where: SearchFilter) -> None:
        self._tx = tx
        self._mark, self._scope = base.scope(where)
        self._since = _FIRST if where.since is None else where.since
        self._until = _LAST if where.until is None else where.until - 1
        self._fitting = " AND ".join(
            "(" + " OR ".join(self._term(term) for term in group) + ")" for group in base.filters(where)
        )

    def count(self, terms: Sequence[base.Term]) -> list[int]:
        row = self._tx.one(_COUNTS, json.dumps([self._term(term) for term in terms]))
        return json.loads(row[0]) if row else []

    def recent(self, limit: int) -> int:
        row = self._tx.one(_RECENT, self._scope, self._since, self._until, limit)
        return row[0] if row else 0

    def look(
        self, clauses: Sequence[base.Clause], tokens: Sequence[base.WeightedToken], newest: int | None, limit: int
    ) -> base.Scored:
        leading = " OR ".join(
            "(" + " AND ".join(self._term(("w", item.token)) for item in clause) + ")" for clause in clauses
        )
        return self._best(f"({leading}) AND {self._fitting}" if self._fitting else leading, tokens, newest, limit)

    def look_at_newest(self, tokens: Sequence[base.WeightedToken], newest: int, limit: int) -> base.Scored:
        return self.look([tuple(tokens)], tokens, newest, limit)

    def look_at_all(self, tokens: Sequence[base.WeightedToken], by_time: bool, limit: int) -> base.Scored:
        if not by_time:
            return self._best(self._fitting or self._term(("e", "")), tokens, None, limit)
        window = (self._scope, self._since, self._until)
        if self._fitting:
            return best_of(self._tx.all(_IN_TIME + _AND_FITTING, *window, self._fitting), tokens, limit)
        return best_of(self._tx.all(_IN_TIME, *window), tokens, limit)

    def in_time(self, order: str, limit: int) -> list[int]:
        fitting = _AND_FITTING if self._fitting else ""
        select = f"{_IN_TIME}{fitting} ORDER BY created_at {order}, seq {order} LIMIT {limit}"
        values = (self._scope, self._since, self._until, *([self._fitting] if self._fitting else []))
        return [row[0] for row in self._tx.all(select, *values)]

    def _best(
        self, expression: str, tokens: Sequence[base.WeightedToken], newest: int | None, limit: int
    ) -> base.Scored:
        limit_rows = -1 if newest is None else newest
        rows = self._tx.all(_LOOK, expression, self._scope, self._since, self._until, limit_rows)
        return best_of(rows, tokens, limit)

    def _term(self, term: base.Term) -> str:
        return f'"{self._mark}{_term(term)}"'


class _Forms(dict[str, tuple[str, bytes]]):
    """Cache of the terms and the numbers of tokens. Passages share most of their tokens."""

    def __missing__(self, token: str) -> tuple[str, bytes]:
        self[token] = forms = f"w{_plain(token)}", _number(token)
        return forms


def best_of(rows: Sequence[Row], tokens: Sequence[base.WeightedToken], limit: int) -> base.Scored:
    """Score entries and return the best."""
    weights = [(_number(item.token), item.weight) for item in tokens]
    many = len(rows) >= (NUMPY_PAYS if "numpy" in sys.modules else LOADING_NUMPY_PAYS)
    return best_of_many(rows, weights, limit) if many else best_of_few(rows, weights, limit)


def best_of_few(rows: Sequence[Row], weights: Sequence[tuple[bytes, int]], limit: int) -> base.Scored:
    found: dict[int, int] = {}
    for seq, heads, numbers in rows:
        places = ((weight, _place(numbers, number)) for number, weight in weights)
        points = sum(weight * (base.IN_BODY + base.IN_HEAD * (place < heads)) for weight, place in places if place >= 0)
        if points:
            found[seq] = points
    return base.top(found, limit)


def _place(numbers: bytes, number: bytes) -> int:
    """Return the index of a number among others, or -1. Searched as bytes: faster than reading them all as numbers."""
    at = numbers.find(number)
    while at > 0 and at % 4:  # across the end of one number and the beginning of the next
        at = numbers.find(number, at + 1)
    return at // 4


def best_of_many(rows: Sequence[Row], weights: Sequence[tuple[bytes, int]], limit: int) -> base.Scored:
    """Same, for thousands of entries: all their tokens in one array."""
    import numpy as np

    seqs, heads, tokens = zip(*rows, strict=True)
    numbers = np.frombuffer(b"".join(tokens), "<u4")
    ends = np.cumsum(np.array(list(map(len, tokens)))) // 4
    head_ends = np.concatenate(([0], ends[:-1])) + np.array(heads)
    wanted = np.frombuffer(b"".join([number for number, _ in weights]), "<u4")
    order = np.argsort(wanted)
    wanted, worth = wanted[order], np.array([weight for _, weight in weights])[order]
    # A table lookup of half of each number leaves few that are not wanted: faster than comparing with each.
    half = np.zeros(1 << 16, np.bool_)
    half[wanted & 0xFFFF] = True
    places = np.flatnonzero(half[numbers & 0xFFFF])
    found = np.minimum(np.searchsorted(wanted, numbers[places]), len(wanted) - 1)
    right = wanted[found] == numbers[places]
    places, found = places[right], found[right]
    holders = np.searchsorted(ends, places, side="right")
    got = worth[found] * (base.IN_BODY + base.IN_HEAD * (places < head_ends[holders]))
    points = np.bincount(holders, got, len(rows)).astype(np.int64)
    best = np.lexsort((-np.array(seqs), -points))[:limit]
    return [(seqs[place], int(points[place])) for place in best.tolist() if points[place]]


def _number(token: str) -> bytes:
    return crc32(token.encode("utf-8", "surrogatepass")).to_bytes(4, "little")


def _term(term: base.Term) -> str:
    """Return a term without the mark: tokens unchanged; other names, which may be long or unusual, as digests."""
    letter, text = term
    return letter + (_plain(text) if letter.endswith("w") else digest_bytes(text).hex() if text else "")


def _plain(token: str) -> str:
    """Return the token, or its digest (0x…) if FTS5 would split or fold it."""
    return token if _AS_IT_IS.fullmatch(token) else "0x" + digest_bytes(token).hex()
