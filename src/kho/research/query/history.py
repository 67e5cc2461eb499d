"""The rules of query history: each caller sees what they asked themselves."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.research import errors, markdown, views
from kho.research.contract import READ, READ_TIMEOUT, RESEARCH, simple
from kho.research.errors import InvalidQuery
from kho.research.model import ClearHistory, QueryHistory
from kho.research.query import history_store
from kho.research.results import HistoryAnswer, HistoryCleared, Question
from kho.research.settings import ResearchSettings


@dataclass(slots=True, kw_only=True)
class History:
    db: Database
    clock: Clock
    settings: ResearchSettings
    max_questions: int = 1_000
    """Questions that a tenant keeps, the newest."""

    async def record(
        self, tenant: str, sub: str, query: str, collections: Sequence[str], results: int, best: float, took_us: int
    ) -> None:
        """Notes a question that was answered. To be called after the answer: nobody waits for it."""
        asked = history_store.Question(
            str(uuid.uuid4()), sub, query, [*collections], results, best, took_us, self.clock()
        )
        await self.db.write(lambda tx: history_store.add(tx, tenant, asked, self.max_questions))

    @RESEARCH.read(
        "query_history",
        tool=False,
        invalid=errors.invalid_query,
        text=markdown.history,
        cli=Command("history"),
        example={"limit": 5},
    )
    @simple
    async def history(self, params: QueryHistory, call: Call) -> HistoryAnswer:
        """What you asked lately."""
        after = views.place(params.cursor, InvalidQuery, int, str)

        def work(tx: Tx) -> list[history_store.Question]:
            sub, sought = call.principal.sub, params.filter or ""
            return history_store.page(tx, call.tenant, sub, after, params.limit + 1, sought)

        found = await self.db.read(work, timeout=call.remaining(READ_TIMEOUT))
        shown, more = paging.cut(found, params.limit, lambda last: [last.at, last.id])
        return HistoryAnswer(queries=[_shown(one) for one in shown], next_cursor=more)

    @RESEARCH.destroy(
        "clear_history",
        tool=False,
        scope=READ,
        invalid=errors.invalid_query,
        text=markdown.cleared,
        cli=Command("kb clear-history", final=True),
    )
    @simple
    async def clear_history(self, params: ClearHistory, call: Call) -> HistoryCleared:
        """Forget what you asked."""

        def work(tx: Tx) -> HistoryCleared:
            removed = history_store.clear(tx, call.tenant, call.principal.sub)
            if removed:
                call.audit(tx, call.principal.sub, at=self.clock(), questions=removed)
            return HistoryCleared(message=f"Forgot {removed:,} of your questions.", removed=removed)

        return await call.commit(self.db, work)


def _shown(one: history_store.Question) -> Question:
    return Question.of(one, best_score=round(one.best, 4), took_ms=round(one.took_us / 1000, 1))
