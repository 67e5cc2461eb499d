"""The word index on SQLite: FTS5 as a bare inverted index.

Every term begins with a mark of its (space, tenant), so that a query walks its own tenant's postings only,
and then says whether it stands for the head or for the whole entry.
"""

import json
import re
from collections.abc import Sequence
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

# What the tokenizer 'ascii' leaves whole and as it is; a surrogate cannot be stored.
_AS_IT_IS = re.compile("(?!0x)[0-9a-z\x80-\ud7ff\ue000-\U0010ffff]{1,64}")

_FREQUENCIES = """
SELECT (SELECT count(*) FROM words_index WHERE words_index MATCH asked.value)
FROM json_each($1) AS asked ORDER BY asked.key
"""
# The tenant is checked on the rows as well: the mark is short, and could in theory be another's.
# One row of JSON rather than thousands: the interpreter's lock changes hands at every row, and with several readers
# each of these changes is a wait.
_SCORES = """
SELECT json_group_array(json_array(words_entries.key, best.points) ORDER BY best.points DESC, best.seq DESC)
FROM (
    SELECT words_index.rowid AS seq, sum(asked.value ->> 1) AS points
    FROM json_each($1) AS asked CROSS JOIN words_index ON words_index MATCH asked.value ->> 0
    GROUP BY words_index.rowid ORDER BY points DESC, words_index.rowid DESC LIMIT $2
) AS best
JOIN words_entries ON words_entries.seq = best.seq
WHERE words_entries.space = $3 AND words_entries.tenant = $4
"""


class SqliteWords:
    """The `Words` port."""

    def __init__(self) -> None:
        self._counts = Counts()

    def put(self, tx: Tx, space: str, tenant: str, key: str, head: Sequence[str], body: Sequence[str]) -> None:
        in_head, whole = distinct(head, body)
        mark = _mark(space, tenant)
        terms = " ".join(
            [f"{mark}h{_plain(token)}" for token in in_head] + [f"{mark}w{_plain(token)}" for token in whole]
        )
        seq = _find(tx, space, tenant, key)
        if seq is None:
            # Not RETURNING: it opens a statement journal, for which FTS5 writes out what it holds after every entry.
            tx.run("INSERT INTO words_entries (space, tenant, key) VALUES ($1, $2, $3)", space, tenant, key)
            tx.run("INSERT INTO words_index (rowid, terms) VALUES (last_insert_rowid(), $1)", terms)
        else:
            tx.run("INSERT OR REPLACE INTO words_index (rowid, terms) VALUES ($1, $2)", seq, terms)

    def drop(self, tx: Tx, space: str, tenant: str, key: str) -> None:
        seq = _find(tx, space, tenant, key)
        if seq is not None:
            tx.run("DELETE FROM words_index WHERE rowid = $1", seq)
            tx.run("DELETE FROM words_entries WHERE seq = $1", seq)

    def match(
        self, tx: Tx, space: str, tenant: str, tokens: Sequence[tuple[str, float]], limit: int
    ) -> list[tuple[str, float]]:
        asked = chosen(tokens)
        if not asked or limit < 1:
            return []
        mark = _mark(space, tenant)
        whole = {token: f'"{mark}w{_plain(token)}"' for token in asked}

        def ask(weighed: list[Weighed], every: bool) -> Found:
            leaders = (" AND " if every else " OR ").join(whole[item.token] for item in weighed if item.leads)
            questions: list[tuple[str, int]] = []
            for item in weighed:
                if item.leads and not every:
                    questions.append((whole[item.token], item.weight * IN_BODY))
                    questions.append((f'"{mark}h{_plain(item.token)}"', item.weight * IN_HEAD))
                else:
                    questions.append((f"({leaders}) AND {whole[item.token]}", item.weight * (IN_BODY + IN_HEAD)))
            row = tx.one(_SCORES, json.dumps(questions), limit, space, tenant)
            return [(key, points) for key, points in json.loads(row[0])] if row else []

        def count(unknown: list[str]) -> list[int]:
            rows = tx.all(_FREQUENCIES, json.dumps([whole[token] for token in unknown]))
            return [row[0] for row in rows]

        entries = self._counts.entries(tx, space, tenant)
        weighed = weigh(asked, entries, self._counts.of(space, tenant, entries, asked, count))
        total = full_score(weighed)
        return [(key, points / total) for key, points in best(weighed, limit, ask)]


def _find(tx: Tx, space: str, tenant: str, key: str) -> int | None:
    row = tx.one("SELECT seq FROM words_entries WHERE space = $1 AND tenant = $2 AND key = $3", space, tenant, key)
    return None if row is None else row[0]


def _mark(space: str, tenant: str) -> str:
    return digest(space, tenant).hex()[:12]


@lru_cache(maxsize=16_384)
def _plain(token: str) -> str:
    """The token, or its digest (0x…) where FTS5 would split or fold it."""
    return token if _AS_IT_IS.fullmatch(token) else "0x" + digest(token).hex()
