"""The SQL of documents: rows, texts, bands and what the search core knows of them, always changed together."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from kho.kernel.ports import Tx
from kho.research import store_collections
from kho.research.filing import COLUMNS, SPACE, Doc, Filing, cut, from_row, to_row, unpack
from kho.research.store_collections import batched
from kho.search.index import Document, Index, Prepared

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
            ("research_bands", "document_id"),
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
        tx.many(
            "UPDATE research_bands SET collection_id = $1 WHERE tenant = $2 AND document_id = $3",
            [(doc.collection_id, tenant, doc.id) for doc in docs],
        )
        self._index.put(tx, [filed for _, filed in moved], moved_from=source)

    def filed(self, tx: Tx, after: str, limit: int) -> tuple[list[Document], str | None]:
        """A page of all documents of all tenants, as the search core files them, and where the next page begins. What
        is known of their chunks is brought up to date on the way."""
        start = orjson.loads(after) if after else ["", ""]
        rows = tx.all(
            f"SELECT d.tenant, {', '.join('d.' + name for name in _NAMES)}, t.packed, t.text "
            "FROM research_documents AS d JOIN research_texts AS t ON t.tenant = d.tenant AND t.id = d.id "
            "WHERE d.tenant > $1 OR (d.tenant = $1 AND d.id > $2) ORDER BY d.tenant, d.id LIMIT $3"
            + (" FOR UPDATE OF d" if tx.engine == "postgres" else ""),
            *start,
            limit,
        )
        documents: list[Document] = []
        for tenant, *columns, packed, content in rows:
            before = from_row(tuple(columns))
            doc, document = cut(tenant, before, unpack(packed, content))
            documents.append(document)
            if doc != before:
                tx.run(
                    "UPDATE research_documents SET chunks = $1, kinds = $2, language = $3 "
                    "WHERE tenant = $4 AND id = $5",
                    doc.chunks,
                    doc.kinds,
                    doc.language,
                    tenant,
                    doc.id,
                )
        return documents, orjson.dumps(rows[-1][:2]).decode() if len(rows) == limit else None

    def near(self, tx: Tx, tenant: str, collection_id: str, bands: Sequence[int], most: int = 10) -> list[Doc]:
        """Documents of a collection that may be near-duplicates, the likeliest first."""
        if not bands:
            return []
        # A band that many documents share tells nothing: a few of each are enough, and the work stays bounded.
        each = " UNION ALL ".join(
            "SELECT document_id FROM (SELECT document_id FROM research_bands "
            f"WHERE tenant = $1 AND collection_id = $2 AND band = ${n} LIMIT 32) AS b{n}"
            for n in range(3, len(bands) + 3)
        )
        rows = tx.all(
            f"SELECT document_id, count(*) AS shared FROM ({each}) AS shares "
            f"GROUP BY document_id ORDER BY shared DESC, document_id LIMIT ${len(bands) + 3}",
            tenant,
            collection_id,
            *bands,
            most,
        )
        found = get_many(tx, tenant, [row[0] for row in rows])
        return [found[row[0]] for row in rows if row[0] in found]

    def _write(self, tx: Tx, tenant: str, filings: Sequence[Filing], *, anew: bool = False) -> None:
        tx.many(_UPSERT, [(tenant, one.doc.place, one.doc.sought, *to_row(one.doc)) for one in filings])
        tx.many(
            "INSERT INTO research_texts (tenant, id, packed, text) VALUES ($1, $2, $3, $4) "
            "ON CONFLICT (tenant, id) DO UPDATE SET packed = excluded.packed, text = excluded.text",
            [(tenant, one.doc.id, int(one.packed), one.text) for one in filings],
        )
        tx.many(
            "DELETE FROM research_bands WHERE tenant = $1 AND document_id = $2",
            [(tenant, one.doc.id) for one in filings],
        )
        tx.many(
            "INSERT INTO research_bands (tenant, collection_id, band, document_id) VALUES ($1, $2, $3, $4)",
            [(tenant, one.doc.collection_id, band, one.doc.id) for one in filings for band in sorted(set(one.bands))],
        )
        self._index.put(tx, [one.prepared for one in filings], anew=anew)

    def _unfile(self, tx: Tx, tenant: str, docs: Sequence[Doc]) -> None:
        by_collection: dict[str, list[str]] = {}
        for doc in docs:
            by_collection.setdefault(doc.collection_id, []).append(doc.id)
        for collection_id, ids in sorted(by_collection.items()):
            self._index.drop(tx, SPACE, tenant, ids, collection_id)


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
