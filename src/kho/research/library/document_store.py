"""SQL of documents: rows, texts and index entries, always changed together. Every statement filters by tenant."""

import uuid
from collections.abc import Container, Sequence
from typing import Any

from kho.kernel.ports import Row, Tx
from kho.lib.dataclass import dataclass
from kho.lib.sql import among, full_id, insert_many, marks, replacing, update
from kho.research import names
from kho.research.errors import AmbiguousDocument, DocumentNotFound
from kho.research.ingest.indexing import DOCUMENTS, SPACE, Doc, Filing, cut, unpack
from kho.research.library import collection_store
from kho.research.library.collection_store import Collection
from kho.search.indexing import passages
from kho.search.indexing.index import Document, Index, Prepared
from kho.search.indexing.passages import StoredPassage
from kho.search.indexing.reindex import pages

SELECT = f"SELECT {DOCUMENTS.columns} FROM research_documents"
CANDIDATES = 5
"""Maximum candidates that an error about an ambiguous name lists."""
_KEPT = ("id", "created_at")
"""Columns that keep their value when a document is replaced."""
_REPLACED = ("place", "sought", *(DOCUMENTS.column(name) for name in DOCUMENTS.fields if name not in _KEPT))


@dataclass(frozen=True, slots=True)
class Put:
    doc: Doc
    """As stored: id and creation date are those of the document it replaces."""
    new: bool


@dataclass(frozen=True, slots=True)
class DocumentStore:
    index: Index

    def put_documents(self, tx: Tx, tenant: str, filings: Sequence[Filing], now: int | None) -> list[Put]:
        """Insert documents, or replace the ones with the same place or id. `now` is set as the time of the last change
        of their collections. A replaced document keeps its id, and so the vectors of unchanged passages."""
        filings = list({(one.doc.collection_id, one.doc.place): one for one in filings}.values())
        if not filings:
            return []
        collection_store.lock(tx, tenant, [one.doc.collection_id for one in filings], now)
        known = get_many(tx, tenant, [one.doc.id for one in filings])
        placed = at_places(tx, tenant, [one.doc for one in filings])
        put: list[Put] = []
        ready: list[Filing] = []
        taken: set[str] = set()
        for filing in filings:
            doc = filing.doc
            before = placed.get((doc.collection_id, doc.place)) or known.get(doc.id)
            if before is not None and (before.collection_id != doc.collection_id or before.id in taken):
                filing, before = filing.under(str(uuid.uuid4()), doc.collection_id, doc.created_at), None
            elif before is not None:
                filing = filing.under(before.id, doc.collection_id, before.created_at)
            taken.add(filing.doc.id)
            put.append(Put(filing.doc, before is None))
            ready.append(filing)
        self._write(tx, tenant, ready)
        return put

    def reindex(self, tx: Tx, tenant: str, filings: Sequence[Filing]) -> int:
        """Reindex documents from their texts, except those that changed meanwhile. Return how many."""
        known = get_many(tx, tenant, [one.doc.id for one in filings], lock=True)
        same = [
            one
            for one in filings
            if (before := known.get(one.doc.id))
            and (before.collection_id, before.hash, before.updated_at)
            == (one.doc.collection_id, one.doc.hash, one.doc.updated_at)
        ]
        self._write(tx, tenant, same, anew=True)
        return len(same)

    def remove_documents(self, tx: Tx, tenant: str, ids: Sequence[str], now: int) -> list[Doc]:
        """Delete documents and return those that existed."""
        found = get_many(tx, tenant, ids).values()
        collection_store.lock(tx, tenant, [doc.collection_id for doc in found], now)
        docs = list(get_many(tx, tenant, ids).values())  # read again now that the collections are locked
        self._unfile(tx, tenant, docs)
        for table, column in (
            ("research_feedback", "document_id"),
            ("research_texts", "id"),
            ("research_documents", "id"),
        ):
            tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND {column} = $2", [(tenant, doc.id) for doc in docs])
        return docs

    def move_documents(self, tx: Tx, tenant: str, source: str, moved: Sequence[tuple[Doc, Prepared]], now: int) -> None:
        """Move documents of one collection to another (see `indexing.elsewhere`). The caller has checked that the
        target holds no documents with the same identity."""
        docs = sorted((doc for doc, _ in moved), key=lambda doc: doc.id)
        collection_store.lock(tx, tenant, [docs[0].collection_id, source], now)
        tx.many(
            "UPDATE research_documents SET collection_id = $1, updated_at = $2, chunks = $3, kinds = $4, language = $5 "
            "WHERE tenant = $6 AND id = $7",
            [(doc.collection_id, now, doc.chunks, doc.kinds, doc.language, tenant, doc.id) for doc in docs],
        )
        self.index.put(tx, [filed for _, filed in moved], moved_from=source)

    def similar(self, tx: Tx, filing: Filing, limit: int = 10) -> list[Doc]:
        """Return documents of its collection that may be near-duplicates, the most similar first."""
        ids = self.index.similar(tx, filing.prepared, limit)
        found = get_many(tx, filing.prepared.document.tenant, ids)
        return [found[id] for id in ids if id in found]

    def _write(self, tx: Tx, tenant: str, filings: Sequence[Filing], *, anew: bool = False) -> None:
        rows = [
            {"tenant": tenant, "place": doc.place, "sought": doc.sought, **DOCUMENTS.write(doc)}
            for doc in (one.doc for one in filings)
        ]
        insert_many(tx, "research_documents", rows, replacing("tenant, id", *_REPLACED))
        texts = [{"tenant": tenant, "id": one.doc.id, "packed": int(one.packed), "text": one.text} for one in filings]
        insert_many(tx, "research_texts", texts, replacing("tenant, id", "packed", "text"))
        self.index.put(tx, [one.prepared for one in filings], anew=anew)

    def _unfile(self, tx: Tx, tenant: str, docs: Sequence[Doc]) -> None:
        by_collection: dict[str, list[str]] = {}
        for doc in docs:
            by_collection.setdefault(doc.collection_id, []).append(doc.id)
        for collection_id, ids in sorted(by_collection.items()):
            self.index.drop(tx, SPACE, tenant, ids, collection_id)


