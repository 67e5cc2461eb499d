"""The SQL of questions that were asked. Every statement names the tenant."""

from dataclasses import dataclass

from kho.kernel.ports import Tx
from kho.lib.sql import Table
from kho.research import names


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
