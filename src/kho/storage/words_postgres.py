"""The word index on PostgreSQL: an array of 64-bit terms per entry, under a GIN index.

A term stands for (space, tenant, head or whole, token). Numbers rather than a tsvector: any token fits, however
long or odd, a row is half the size (counting a common token reads its rows' pages), and there is no query grammar.
"""

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache

from kho.kernel.ports import Tx
from kho.storage.words import IN_BODY, IN_HEAD, chosen, digest, distinct, full_score, weigh

_PUT = """
INSERT INTO words_entries (space, tenant, key, terms) VALUES ($1, $2, $3, $4::bigint[])
ON CONFLICT (space, tenant, key) DO UPDATE SET terms = excluded.terms
"""
_FREQUENCIES = """
SELECT 0 AS place, count(*) FROM words_entries WHERE space = $1 AND tenant = $2
UNION ALL
SELECT asked.place, (SELECT count(*) FROM words_entries WHERE terms @> ARRAY[asked.term::bigint])
FROM jsonb_array_elements_text($3::jsonb) WITH ORDINALITY AS asked (term, place)
ORDER BY place
"""
# OFFSET 0 keeps each term a search of its own in the index. The tenant is checked on the rows as well:
# a term is a digest, and could in theory be another's.
_SCORES = """
SELECT words_entries.key, best.points
FROM (
    SELECT hit.seq, sum(asked.points)::bigint AS points
    FROM jsonb_to_recordset($1::jsonb) AS asked (term bigint, leaders text, points bigint)
    CROSS JOIN LATERAL (
        SELECT seq FROM words_entries
        WHERE terms @> ARRAY[asked.term] AND terms && asked.leaders::bigint[] OFFSET 0
    ) AS hit
    GROUP BY hit.seq ORDER BY points DESC, hit.seq DESC LIMIT $2
) AS best
JOIN words_entries ON words_entries.seq = best.seq
WHERE words_entries.space = $3 AND words_entries.tenant = $4
ORDER BY best.points DESC, best.seq DESC
"""


class PostgresWords:
    """The `Words` port."""

    def put(self, tx: Tx, space: str, tenant: str, key: str, head: Sequence[str], body: Sequence[str]) -> None:
        in_head, whole = distinct(head, body)
        head_mark, whole_mark = _marks(space, tenant)
        terms = [head_mark ^ _number(token) for token in in_head] + [whole_mark ^ _number(token) for token in whole]
        tx.run(_PUT, space, tenant, key, _array(terms))

    def drop(self, tx: Tx, space: str, tenant: str, key: str) -> None:
        tx.run("DELETE FROM words_entries WHERE space = $1 AND tenant = $2 AND key = $3", space, tenant, key)

    def match(
        self, tx: Tx, space: str, tenant: str, tokens: Sequence[tuple[str, float]], limit: int
    ) -> list[tuple[str, float]]:
        asked = chosen(tokens)
        if not asked or limit < 1:
            return []
        head_mark, whole_mark = _marks(space, tenant)
        whole = [whole_mark ^ _number(token) for token in asked]
        (_, entries), *frequencies = tx.all(_FREQUENCIES, space, tenant, json.dumps(whole))
        weighed = weigh(asked, entries, [frequency for _, frequency in frequencies])
        leaders = _array(whole_mark ^ _number(item.token) for item in weighed if item.leads)
        questions: list[dict[str, int | str]] = []
        for item in weighed:
            for mark, parts in ((whole_mark, IN_BODY), (head_mark, IN_HEAD)):
                term = mark ^ _number(item.token)
                only = _array([whole_mark ^ _number(item.token)]) if item.leads else leaders
                questions.append({"term": term, "leaders": only, "points": item.weight * parts})
        total = full_score(weighed)
        found = tx.all(_SCORES, json.dumps(questions), limit, space, tenant)
        return [(key, points / total) for key, points in found]


def _marks(space: str, tenant: str) -> tuple[int, int]:
    return _number(f"head\0{space}\0{tenant}"), _number(f"whole\0{space}\0{tenant}")


@lru_cache(maxsize=16_384)
def _number(text: str) -> int:
    return int.from_bytes(digest(text), "big", signed=True)


def _array(numbers: Iterable[int]) -> str:
    return "{" + ",".join(map(str, numbers)) + "}"
