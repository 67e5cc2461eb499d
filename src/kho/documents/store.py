"""The SQL of documents and their revisions. Every statement names the tenant. The tree's is in `tree.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kho.kernel.ports import Row, Tx

SPACE = "documents"
BATCH = 500
"""Ids in one statement."""
_NOW = (
    "d.id, d.parent, d.place, d.revision, d.created_at, d.updated_at, d.deleted_at, d.deletion, "
    "r.body_of, r.mime_type, r.metadata, r.is_human_readable"
)
_FROM = "documents AS d JOIN document_revisions AS r ON r.tenant = d.tenant AND r.id = d.id AND r.revision = d.revision"
_REVISION = "revision, body_of, mime_type, metadata, is_human_readable, change, made_by, made_at"


@dataclass(frozen=True, slots=True)
class Saying:
    """What a document says, but for its body."""

    body_of: int
    """The revision that brought the body."""
    mime_type: str
    metadata: dict[str, Any]
    is_human_readable: bool

    @property
    def title(self) -> str:
        return self.metadata.get("title", "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("tags", ()))

    def is_as(self, other: "Saying") -> bool:
        """Whether both say the same, body and all. To Python 1, 1.0 and True are equal; in JSON they are not."""
        return self._written() == other._written()

    def _written(self) -> tuple[int, str, bytes, bool]:
        metadata = orjson.dumps(self.metadata, option=orjson.OPT_SORT_KEYS)
        return self.body_of, self.mime_type, metadata, self.is_human_readable


@dataclass(frozen=True, slots=True)
class Document:
    """As it is now."""

    id: str
    parent: str
    place: int
    revision: int
    created_at: int
    updated_at: int
    deleted_at: int | None
    deletion: str | None
    saying: Saying

    @property
    def deleted(self) -> bool:
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Revision:
    revision: int
    saying: Saying
    change: str
    made_by: str
    made_at: int


def columns() -> tuple[str, str]:
    """What to select, and from where, to read documents with `document_of`."""
    return _NOW, _FROM


def document_of(row: Row) -> Document:
    id, parent, place, revision, created_at, updated_at, deleted_at, deletion = row[:8]
    saying = _saying(*row[8:12])
    return Document(id, parent, place, revision, created_at, updated_at, deleted_at, deletion, saying)


def get(tx: Tx, tenant: str, id: str) -> Document | None:
    row = tx.one(f"SELECT {_NOW} FROM {_FROM} WHERE d.tenant = $1 AND d.id = $2", tenant, id)
    return None if row is None else document_of(row)


def lock(tx: Tx, tenant: str, id: str) -> None:
    """Whoever changes the same document waits from here on, and then sees what this transaction made of it."""
    tx.run("UPDATE documents SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)


def get_all(tx: Tx, tenant: str, ids: Sequence[str]) -> list[Document]:
    """Those that exist, in the order of the ids."""
    found: dict[str, Document] = {}
    for start in range(0, len(ids), BATCH):
        some = ids[start : start + BATCH]
        marks = ", ".join(f"${number}" for number in range(2, len(some) + 2))
        rows = tx.all(f"SELECT {_NOW} FROM {_FROM} WHERE d.tenant = $1 AND d.id IN ({marks})", tenant, *some)
        found |= {row[0]: document_of(row) for row in rows}
    return [found[id] for id in ids if id in found]


def insert(tx: Tx, tenant: str, document: Document) -> bool:
    """Whether the id was free."""
    return bool(
        tx.run(
            "INSERT INTO documents (tenant, id, parent, place, revision, created_at, updated_at) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (tenant, id) DO NOTHING",
            tenant,
            document.id,
            document.parent,
            document.place,
            document.revision,
            document.created_at,
            document.updated_at,
        )
    )


def add_revision(tx: Tx, tenant: str, id: str, revision: Revision, body: str | None) -> None:
    """`body` is None where it is that of an earlier revision."""
    saying = revision.saying
    tx.run(
        f"INSERT INTO document_revisions (tenant, id, {_REVISION}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        tenant,
        id,
        revision.revision,
        saying.body_of,
        saying.mime_type,
        orjson.dumps(saying.metadata).decode(),
        int(saying.is_human_readable),
        revision.change,
        revision.made_by,
        revision.made_at,
    )
    if body is not None:
        tx.run(
            "INSERT INTO document_bodies (tenant, id, revision, body) VALUES ($1, $2, $3, $4)",
            tenant,
            id,
            revision.revision,
            body,
        )


def set_revision(tx: Tx, tenant: str, id: str, revision: int, now: int) -> None:
    tx.run(
        "UPDATE documents SET revision = $1, updated_at = $2 WHERE tenant = $3 AND id = $4", revision, now, tenant, id
    )


def body(tx: Tx, tenant: str, id: str, revision: int) -> str:
    """`revision` is the one that brought it (`Saying.body_of`)."""
    row = tx.one(
        "SELECT body FROM document_bodies WHERE tenant = $1 AND id = $2 AND revision = $3", tenant, id, revision
    )
    return row[0] if row else ""


def revision(tx: Tx, tenant: str, id: str, number: int) -> Revision | None:
    row = tx.one(
        f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision = $3",
        tenant,
        id,
        number,
    )
    return None if row is None else _revision(row)


def history(tx: Tx, tenant: str, id: str, before: int, most: int) -> list[Revision]:
    """The newest first, older than `before`."""
    rows = tx.all(
        f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision < $3 "
        "ORDER BY revision DESC LIMIT $4",
        tenant,
        id,
        before,
        most,
    )
    return [_revision(row) for row in rows]


def beginning_with(tx: Tx, tenant: str, beginning: str, most: int) -> list[str]:
    rows = tx.all(
        "SELECT id FROM documents WHERE tenant = $1 AND id >= $2 AND id < $3 AND deleted_at IS NULL "
        "ORDER BY id LIMIT $4",
        tenant,
        beginning,
        beginning + "\U0010ffff",
        most,
    )
    return [row[0] for row in rows]


def by_id(tx: Tx, tenant: str, after: str, most: int) -> list[Document]:
    """Those that are not deleted, in an order that no change of the tree disturbs."""
    rows = tx.all(
        f"SELECT {_NOW} FROM {_FROM} WHERE d.tenant = $1 AND d.id > $2 AND d.deleted_at IS NULL ORDER BY d.id LIMIT $3",
        tenant,
        after,
        most,
    )
    return [document_of(row) for row in rows]


def _saying(body_of: int, mime_type: str, metadata: str, is_human_readable: int) -> Saying:
    return Saying(body_of, mime_type, orjson.loads(metadata), bool(is_human_readable))


def _revision(row: Row) -> Revision:
    return Revision(row[0], _saying(*row[1:5]), *row[5:8])
