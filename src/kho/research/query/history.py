"""Query history. Callers see only their own questions. Operations and SQL; every statement filters by tenant."""

import uuid
from collections.abc import Sequence

from kho.kernel import Call, Command, Tx, paging
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table
from kho.research import errors, markdown, names, views
from kho.research.contract import RESEARCH, ResearchService, simple
from kho.research.errors import InvalidQuery
from kho.research.model import AskedQuestion, ClearHistory, HistoryAnswer, HistoryCleared, QueryHistory
from kho.sanitizer.policy import without_secrets


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    sub: str
    query: str
    collections: list[str]
    """Collection names at the time."""
    results: int
    best: float
    took_us: int
    at: int


QUESTIONS = Table("research_history", Question, json=("collections",))


def add(tx: Tx, tenant: str, question: Question, keep: int) -> None:
    """Insert a question and delete all but the tenant's newest `keep`."""
    QUESTIONS.insert(tx, question, tenant=tenant)
    statement = "SELECT at, id FROM research_history WHERE tenant = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2"
    oldest = tx.one(statement, tenant, keep - 1)
    if oldest is not None:
        tx.run("DELETE FROM research_history WHERE tenant = $1 AND (at < $2 OR (at = $2 AND id < $3))", tenant, *oldest)


def page(tx: Tx, tenant: str, sub: str, after: tuple[int, str] | None, limit: int, sought: str = "") -> list[Question]:
    """Return a caller's own questions, the newest first. Questions are private: nobody reads another's."""
    wanted = names.key(sought)
    where, values = "", list[int | str]()
    if after is not None:
        where, values = " AND (at < $3 OR (at = $3 AND id < $4))", list(after)
    own = QUESTIONS.all(tx, f"tenant = $1 AND sub = $2{where} ORDER BY at DESC, id DESC", tenant, sub, *values)
    return [question for question in own if wanted in names.key(question.query)][:limit]


def clear(tx: Tx, tenant: str, sub: str) -> int:
    return tx.run("DELETE FROM research_history WHERE tenant = $1 AND sub = $2", tenant, sub)


@dataclass(slots=True, kw_only=True)
class History(ResearchService):
    max_questions: int = 1_000
    """Maximum questions kept per tenant."""

    async def record(
        self, tenant: str, sub: str, query: str, collections: Sequence[str], results: int, best: float, took_us: int
    ) -> None:
        """Store an answered question, without its secrets. Called after the answer was sent, so that nobody waits for
        it."""
        text = await without_secrets(query)
        asked = Question(str(uuid.uuid4()), sub, text, [*collections], results, best, took_us, self.clock())
        await self.db.write(lambda tx: add(tx, tenant, asked, self.max_questions))

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
        """Your recent questions."""
        after = views.place(params.cursor, InvalidQuery, int, str)

        def work(tx: Tx) -> list[Question]:
            sub, sought = call.principal.sub, params.filter or ""
            return page(tx, call.tenant, sub, after, params.limit + 1, sought)

        found = await self.read(call, work)
        shown, more = paging.cut(found, params.limit, lambda last: [last.at, last.id])
        return HistoryAnswer(queries=[_shown(one) for one in shown], next_cursor=more)

    @RESEARCH.destroy(
        "clear_history",
        tool=False,
        invalid=errors.invalid_query,
        text=markdown.message,
        cli=Command("kb clear-history", final=True),
    )
    @simple
    async def clear_history(self, params: ClearHistory, call: Call) -> HistoryCleared:
        """Forget what you asked."""

        def work(tx: Tx) -> HistoryCleared:
            removed = clear(tx, call.tenant, call.principal.sub)
            if removed:
                call.audit(tx, call.principal.sub, at=self.clock(), reason=params.reason, questions=removed)
            return HistoryCleared(message=f"Deleted {removed:,} of your questions.", removed=removed)

        return await call.commit(self.db, work)


def _shown(one: Question) -> AskedQuestion:
    return AskedQuestion.of(one, best_score=round(one.best, 4), took_ms=round(one.took_us / 1000, 1))
