"""Reading documents: pages, look-ups by what people call them, texts. Every statement names the tenant."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from kho.kernel.ports import SearchFilter, Tx
from kho.lib.sql import among, marks
from kho.research import names
from kho.research.errors import AmbiguousDocument, DocumentNotFound
from kho.research.ingest.indexing import DOCUMENTS, SPACE, Doc, unpack
from kho.research.library import collection_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import SELECT, get_many
from kho.search.indexing import passages
from kho.search.indexing.passages import StoredPassage

CANDIDATES = 5
"""Documents that an error names when several are meant."""


@dataclass(frozen=True, slots=True)
class Totals:
    documents: int
    chunks: int
    size_bytes: int
    last_change: int | None


def page(
    tx: Tx, tenant: str, collection_ids: Sequence[str] | None, sought: str, after: tuple[int, str] | None, limit: int
) -> list[Doc]:
    """The last changed first, then by id; all collections if none are named."""
    if collection_ids is not None and not collection_ids:
        return []
    sql, values = _narrowed(tenant, collection_ids, sought)
    if after is not None:
        n = len(values) + 1
        sql += f" AND (updated_at < ${n} OR (updated_at = ${n} AND id > ${n + 1}))"
        values += after
    rows = tx.all(f"{SELECT} WHERE {sql} ORDER BY updated_at DESC, id LIMIT ${len(values) + 1}", *values, limit)
    return DOCUMENTS.read_all(rows)


def by_id(tx: Tx, tenant: str, collection_ids: Sequence[str] | None, after: str, limit: int) -> list[Doc]:
    """In the order of ids, which no change disturbs: for export and re-indexing."""
    if collection_ids is not None and not collection_ids:
        return []
    sql, values = _narrowed(tenant, collection_ids, "")
    n = len(values) + 1
    rows = tx.all(f"{SELECT} WHERE {sql} AND id > ${n} ORDER BY id LIMIT ${n + 1}", *values, after, limit)
    return DOCUMENTS.read_all(rows)


def totals(tx: Tx, tenant: str, collection_ids: Sequence[str] | None = None, sought: str = "") -> Totals:
    if collection_ids is not None and not collection_ids:
        return Totals(0, 0, 0, None)
    sql, values = _narrowed(tenant, collection_ids, sought)
    row = tx.one(
        "SELECT count(*), coalesce(sum(chunks), 0), coalesce(sum(size), 0), max(updated_at) "
        f"FROM research_documents WHERE {sql}",
        *values,
    )
    assert row is not None
    return Totals(*row)


def paths(tx: Tx, tenant: str, collection_id: str) -> dict[str, Doc]:
    """All files of a collection, by path: what an ingest compares a folder with."""
    rows = tx.all(
        f"{SELECT} WHERE tenant = $1 AND collection_id = $2 AND path IS NOT NULL ORDER BY id", tenant, collection_id
    )
    return {doc.path: doc for doc in DOCUMENTS.read_all(rows) if doc.path is not None}


def with_hash(tx: Tx, tenant: str, collection_id: str, hash: str) -> list[Doc]:
    """Documents of a collection that were made from the same bytes."""
    rows = tx.all(
        f"{SELECT} WHERE tenant = $1 AND hash = $2 AND collection_id = $3 ORDER BY created_at, id LIMIT $4",
        tenant,
        hash,
        collection_id,
        CANDIDATES,
    )
    return DOCUMENTS.read_all(rows)


def texts(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, str]:
    rows = among(tx, "SELECT id, packed, text FROM research_texts WHERE tenant = $1 AND id", ids, tenant)
    return {id: unpack(packed, content) for id, packed, content in rows}


def need(tx: Tx, tenant: str, reference: str, collection: Collection | None) -> Doc:
    """The document that an id, a path, the end of one, or a title means; the error names candidates."""
    found = get_many(tx, tenant, [reference]).get(reference)
    if found is not None and (collection is None or found.collection_id == collection.id):
        return found
    where = None if collection is None else [collection.id]
    within = "" if collection is None else f" in '{collection.name}'"
    plain = reference.removeprefix("./")
    candidates = page(tx, tenant, where, plain, None, 200)
    wanted = names.key(plain)
    for fits in (_called, _ends_in):
        same = [doc for doc in candidates if fits(doc, wanted)]
        if len(same) == 1:
            return same[0]
        if same:
            raise AmbiguousDocument(
                f"{len(same)} documents{within} are called '{reference}'.", candidates=_named(tx, tenant, same)
            )
    near: dict[str, Any] = {"candidates": _named(tx, tenant, candidates)} if candidates else {}
    raise DocumentNotFound(f"There is no document '{reference}'{within}.", document=reference, **near)


def digests(tx: Tx, tenant: str, doc: Doc) -> dict[int, str]:
    """The digest of each of its passages, by chunk number."""
    filed = passages.of_keys(tx, SPACE, tenant, doc.collection_id, [doc.id])[doc.id]
    return {part: digest for _, part, digest in filed}


def chunks(tx: Tx, tenant: str, doc: Doc, numbers: Container[int]) -> dict[int, StoredPassage]:
    """Some of its chunks, as far as there are any of these numbers: what stands around a result."""
    filed = passages.of_keys(tx, SPACE, tenant, doc.collection_id, [doc.id])[doc.id]
    seqs = [file.seq for file, part, _ in filed if part in numbers]
    found = passages.get(tx, SearchFilter(SPACE, tenant, (doc.collection_id,)), seqs)
    return {one.part: one for one in sorted(found.values(), key=lambda one: one.part)}


def _called(doc: Doc, wanted: str) -> bool:
    return wanted in {names.key(one) for one in (doc.path, doc.source, doc.title) if one}


def _ends_in(doc: Doc, wanted: str) -> bool:
    """Whether its file has this name, or lies in these folders: 'notes/a.md' is '/home/mai/notes/a.md'."""
    return doc.path is not None and names.key(doc.path).replace("\\", "/").endswith(f"/{wanted}")


def _named(tx: Tx, tenant: str, docs: Sequence[Doc]) -> list[str]:
    """Ids with what tells them apart, for a person to choose from."""
    shown = docs[:CANDIDATES]
    collections = collection_store.by_ids(tx, tenant, [doc.collection_id for doc in shown])
    return [f"{doc.id} ({doc.name}, in {collections[doc.collection_id].name})" for doc in shown]


def _narrowed(tenant: str, collection_ids: Sequence[str] | None, sought: str) -> tuple[str, list[str | int]]:
    sql, values = "tenant = $1", list[str | int]([tenant])
    if collection_ids is not None:
        sql += f" AND collection_id IN ({marks(len(collection_ids), 2)})"
        values += collection_ids
    if sought:
        literal = names.key(sought).replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        sql += f" AND sought LIKE ${len(values) + 1} ESCAPE '\\'"
        values.append(f"%{literal}%")
    return sql, values
