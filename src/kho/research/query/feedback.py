"""The rules of feedback: a verdict on a result, and what the verdicts say about a collection."""

from dataclasses import dataclass, replace

from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.research import errors, markdown, views
from kho.research.contract import READ_TIMEOUT, RESEARCH, SOME_ID, simple
from kho.research.errors import InvalidDocumentRequest
from kho.research.library import collection_store, document_listing
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import get_many
from kho.research.model import FeedbackAnalytics, SubmitFeedback
from kho.research.query import feedback_store
from kho.research.query.feedback_store import Opinion
from kho.research.results import AnalyticsAnswer, Complaint, FeedbackAnswer, Tally
from kho.research.settings import ResearchSettings

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
            before = feedback_store.get(tx, call.tenant, opinion)
            feedback_store.put(tx, call.tenant, opinion)
            if before is None or replace(before, at=now) != opinion:
                call.audit(tx, doc.id, at=now, reason=params.reason, verdict=params.verdict, chunk=params.chunk)
            tally = feedback_store.of_document(tx, call.tenant, doc.id)
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
            tallies = feedback_store.of_collections(tx, call.tenant, only)
            rows = collection_store.by_ids(tx, call.tenant, [*tallies])
            worst = feedback_store.worst(tx, call.tenant, only, COMPLAINTS)
            docs = get_many(tx, call.tenant, [*worst])
            names = {id: row.name for id, row in rows.items()}
            return AnalyticsAnswer(
                collections=[_tally(row, tallies[row.id]) for row in sorted(rows.values(), key=lambda row: row.name)],
                complaints=[
                    Complaint.of(
                        tally,
                        document=views.brief(docs[id], names),
                        reasons=feedback_store.reasons(tx, call.tenant, id, REASONS),
                    )
                    for id, tally in worst.items()
                ],
            )

        return await self.db.read(work, timeout=call.remaining(READ_TIMEOUT))


def _tally(row: Collection, tally: feedback_store.Tally) -> Tally:
    decided = tally.positive + tally.negative
    share = round(tally.positive / decided, 4) if decided else None
    return Tally.of(tally, collection=row.name, helpful_share=share)
