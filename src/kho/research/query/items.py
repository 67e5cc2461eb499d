"""Converts search hits into result items, with the explanation of their rank."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from kho.kernel.ports import Tx
from kho.research.ingest.indexing import Doc, header_path
from kho.research.library import collection_store, document_store
from kho.research.model import Explanation, Item, Metadata, Neighbour, QueryKnowledgeBase
from kho.research.query.reordering import Placed
from kho.search.answer import highlight
from kho.search.indexing.passages import StoredPassage
from kho.search.query import relevance
from kho.search.query.scoring import ScoreParts


def items(
    tx: Tx,
    tenant: str,
    params: QueryKnowledgeBase,
    places: Sequence[tuple[Placed, StoredPassage]],
    docs: Mapping[str, Doc],
) -> list[Item]:
    """Build the result items. `docs` maps the ids of all these passages' documents."""
    names = collection_store.names_of(tx, tenant, [*docs.values()])
    around = _around(tx, tenant, params.neighbours, [(docs[stored.key], stored.part) for _, stored in places])
    return [
        _item(params, placed, stored, docs[stored.key], names[docs[stored.key].collection_id], around)
        for placed, stored in places
    ]


def _around(tx: Tx, tenant: str, reach: int, found: Sequence[tuple[Doc, int]]) -> dict[str, dict[int, StoredPassage]]:
    """Return the chunks within `reach` of the given ones, by document."""
    wanted: dict[str, tuple[Doc, set[int]]] = {}
    for doc, part in found if reach else ():
        wanted.setdefault(doc.id, (doc, set()))[1].update(range(part - reach, part + reach + 1))
    return {id: document_store.chunks(tx, tenant, doc, numbers) for id, (doc, numbers) in wanted.items()}


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
        metadata=Metadata.of(
            doc,
            document_title=doc.title,
            content_type=doc.content_type(stored.part),
            chunk_sequence_id=stored.part,
            document_id=doc.id,
            collection=collection,
            total_chunks=doc.chunks,
            language=stored.language or None,
            tags=[*doc.tags] or None,
        ),
        explanation=explanation(placed, stored.text, params.query) if params.explain else None,
        highlights=highlights(stored.text, params.query) if params.explain else None,
        neighbours=neighbours,
    )


def _source(doc: Doc) -> str:
    """Return the file's name, or the source of a text."""
    return PurePath(doc.path).name if doc.path else doc.source or doc.title


MAX_WORDS = 5
"""Maximum matched words named in a summary."""
LOW_SHARE, HIGH_SHARE = 0.3, 0.7
"""Thresholds for the wording of a summary: below the first "few" (or "hardly fits"), from the second on "most" (or
"fits")."""
NEAR, FAR = 0.45, 0.2
"""Thresholds of semantic similarity: from the first on "near to", below the second "far from". Related texts score
about 0.5."""


def explanation(placed: Placed, text: str, question: str) -> Explanation:
    parts = placed.ranked.parts
    return Explanation(
        lexical=round(min(1.0, _lexical(parts)), 4),
        semantic=None if parts.meaning is None else round(parts.meaning, 4),
        rerank=round(placed.ranked.score, 4),
        context=None if placed.context is None else round(placed.context, 4),
        feedback=None if placed.verdict is None else round((placed.verdict + 1) / 2, 4),
        summary=_summary(placed, text, question),
    )


def highlights(text: str, question: str) -> list[str]:
    """Return the snippet with the most matches, matched words in bold. Empty if nothing matches."""
    shown, spans = highlight.snippet(text, question)
    if not spans:
        return []
    pieces: list[str] = []
    place = 0
    for start, end in spans:
        pieces += [shown[place:start], f"**{shown[start:end]}**"]
        place = end
    return ["".join([*pieces, shown[place:]])]


def _lexical(parts: ScoreParts) -> float:
    return (parts.words + parts.closeness) / 2 + parts.literal


def _summary(placed: Placed, text: str, question: str) -> str:
    parts = placed.ranked.parts
    words = list(dict.fromkeys(text[start:end].lower() for start, end in highlight.spans(text, question)))
    named = f" ({', '.join(words[:MAX_WORDS])}{'…' if len(words) > MAX_WORDS else ''})" if words else ""
    share = "none" if parts.words <= 0 else _much(parts.words)
    said = [f"It has {share} of the question's words{named}"]
    if parts.literal:
        said.append("contains a phrase or a name of it exactly")
    if parts.meaning is None:
        said.append("was scored by keywords only")
    else:
        said.append(f"is {_near(parts.meaning)} it in meaning")
    if placed.context is not None:
        fits = (
            "fits" if placed.context >= HIGH_SHARE else "hardly fits" if placed.context < LOW_SHARE else "partly fits"
        )
        said.append(f"{fits} the document context")
    if placed.verdict:
        said.append(f"was moved {'up' if placed.verdict > 0 else 'down'} slightly by feedback")
    return f"{', '.join(said[:-1])} and {said[-1]}."


def _much(share: float) -> str:
    return "few" if share < LOW_SHARE else "most" if share >= HIGH_SHARE else "some"


def _near(meaning: float) -> str:
    return "far from" if meaning < FAR else "near to" if meaning >= NEAR else "fairly near to"
