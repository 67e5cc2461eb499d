"""The word index on PostgreSQL: an array of 64-bit terms per entry, under a GIN index.

A term stands for (space, tenant, token). Numbers rather than a tsvector: any token fits, however
long or odd, a row is half the size (counting a common token reads its rows' pages), and there is no query grammar.
"""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kho.kernel.ports import Tx
from kho.storage.words import (
    IN_BODY,
    IN_HEAD,
    Counts,
    Found,
    Weighed,
    best,
    chosen,
    digest,
    distinct,
    full_score,
    weigh,
)

_PUT = """
INSERT INTO words_entries (space, tenant, key, terms, heads) VALUES ($1, $2, $3, $4::bigint[], $5::bigint[])
ON CONFLICT (space, tenant, key) DO UPDATE SET terms = excluded.terms, heads = excluded.heads
"""
_FREQUENCIES = """
SELECT (SELECT count(*) FROM words_entries WHERE terms @> ARRAY[asked.term::bigint])
FROM jsonb_array_elements_text($1::jsonb) WITH ORDINALITY AS asked (term, place) ORDER BY asked.place
"""
# One walk over the entries that hold a leading term; each is scored from its own terms, so that a common term costs
# nothing more. The tenant is checked on the rows as well: a term is a digest, and could in theory be another's.
_SCORES = """
SELECT key, {points} AS points FROM words_entries
WHERE terms {holds} $1::bigint[] AND space = $2 AND tenant = $3
ORDER BY points DESC, seq DESC LIMIT $4
"""


class PostgresWords:
    """The `Words` port."""

    def __init__(self) -> None:
        self._counts = Counts()

    def put(self, tx: Tx, space: str, tenant: str, key: str, head: Sequence[str], body: Sequence[str]) -> None:
        in_head, whole = distinct(head, body)
        terms, heads = _terms(space, tenant, whole), _terms(space, tenant, in_head)
        tx.run(_PUT, space, tenant, key, _array(terms.values()), _array(heads.values()))

    def drop(self, tx: Tx, space: str, tenant: str, key: str) -> None:
        tx.run("DELETE FROM words_entries WHERE space = $1 AND tenant = $2 AND key = $3", space, tenant, key)

    def match(
        self, tx: Tx, space: str, tenant: str, tokens: Sequence[tuple[str, float]], limit: int
    ) -> list[tuple[str, float]]:
        asked = chosen(tokens)
        if not asked or limit < 1:
            return []
        terms = _terms(space, tenant, asked)

        def ask(weighed: list[Weighed], every: bool) -> Found:
            leaders = _array(terms[item.token] for item in weighed if item.leads)
            # Numbers of our own making: terms are digests, weights are computed.
            points = " + ".join(_points(terms[item.token], item, every) for item in weighed)
            rows = tx.all(_SCORES.format(points=points, holds="@>" if every else "&&"), leaders, space, tenant, limit)
            return [(row[0], row[1]) for row in rows]

        def count(unknown: list[str]) -> list[int]:
            return [row[0] for row in tx.all(_FREQUENCIES, json.dumps([terms[token] for token in unknown]))]

        entries = self._counts.entries(tx, space, tenant)
        weighed = weigh(asked, entries, self._counts.of(space, tenant, entries, asked, count))
        total = full_score(weighed)
        return [(key, points / total) for key, points in best(weighed, limit, ask)]


def _points(term: int, item: Weighed, every: bool) -> str:
    body, full = item.weight * IN_BODY, item.weight * (IN_BODY + IN_HEAD)
    if every or not item.leads:
        return f"CASE WHEN {term} = ANY(terms) THEN {full} ELSE 0 END"
    return f"CASE WHEN {term} = ANY(heads) THEN {full} WHEN {term} = ANY(terms) THEN {body} ELSE 0 END"


def _terms(space: str, tenant: str, tokens: Iterable[str]) -> dict[str, int]:
    mark = _number(f"{space}\0{tenant}")
    return {token: mark ^ _number(token) for token in tokens}


@lru_cache(maxsize=16_384)
def _number(text: str) -> int:
    return int.from_bytes(digest(text), "big", signed=True)


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
