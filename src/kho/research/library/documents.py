"""Operations on stored documents: list, read, remove, reindex."""

import asyncio
from collections.abc import Sequence

from kho.kernel import Call, Command, SearchFilter, Tx, paging
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research import errors, markdown, views
from kho.research.contract import READ_TIMEOUT, RESEARCH, ResearchService, simple
from kho.research.errors import InvalidDocumentRequest
from kho.research.ingest import indexing, job_store
from kho.research.ingest.indexing import SPACE, Doc
from kho.research.library import collection_store, document_store, project_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import DocumentStore
from kho.research.model import (
    DocumentAnswer,
    DocumentDetails,
    DocumentsAnswer,
    GetKbDocument,
    KnowledgeStatus,
    ListKbDocuments,
    OfCollection,
    Rebuilt,
    RemovedDocument,
    RemoveKbDocument,
)
from kho.search.indexing import passages

REINDEX_BATCH = 20
JOBS = 5
"""Number of jobs shown in a status."""


@dataclass(slots=True, kw_only=True)
class Documents(ResearchService):
    store: DocumentStore
    model: str = ""
    """The embedder's name; empty for keyword search only."""

    @RESEARCH.read(
        "list_kb_documents",
        invalid=errors.invalid_documents,
        text=markdown.documents,
        cli=Command("kb list-documents"),
        example={"collection": "papers", "limit": 20},
    )
    @simple
    async def list_documents(self, params: ListKbDocuments, call: Call) -> DocumentsAnswer:
        """List documents, the last changed first.

        Use it to see what a collection holds, and to find the id of a document.
        """
        after = views.place(params.cursor, InvalidDocumentRequest, int, str)

        def work(tx: Tx) -> DocumentsAnswer:
            chosen = _chosen(tx, call.tenant, params.collection)
            ids, sought = None if chosen is None else [chosen.id], params.filter or ""
            docs = document_store.page(tx, call.tenant, ids, sought, after, params.limit + 1)
            shown, more = paging.cut(docs, params.limit, lambda last: [last.updated_at, last.id])
            names = collection_store.names_of(tx, call.tenant, shown)
            return DocumentsAnswer(
                documents=[views.brief(doc, names) for doc in shown],
                total=document_store.totals(tx, call.tenant, ids, sought).documents,
                next_cursor=more,
            )

        return await self.read(call, work)

    @RESEARCH.read(
        "get_kb_document",
        invalid=errors.invalid_documents,
        text=markdown.document,
        cli=Command("kb show-document", ("document",), documents=("document",)),
        example={"document": "reading.md", "text": True},
    )
    @simple
    async def get_document(self, params: GetKbDocument, call: Call) -> DocumentAnswer:
        """Show a document, with its text if asked for.

        Use it to read a whole document that query_knowledge_base found a passage of.
        """

        def work(tx: Tx) -> DocumentAnswer:
            doc = document_store.need(tx, call.tenant, params.document, _chosen(tx, call.tenant, params.collection))
            text = document_store.texts(tx, call.tenant, [doc.id]).get(doc.id) if params.text else None
            shown = DocumentDetails.of(
                doc,
                collection=collection_store.names_of(tx, call.tenant, [doc])[doc.collection_id],
                content_types=doc.content_types(),
                text=text,
            )
            return DocumentAnswer(document=shown)

        return await self.read(call, work)

    @RESEARCH.destroy(
        "remove_kb_document",
        invalid=errors.invalid_documents,
        text=markdown.message,
        cli=Command(
            "kb remove-document", ("document",), documents=("document",), final=True, looks=("get_kb_document", {})
        ),
        example={"document": "reading.md", "collection": "papers"},
    )
    @simple
    async def remove_document(self, params: RemoveKbDocument, call: Call) -> RemovedDocument:
        """Remove a document from its collection; a file itself stays.

        Use it when a document should no longer be found. Ask the user first.
        """
        now = self.clock()

        def work(tx: Tx) -> RemovedDocument:
            doc = document_store.need(tx, call.tenant, params.document, _chosen(tx, call.tenant, params.collection))
            names = collection_store.names_of(tx, call.tenant, [doc])
            self.store.remove_documents(tx, call.tenant, [doc.id], now)
            call.audit(tx, doc.id, at=now, reason=params.reason, title=doc.title, collection=names[doc.collection_id])
            kept = " The file itself stays." if doc.origin == "file" else ""
            return RemovedDocument(
                message=f"Removed '{doc.title}' ({counted(doc.chunks, 'chunk')}) "
                f"from '{names[doc.collection_id]}'.{kept}",
                document=views.brief(doc, names),
            )

        return await call.commit(self.db, work)

    @RESEARCH.read(
        "knowledge_base_status",
        tool=False,
        invalid=errors.invalid_collections,
        text=markdown.status,
        cli=Command("kb status"),
        example={"collection": "papers"},
    )
    @simple
    async def status(self, params: OfCollection, call: Call) -> KnowledgeStatus:
        """How the knowledge base is: what is in it, what waits for vectors, the last jobs."""

        def work(tx: Tx) -> KnowledgeStatus:
            chosen = _chosen(tx, call.tenant, params.collection)
            ids = None if chosen is None else [chosen.id]
            totals = document_store.totals(tx, call.tenant, ids)
            jobs = job_store.newest(tx, call.tenant, JOBS, chosen.id if chosen else None)
            names = collection_store.names_of(tx, call.tenant, jobs)
            projects, archived = project_store.counts(tx, call.tenant)
            pending = passages.pending(tx, SearchFilter(SPACE, call.tenant, tuple(ids or ()))) if self.model else 0
            return KnowledgeStatus.of(
                totals,
                collections=1 if chosen else collection_store.count(tx, call.tenant),
                projects=projects,
                archived_projects=archived,
                embedder=self.model or "none (keyword search only)",
                vectors_pending=pending,
                problem=passages.problem(tx) if pending else None,
                jobs=[views.job(job, names) for job in jobs],
            )

        return await self.read(call, work)

    @RESEARCH.write(
        "rebuild_index",
        tool=False,
        invalid=errors.invalid_collections,
        text=markdown.message,
        cli=Command("kb rebuild-index"),
        example={"collection": "papers"},
    )
    async def rebuild(self, params: OfCollection, call: Call) -> Rebuilt:
        """Re-index all documents from their stored texts."""
        # One transaction per page: documents stay searchable meanwhile.
        chosen = await self.db.read(lambda tx: _chosen(tx, call.tenant, params.collection), timeout=READ_TIMEOUT)
        ids = None if chosen is None else [chosen.id]
        total = (await self.db.read(lambda tx: document_store.totals(tx, call.tenant, ids))).documents
        done, cut, after = 0, 0, ""
        while page := await self._reindex_page(call.tenant, ids, after):
            after, filed, chunks = page
            done, cut = done + filed, cut + chunks
            await call.progress(done, max(total, done), f"Re-indexed {counted(done, 'document')}")

        def work(tx: Tx) -> Rebuilt:
            if done:
                call.audit(tx, chosen.id if chosen else "", at=self.clock(), documents=done, chunks=cut)
            message = f"Re-indexed {counted(done, 'document')} ({counted(cut, 'chunk')})."
            return Rebuilt(message=message, documents=done, chunks=cut)

        return await call.commit(self.db, work)

    async def _reindex_page(self, tenant: str, ids: Sequence[str] | None, after: str) -> tuple[str, int, int] | None:
        """Reindex a page. Return the last id, the number of documents reindexed and of chunks; None past the end."""

        def look(tx: Tx) -> tuple[Sequence[Doc], dict[str, str]]:
            docs = document_store.by_id(tx, tenant, ids, after, REINDEX_BATCH)
            return docs, document_store.texts(tx, tenant, [doc.id for doc in docs])

        docs, texts = await self.db.read(look)
        if not docs:
            return None
        filings = await asyncio.to_thread(lambda: [indexing.make(tenant, doc, texts[doc.id]) for doc in docs])
        filed = await self.db.write(lambda tx: self.store.reindex(tx, tenant, filings))
        return docs[-1].id, filed, sum(one.doc.chunks for one in filings)


def _chosen(tx: Tx, tenant: str, name: str | None) -> Collection | None:
    return None if name is None else collection_store.need(tx, tenant, name)