def _document(tx: Tx, row: Row) -> Document:
    """Return the document for the search core; updates the row's chunk columns if they changed."""
    before, doc, document = _cut(row)
    if doc != before:
        changes = DOCUMENTS.write(doc, only=("chunks", "kinds", "language"))
        update(tx, "research_documents", changes, tenant=document.tenant, id=doc.id)
    return document


def _cut(row: Row) -> tuple[Doc, Doc, Document]:
    """Return the document as its row says, as it is cut now, and for the search core."""
    tenant, _, *columns, packed, content = row
    before = DOCUMENTS.read(tuple(columns))
    return before, *cut(tenant, before, unpack(packed, content))


_WITH_TEXTS = (
    f"{DOCUMENTS.select('d')}, t.packed, t.text",
    "research_documents AS d JOIN research_texts AS t ON t.tenant = d.tenant AND t.id = d.id",
)
_PLACE = ("d.tenant", "d.id")
all_documents = pages(*_WITH_TEXTS, _document, place=_PLACE, lock="FOR UPDATE OF d")
"""Pages of all documents of all tenants, for `search.indexing.reindex`."""
readable_documents = pages(*_WITH_TEXTS, lambda _, row: _cut(row)[2], place=_PLACE)
"""The same, to look at only."""


def get_many(tx: Tx, tenant: str, ids: Sequence[str], *, lock: bool = False) -> dict[str, Doc]:
    ids = sorted(set(ids))
    rest = " ORDER BY id FOR UPDATE" if lock and tx.engine == "postgres" else ""
    rows = DOCUMENTS.read_all(among(tx, f"{SELECT} WHERE tenant = $1 AND id", ids, tenant, rest=rest))
    return {doc.id: doc for doc in rows}


