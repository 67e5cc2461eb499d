"""Finds documents similar to a given one."""

import asyncio

from kho.kernel import Call, Command, SearchFilter, Tx
from kho.kernel.call import Left, until
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research import errors, markdown, views
from kho.research.contract import RESEARCH, ResearchService, query_time
from kho.research.ingest.indexing import SPACE, Doc
from kho.research.library import collection_store, document_store
from kho.research.library.document_store import get_many
from kho.research.model import Brief, Similar, SimilarAnswer, SimilarDocuments
from kho.research.query import document_context
from kho.search.query import relevance
from kho.search.query.searcher import Searcher

LOOKED_AT = 100
"""Maximum passages of other documents that are compared."""
DEEP = 1_000
"""Depth of the search for them: the document's own passages come first."""
ALIKE = 0.15
"""Minimum similarity of a result."""


@dataclass(slots=True, kw_only=True)
class Similarity(ResearchService):
    searcher: Searcher

    @RESEARCH.read(
        "similar_documents",
        invalid=errors.invalid_documents,
        text=markdown.similar,
        cli=Command("similar", ("document",), documents=("document",)),
        example={"document": "attention.pdf", "top_k": 5},
    )
    async def similar(self, params: SimilarDocuments, call: Call) -> SimilarAnswer:
        """Find documents that are like a document.

        Use it to find related work or earlier versions: documents that are like one that you know.
        """
        with query_time(self.clock):
            return await self._similar(params, call.tenant, until(call.remaining(self.settings.query_timeout)))

    async def _similar(self, params: SimilarDocuments, tenant: str, left: Left) -> SimilarAnswer:
        def look(tx: Tx) -> tuple[Doc, Brief, str, tuple[str, ...]]:
            chosen = None if params.collection is None else collection_store.need(tx, tenant, params.collection)
            doc = document_store.need(tx, tenant, params.document, chosen)
            wanted = [collection_store.need(tx, tenant, name).id for name in params.collections or ()]
            text = document_store.texts(tx, tenant, [doc.id]).get(doc.id, "")
            return doc, views.brief(doc, collection_store.names_of(tx, tenant, [doc])), text, tuple(wanted)

        doc, brief, text, wanted = await self.db.read(look, timeout=left())
        where = SearchFilter(SPACE, tenant, wanted)
        gist, words = await asyncio.to_thread(_gist, doc, text)
        rankings = [
            await self.searcher.ranking(where, asked, depth=DEEP, per_key=True, timeout=left())
            for asked in (gist, words)
        ]
        by_key = {one.key: one for ranking in rankings for one in ranking.ranked[: LOOKED_AT + 1] if one.key != doc.id}
        others = list(by_key.values())
        # The document's own passages take up the places that the searcher scores exactly, so score the others now.
        likeness = await self.searcher.likeness(where, gist, [one.seq for one in others], timeout=left())
        scores = {seq: score for seq, score in likeness.items() if score >= ALIKE}
        others = sorted((one for one in others if one.seq in scores), key=lambda one: -scores[one.seq])[: params.top_k]

        def work(tx: Tx) -> list[Similar]:
            docs = get_many(tx, tenant, [one.key for one in others])
            names = collection_store.names_of(tx, tenant, [*docs.values()])
            found: list[Similar] = []
            for one in others:
                if one.key in docs:
                    score = relevance.of_score(scores[one.seq])
                    shown = views.brief(docs[one.key], names)
                    label = relevance.label(score)
                    found.append(Similar(document=shown, relevance_score=score, relevance_label=label))
            return found

        found = await self.db.read(work, timeout=left())
        number = counted(len(found), "document")
        message = f"{number} like '{doc.title}'." if found else f"No other document is like '{doc.title}'."
        return SimilarAnswer(document=brief, results=found, message=message)


def _gist(doc: Doc, text: str) -> tuple[str, str]:
    """Return two queries: the gist, for similar meaning, and the keywords, for shared words."""
    return f"{doc.title}\n{document_context.gist(text, doc.title)}", f"{doc.title} {document_context.keywords(text)}"
