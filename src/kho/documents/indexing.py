"""Convert documents to search documents: collection = parent id, so that a search can be limited to a part of the tree.

The title is a label: searchable, but not part of the embedded text. So a new title, a new tag or a move needs no new
embedding.
"""

import asyncio
from collections.abc import Callable, Iterable

from kho.documents import store
from kho.documents.store import SPACE, DocumentVersion
from kho.kernel.ports import Tx
from kho.lib.chunking.chunker import Kind, chunks
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.indexing.reindex import pages

FORM = 1
"""Index format version: increase it when documents are indexed differently, and all are reindexed."""
LONG_BODY = 6_000
"""Length in characters above which a body is prepared in a thread, so as not to block the event loop."""
MIME_TYPES = ("text/markdown", "text/plain", "application/json")
_CUT: dict[str, Kind] = {"text/markdown": "markdown", "text/plain": "text", "application/json": "code"}
JOINT = " > "


def kind_of(mime_type: str, is_human_readable: bool) -> str:
    return f"{mime_type}{'' if is_human_readable else ' hidden'}"


def kinds(mime_type: str | None, is_human_readable: bool | None) -> tuple[str, ...]:
    """Return the kinds that a search is limited to; empty for no limit."""
    if mime_type is None and is_human_readable is None:
        return ()
    types = MIME_TYPES if mime_type is None else (mime_type,)
    shown = (True, False) if is_human_readable is None else (is_human_readable,)
    return tuple(kind_of(one, readable) for one in types for readable in shown)


def document(
    tenant: str, id: str, parent: str, created_at: int, version: DocumentVersion, body: str, most: int = 0
) -> Document:
    passages = [
        Passage((Field(chunk.text),), JOINT.join(chunk.heading), version.title)
        for chunk in chunks(body, kind=_CUT[version.mime_type], most=most)
    ]
    kind = kind_of(version.mime_type, version.is_human_readable)
    return Document(SPACE, tenant, id, passages, parent, kind, version.tags, created_at)


async def prepared(tenant: str, id: str, parent: str, created_at: int, version: DocumentVersion, body: str) -> Prepared:
    """Prepare a body that is stored already."""

    def work() -> Prepared:
        return prepare(document(tenant, id, parent, created_at, version, body))

    return await _off_the_loop(work, body)


async def checked(
    index: Index, tenant: str, id: str, parent: str, created_at: int, version: DocumentVersion, body: str
) -> Prepared:
    """Prepare a body that is new: it may be refused."""

    def work() -> Prepared:
        return index.prepare(document(tenant, id, parent, created_at, version, body, index.most_passages))

    return await _off_the_loop(work, body)


async def _off_the_loop(work: Callable[[], Prepared], body: str) -> Prepared:
    return work() if len(body) <= LONG_BODY else await asyncio.to_thread(work)


def filed(tx: Tx, tenant: str, one: store.StoredDocument) -> Document:
    """Build the search document of a stored document."""
    body = store.body_of(tx, tenant, one)
    return document(tenant, one.id, one.parent, one.created_at, one.version, body)


def drop(tx: Tx, index: Index, tenant: str, found: Iterable[store.StoredDocument]) -> None:
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
"""Pages of all documents of all tenants, for `search.indexing.reindex`."""
