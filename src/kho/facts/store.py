"""The SQL of facts. Every statement names the tenant."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kho.facts.topic import topic_of
from kho.kernel.ports import Tx, Value
from kho.lib.chunking.chunker import chunks
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, among, digest, update
from kho.search.indexing.index import Document, Field, Index, Passage
from kho.search.indexing.reindex import pages

SPACE = "facts"
SHORT = 1_200
"""Characters of a fact that is one passage; a longer one is cut, or the model would not read its end."""
MAX_HISTORY = 500
"""Facts of one history: those that were replaced, and the one that counts."""


@dataclass(frozen=True, slots=True)
class Revision:
    """What somebody said, word by word."""

    id: str
    revision: int
    text: str
    about: str | None
    tags: list[str]
    source: str | None
    expires_at: int | None
    said_by: str
    said_at: int


@dataclass(frozen=True, slots=True)
class Fact(Revision):
    created_at: int
    updated_at: int
    """Changes with every edit, and when it is forgotten, restored or replaced."""
    forgotten_at: int | None = None
    replaced_by: str | None = None

    @property
    def topic(self) -> str:
        return topic_of(self.about)

    def is_expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_current(self, now: int) -> bool:
        """True if searches and lists show it."""
        return self.forgotten_at is None and self.replaced_by is None and not self.is_expired(now)


FACTS = Table("facts", Fact, json=("tags",))
REVISIONS = Table("fact_revisions", Revision, json=("tags",))
_INDEXED = "forgotten_at IS NULL AND replaced_by IS NULL"
_CURRENT = f"{_INDEXED} AND (expires_at IS NULL OR expires_at > {{now}})"


def digest_of(fact: Fact) -> str:
    """Equal for facts that say the same about the same."""
    return digest(fact.topic, fact.text)


def document(tenant: str, fact: Fact) -> Document:
    """A fact as the search core indexes it. Whom it is about belongs to its meaning; tags only help to find it."""
    texts = [fact.text] if len(fact.text) <= SHORT else [chunk.text for chunk in chunks(fact.text)]
    label = " ".join(fact.tags)
    passages = [Passage((Field(text),), fact.about or "", label) for text in texts]
    return Document(SPACE, tenant, fact.id, passages, fact.topic, "", tuple(fact.tags), fact.created_at)


all_documents = pages(
    FACTS.columns, "facts", lambda _, row: document(row[0], FACTS.read(row[2:])), where=_INDEXED, lock="FOR UPDATE"
)
"""All facts of all tenants that can be found, for `search.indexing.reindex`."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which facts a list shows."""

    topic: str | None = None
    tags: Sequence[str] = ()
    since: int | None = None
    until: int | None = None
    expired: bool = False
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class Store:
    index: Index

    def insert(self, tx: Tx, tenant: str, fact: Fact) -> None:
        """Raises UniqueViolation if an equal fact was stored at the same moment."""
        FACTS.insert(tx, fact, tenant=tenant, **_derived(fact))
        self._index(tx, tenant, fact)

    def get(self, tx: Tx, tenant: str, id: str) -> Fact | None:
        return FACTS.find(tx, tenant=tenant, id=id)

    def lock(self, tx: Tx, tenant: str, id: str) -> Fact | None:
        """As `get`, and nobody else changes the row before this transaction ends."""
        # A write that changes nothing takes the row lock on both databases, in one portable statement.
        tx.run("UPDATE facts SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)
        return self.get(tx, tenant, id)

    def lock_equal(self, tx: Tx, tenant: str, wanted: str) -> Fact | None:
        """The fact with this digest, forgotten or not, but not one that was replaced."""
        condition = "tenant = $1 AND digest = $2 AND replaced_by IS NULL"
        tx.run(f"UPDATE facts SET revision = revision WHERE {condition}", tenant, wanted)
        return FACTS.first(tx, condition, tenant, wanted)

    def get_many(self, tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, Fact]:
        rows = among(tx, f"SELECT {FACTS.columns} FROM facts WHERE tenant = $1 AND id", ids, tenant)
        return {fact.id: fact for fact in map(FACTS.read, rows)}

    def edit(self, tx: Tx, tenant: str, old: Fact, changes: dict[str, Any], by: str, now: int) -> Fact:
        """Replaces fields of `old`, which stays readable as a revision. Raises UniqueViolation as `insert` does."""
        REVISIONS.insert(tx, old, tenant=tenant)
        said = {"said_by": by, "said_at": now, "updated_at": now}
        return self._write(tx, tenant, old, replace(old, **changes, **said, revision=old.revision + 1))

    def set_state(self, tx: Tx, tenant: str, old: Fact, now: int, **state: Any) -> Fact:
        """Marks a fact as forgotten, restored or replaced."""
        return self._write(tx, tenant, old, replace(old, **state, updated_at=now))

    def newest(self, tx: Tx, tenant: str, id: str) -> Fact | None:
        """The fact at the end of a chain of replacements; None where the chain leaves this store."""
        row = tx.one(
            "WITH RECURSIVE newer(id) AS (SELECT CAST($1 AS TEXT) UNION SELECT f.replaced_by FROM facts AS f "
            "JOIN newer AS n ON n.id = f.id WHERE f.tenant = $2 AND f.replaced_by IS NOT NULL) "
            "SELECT f.id FROM newer AS n JOIN facts AS f ON f.id = n.id WHERE f.tenant = $3 AND f.replaced_by IS NULL",
            id,
            tenant,
            tenant,
        )
        return None if row is None else self.get(tx, tenant, row[0])

    def chain(self, tx: Tx, tenant: str, id: str) -> list[Fact]:
        """A fact and all that it took the place of, directly or not."""
        rows = tx.all(
            "WITH RECURSIVE older(id) AS (SELECT CAST($1 AS TEXT) UNION SELECT f.id FROM facts AS f "
            "JOIN older AS o ON f.replaced_by = o.id WHERE f.tenant = $2) SELECT id FROM older LIMIT $3",
            id,
            tenant,
            MAX_HISTORY,
        )
        return list(self.get_many(tx, tenant, [row[0] for row in rows]).values())

    def revisions(self, tx: Tx, tenant: str, ids: Sequence[str]) -> list[Revision]:
        """What these facts said before their edits."""
        select = f"SELECT {REVISIONS.columns} FROM fact_revisions WHERE tenant = $1 AND id"
        return REVISIONS.read_all(among(tx, select, ids, tenant))

    def page(
        self, tx: Tx, tenant: str, wanted: Filter, before: tuple[int, str] | None, limit: int, now: int
    ) -> list[Fact]:
        """Newest first. What was replaced is in no list."""
        values: list[Value] = [tenant]

        def param(value: Value) -> str:
            values.append(value)
            return f"${len(values)}"

        conditions = ["tenant = $1", "replaced_by IS NULL"]
        if wanted.topic is not None:
            conditions.append(f"topic = {param(wanted.topic)}")
        has = (
            "EXISTS (SELECT 1 FROM json_each(facts.tags) WHERE value = {})"
            if tx.engine == "sqlite"
            else "tags::jsonb @> to_jsonb(CAST({} AS TEXT))"
        )
        conditions += [has.format(param(tag)) for tag in wanted.tags]
        if wanted.since is not None:
            conditions.append(f"created_at >= {param(wanted.since)}")
        if wanted.until is not None:
            conditions.append(f"created_at < {param(wanted.until)}")
        if not wanted.forgotten:
            conditions.append("forgotten_at IS NULL")
        if not wanted.expired:
            conditions.append(f"(expires_at IS NULL OR expires_at > {param(now)})")
        if before is not None:
            conditions.append(f"(created_at, id) < ({param(before[0])}, {param(before[1])})")
        order = f"ORDER BY created_at DESC, id DESC LIMIT {param(limit)}"
        return FACTS.all(tx, f"{' AND '.join(conditions)} {order}", *values)

    def recent(
        self, tx: Tx, tenant: str, since: int | None, limit: int, now: int, topic: str | None = None
    ) -> list[Fact]:
        """Current facts that were said or changed since then, on all topics or one, the latest first."""
        values: list[Value] = [tenant, since or 0, now] if topic is None else [tenant, since or 0, now, topic]
        on_topic = "" if topic is None else "AND topic = $4"
        condition = f"tenant = $1 AND updated_at >= $2 AND {_CURRENT.format(now='$3')} {on_topic}"
        return FACTS.all(tx, f"{condition} ORDER BY updated_at DESC, id DESC LIMIT ${len(values) + 1}", *values, limit)

    def by_id(self, tx: Tx, tenant: str, after: str, limit: int) -> list[Fact]:
        """Every fact in the order of ids, whatever became of it: for export."""
        return FACTS.all(tx, "tenant = $1 AND id > $2 ORDER BY id LIMIT $3", tenant, after, limit)

    def take_revision(self, tx: Tx, tenant: str, earlier: Revision) -> bool:
        """Store what a fact said earlier; for import. False if it is known, or there is no later revision of the
        fact."""
        fact = self.get(tx, tenant, earlier.id)
        if fact is None or fact.revision <= earlier.revision:
            return False
        return bool(REVISIONS.insert(tx, earlier, conflict=NOTHING, tenant=tenant))

    def beginning_with(self, tx: Tx, tenant: str, start: str, limit: int, now: int) -> list[str]:
        """Ids of current facts, for completion."""
        condition = f"tenant = $1 AND id >= $2 AND id < $3 AND {_CURRENT.format(now='$4')} ORDER BY id LIMIT $5"
        return [fact.id for fact in FACTS.all(tx, condition, tenant, start, f"{start}\U0010ffff", now, limit)]

    def _write(self, tx: Tx, tenant: str, old: Fact, new: Fact) -> Fact:
        update(tx, "facts", {**FACTS.write(new, without=("id",)), **_derived(new)}, tenant=tenant, id=new.id)
        self._index(tx, tenant, new, old.topic)
        return new

    def _index(self, tx: Tx, tenant: str, fact: Fact, before: str | None = None) -> None:
        if fact.forgotten_at is None and fact.replaced_by is None:
            self.index.put(tx, [self.index.prepare(document(tenant, fact))], moved_from=before)
        elif before is not None:
            self.index.drop(tx, SPACE, tenant, [fact.id], before)


def _derived(fact: Fact) -> dict[str, str]:
    return {"topic": fact.topic, "digest": digest_of(fact)}


def merged(old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Tags of both, each once."""
    return list(dict.fromkeys((*old, *new)))
