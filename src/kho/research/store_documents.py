"""The SQL of documents: rows, texts and what the search core knows of them, always changed together."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Row, Tx
from kho.research import store_collections
from kho.research.filing import COLUMNS, SPACE, Doc, Filing, cut, from_row, to_row, unpack
from kho.research.store_collections import batched
from kho.search.indexing.index import Document, Index, Prepared
from kho.search.indexing.reindex import pages

SELECT = f"SELECT {COLUMNS} FROM research_documents"
_NAMES = COLUMNS.split(", ")
_UPSERT = (
    f"INSERT INTO research_documents (tenant, place, sought, {COLUMNS}) "
    f"VALUES ({', '.join(f'${n}' for n in range(1, len(_NAMES) + 4))}) "
    f"ON CONFLICT (tenant, id) DO UPDATE SET place = excluded.place, sought = excluded.sought, "
    f"{', '.join(f'{name} = excluded.{name}' for name in _NAMES if name not in ('id', 'created_at'))}"
)


@dataclass(frozen=True, slots=True)
class Put:
    doc: Doc
    """As it is kept: its id and first date are those of the document that it replaces."""
    new: bool


class DocumentStore:
    def __init__(self, index: Index) -> None:
        self._index = index

    def put_documents(self, tx: Tx, tenant: str, filings: Sequence[Filing], now: int) -> list[Put]:
        """Stores documents, each in place of the one with its id or its place. The id stays, and with it the vectors
        of the passages that are the same."""
        filings = list({(one.doc.collection_id, one.doc.place): one for one in filings}.values())
        if not filings:
            return []
        store_collections.lock(tx, tenant, [one.doc.collection_id for one in filings], now)
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

    def refile(self, tx: Tx, tenant: str, filings: Sequence[Filing]) -> int:
        """Files documents anew from their texts, as far as they are still what they were. How many that is."""
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
        """Those that were there."""
        found = get_many(tx, tenant, ids).values()
        store_collections.lock(tx, tenant, [doc.collection_id for doc in found], now)
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
        store_collections.lock(tx, tenant, [docs[0].collection_id, source], now)
        tx.many(
            "UPDATE research_documents SET collection_id = $1, updated_at = $2, chunks = $3, kinds = $4, language = $5 "
            "WHERE tenant = $6 AND id = $7",
            [(doc.collection_id, now, doc.chunks, doc.kinds, doc.language, tenant, doc.id) for doc in docs],
        )
        self._index.put(tx, [filed for _, filed in moved], moved_from=source)

    def similar(self, tx: Tx, filing: Filing, limit: int = 10) -> list[Doc]:
        """Documents of its collection that may be near-duplicates, the likeliest first."""
        ids = self._index.similar(tx, filing.prepared, limit)
        found = get_many(tx, filing.prepared.document.tenant, ids)
        return [found[id] for id in ids if id in found]

    def _write(self, tx: Tx, tenant: str, filings: Sequence[Filing], *, anew: bool = False) -> None:
        tx.many(_UPSERT, [(tenant, one.doc.place, one.doc.sought, *to_row(one.doc)) for one in filings])
        tx.many(
            "INSERT INTO research_texts (tenant, id, packed, text) VALUES ($1, $2, $3, $4) "
            "ON CONFLICT (tenant, id) DO UPDATE SET packed = excluded.packed, text = excluded.text",
            [(tenant, one.doc.id, int(one.packed), one.text) for one in filings],
        )
        self._index.put(tx, [one.prepared for one in filings], anew=anew)

    def _unfile(self, tx: Tx, tenant: str, docs: Sequence[Doc]) -> None:
        by_collection: dict[str, list[str]] = {}
        for doc in docs:
            by_collection.setdefault(doc.collection_id, []).append(doc.id)
        for collection_id, ids in sorted(by_collection.items()):
            self._index.drop(tx, SPACE, tenant, ids, collection_id)


def _document(tx: Tx, row: Row) -> Document:
    """As the search core files it. What is known of its chunks is brought up to date on the way."""
    tenant, _, *columns, packed, content = row
    before = from_row(tuple(columns))
    doc, document = cut(tenant, before, unpack(packed, content))
    if doc != before:
        tx.run(
            "UPDATE research_documents SET chunks = $1, kinds = $2, language = $3 WHERE tenant = $4 AND id = $5",
            doc.chunks,
            doc.kinds,
            doc.language,
            tenant,
            doc.id,
        )
    return document


all_documents = pages(
    f"{', '.join('d.' + name for name in _NAMES)}, t.packed, t.text",
    "research_documents AS d JOIN research_texts AS t ON t.tenant = d.tenant AND t.id = d.id",
    _document,
    place=("d.tenant", "d.id"),
    lock="FOR UPDATE OF d",
)
"""All documents of all tenants, for `search.indexing.reindex`."""


def get_many(tx: Tx, tenant: str, ids: Sequence[str], *, lock: bool = False) -> dict[str, Doc]:
    ids = sorted(set(ids))
    rest = " ORDER BY id FOR UPDATE" if lock and tx.engine == "postgres" else ""
    return {row[0]: from_row(row) for row in batched(tx, f"{SELECT} WHERE tenant = $1 AND id", (tenant,), ids, rest)}


def at_places(tx: Tx, tenant: str, docs: Sequence[Doc]) -> dict[tuple[str, str], Doc]:
    """What stands where these documents would: by collection and place."""
    wanted: dict[str, list[str]] = {}
    for doc in docs:
        wanted.setdefault(doc.collection_id, []).append(doc.place)
    found: dict[tuple[str, str], Doc] = {}
    for collection_id, places in wanted.items():
        rows = batched(
            tx, f"{SELECT} WHERE tenant = $1 AND collection_id = $2 AND place", (tenant, collection_id), places
        )
        found.update({(collection_id, doc.place): doc for doc in map(from_row, rows)})
    return found
