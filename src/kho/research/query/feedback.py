"""Feedback: verdicts on results, and statistics per collection. Operations and SQL; every statement filters by
tenant."""

from collections.abc import Sequence
from dataclasses import replace

from kho.kernel import Call, Command, Tx
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, among, replacing, where
from kho.research import errors, markdown, views
from kho.research.contract import RESEARCH, SOME_ID, ResearchService, simple
from kho.research.errors import InvalidDocumentRequest
from kho.research.library import collection_store, document_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import get_many
from kho.research.model import AnalyticsAnswer, CollectionTally, Complaint, FeedbackAnswer, OfCollection, SubmitFeedback


@dataclass(frozen=True, slots=True)
class Opinion:
    document_id: str
    digest: str
    """Digest of the passage; empty for a verdict on the whole document."""
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
    """Return the stored verdict that this one would replace."""
    return OPINIONS.find(tx, tenant=tenant, document_id=like.document_id, digest=like.digest, sub=like.sub)


def put(tx: Tx, tenant: str, opinion: Opinion) -> None:
    """Store a verdict. One per caller and passage; a later one replaces it."""
    conflict = replacing(_KEY, "chunk", "verdict", "reason", "query", "at")
    OPINIONS.insert(tx, opinion, conflict=conflict, tenant=tenant)


def of_document(tx: Tx, tenant: str, id: str) -> Tally:
    row = tx.one(f"SELECT {_TALLY} FROM research_feedback AS f WHERE f.tenant = $1 AND f.document_id = $2", tenant, id)
    return Tally(*(number or 0 for number in row or ()))


def of_passages(tx: Tx, tenant: str, document_ids: Sequence[str]) -> dict[tuple[str, str], Tally]:
    """Return the verdicts on documents by document id and passage digest, for the ranking."""
    rows = among(
        tx,
        f"SELECT f.document_id, f.digest, {_TALLY} FROM research_feedback AS f WHERE f.tenant = $1 AND f.document_id",
        document_ids,
        tenant,
        rest=" GROUP BY f.document_id, f.digest",
    )
    return {(row[0], row[1]): Tally(*row[2:]) for row in rows}


def of_collections(tx: Tx, tenant: str, collection_id: str | None) -> dict[str, Tally]:
    """Return the verdicts per collection id; collections without verdicts are left out."""
    return _tallies(tx, "d.collection_id", tenant, collection_id)


def worst(tx: Tx, tenant: str, collection_id: str | None, limit: int) -> dict[str, Tally]:
    """Return the documents with the most negative verdicts, most first."""
    negative = "HAVING sum(CASE WHEN f.verdict = 'negative' THEN 1 ELSE 0 END) > 0"
    return _tallies(tx, "f.document_id", tenant, collection_id, f"{negative} ORDER BY 3 DESC, 2, 1 LIMIT {limit}")


def _tallies(tx: Tx, by: str, tenant: str, collection_id: str | None, rest: str = "") -> dict[str, Tally]:
    only, values = where({"f.tenant =": tenant, "d.collection_id =": collection_id})
    statement = (
        f"SELECT {by}, {_TALLY} FROM research_feedback AS f "
        "JOIN research_documents AS d ON d.tenant = f.tenant AND d.id = f.document_id "
        f"WHERE {only} GROUP BY {by} {rest}"
    )
    return {key: Tally(*numbers) for key, *numbers in tx.all(statement, *values)}


def reasons(tx: Tx, tenant: str, document_id: str, limit: int) -> list[str]:
    """Return the reasons of negative verdicts, the newest first."""
    statement = (
        "SELECT reason FROM research_feedback WHERE tenant = $1 AND document_id = $2 AND verdict = 'negative' "
        "AND reason IS NOT NULL ORDER BY at DESC, sub LIMIT $3"
    )
    return [row[0] for row in tx.all(statement, tenant, document_id, limit)]


COMPLAINTS, REASONS = 10, 3
"""Maximum documents in the analysis, and reasons for each."""


@dataclass(slots=True, kw_only=True)
class Feedback(ResearchService):
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
        """Say whether a result helped; it affects the ranking.

        Call it after you used a result of query_knowledge_base: say whether it helped. The next answers take it into
        account.
        """
        now = self.clock()

        def work(tx: Tx) -> FeedbackAnswer:
            doc = document_store.need(tx, call.tenant, params.document_id, None)
            digest = ""
            if params.chunk is not None:
                digests = document_store.digests(tx, call.tenant, doc)
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
            message = f"Thank you. Your feedback on '{doc.title}' was noted."
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
    async def analytics(self, params: OfCollection, call: Call) -> AnalyticsAnswer:
        """What feedback says about the collections, and which documents were no help."""

        def work(tx: Tx) -> AnalyticsAnswer:
            only = collection_store.need(tx, call.tenant, params.collection).id if params.collection else None
            tallies = of_collections(tx, call.tenant, only)
            rows = collection_store.by_ids(tx, call.tenant, [*tallies])
            complained = worst(tx, call.tenant, only, COMPLAINTS)
            docs = get_many(tx, call.tenant, [*complained])
            names = collection_store.names_of(tx, call.tenant, docs.values())
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

        return await self.read(call, work)


def _tally(row: Collection, tally: Tally) -> CollectionTally:
    decided = tally.positive + tally.negative
    share = round(tally.positive / decided, 4) if decided else None
    return CollectionTally.of(tally, collection=row.name, helpful_share=share)
