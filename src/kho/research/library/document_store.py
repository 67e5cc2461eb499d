"""The SQL of documents: rows, texts and what the search core knows of them, always changed together."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Row, Tx
from kho.lib.sql import among, insert_many, replacing, update
from kho.research.ingest.indexing import DOCUMENTS, SPACE, Doc, Filing, cut, unpack
from kho.research.library import collection_store
from kho.search.indexing.index import Document, Index, Prepared
from kho.search.indexing.reindex import pages

SELECT = f"SELECT {DOCUMENTS.columns} FROM research_documents"
_KEPT = ("id", "created_at")
"""Columns that stay when a document is replaced."""
_REPLACED = ("place", "sought", *(name for name in DOCUMENTS.fields if name not in _KEPT))


@dataclass(frozen=True, slots=True)
class Put:
    doc: Doc
    """As it is kept: its id and first date are those of the document that it replaces."""
    new: bool


@dataclass(frozen=True, slots=True)
class DocumentStore:
    index: Index

    def put_documents(self, tx: Tx, tenant: str, filings: Sequence[Filing], now: int) -> list[Put]:
        """Stores documents, each in place of the one with its id or its place. The id stays, and with it the vectors
        of the passages that are the same."""
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
        """Re-indexes documents from their texts unless they changed meanwhile; returns how many."""
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
        """Returns those that were there."""
        found = get_many(tx, tenant, ids).values()
        collection_store.lock(tx, tenant, [doc.collection_id for doc in found], now)
        docs = list(get_many(tx, tenant, ids).values())  # as they are now that nobody changes them
        self._unfile(tx, tenant, docs)
        for table, column in (
            ("research_feedback", "document_id"),
            ("research_texts", "id"),
            ("research_documents", "id"),
        ):
            tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND {column} = $2", [(tenant, doc.id) for doc in docs])
        return docs

    def move_documents(self, tx: Tx, tenant: str, source: str, moved: Sequence[tuple[Doc, Prepared]], now: int) -> None:
        """Files documents of one collection under another (see `filing.elsewhere`). Whoever calls has made sure that
        their places there are free."""
        docs = sorted((doc for doc, _ in moved), key=lambda doc: doc.id)
        collection_store.lock(tx, tenant, [docs[0].collection_id, source], now)
        tx.many(
            "UPDATE research_documents SET collection_id = $1, updated_at = $2, chunks = $3, kinds = $4, language = $5 "
            "WHERE tenant = $6 AND id = $7",
            [(doc.collection_id, now, doc.chunks, doc.kinds, doc.language, tenant, doc.id) for doc in docs],
        )
        self.index.put(tx, [filed for _, filed in moved], moved_from=source)

    def similar(self, tx: Tx, filing: Filing, limit: int = 10) -> list[Doc]:
        """Documents of its collection that may be near-duplicates, the likeliest first."""
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
    """As the search core files it. What is known of its chunks is brought up to date on the way."""
    tenant, _, *columns, packed, content = row
    before = DOCUMENTS.read(tuple(columns))
    doc, document = cut(tenant, before, unpack(packed, content))
    if doc != before:
        changes = DOCUMENTS.write(doc, only=("chunks", "kinds", "language"))
        update(tx, "research_documents", changes, tenant=tenant, id=doc.id)
    return document


all_documents = pages(
    f"{DOCUMENTS.select('d')}, t.packed, t.text",
    "research_documents AS d JOIN research_texts AS t ON t.tenant = d.tenant AND t.id = d.id",
    _document,
    place=("d.tenant", "d.id"),
    lock="FOR UPDATE OF d",
)
"""All documents of all tenants, for `search.indexing.reindex`."""


def get_many(tx: Tx, tenant: str, ids: Sequence[str], *, lock: bool = False) -> dict[str, Doc]:
    ids = sorted(set(ids))
    rest = " ORDER BY id FOR UPDATE" if lock and tx.engine == "postgres" else ""
    rows = DOCUMENTS.read_all(among(tx, f"{SELECT} WHERE tenant = $1 AND id", ids, tenant, rest=rest))
    return {doc.id: doc for doc in rows}


def at_places(tx: Tx, tenant: str, docs: Sequence[Doc]) -> dict[tuple[str, str], Doc]:
    """The documents that have the places of these, by collection and place."""
    wanted: dict[str, list[str]] = {}
    for doc in docs:
        wanted.setdefault(doc.collection_id, []).append(doc.place)
    found: dict[tuple[str, str], Doc] = {}
    for collection_id, places in wanted.items():
        rows = among(tx, f"{SELECT} WHERE tenant = $1 AND collection_id = $2 AND place", places, tenant, collection_id)
        found.update({(collection_id, doc.place): doc for doc in DOCUMENTS.read_all(rows)})
    return found