def at_places(tx: Tx, tenant: str, docs: Sequence[Doc]) -> dict[tuple[str, str], Doc]:
    """Return stored documents with the same identity as these, by collection and place."""
    wanted: dict[str, list[str]] = {}
    for doc in docs:
        wanted.setdefault(doc.collection_id, []).append(doc.place)
    found: dict[tuple[str, str], Doc] = {}
    for collection_id, places in wanted.items():
        rows = among(tx, f"{SELECT} WHERE tenant = $1 AND collection_id = $2 AND place", places, tenant, collection_id)
        found.update({(collection_id, doc.place): doc for doc in DOCUMENTS.read_all(rows)})
    return found


# -- reading: pages, look-ups by name, texts ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Totals:
    documents: int
    chunks: int
    size_bytes: int
    last_change: int | None


def page(
    tx: Tx, tenant: str, collection_ids: Sequence[str] | None, sought: str, after: tuple[int, str] | None, limit: int
) -> list[Doc]:
    """Return a page, the last changed first, then by id. `collection_ids` None means all collections."""
    if collection_ids is not None and not collection_ids:
        return []
    sql, values = _narrowed(tenant, collection_ids, sought)
    if after is not None:
        n = len(values) + 1
        sql += f" AND (updated_at < ${n} OR (updated_at = ${n} AND id > ${n + 1}))"
        values += after
    return DOCUMENTS.all(tx, f"{sql} ORDER BY updated_at DESC, id LIMIT ${len(values) + 1}", *values, limit)


def recent(tx: Tx, tenant: str, since: int, limit: int) -> list[Doc]:
    """The last changed first."""
    changed = "tenant = $1 AND updated_at >= $2 ORDER BY updated_at DESC, id LIMIT $3"
    return DOCUMENTS.all(tx, changed, tenant, since, limit)


def by_id(tx: Tx, tenant: str, collection_ids: Sequence[str] | None, after: str, limit: int) -> list[Doc]:
    """Return a page in the order of ids, which is stable under changes: for export and reindex."""
    if collection_ids is not None and not collection_ids:
        return []
    sql, values = _narrowed(tenant, collection_ids, "")
    n = len(values) + 1
    return DOCUMENTS.all(tx, f"{sql} AND id > ${n} ORDER BY id LIMIT ${n + 1}", *values, after, limit)


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


def with_hash(tx: Tx, tenant: str, collection_id: str, hash: str) -> list[Doc]:
    """Return documents of a collection made from the same bytes."""
    page = "tenant = $1 AND hash = $2 AND collection_id = $3 ORDER BY created_at, id LIMIT $4"
    return DOCUMENTS.all(tx, page, tenant, hash, collection_id, CANDIDATES)


def texts(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, str]:
    rows = among(tx, "SELECT id, packed, text FROM research_texts WHERE tenant = $1 AND id", ids, tenant)
    return {id: unpack(packed, content) for id, packed, content in rows}


def need(tx: Tx, tenant: str, reference: str, collection: Collection | None) -> Doc:
    """Return the document that an id, a path, the end of a path, or a title means. Errors list candidates."""
    id = full_id(tx, "research_documents", tenant, reference)
    found = get_many(tx, tenant, [id]).get(id)
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
    """Return the digest of each passage, by chunk number."""
    filed = passages.of_keys(tx, SPACE, tenant, doc.collection_id, [doc.id])[doc.id]
    return {part: digest for _, part, digest in filed}


def chunks(tx: Tx, tenant: str, doc: Doc, numbers: Container[int]) -> dict[int, StoredPassage]:
    """Return the chunks with these numbers, as far as they exist."""
    return passages.parts(tx, SPACE, tenant, doc.collection_id, doc.id, numbers)


def _called(doc: Doc, wanted: str) -> bool:
    return wanted in {names.key(one) for one in (doc.path, doc.source, doc.title) if one}


def _ends_in(doc: Doc, wanted: str) -> bool:
    """True if its path ends in this name or path: 'notes/a.md' matches '/home/mai/notes/a.md'."""
    return doc.path is not None and names.key(doc.path).replace("\\", "/").endswith(f"/{wanted}")


def _named(tx: Tx, tenant: str, docs: Sequence[Doc]) -> list[str]:
    """Return ids with name and collection, for a person to choose from."""
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
