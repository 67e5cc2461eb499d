"""The word index on SQLite: FTS5 as a bare inverted index, which brings entries, and a row per entry to score it by.

Every term begins with a mark of its (space, tenant), so that a query walks its own tenant's postings only.
"""

import json
import re
from array import array
from collections.abc import Iterable, Sequence
from zlib import crc32

from kho.kernel.ports import Filed, Matched, Tx, Where
from kho.storage.words import (
    IN_BODY,
    IN_HEAD,
    Clause,
    Found,
    Term,
    Weighed,
    digest,
    distinct,
    filters,
    is_sampled,
    marks,
    scope,
    search,
    top,
)

MANY = 250
"""From here on loading numpy pays."""

# What the tokenizer 'ascii' leaves whole and as it is; a surrogate cannot be stored.
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
# The order is that of the index itself, so that the walk ends with the limit.
_LOOK = """
SELECT entries.seq, entries.heads, entries.tokens
FROM words_index CROSS JOIN words_entries AS entries ON entries.seq = words_index.rowid
WHERE words_index MATCH $1 AND entries.scope = $2 AND entries.created_at >= $3 AND entries.created_at <= $4
ORDER BY words_index.rowid DESC LIMIT $5
"""
_IN_TIME = "SELECT seq, heads, tokens FROM words_entries WHERE scope = $1 AND created_at >= $2 AND created_at <= $3"
_AND_FITTING = " AND seq IN (SELECT rowid FROM words_index WHERE words_index MATCH $4)"

MOST_REMEMBERED = 200_000
"""Tokens whose terms are kept at hand."""

Entry = tuple[int, int, bytes]


class SqliteWords:
    """The `Words` port."""

    def __init__(self) -> None:
        self._terms, self._numbers = _Terms(), _Numbers()

    def put(self, tx: Tx, passages: Iterable[tuple[Filed, Sequence[str], Sequence[str]]]) -> None:
        rows: list[tuple[int, int, int, int, bytes]] = []
        terms: list[tuple[int, str]] = []
        as_terms, as_numbers = self._terms, self._numbers
        if len(as_terms) > MOST_REMEMBERED:
            as_terms.clear()
            as_numbers.clear()
        for filed, head, body in passages:
            tokens, heads = distinct(head, body)
            numbers = array("I", map(as_numbers.__getitem__, tokens))
            plain = list(map(as_terms.__getitem__, tokens))
            plain += (_term(term) for term in marks(filed))
            if is_sampled(filed.seq):
                plain += [f"s{term}" for term in plain]
            mark, number = scope(filed)
            rows.append((filed.seq, number, filed.created_at, heads, numbers.tobytes()))
            terms.append((filed.seq, mark + f" {mark}".join(plain)))
        tx.many("INSERT INTO words_entries (seq, scope, created_at, heads, tokens) VALUES ($1, $2, $3, $4, $5)", rows)
        tx.many("INSERT INTO words_index (rowid, terms) VALUES ($1, $2)", terms)

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        gone = json.dumps(list(seqs))
        there = "SELECT seq FROM words_entries WHERE seq IN (SELECT value FROM json_each($1))"
        tx.run(f"DELETE FROM words_index WHERE rowid IN ({there})", gone)
        tx.run("DELETE FROM words_entries WHERE seq IN (SELECT value FROM json_each($1))", gone)

    def match(self, tx: Tx, where: Where, tokens: Sequence[tuple[str, float]], limit: int) -> Matched:
        return search(_Search(tx, where), where, tokens, limit)


