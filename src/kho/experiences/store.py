"""SQL of experience records. All statements filter by tenant."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson

from kho.experiences.model import FIELDS
from kho.experiences.ranking import Candidate
from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, among, insert, replacing, update
from kho.search.indexing import minhash
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared
from kho.search.indexing.reindex import pages
from kho.search.text.tokens import index_tokens

SPACE = "experiences"


@dataclass(frozen=True, slots=True)
class Experience:
    id: str
    title: str
    problem_description: str
    root_cause: str | None
    solution: str
    context: str | None
    keywords: list[str]
    created_by: str
    created_at: int
    updated_at: int
    """Goes up with every query, too."""
    changed_at: int
    """When it was written, edited, deleted or restored."""
    query_count: int = 0
    helpful: int = 0
    unhelpful: int = 0
    revision: int = 1
    deleted_at: int | None = None

    def fields(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in FIELDS}


@dataclass(frozen=True, slots=True)
class Earlier:
    """What a record said before an edit."""

    id: str
    revision: int
    fields: dict[str, Any]
    replaced_by: str
    replaced_at: int


@dataclass(frozen=True, slots=True)
class Verdict:
    id: str
    sub: str
    helpful: bool
    note: str | None
    created_at: int


_ROWS = Table("experiences", Experience, json=("keywords",))
EARLIER = Table("experience_revisions", Earlier, json=("fields",))
VERDICTS = Table("experience_feedback", Verdict, flags=("helpful",))
_OWN = ("id", *FIELDS, "revision", "created_by", "deleted_at", "changed_at")
"""Columns of the table of records. The others change with every query and are in a table of their own."""
_USES = ("id", "query_count", "helpful", "unhelpful", "created_at", "updated_at")
_FROM = "experiences AS e JOIN experience_uses AS u ON u.tenant = e.tenant AND u.id = e.id"
_SELECT = f"SELECT e.{_ROWS.columns} FROM {_FROM}"


def gist(experience: Experience) -> set[str]:
    """Return the words that near-duplicate detection compares."""
    return set(index_tokens("\n".join((experience.title, experience.problem_description, experience.solution))))


TITLE, PROBLEM, CAUSE, SOLUTION, CONTEXT = 2.0, 1.0, 1.0, 1.0, 0.7
"""Weight of a word by the field it is in. Keywords count like the title."""


def document(tenant: str, experience: Experience) -> Document:
    """Convert a record to a search document."""
    fields = (
        Field(experience.title, TITLE),
        Field(" ".join(experience.keywords), TITLE),
        Field(experience.problem_description, PROBLEM),
        Field(experience.root_cause or "", CAUSE),
        Field(experience.solution, SOLUTION),
        Field(experience.context or "", CONTEXT),
    )
    tags = tuple(experience.keywords)
    return Document(SPACE, tenant, experience.id, [Passage(fields)], tags=tags, created_at=experience.created_at)


all_documents = pages(
    f"e.{_ROWS.columns}",
    _FROM,
    lambda _, row: document(row[0], _ROWS.read(row[2:])),
    place=("e.tenant", "e.id"),
    where="deleted_at IS NULL",
    lock="FOR UPDATE OF e",
)
"""Pages of all records of all tenants, for `search.indexing.reindex`."""


def prepared(index: Index, tenant: str, experience: Experience) -> Prepared:
    """Compute the index entry of a record; before the transaction if possible, because writers wait for each other."""
    return replace(index.prepare(document(tenant, experience)), bands=minhash.bands(gist(experience)))


@dataclass(frozen=True, slots=True)
class Store:
    index: Index

    def insert(self, tx: Tx, tenant: str, experience: Experience, entry: Prepared) -> None:
        insert(tx, "experiences", {"tenant": tenant, **_ROWS.write(experience, only=_OWN)})
        insert(tx, "experience_uses", {"tenant": tenant, **_ROWS.write(experience, only=_USES)})
        if experience.deleted_at is None:
            self.index.put(tx, [entry])

    def get(self, tx: Tx, tenant: str, id: str) -> Experience | None:
        row = tx.one(f"{_SELECT} WHERE e.tenant = $1 AND e.id = $2", tenant, id)
        return _ROWS.read(row) if row else None

    def get_many(self, tx: Tx, tenant: str, ids: Sequence[str]) -> list[Experience]:
        """Return the records that exist and are not deleted, in the order of `ids`."""
        rows = among(tx, f"{_SELECT} WHERE deleted_at IS NULL AND e.tenant = $1 AND e.id", ids, tenant)
        records = {record.id: record for record in map(_ROWS.read, rows)}
        return [records[id] for id in dict.fromkeys(ids) if id in records]

    def candidates(self, tx: Tx, tenant: str, scores: dict[str, float]) -> list[Candidate]:
        """Return what the ranking needs to know of matching records. `scores`: relevance by id."""
        # One JSON row per batch: on SQLite, reading thousands of rows makes concurrent readers wait for each other.
        array = "json_group_array(json_array({}))" if tx.engine == "sqlite" else "json_agg(json_build_array({}))::text"
        columns = array.format("id, query_count, created_at, helpful, unhelpful")
        rows = among(tx, f"SELECT {columns} FROM experience_uses WHERE tenant = $1 AND id", list(scores), tenant)
        return [Candidate(id, scores[id], *uses) for row in rows if row[0] for id, *uses in orjson.loads(row[0])]

    def edit(self, tx: Tx, tenant: str, old: Experience, changes: dict[str, Any], by: str, now: int) -> Experience:
        """Replace fields of `old` and reindex it; the old text is kept as a revision."""
        new = replace(old, **changes, revision=old.revision + 1, updated_at=now, changed_at=now)
        EARLIER.insert(tx, Earlier(old.id, old.revision, old.fields(), by, now), tenant=tenant)
        update(tx, "experiences", _ROWS.write(new, only=(*FIELDS, "revision", "changed_at")), tenant=tenant, id=new.id)
        self._touch(tx, tenant, new.id, now)
        self.index.put(tx, [prepared(self.index, tenant, new)])
        return new

    def lock(self, tx: Tx, tenant: str, id: str) -> Experience | None:
        """Like `get`, and lock the row until the transaction ends."""
        # A no-op UPDATE takes the row lock on both databases, in one portable statement.
        tx.run("UPDATE experiences SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)
        return self.get(tx, tenant, id)

    def revision(self, tx: Tx, tenant: str, id: str, revision: int) -> dict[str, Any] | None:
        sql = "SELECT fields FROM experience_revisions WHERE tenant = $1 AND id = $2 AND revision = $3"
        row = tx.one(sql, tenant, id, revision)
        return orjson.loads(row[0]) if row else None

    def set_deleted(self, tx: Tx, tenant: str, experience: Experience, at: int | None, now: int) -> None:
        update(tx, "experiences", {"deleted_at": at, "changed_at": now}, tenant=tenant, id=experience.id)
        self._touch(tx, tenant, experience.id, now)
        if at is None:
            self.index.put(tx, [prepared(self.index, tenant, experience)])
        else:
            self.index.drop(tx, SPACE, tenant, [experience.id])

    def rate(self, tx: Tx, tenant: str, id: str, sub: str, helpful: bool, note: str | None, now: int) -> None:
        verdict = {"helpful": int(helpful), "note": note, "created_at": now}
        insert(
            tx,
            "experience_feedback",
            {"tenant": tenant, "id": id, "sub": sub, **verdict},
            replacing("tenant, id, sub", *verdict),
        )
        tally(tx, tenant, id)

    def count_uses(self, tx: Tx, uses: Iterable[tuple[str, str, int]], now: int) -> None:
        """Add to query counts; `uses` are (tenant, id, times). Sorted, so that two processes that count the same
        records cannot deadlock."""
        sql = "UPDATE experience_uses SET query_count = query_count + $1, updated_at = $2 WHERE tenant = $3 AND id = $4"
        tx.many(sql, [(times, now, tenant, id) for tenant, id, times in sorted(uses)])

    def page(self, tx: Tx, tenant: str, after: str, limit: int, include_deleted: bool) -> list[Experience]:
        """Page of records ordered by id, for export."""
        alive = "" if include_deleted else " AND deleted_at IS NULL"
        sql = f"{_SELECT} WHERE e.tenant = $1 AND e.id > $2{alive} ORDER BY e.id LIMIT $3"
        return _ROWS.read_all(tx.all(sql, tenant, after, limit))

    def take_earlier(self, tx: Tx, tenant: str, earlier: Earlier) -> bool:
        """Store an earlier revision; for import. False if it is known, or the record has no later one."""
        record = self.get(tx, tenant, earlier.id)
        if record is None or record.revision <= earlier.revision:
            return False
        return bool(EARLIER.insert(tx, earlier, conflict=NOTHING, tenant=tenant))

    def take_verdict(self, tx: Tx, tenant: str, verdict: Verdict) -> bool:
        """Store a verdict; for import. False if there is one of the same caller, or no such record."""
        if self.get(tx, tenant, verdict.id) is None:
            return False
        new = VERDICTS.insert(tx, verdict, conflict=NOTHING, tenant=tenant)
        # An imported record has its counts already; of one that was here there may now be more.
        count = "SELECT COUNT(*) FROM experience_feedback WHERE tenant = $1 AND id = $2 AND helpful = {}"
        for column, value in (("helpful", 1), ("unhelpful", 0)):
            more = f"({count.format(value)})"
            tx.run(
                f"UPDATE experience_uses SET {column} = {more} WHERE tenant = $1 AND id = $2 AND {column} < {more}",
                tenant,
                verdict.id,
            )
        return bool(new)

    def recent(self, tx: Tx, tenant: str, since: int | None, limit: int) -> list[Experience]:
        """The last changed first."""
        changed = f"{_SELECT} WHERE e.tenant = $1 AND changed_at >= $2 AND deleted_at IS NULL"
        return _ROWS.read_all(tx.all(f"{changed} ORDER BY changed_at DESC, e.id LIMIT $3", tenant, since or 0, limit))

    def similar(self, tx: Tx, entry: Prepared) -> list[Experience]:
        """Return candidates for near-duplicates, likeliest first."""
        return self.get_many(tx, entry.document.tenant, self.index.similar(tx, entry))

    def _touch(self, tx: Tx, tenant: str, id: str, now: int) -> None:
        update(tx, "experience_uses", {"updated_at": now}, tenant=tenant, id=id)


def tally(tx: Tx, tenant: str, id: str) -> None:
    """Count a record's verdicts again."""
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
