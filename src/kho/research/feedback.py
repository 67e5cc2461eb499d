"""The rules of feedback: a verdict on a result, and what the verdicts say about a collection."""

from kho.kernel.call import Call
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.research import store_collections, store_feedback, store_listing, views
from kho.research.errors import InvalidDocumentRequest
from kho.research.model import FeedbackAnalytics, SubmitFeedback
from kho.research.results import AnalyticsAnswer, Complaint, FeedbackAnswer, Tally
from kho.research.store_collections import Collection
from kho.research.store_documents import get_many
from kho.research.store_feedback import Opinion

PATIENCE = 60.0
"""Seconds at most for what is only looked up. The deadline of the call is usually nearer."""
COMPLAINTS, REASONS = 10, 3
"""Documents that an analysis names, and reasons for each."""


class Feedback:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def submit(self, params: SubmitFeedback, call: Call) -> FeedbackAnswer:
        now = self._clock()

        def work(tx: Tx) -> FeedbackAnswer:
            doc = store_listing.need(tx, call.tenant, params.document_id, None)
            digest = ""
            if params.chunk is not None:
                digests = store_listing.digests(tx, call.tenant, doc)
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
            store_feedback.put(tx, call.tenant, opinion)
            tally = store_feedback.of_document(tx, call.tenant, doc.id)
            return FeedbackAnswer(
                message=f"Thank you. Your verdict on '{doc.title}' was noted.",
                document_id=doc.id,
                positive=tally.positive,
                negative=tally.negative,
                neutral=tally.neutral,
            )

        return await call.commit(self._db, work)

    async def analytics(self, params: FeedbackAnalytics, call: Call) -> AnalyticsAnswer:
        def work(tx: Tx) -> AnalyticsAnswer:
            only = store_collections.need(tx, call.tenant, params.collection).id if params.collection else None
            tallies = store_feedback.of_collections(tx, call.tenant, only)
            rows = store_collections.by_ids(tx, call.tenant, [*tallies])
            worst = store_feedback.worst(tx, call.tenant, only, COMPLAINTS)
            docs = get_many(tx, call.tenant, [*worst])
            names = {id: row.name for id, row in rows.items()}
            return AnalyticsAnswer(
                collections=[_tally(row, tallies[row.id]) for row in sorted(rows.values(), key=lambda row: row.name)],
                complaints=[
                    Complaint(
                        document=views.brief(docs[id], names),
                        negative=tally.negative,
                        positive=tally.positive,
                        reasons=store_feedback.reasons(tx, call.tenant, id, REASONS),
                    )
                    for id, tally in worst.items()
                ],
            )

        return await self._db.read(work, timeout=call.remaining(PATIENCE))


def _tally(row: Collection, tally: store_feedback.Tally) -> Tally:
    decided = tally.positive + tally.negative
    return Tally(
        collection=row.name,
        positive=tally.positive,
        negative=tally.negative,
        neutral=tally.neutral,
        helpful_share=round(tally.positive / decided, 4) if decided else None,
    )
