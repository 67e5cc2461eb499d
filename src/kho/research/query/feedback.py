"""Feedback, its rules and its SQL: a verdict on a result, and what the verdicts say about a collection. Every statement
names the tenant."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.lib.sql import Table, among, replacing
from kho.research import errors, markdown, views
from kho.research.contract import READ_TIMEOUT, RESEARCH, SOME_ID, simple
from kho.research.errors import InvalidDocumentRequest
from kho.research.library import collection_store, document_listing
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import get_many
from kho.research.model import FeedbackAnalytics, SubmitFeedback
from kho.research.results import AnalyticsAnswer, CollectionTally, Complaint, FeedbackAnswer
from kho.research.settings import ResearchSettings


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


COMPLAINTS, REASONS = 10, 3
"""Documents that an analysis names, and reasons for each."""


@dataclass(slots=True, kw_only=True)
class Feedback:
    db: Database
    clock: Clock
    settings: ResearchSettings

    @RESEARCH.write(
        "submit_feedback",
        name="feedback",
        invalid=errors.invalid_documents,
        text=markdown.feedback,
        cli=Command("feedback", ("document_id", "verdict"), documents=("document_id",)),
        example={"document_id": SOME_ID, "verdict": "positive", "chunk": 0},
    )
    @simple
    async def submit(self, params: SubmitFeedback, call: Call) -> FeedbackAnswer:
        """Say whether a result helped; it counts in the rank.

        Say whether a result of query_knowledge_base helped: the next answers take it into account.
        """
        now = self.clock()

        def work(tx: Tx) -> FeedbackAnswer:
            doc = document_listing.need(tx, call.tenant, params.document_id, None)
            digest = ""
            if params.chunk is not None:
                digests = document_listing.digests(tx, call.tenant, doc)
                if params.chunk not in digests:
                    raise InvalidDocumentRequest(
                        f"'chunk' must be a chunk of the document: 0 to {doc.chunks - 1}.", parameter="chunk"
                    )
                digest = digests[params.chunk]
            opinion = Opinion(
                doc.id,
                digest,
                call.principal.sub,
                params.chunk,
                params.verdict,
                params.reason,
                params.query,
                now,
            )
            before = get(tx, call.tenant, opinion)
            put(tx, call.tenant, opinion)
            if before is None or replace(before, at=now) != opinion:
                call.audit(tx, doc.id, at=now, reason=params.reason, verdict=params.verdict, chunk=params.chunk)
            tally = of_document(tx, call.tenant, doc.id)
            message = f"Thank you. Your verdict on '{doc.title}' was noted."
            return FeedbackAnswer.of(tally, message=message, document_id=doc.id)

        return await call.commit(self.db, work)

    @RESEARCH.read(
        "feedback_analytics",
        tool=False,
        invalid=errors.invalid_collections,
        text=markdown.analytics,
        cli=Command("kb feedback"),
        example={"collection": "papers"},
    )
    @simple
    async def analytics(self, params: FeedbackAnalytics, call: Call) -> AnalyticsAnswer:
        """What feedback says about the collections, and which documents were no help."""

        def work(tx: Tx) -> AnalyticsAnswer:
            only = collection_store.need(tx, call.tenant, params.collection).id if params.collection else None
            tallies = of_collections(tx, call.tenant, only)
            rows = collection_store.by_ids(tx, call.tenant, [*tallies])
            complained = worst(tx, call.tenant, only, COMPLAINTS)
            docs = get_many(tx, call.tenant, [*complained])
            names = {id: row.name for id, row in rows.items()}
            return AnalyticsAnswer(
                collections=[_tally(row, tallies[row.id]) for row in sorted(rows.values(), key=lambda row: row.name)],
                complaints=[
                    Complaint.of(
                        tally,
                        document=views.brief(docs[id], names),
                        reasons=reasons(tx, call.tenant, id, REASONS),
                    )
                    for id, tally in complained.items()
                ],
            )

        return await self.db.read(work, timeout=call.remaining(READ_TIMEOUT))


def _tally(row: Collection, tally: Tally) -> CollectionTally:
    decided = tally.positive + tally.negative
    share = round(tally.positive / decided, 4) if decided else None
    return CollectionTally.of(tally, collection=row.name, helpful_share=share)