class _Search:
    def __init__(self, tx: Tx, where: Where) -> None:
        self._tx = tx
        self._mark, self._scope = scope(where)
        self._since = _FIRST if where.since is None else where.since
        self._until = _LAST if where.until is None else where.until - 1
        self._fitting = " AND ".join(
            "(" + " OR ".join(self._term(term) for term in group) + ")" for group in filters(where)
        )

    def count(self, terms: Sequence[Term]) -> list[int]:
        row = self._tx.one(_COUNTS, json.dumps([self._term(term) for term in terms]))
        return json.loads(row[0]) if row else []

    def recent(self, most: int) -> int:
        row = self._tx.one(_RECENT, self._scope, self._since, self._until, most)
        return row[0] if row else 0

    def look(self, clauses: Sequence[Clause], tokens: Sequence[Weighed], newest: int | None, limit: int) -> Found:
        leading = " OR ".join(
            "(" + " AND ".join(self._term(("w", item.token)) for item in clause) + ")" for clause in clauses
        )
        return self._best(f"({leading}) AND {self._fitting}" if self._fitting else leading, tokens, newest, limit)

    def look_at_newest(self, tokens: Sequence[Weighed], newest: int, limit: int) -> Found:
        return self.look([tuple(tokens)], tokens, newest, limit)

    def look_at_all(self, tokens: Sequence[Weighed], by_time: bool, limit: int) -> Found:
        if not by_time:
            return self._best(self._fitting or self._term(("e", "")), tokens, None, limit)
        window = (self._scope, self._since, self._until)
        if self._fitting:
            return best_of(self._tx.all(_IN_TIME + _AND_FITTING, *window, self._fitting), tokens, limit)
        return best_of(self._tx.all(_IN_TIME, *window), tokens, limit)

    def _best(self, expression: str, tokens: Sequence[Weighed], newest: int | None, limit: int) -> Found:
        most = -1 if newest is None else newest
        rows = self._tx.all(_LOOK, expression, self._scope, self._since, self._until, most)
        return best_of(rows, tokens, limit)

    def _term(self, term: Term) -> str:
        return f'"{self._mark}{_term(term)}"'


class _Terms(dict[str, str]):
    """The terms of tokens. Passages share most of their tokens."""

    def __missing__(self, token: str) -> str:
        self[token] = term = f"w{_plain(token)}"
        return term


class _Numbers(dict[str, int]):
    def __missing__(self, token: str) -> int:
        self[token] = number = _number(token)
        return number


def best_of(rows: Sequence[Entry], tokens: Sequence[Weighed], limit: int) -> Found:
    """The best of some entries."""
    weights = {_number(item.token): item.weight for item in tokens}
    return best_of_many(rows, weights, limit) if len(rows) >= MANY else best_of_few(rows, weights, limit)


def best_of_few(rows: Sequence[Entry], weights: dict[int, int], limit: int) -> Found:
    found: dict[int, int] = {}
    for seq, heads, tokens in rows:
        numbers = array("I", tokens)
        held = weights.keys() & set(numbers)
        if held:
            in_head = held.intersection(numbers[:heads])
            found[seq] = IN_BODY * sum(map(weights.__getitem__, held)) + IN_HEAD * sum(weights[it] for it in in_head)
    return top(found, limit)


def best_of_many(rows: Sequence[Entry], weights: dict[int, int], limit: int) -> Found:
    """The same, for thousands: all their tokens in one array."""
    import numpy as np

    seqs, heads, tokens = zip(*rows, strict=True)
    numbers = np.frombuffer(b"".join(tokens), np.uint32)
    ends = np.cumsum(np.array(list(map(len, tokens)))) // 4
    head_ends = np.concatenate(([0], ends[:-1])) + np.array(heads)
    points = np.zeros(len(rows), np.int64)
    for number, weight in weights.items():
        places = np.flatnonzero(numbers == number)
        holders = np.searchsorted(ends, places, side="right")
        points[holders] += weight * (IN_BODY + IN_HEAD * (places < head_ends[holders]))
    order = np.lexsort((-np.array(seqs), -points))[:limit]
    return [(seqs[place], int(points[place])) for place in order.tolist() if points[place]]


def _number(token: str) -> int:
    return crc32(token.encode("utf-8", "surrogatepass"))


def _term(term: Term) -> str:
    """Behind the mark. Tokens as they are; other names, which may be long and odd, as digests."""
    letter, text = term
    return letter + (_plain(text) if letter.endswith("w") else digest(text).hex() if text else "")


def _plain(token: str) -> str:
    """The token, or its digest (0x…) where FTS5 would split or fold it."""
    return token if _AS_IT_IS.fullmatch(token) else "0x" + digest(token).hex()
