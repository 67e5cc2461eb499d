"""Query history, its rules and its SQL: callers see what they asked themselves. Every statement names the tenant."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.lib.sql import Table
from kho.research import errors, markdown, names, views
from kho.research.contract import READ, READ_TIMEOUT, RESEARCH, simple
from kho.research.errors import InvalidQuery
from kho.research.model import ClearHistory, QueryHistory
from kho.research.results import AskedQuestion, HistoryAnswer, HistoryCleared
from kho.research.settings import ResearchSettings


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


QUESTIONS = Table("research_history", Question, json=("collections",))


def add(tx: Tx, tenant: str, question: Question, keep: int) -> None:
    """Only the newest `keep` questions of a tenant stay."""
    QUESTIONS.insert(tx, question, tenant=tenant)
    oldest = tx.one(
        "SELECT at, id FROM research_history WHERE tenant = $1 ORDER BY at DESC, id DESC LIMIT 1 OFFSET $2",
        tenant,
        keep - 1,
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
        f"SELECT {QUESTIONS.columns} FROM research_history "
        f"WHERE tenant = $1 AND sub = $2{where} ORDER BY at DESC, id DESC",
        tenant,
        sub,
        *values,
    )
    for question in map(QUESTIONS.read, rows):
        if wanted in names.key(question.query):
            found.append(question)
            if len(found) == limit:
                break
    return found


def clear(tx: Tx, tenant: str, sub: str) -> int:
    return tx.run("DELETE FROM research_history WHERE tenant = $1 AND sub = $2", tenant, sub)


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
        asked = Question(str(uuid.uuid4()), sub, query, [*collections], results, best, took_us, self.clock())
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
        """What you asked lately."""
        after = views.place(params.cursor, InvalidQuery, int, str)

        def work(tx: Tx) -> list[Question]:
            sub, sought = call.principal.sub, params.filter or ""
            return page(tx, call.tenant, sub, after, params.limit + 1, sought)

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
            removed = clear(tx, call.tenant, call.principal.sub)
            if removed:
                call.audit(tx, call.principal.sub, at=self.clock(), questions=removed)
            return HistoryCleared(message=f"Forgot {removed:,} of your questions.", removed=removed)

        return await call.commit(self.db, work)


def _shown(one: Question) -> AskedQuestion:
    return AskedQuestion.of(one, best_score=round(one.best, 4), took_ms=round(one.took_us / 1000, 1))
