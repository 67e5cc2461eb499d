"""The SQL of documents and their revisions. Every statement names the tenant. The tree's is in `tree.py`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kho.documents.errors import Deleted, UnknownDocument, UnknownParent
from kho.documents.model import ROOT
from kho.kernel.ports import Row, Tx
from kho.lib import sql
from kho.lib.sql import NOTHING, Table, among

SPACE = "documents"


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """The content of a document at a revision, but for its body."""

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

    def equals(self, other: "DocumentVersion") -> bool:
        """Both have the same content, body and all. To Python 1, 1.0 and True are equal; in JSON they are not."""
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
_DOCUMENTS = Table("documents", Document)
_PLACED = _DOCUMENTS.fields[:-1]
"""What stands in the table of documents; the rest is the revision that it has."""
_REVISIONS = Table("document_revisions", Revision)
_MADE = _REVISIONS.fields[:-1]
COLUMNS = ", ".join([*(f"d.{column}" for column in _PLACED), _VERSIONS.select("r")])
FROM = "documents AS d JOIN document_revisions AS r ON r.tenant = d.tenant AND r.id = d.id AND r.revision = d.revision"
"""What to select, and from where, to read documents with `document_of`."""
_REVISION = f"{', '.join(_MADE)}, {_VERSIONS.columns}"


def document_of(row: Row) -> Document:
    """From a row that begins with COLUMNS."""
    placed, version = row[: len(_PLACED)], row[len(_PLACED) : len(_PLACED) + len(_VERSIONS.fields)]
    return Document(*placed, version=_VERSIONS.read(version))


def get(tx: Tx, tenant: str, id: str) -> Document | None:
    row = tx.one(f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id = $2", tenant, id)
    return None if row is None else document_of(row)


def known(tx: Tx, tenant: str, id: str) -> Document:
    """Also one that is deleted."""
    document = get(tx, tenant, id)
    if document is None:
        raise UnknownDocument(document_id=id)
    return document


def need(tx: Tx, tenant: str, id: str) -> Document:
    document = known(tx, tenant, id)
    if document.deleted:
        raise Deleted(document_id=id)
    return document


def need_parent(tx: Tx, tenant: str, id: str, field: str, *, deleted: bool = False) -> None:
    """Documents can be put below it, or looked for there; with `deleted`, also if it is deleted."""
    parent = None if id == ROOT else get(tx, tenant, id)
    if id != ROOT and (parent is None or (parent.deleted and not deleted)):
        raise UnknownParent(field=field)


def lock(tx: Tx, tenant: str, id: str) -> None:
    """Whoever changes the same document waits from here on, and then sees what this transaction made of it."""
    tx.run("UPDATE documents SET revision = revision WHERE tenant = $1 AND id = $2", tenant, id)


def get_all(tx: Tx, tenant: str, ids: Sequence[str]) -> list[Document]:
    """Those that exist, in the order of the ids."""
    rows = among(tx, f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id", ids, tenant)
    documents = {document.id: document for document in map(document_of, rows)}
    return [documents[id] for id in ids if id in documents]


def insert(tx: Tx, tenant: str, document: Document) -> bool:
    """False: the id is taken."""
    row = {"tenant": tenant, **_DOCUMENTS.write(document, only=_PLACED)}
    return bool(sql.insert(tx, "documents", row, f"(tenant, id) {NOTHING}"))


def add_revision(tx: Tx, tenant: str, id: str, revision: Revision, body: str | None) -> None:
    """`body` is None where it is that of an earlier revision."""
    made = {**_REVISIONS.write(revision, only=_MADE), **_VERSIONS.write(revision.version)}
    sql.insert(tx, "document_revisions", {"tenant": tenant, "id": id, **made})
    if body is not None:
        sql.insert(tx, "document_bodies", {"tenant": tenant, "id": id, "revision": revision.revision, "body": body})


def body(tx: Tx, tenant: str, id: str, revision: int) -> str:
    """`revision` is the one that brought it (`DocumentVersion.body_of`)."""
    row = tx.one(
        "SELECT body FROM document_bodies WHERE tenant = $1 AND id = $2 AND revision = $3", tenant, id, revision
    )
    return row[0] if row else ""


def body_of(tx: Tx, tenant: str, document: Document) -> str:
    return body(tx, tenant, document.id, document.version.body_of)


def revision(tx: Tx, tenant: str, id: str, number: int) -> Revision | None:
    row = tx.one(
        f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision = $3",
        tenant,
        id,
        number,
    )
    return None if row is None else _revision(row)


def history(tx: Tx, tenant: str, id: str, before: int, limit: int) -> list[Revision]:
    """The newest first, older than `before`."""
    rows = tx.all(
        f"SELECT {_REVISION} FROM document_revisions WHERE tenant = $1 AND id = $2 AND revision < $3 "
        "ORDER BY revision DESC LIMIT $4",
        tenant,
        id,
        before,
        limit,
    )
    return [_revision(row) for row in rows]


def beginning_with(tx: Tx, tenant: str, prefix: str, limit: int) -> list[str]:
    rows = tx.all(
        "SELECT id FROM documents WHERE tenant = $1 AND id >= $2 AND id < $3 AND deleted_at IS NULL "
        "ORDER BY id LIMIT $4",
        tenant,
        prefix,
        prefix + "\U0010ffff",
        limit,
    )
    return [id for (id,) in rows]


def by_id(tx: Tx, tenant: str, after: str, limit: int) -> list[Document]:
    """Those that are not deleted, in an order that no change of the tree disturbs."""
    rows = tx.all(
        f"SELECT {COLUMNS} FROM {FROM} WHERE d.tenant = $1 AND d.id > $2 AND d.deleted_at IS NULL "
        "ORDER BY d.id LIMIT $3",
        tenant,
        after,
        limit,
    )
    return [document_of(row) for row in rows]


def _revision(row: Row) -> Revision:
    made, version = row[: len(_MADE)], row[len(_MADE) :]
    return Revision(*made, version=_VERSIONS.read(version))
