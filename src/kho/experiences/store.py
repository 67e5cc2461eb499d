"""The SQL of experience records. Every statement names the tenant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kho.experiences.rank import Candidate
from kho.kernel.ports import Row, Tx
from kho.search import near
from kho.search.fold import index_tokens
from kho.search.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.refile import pages

SPACE = "experiences"
COLUMNS = (
    "e.id, title, problem_description, root_cause, solution, context, keywords, query_count, helpful, unhelpful, "
    "revision, created_by, created_at, updated_at, deleted_at"
)
FROM = "experiences AS e JOIN experience_uses AS u ON u.tenant = e.tenant AND u.id = e.id"
SELECT = f"SELECT {COLUMNS} FROM {FROM}"
FIELDS = ("title", "problem_description", "root_cause", "solution", "context", "keywords")
"""What a person writes, and an edit may change."""

BATCH = 500
"""Ids in one statement."""


@dataclass(frozen=True, slots=True)
class Experience:
    id: str
    title: str
    problem_description: str
    root_cause: str | None
    solution: str
    context: str | None
    keywords: list[str]
    query_count: int
    helpful: int
    unhelpful: int
    revision: int
    created_by: str
    created_at: int
    updated_at: int
    deleted_at: int | None = None

    @classmethod
    def from_row(cls, row: Row) -> "Experience":
        values: list[Any] = list(row)
        values[6] = orjson.loads(values[6])
        return cls(*values)

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


def gist(experience: Experience) -> set[str]:
    """The words by which near-duplicates are told."""
    return set(index_tokens("\n".join((experience.title, experience.problem_description, experience.solution))))


TITLE, PROBLEM, CAUSE, SOLUTION, CONTEXT = 2.0, 1.0, 1.0, 1.0, 0.7
"""How much a word counts by the field it stands in. Keywords count like the title."""


def document(tenant: str, experience: Experience) -> Document:
    """A record as the search core files it."""
    fields = (
        Field(experience.title, TITLE),
        Field(" ".join(experience.keywords), TITLE),
        Field(experience.problem_description, PROBLEM),
        Field(experience.root_cause or "", CAUSE),
        Field(experience.solution, SOLUTION),
        Field(experience.context or "", CONTEXT),
    )
    return Document(SPACE, tenant, experience.id, [Passage(fields)], created_at=experience.created_at)


all_documents = pages(
    COLUMNS,
    FROM,
    lambda _, row: document(row[0], Experience.from_row(row[2:])),
    place=("e.tenant", "e.id"),
    where="deleted_at IS NULL",
    lock="FOR UPDATE OF e",
)
"""All records of all tenants, for `search.refile`."""


def prepared(tenant: str, experience: Experience) -> Prepared:
    """What the indexes know of a record. Made before the transaction where that is possible: all writes share it."""
    return replace(prepare(document(tenant, experience)), bands=near.bands(gist(experience)))


class Store:
    def __init__(self, index: Index) -> None:
        self._search = index

    def insert(self, tx: Tx, tenant: str, experience: Experience, entry: Prepared) -> None:
        tx.run(
            "INSERT INTO experiences (tenant, id, title, problem_description, root_cause, solution, context, keywords, "
            "revision, created_by, deleted_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
            tenant,
            experience.id,
            experience.title,
            experience.problem_description,
            experience.root_cause,
            experience.solution,
            experience.context,
            orjson.dumps(experience.keywords).decode(),
            experience.revision,
            experience.created_by,
            experience.deleted_at,
        )
        tx.run(
            "INSERT INTO experience_uses (tenant, id, query_count, helpful, unhelpful, created_at, updated_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            tenant,
            experience.id,
            experience.query_count,
            experience.helpful,
            experience.unhelpful,
            experience.created_at,
            experience.updated_at,
        )
        if experience.deleted_at is None:
            self._search.put(tx, [entry])

    def get(self, tx: Tx, tenant: str, id: str) -> Experience | None:
        row = tx.one(f"{SELECT} WHERE e.tenant = $1 AND e.id = $2", tenant, id)
        return Experience.from_row(row) if row else None

    def get_many(self, tx: Tx, tenant: str, ids: Sequence[str]) -> list[Experience]:
        """Those of the ids that exist and are not deleted, in the order asked for."""
        rows = _by_ids(tx, f"{SELECT} WHERE deleted_at IS NULL AND e.tenant = $1 AND e.id", tenant, ids)
        found = {row[0]: Experience.from_row(row) for row in rows}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    def candidates(self, tx: Tx, tenant: str, scores: dict[str, float]) -> list[Candidate]:
        """What the rank needs to know of records that match, by id and relevance."""
        # One row of text per batch: on SQLite, rows by the thousand keep several readers waiting for each other.
        texts = _by_ids(
            tx,
            "SELECT string_agg("
            "id || ' ' || query_count || ' ' || created_at || ' ' || helpful || ' ' || unhelpful, ',') "
            "FROM experience_uses WHERE tenant = $1 AND id",
            tenant,
            list(scores),
        )
        found: list[Candidate] = []
        for text in (part for row in texts if row[0] for part in row[0].split(",")):
            id, *numbers = text.split(" ")
            found.append(Candidate(id, scores[id], *map(int, numbers)))
        return found

    def edit(self, tx: Tx, tenant: str, old: Experience, changes: dict[str, Any], by: str, now: int) -> Experience:
        """Replaces fields of `old`, whose words stay readable as a revision."""
        new = replace(old, **changes, revision=old.revision + 1, updated_at=now)
        tx.run(
            "INSERT INTO experience_revisions (tenant, id, revision, fields, replaced_by, replaced_at) "
            "VALUES ($1, $2, $3, $4, $5, $6)",
            tenant,
            old.id,
            old.revision,
            orjson.dumps(old.fields()).decode(),
            by,
            now,
        )
        tx.run(
            "UPDATE experiences SET title = $1, problem_description = $2, root_cause = $3, solution = $4, "
            "context = $5, keywords = $6, revision = $7 WHERE tenant = $8 AND id = $9",
            new.title,
            new.problem_description,
            new.root_cause,
            new.solution,
            new.context,
            orjson.dumps(new.keywords).decode(),
            new.revision,
            tenant,
            new.id,
        )
        self._touch(tx, tenant, new.id, now)
        self._search.put(tx, [prepared(tenant, new)])
        return new

    def lock(self, tx: Tx, tenant: str, id: str) -> Experience | None:
        """As `get`, and nobody else changes the row before this transaction ends."""
        # A write that changes nothing takes the row lock on both databases, in one portable statement.
        tx.run("UPDATE experiences SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)
        return self.get(tx, tenant, id)

    def revision(self, tx: Tx, tenant: str, id: str, revision: int) -> dict[str, Any] | None:
        row = tx.one(
            "SELECT fields FROM experience_revisions WHERE tenant = $1 AND id = $2 AND revision = $3",
            tenant,
            id,
            revision,
        )
        return orjson.loads(row[0]) if row else None

    def set_deleted(self, tx: Tx, tenant: str, experience: Experience, at: int | None, now: int) -> None:
        tx.run(
            "UPDATE experiences SET deleted_at = $1 WHERE tenant = $2 AND id = $3",
            at,
            tenant,
            experience.id,
        )
        self._touch(tx, tenant, experience.id, now)
        if at is None:
            self._search.put(tx, [prepared(tenant, experience)])
        else:
            self._search.drop(tx, SPACE, tenant, [experience.id])

    def rate(self, tx: Tx, tenant: str, id: str, sub: str, helpful: bool, note: str | None, now: int) -> None:
        tx.run(
            "INSERT INTO experience_feedback (tenant, id, sub, helpful, note, created_at) "
            "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (tenant, id, sub) "
            "DO UPDATE SET helpful = excluded.helpful, note = excluded.note, created_at = excluded.created_at",
            tenant,
            id,
            sub,
            int(helpful),
            note,
            now,
        )
        tx.run(
            """
            UPDATE experience_uses SET
                helpful = (SELECT COUNT(*) FROM experience_feedback WHERE tenant = $1 AND id = $2 AND helpful = 1),
                unhelpful = (SELECT COUNT(*) FROM experience_feedback WHERE tenant = $1 AND id = $2 AND helpful = 0)
            WHERE tenant = $1 AND id = $2
            """,
            tenant,
            id,
        )

    def count_uses(self, tx: Tx, uses: Iterable[tuple[str, str, int]], now: int) -> None:
        """Adds to the query counts of (tenant, id, times). In a fixed order, so that two processes that
        count the same records cannot lock each other out."""
        tx.many(
            "UPDATE experience_uses SET query_count = query_count + $1, updated_at = $2 WHERE tenant = $3 AND id = $4",
            [(times, now, tenant, id) for tenant, id, times in sorted(uses)],
        )

    def page(self, tx: Tx, tenant: str, after: str, limit: int, include_deleted: bool) -> list[Experience]:
        """In the order of ids, for export."""
        alive = "" if include_deleted else " AND deleted_at IS NULL"
        rows = tx.all(
            f"{SELECT} WHERE e.tenant = $1 AND e.id > $2{alive} ORDER BY e.id LIMIT $3",
            tenant,
            after,
            limit,
        )
        return [Experience.from_row(row) for row in rows]

    def similar(self, tx: Tx, entry: Prepared) -> list[Experience]:
        """Records that may be near-duplicates, the likeliest first."""
        return self.get_many(tx, entry.document.tenant, self._search.similar(tx, entry))

    def _touch(self, tx: Tx, tenant: str, id: str, now: int) -> None:
        tx.run("UPDATE experience_uses SET updated_at = $1 WHERE tenant = $2 AND id = $3", now, tenant, id)


def _by_ids(tx: Tx, select: str, tenant: str, ids: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    for start in range(0, len(ids), BATCH):
        batch = ids[start : start + BATCH]
        places = ", ".join(f"${n}" for n in range(2, len(batch) + 2))
        rows += tx.all(f"{select} IN ({places})", tenant, *batch)
    return rows
