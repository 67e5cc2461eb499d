"""Places in a list as what a caller reads."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from kho.kernel.ports import Tx
from kho.lib.clock import iso
from kho.research.ingest.indexing import Doc, header_path
from kho.research.library import collection_store, document_listing
from kho.research.model import QueryKnowledgeBase
from kho.research.query import explain, relevance
from kho.research.query.reordering import Placed
from kho.research.results import Item, Metadata, Neighbour
from kho.search.indexing.passages import StoredPassage


def items(
    tx: Tx,
    tenant: str,
    params: QueryKnowledgeBase,
    places: Sequence[tuple[Placed, StoredPassage]],
    docs: Mapping[str, Doc],
) -> list[Item]:
    """`docs` are the documents of all these passages, by id."""
    names = collection_names(tx, tenant, [*docs.values()])
    around = _around(tx, tenant, params.neighbours, [(docs[stored.key], stored.part) for _, stored in places])
    return [
        _item(params, placed, stored, docs[stored.key], names[docs[stored.key].collection_id], around)
        for placed, stored in places
    ]


def collection_names(tx: Tx, tenant: str, docs: Sequence[Doc]) -> dict[str, str]:
    """By id, of the collections that documents are in."""
    ids = sorted({doc.collection_id for doc in docs})
    return {id: row.name for id, row in collection_store.by_ids(tx, tenant, ids).items()}


def _around(tx: Tx, tenant: str, reach: int, found: Sequence[tuple[Doc, int]]) -> dict[str, dict[int, StoredPassage]]:
    """The chunks around some, by document."""
    wanted: dict[str, tuple[Doc, set[int]]] = {}
    for doc, part in found if reach else ():
        wanted.setdefault(doc.id, (doc, set()))[1].update(range(part - reach, part + reach + 1))
    return {id: document_listing.chunks(tx, tenant, doc, numbers) for id, (doc, numbers) in wanted.items()}


def _item(
    params: QueryKnowledgeBase,
    placed: Placed,
    stored: StoredPassage,
    doc: Doc,
    collection: str,
    around: Mapping[str, dict[int, StoredPassage]],
) -> Item:
    neighbours = None
    if params.neighbours:
        chunks = around[doc.id]
        near = range(stored.part - params.neighbours, stored.part + params.neighbours + 1)
        neighbours = [
            Neighbour(
                chunk_sequence_id=number,
                header_path=header_path(chunks[number].heading, doc.title),
                content=chunks[number].text,
            )
            for number in near
            if number != stored.part and number in chunks
        ]
    return Item(
        content=stored.text,
        relevance_score=placed.relevance,
        relevance_label=relevance.label(placed.relevance),
        source_document=_source(doc),
        header_path=header_path(stored.heading, doc.title),
        metadata=Metadata(
            document_title=doc.title,
            content_type=doc.content_type(stored.part),
            chunk_sequence_id=stored.part,
            document_id=doc.id,
            collection=collection,
            total_chunks=doc.chunks,
            path=doc.path,
            source=doc.source,
            format=doc.format,
            language=stored.language or None,
            tags=[*doc.tags] or None,
            author=doc.author,
            published=doc.published,
            updated_at=iso(doc.updated_at),
        ),
        explanation=explain.explanation(placed, stored.text, params.query) if params.explain else None,
        highlights=explain.highlights(stored.text, params.query) if params.explain else None,
        neighbours=neighbours,
    )


def _source(doc: Doc) -> str:
    """The file's name, or where the text comes from."""
    return PurePath(doc.path).name if doc.path else doc.source or doc.title
