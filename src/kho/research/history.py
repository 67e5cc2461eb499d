"""The rules of query history: each caller sees what they asked themselves."""

import uuid
from collections.abc import Sequence

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock, iso
from kho.research import store_history, views
from kho.research.errors import InvalidQuery
from kho.research.model import ClearHistory, QueryHistory
from kho.research.results import HistoryAnswer, HistoryCleared, Question

PATIENCE = 60.0
"""Seconds at most for what is only looked up. The deadline of the call is usually nearer."""


class History:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def record(
        self, tenant: str, sub: str, query: str, collections: Sequence[str], results: int, best: float, took_us: int
    ) -> None:
        """Notes a question that was answered. To be called after the answer: nobody waits for it."""
        asked = store_history.Question(
            str(uuid.uuid4()), sub, query, [*collections], results, best, took_us, self._clock()
        )
        await self._db.write(lambda tx: store_history.add(tx, tenant, asked))

    async def list(self, params: QueryHistory, call: Call) -> HistoryAnswer:
        after = views.place(params.cursor, InvalidQuery, int, str)

        def work(tx: Tx) -> list[store_history.Question]:
            sub, sought = call.principal.sub, params.filter or ""
            return store_history.page(tx, call.tenant, sub, after, params.limit + 1, sought)

        found = await self._db.read(work, timeout=call.remaining(PATIENCE))
        shown = found[: params.limit]
        return HistoryAnswer(
            queries=[_shown(one) for one in shown],
            next_cursor=paging.encode([shown[-1].at, shown[-1].id]) if len(found) > params.limit else None,
        )

    async def clear(self, params: ClearHistory, call: Call) -> HistoryCleared:
        def work(tx: Tx) -> HistoryCleared:
            removed = store_history.clear(tx, call.tenant, call.principal.sub)
            return HistoryCleared(message=f"Forgot {removed:,} of your questions.", removed=removed)

        return await call.commit(self._db, work)


def _shown(one: store_history.Question) -> Question:
    return Question(
        query=one.query,
        collections=one.collections,
        results=one.results,
        best_score=round(one.best, 4),
        took_ms=round(one.took_us / 1000, 1),
        at=iso(one.at),
    )
