"""The SQL of experience records. Every statement names the tenant."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from kho.experiences.ranking import Candidate
from kho.kernel.ports import Tx
from kho.lib.sql import Table, among, insert, replacing, to_json, update
from kho.search.indexing import minhash
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages
from kho.search.text.tokens import index_tokens

SPACE = "experiences"
FIELDS = ("title", "problem_description", "root_cause", "solution", "context", "keywords")
"""What a person writes, and an edit may change."""


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

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


_ROWS = Table("experiences", Experience, json=("keywords",))
_OWN = ("id", *FIELDS, "revision", "created_by", "deleted_at")
"""What stands in the table of records; the rest changes with every query, and has a table of its own."""
_USES = ("id", "query_count", "helpful", "unhelpful", "created_at", "updated_at")
_FROM = "experiences AS e JOIN experience_uses AS u ON u.tenant = e.tenant AND u.id = e.id"
_SELECT = f"SELECT e.{_ROWS.columns} FROM {_FROM}"


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
    f"e.{_ROWS.columns}",
    _FROM,
    lambda _, row: document(row[0], _ROWS.read(row[2:])),
    place=("e.tenant", "e.id"),
    where="deleted_at IS NULL",
    lock="FOR UPDATE OF e",
)
"""All records of all tenants, for `search.indexing.reindex`."""


def prepared(tenant: str, experience: Experience) -> Prepared:
    """What the indexes know of a record. Made before the transaction where that is possible: all writes share it."""
    return replace(prepare(document(tenant, experience)), bands=minhash.bands(gist(experience)))


class Store:
    def __init__(self, index: Index) -> None:
        self._search = index

    def insert(self, tx: Tx, tenant: str, experience: Experience, entry: Prepared) -> None:
        insert(tx, "experiences", {"tenant": tenant, **_ROWS.write(experience, only=_OWN)})
        insert(tx, "experience_uses", {"tenant": tenant, **_ROWS.write(experience, only=_USES)})
        if experience.deleted_at is None:
            self._search.put(tx, [entry])

    def get(self, tx: Tx, tenant: str, id: str) -> Experience | None:
        row = tx.one(f"{_SELECT} WHERE e.tenant = $1 AND e.id = $2", tenant, id)
        return _ROWS.read(row) if row else None

    def get_many(self, tx: Tx, tenant: str, ids: Sequence[str]) -> list[Experience]:
        """Those of the ids that exist and are not deleted, in the order asked for."""
        rows = among(tx, f"{_SELECT} WHERE deleted_at IS NULL AND e.tenant = $1 AND e.id", ids, tenant)
        records = {record.id: record for record in map(_ROWS.read, rows)}
        return [records[id] for id in dict.fromkeys(ids) if id in records]

    def candidates(self, tx: Tx, tenant: str, scores: dict[str, float]) -> list[Candidate]:
        """What the rank needs to know of records that match, by id and relevance."""
        # One row of JSON per batch: on SQLite, rows by the thousand keep several readers waiting for each other.
        array = "json_group_array(json_array({}))" if tx.engine == "sqlite" else "json_agg(json_build_array({}))::text"
        columns = array.format("id, query_count, created_at, helpful, unhelpful")
        rows = among(tx, f"SELECT {columns} FROM experience_uses WHERE tenant = $1 AND id", list(scores), tenant)
        return [Candidate(id, scores[id], *uses) for row in rows if row[0] for id, *uses in orjson.loads(row[0])]

    def edit(self, tx: Tx, tenant: str, old: Experience, changes: dict[str, Any], by: str, now: int) -> Experience:
        """Replaces fields of `old`, whose words stay readable as a revision."""
        new = replace(old, **changes, revision=old.revision + 1, updated_at=now)
        earlier = {"fields": to_json(old.fields()), "replaced_by": by, "replaced_at": now}
        insert(tx, "experience_revisions", {"tenant": tenant, "id": old.id, "revision": old.revision, **earlier})
        update(tx, "experiences", _ROWS.write(new, only=(*FIELDS, "revision")), tenant=tenant, id=new.id)
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
        update(tx, "experiences", {"deleted_at": at}, tenant=tenant, id=experience.id)
        self._touch(tx, tenant, experience.id, now)
        if at is None:
            self._search.put(tx, [prepared(tenant, experience)])
        else:
            self._search.drop(tx, SPACE, tenant, [experience.id])

    def rate(self, tx: Tx, tenant: str, id: str, sub: str, helpful: bool, note: str | None, now: int) -> None:
        verdict = {"helpful": int(helpful), "note": note, "created_at": now}
        insert(
            tx,
            "experience_feedback",
            {"tenant": tenant, "id": id, "sub": sub, **verdict},
            replacing("tenant, id, sub", *verdict),
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
            f"{_SELECT} WHERE e.tenant = $1 AND e.id > $2{alive} ORDER BY e.id LIMIT $3", tenant, after, limit
        )
        return _ROWS.read_all(rows)

    def similar(self, tx: Tx, entry: Prepared) -> list[Experience]:
        """Records that may be near-duplicates, the likeliest first."""
        return self.get_many(tx, entry.document.tenant, self._search.similar(tx, entry))

    def _touch(self, tx: Tx, tenant: str, id: str, now: int) -> None:
        update(tx, "experience_uses", {"updated_at": now}, tenant=tenant, id=id)
