"""A document as the search core files it: in its parent's name, so that a search can be narrowed to a part of the tree.

Its title is a label: it is found by it, and a new title costs no new vector. So does neither a new tag nor a move.
"""

import asyncio
from collections.abc import Iterable

from kho.documents import store
from kho.documents.store import SPACE, DocumentVersion
from kho.kernel.ports import Tx
from kho.lib.chunking.chunker import Kind, chunks
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages

FORM = 1
"""Goes up when documents are filed differently: they are then filed anew."""
LONG_BODY = 6_000
"""Characters from which folding a body would hold up the others."""
MIME_TYPES = ("text/markdown", "text/plain", "application/json")
_CUT: dict[str, Kind] = {"text/markdown": "markdown", "text/plain": "text", "application/json": "code"}
JOINT = " > "


def kind_of(mime_type: str, is_human_readable: bool) -> str:
    return f"{mime_type}{'' if is_human_readable else ' hidden'}"


def kinds(mime_type: str | None, is_human_readable: bool | None) -> tuple[str, ...]:
    """The kinds that a search is narrowed to; none where it is not."""
    if mime_type is None and is_human_readable is None:
        return ()
    types = MIME_TYPES if mime_type is None else (mime_type,)
    shown = (True, False) if is_human_readable is None else (is_human_readable,)
    return tuple(kind_of(one, readable) for one in types for readable in shown)


def document(tenant: str, id: str, parent: str, created_at: int, version: DocumentVersion, body: str) -> Document:
    passages = [
        Passage((Field(chunk.text),), JOINT.join(chunk.heading), version.title)
        for chunk in chunks(body, kind=_CUT[version.mime_type])
    ]
    kind = kind_of(version.mime_type, version.is_human_readable)
    return Document(SPACE, tenant, id, passages, parent, kind, version.tags, created_at)


async def prepared(tenant: str, id: str, parent: str, created_at: int, version: DocumentVersion, body: str) -> Prepared:
    def work() -> Prepared:
        return prepare(document(tenant, id, parent, created_at, version, body))

    return work() if len(body) <= LONG_BODY else await asyncio.to_thread(work)


def filed(tx: Tx, tenant: str, one: store.Document) -> Document:
    """From its rows."""
    body = store.body_of(tx, tenant, one)
    return document(tenant, one.id, one.parent, one.created_at, one.version, body)


def drop(tx: Tx, index: Index, tenant: str, found: Iterable[store.Document]) -> None:
    by_parent: dict[str, list[str]] = {}
    for one in found:
        by_parent.setdefault(one.parent, []).append(one.id)
    for parent, ids in by_parent.items():
        index.drop(tx, SPACE, tenant, ids, parent)


all_documents = pages(
    store.COLUMNS,
    store.FROM,
    lambda tx, row: filed(tx, row[0], store.document_of(row[2:])),
    place=("d.tenant", "d.id"),
    where="d.deleted_at IS NULL",
)
"""All documents of all tenants, for `search.indexing.reindex`."""
