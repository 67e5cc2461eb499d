"""SQL of documents and their revisions; that of the tree is in `tree.py`. All statements filter by tenant."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from kho.documents.errors import Deleted, UnknownDocument, UnknownParent
from kho.documents.model import ROOT
from kho.kernel.ports import Row, Tx
from kho.lib import sql
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, among

SPACE = "documents"
REVISIONS = "documents/revisions"
"""Under which the bytes of all bodies are counted."""


def sorted_json(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """The content of a document at a revision, except its body."""

    body_of: int
    """The revision with which the body was stored."""
    mime_type: str
    metadata: dict[str, Any]
    is_human_readable: bool

    @property
    def title(self) -> str:
        return self.metadata.get("title", "")

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(self.metadata.get("tags", ()))

    def equals(self, other: "DocumentVersion") -> bool:
        """True if both have the same content, including the body. Metadata is compared as JSON, because Python treats
        1, 1.0 and True as equal."""
        same = replace(self, metadata={}) == replace(other, metadata={})
        return same and sorted_json(self.metadata) == sorted_json(other.metadata)


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document in its current state."""

    id: str
    parent: str
    place: int
    revision: int
    created_at: int
    updated_at: int
    deleted_at: int | None
    deletion: str | None
    version: DocumentVersion

    @property
    def deleted(self) -> bool:
        return self.deleted_at is not None


@dataclass(frozen=True, slots=True)
class Revision:
    revision: int
    change: str
    made_by: str
    made_at: int
    version: DocumentVersion


_VERSIONS = Table("document_revisions", DocumentVersion, json=("metadata",), flags=("is_human_readable",))
_DOCUMENTS = Table("documents", StoredDocument)
_PLACED = _DOCUMENTS.fields[:-1]
"""Columns of the table of documents; the rest comes from its current revision."""
_REVISIONS = Table("document_revisions", Revision)
_MADE = _REVISIONS.fields[:-1]
COLUMNS = ", ".join([*(f"d.{column}" for column in _PLACED), _VERSIONS.select("r")])
FROM = "documents AS d JOIN document_revisions AS r ON r.tenant = d.tenant AND r.id = d.id AND r.revision = d.revision"
"""Columns and join of a SELECT whose rows `document_of` reads."""
_REVISION = f"{', '.join(_MADE)}, {_VERSIONS.columns}"


def document_of(row: Row) -> StoredDocument:
    """Build a document from a row that begins with COLUMNS."""
    placed, version = row[: len(_PLACED)], row[len(_PLACED) : len(_PLACED) + len(_VERSIONS.fields)]
    return StoredDocument(*placed, version=_VERSIONS.read(version))


def get(tx: Tx, tenant: str, id: str) -> StoredDocument | None:
    row = tx.one(f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id = $2", tenant, id)
    return None if row is None else document_of(row)


def known(tx: Tx, tenant: str, id: str) -> StoredDocument:
    """Return the document, deleted or not, or raise UnknownDocument."""
    document = get(tx, tenant, id)
    if document is None:
        raise UnknownDocument(document_id=id)
    return document


def need(tx: Tx, tenant: str, id: str) -> StoredDocument:
    document = known(tx, tenant, id)
    if document.deleted:
        raise Deleted(document_id=id)
    return document


def need_parent(tx: Tx, tenant: str, id: str, field: str, *, deleted: bool = False) -> None:
    """Raise UnknownParent unless `id` is 'root' or a document; a deleted one counts only with `deleted`."""
    parent = None if id == ROOT else get(tx, tenant, id)
    if id != ROOT and (parent is None or (parent.deleted and not deleted)):
        raise UnknownParent(field=field)


def lock(tx: Tx, tenant: str, id: str) -> None:
    """Lock the document's row: other writers wait for this transaction, and then see its result."""
    tx.run("UPDATE documents SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)


def get_all(tx: Tx, tenant: str, ids: Sequence[str]) -> list[StoredDocument]:
    """Return the documents that exist, deleted or not, in the order of `ids`."""
    rows = among(tx, f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id", ids, tenant)
    documents = {document.id: document for document in map(document_of, rows)}
    return [documents[id] for id in ids if id in documents]


def insert(tx: Tx, tenant: str, document: StoredDocument) -> bool:
    """Insert a document; return False if the id is taken."""
    row = {"tenant": tenant, **_DOCUMENTS.write(document, only=_PLACED)}
    return bool(sql.insert(tx, "documents", row, f"(tenant, id) {NOTHING}"))


def add_revision(tx: Tx, tenant: str, id: str, revision: Revision, body: str | None) -> None:
    """Insert a revision. `body` is None if it is the same as in an earlier revision."""
    made = {**_REVISIONS.write(revision, only=_MADE), **_VERSIONS.write(revision.version)}
    sql.insert(tx, "document_revisions", {"tenant": tenant, "id": id, **made})
    if body is not None:
        sql.insert(tx, "document_bodies", {"tenant": tenant, "id": id, "revision": revision.revision, "body": body})


def size_of(tx: Tx, tenant: str, ids: Sequence[str]) -> int:
    """Return the bytes of all bodies of documents, with those of earlier revisions."""
    rows = among(tx, "SELECT octet_length(body) FROM document_bodies WHERE tenant = $1 AND id", ids, tenant)
    return sum(row[0] for row in rows)


def body(tx: Tx, tenant: str, id: str, revision: int) -> str:
    """Return a body. `revision` is the one it was stored with (`DocumentVersion.body_of`)."""
    row = tx.one(
        "SELECT body FROM document_bodies WHERE tenant = $1 AND id = $2 AND revision = $3", tenant, id, revision
    )
    return row[0] if row else ""


def body_of(tx: Tx, tenant: str, document: StoredDocument) -> str:
    return body(tx, tenant, document.id, document.version.body_of)


def revision(tx: Tx, tenant: str, id: str, number: int) -> Revision | None:
    statement = f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision = $3"
    row = tx.one(statement, tenant, id, number)
    return None if row is None else _revision(row)


def history(tx: Tx, tenant: str, id: str, before: int, limit: int) -> list[Revision]:
    """Return revisions older than `before`, newest first."""
    statement = (
        f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision < $3 "
        "ORDER BY revision DESC LIMIT $4"
    )
    return [_revision(row) for row in tx.all(statement, tenant, id, before, limit)]


def beginning_with(tx: Tx, tenant: str, prefix: str, limit: int) -> list[str]:
    statement = (
        "SELECT id FROM documents WHERE tenant = $1 AND id >= $2 AND id < $3 AND deleted_at IS NULL "
        "ORDER BY id LIMIT $4"
    )
    return [id for (id,) in tx.all(statement, tenant, prefix, prefix + "\U0010ffff", limit)]


def recent(tx: Tx, tenant: str, since: int, limit: int) -> list[StoredDocument]:
    """The last changed first."""
    statement = (
        f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.updated_at >= $2 AND d.deleted_at IS NULL "
        "ORDER BY d.updated_at DESC, d.id LIMIT $3"
    )
    return [document_of(row) for row in tx.all(statement, tenant, since, limit)]


def by_id(tx: Tx, tenant: str, after: str, limit: int) -> list[StoredDocument]:
    """Return documents that are not deleted, ordered by id: an order that changes of the tree do not affect."""
    statement = (
        f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id > $2 AND d.deleted_at IS NULL "
        "ORDER BY d.id LIMIT $3"
    )
    return [document_of(row) for row in tx.all(statement, tenant, after, limit)]


def _revision(row: Row) -> Revision:
    made, version = row[: len(_MADE)], row[len(_MADE) :]
    return Revision(*made, version=_VERSIONS.read(version))
