"""The SQL of verdicts on what a search returned. Every statement names the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Tx
from kho.lib.sql import Table, among, replacing


@dataclass(frozen=True, slots=True)
class Opinion:
    document_id: str
    digest: str
    """Of the passage; empty when the document as a whole is meant."""
    sub: str
    chunk: int | None
    verdict: str
    reason: str | None
    query: str | None
    at: int


@dataclass(frozen=True, slots=True)
class Tally:
    positive: int = 0
    negative: int = 0
    neutral: int = 0


_TALLY = ", ".join(f"sum(CASE WHEN f.verdict = '{name}' THEN 1 ELSE 0 END)" for name in Tally.__slots__)


OPINIONS = Table("research_feedback", Opinion)
_KEY = "tenant, document_id, digest, sub"


def get(tx: Tx, tenant: str, like: Opinion) -> Opinion | None:
    """The verdict that this one replaces."""
    row = tx.one(
        f"SELECT {OPINIONS.columns} FROM research_feedback "
        "WHERE tenant = $1 AND document_id = $2 AND digest = $3 AND sub = $4",
        tenant,
        like.document_id,
        like.digest,
        like.sub,
    )
    return OPINIONS.read(row) if row else None


def put(tx: Tx, tenant: str, opinion: Opinion) -> None:
    """One verdict per caller and passage; a later one replaces it."""
    conflict = replacing(_KEY, "chunk", "verdict", "reason", "query", "at")
    OPINIONS.insert(tx, opinion, conflict=conflict, tenant=tenant)


def of_document(tx: Tx, tenant: str, id: str) -> Tally:
    row = tx.one(f"SELECT {_TALLY} FROM research_feedback AS f WHERE f.tenant = $1 AND f.document_id = $2", tenant, id)
    return Tally(*(number or 0 for number in row or ()))


def of_passages(tx: Tx, tenant: str, document_ids: Sequence[str]) -> dict[tuple[str, str], Tally]:
    """The verdicts on some documents, by document and digest: what a rank may take into account."""
    rows = among(
        tx,
        f"SELECT f.document_id, f.digest, {_TALLY} FROM research_feedback AS f WHERE f.tenant = $1 AND f.document_id",
        document_ids,
        tenant,
        rest=" GROUP BY f.document_id, f.digest",
    )
    return {(row[0], row[1]): Tally(*row[2:]) for row in rows}


def of_collections(tx: Tx, tenant: str, collection_id: str | None) -> dict[str, Tally]:
    """The verdicts on each collection that has any, by its id."""
    only, values = (" AND d.collection_id = $2", (collection_id,)) if collection_id else ("", ())
    rows = tx.all(
        f"SELECT d.collection_id, {_TALLY} FROM research_feedback AS f "
        "JOIN research_documents AS d ON d.tenant = f.tenant AND d.id = f.document_id "
        f"WHERE f.tenant = $1{only} GROUP BY d.collection_id",
        tenant,
        *values,
    )
    return {row[0]: Tally(*row[1:]) for row in rows}


def worst(tx: Tx, tenant: str, collection_id: str | None, limit: int) -> dict[str, Tally]:
    """The documents with the most negative verdicts, in that order."""
    only, values = (" AND d.collection_id = $2", (collection_id,)) if collection_id else ("", ())
    rows = tx.all(
        f"SELECT f.document_id, {_TALLY} FROM research_feedback AS f "
        "JOIN research_documents AS d ON d.tenant = f.tenant AND d.id = f.document_id "
        f"WHERE f.tenant = $1{only} GROUP BY f.document_id "
        "HAVING sum(CASE WHEN f.verdict = 'negative' THEN 1 ELSE 0 END) > 0 "
        f"ORDER BY 3 DESC, 2, 1 LIMIT ${len(values) + 2}",
        tenant,
        *values,
        limit,
    )
    return {row[0]: Tally(*row[1:]) for row in rows}


def reasons(tx: Tx, tenant: str, document_id: str, limit: int) -> list[str]:
    """Why it did not help, the newest first."""
    rows = tx.all(
        "SELECT reason FROM research_feedback WHERE tenant = $1 AND document_id = $2 AND verdict = 'negative' "
        "AND reason IS NOT NULL ORDER BY at DESC, sub LIMIT $3",
        tenant,
        document_id,
        limit,
    )
    return [row[0] for row in rows]
