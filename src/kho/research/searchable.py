"""Documents of research collections, as `search`, `fetch` and `recent` show them.

The id is the `document_id` that `query_knowledge_base` prints, `#n` its `chunk_sequence_id`.
"""

from collections.abc import Sequence
from typing import Any

from kho.kernel import Call, Database, FoundPassage, Item, Searchable, SearchFilter, Tx, split_passage
from kho.research import KIND
from kho.research.contract import RESEARCH
from kho.research.ingest.indexing import SPACE, Doc, header_path
from kho.research.library import collection_store, document_store
from kho.search.indexing import passages


def searchable(db: Database, timeout: float) -> Searchable:
    async def fetch(call: Call, id: str) -> Item | None:
        return await db.read(lambda tx: _fetched(tx, call.tenant, id), timeout=call.remaining(timeout))

    return Searchable(
        KIND,
        SPACE,
        RESEARCH.read_scope,
        described=_described,
        fetch=fetch,
        recent=_recent,
    )


def _described(tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
    docs = document_store.get_many(tx, tenant, [one.key for one in found])
    names = collection_store.names_of(tx, tenant, docs.values())
    return [
        _item(doc, names, "", passage=one.part, heading=header_path(one.heading, doc.title))
        if (doc := docs.get(one.key)) is not None
        else None
        for one in found
    ]


def _fetched(tx: Tx, tenant: str, id: str) -> Item | None:
    whole, number = split_passage(id)
    doc = document_store.get_many(tx, tenant, [whole]).get(whole)
    if doc is None:
        return None
    names = collection_store.names_of(tx, tenant, [doc])
    if number is None:
        return _item(doc, names, document_store.texts(tx, tenant, [whole])[whole])
    part = document_store.chunks(tx, tenant, doc, {number}).get(number)
    heading = header_path(part.heading, doc.title) if part else ""
    return part and _item(doc, names, part.text, id=id, passage=number, heading=heading)


def _recent(tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
    docs = document_store.recent(tx, where.tenant, where.since or 0, limit)
    names = collection_store.names_of(tx, where.tenant, docs)
    texts = passages.beginnings(tx, SPACE, where.tenant, [(doc.collection_id, doc.id) for doc in docs])
    return [_item(doc, names, texts.get((doc.collection_id, doc.id), "")) for doc in docs]


def _item(doc: Doc, names: dict[str, str], text: str, *, id: str | None = None, **more: Any) -> Item:
    known = {
        "collection": names[doc.collection_id],
        "path": doc.path,
        "source": doc.source,
        "author": doc.author,
        "published": doc.published,
        "tags": [*doc.tags],
        "passages": doc.chunks,
        **more,
    }
    shown = {name: value for name, value in known.items() if value is not None}
    return Item(id or doc.id, doc.title, doc.updated_at, text, shown)
