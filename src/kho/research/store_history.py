"""The SQL of questions that were asked. Every statement names the tenant."""

from dataclasses import dataclass

import orjson

from kho.kernel.ports import Tx
from kho.research import names

KEPT = 1_000
"""Questions that a tenant keeps, the newest."""


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    sub: str
    query: str
    collections: list[str]
    """Names, as they were then."""
    results: int
    best: float
    took_us: int
    at: int


def add(tx: Tx, tenant: str, question: Question) -> None:
    tx.run(
        "INSERT INTO research_history (tenant, id, sub, query, collections, results, best, took_us, at) "
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        tenant,
        question.id,
        question.sub,
        question.query,
        orjson.dumps(question.collections).decode(),
        question.results,
        question.best,
        question.took_us,
        question.at,
    )
    oldest = tx.one(
        "SELECT at, id FROM research_history WHERE tenant = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2",
        tenant,
        KEPT - 1,
    )
    if oldest is not None:
        tx.run("DELETE FROM research_history WHERE tenant = $1 AND (at < $2 OR (at = $2 AND id < $3))", tenant, *oldest)


def page(tx: Tx, tenant: str, sub: str, after: tuple[int, str] | None, limit: int, sought: str = "") -> list[Question]:
    """A caller's questions, the newest first. What people ask is theirs: nobody reads another's."""
    found: list[Question] = []
    wanted = names.key(sought)
    where, values = "", list[int | str]()
    if after is not None:
        where, values = " AND (at < $3 OR (at = $3 AND id < $4))", list(after)
    rows = tx.all(
        "SELECT id, sub, query, collections, results, best, took_us, at FROM research_history "
        f"WHERE tenant = $1 AND sub = $2{where} ORDER BY at DESC, id DESC",
        tenant,
        sub,
        *values,
    )
    for row in rows:
        if wanted in names.key(row[2]):
            found.append(Question(row[0], row[1], row[2], orjson.loads(row[3]), *row[4:]))
            if len(found) == limit:
                break
    return found


def clear(tx: Tx, tenant: str, sub: str) -> int:
    return tx.run("DELETE FROM research_history WHERE tenant = $1 AND sub = $2", tenant, sub)
