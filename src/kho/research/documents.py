"""The rules of documents that are here already: listing, reading, removing, filing them anew."""

import asyncio
from collections.abc import Sequence

from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.ports import Database, SearchFilter, Tx
from kho.lib.clock import Clock, iso
from kho.lib.markdown import counted
from kho.research import filing, store_collections, store_jobs, store_listing, store_projects, views
from kho.research.errors import InvalidDocumentRequest
from kho.research.filing import SPACE, Doc
from kho.research.model import GetDocument, KbStatus, ListDocuments, RebuildIndex, RemoveDocument
from kho.research.results import DocumentAnswer, DocumentsAnswer, Rebuilt, Removed, Status
from kho.research.store_collections import Collection
from kho.research.store_documents import DocumentStore
from kho.search.indexing import passages

PATIENCE = 60.0
"""Seconds at most for what is only looked up. The deadline of the call is usually nearer."""
REFILED_AT_ONCE = 20
JOBS = 5
"""Jobs that a status names."""


class Documents:
    def __init__(self, db: Database, documents: DocumentStore, clock: Clock, model: str = "") -> None:
        """`model` is the embedder's name; empty for keyword search only."""
        self._db = db
        self._documents = documents
        self._clock = clock
        self._model = model

    async def list(self, params: ListDocuments, call: Call) -> DocumentsAnswer:
        after = views.place(params.cursor, InvalidDocumentRequest, int, str)

        def work(tx: Tx) -> DocumentsAnswer:
            chosen = _chosen(tx, call.tenant, params.collection)
            ids, sought = None if chosen is None else [chosen.id], params.filter or ""
            docs = store_listing.page(tx, call.tenant, ids, sought, after, params.limit + 1)
            shown, more = docs[: params.limit], len(docs) > params.limit
            names = _names(tx, call.tenant, shown)
            return DocumentsAnswer(
                documents=[views.brief(doc, names) for doc in shown],
                total=store_listing.totals(tx, call.tenant, ids, sought).documents,
                next_cursor=paging.encode([shown[-1].updated_at, shown[-1].id]) if more else None,
            )

        return await self._db.read(work, timeout=call.remaining(PATIENCE))

    async def get(self, params: GetDocument, call: Call) -> DocumentAnswer:
        def work(tx: Tx) -> DocumentAnswer:
            doc = store_listing.need(tx, call.tenant, params.document, _chosen(tx, call.tenant, params.collection))
            text = store_listing.texts(tx, call.tenant, [doc.id]).get(doc.id) if params.text else None
            return DocumentAnswer(document=views.document(doc, _names(tx, call.tenant, [doc]), text))

        return await self._db.read(work, timeout=call.remaining(PATIENCE))

    async def remove(self, params: RemoveDocument, call: Call) -> Removed:
        now = self._clock()

        def work(tx: Tx) -> Removed:
            doc = store_listing.need(tx, call.tenant, params.document, _chosen(tx, call.tenant, params.collection))
            names = _names(tx, call.tenant, [doc])
            self._documents.remove_documents(tx, call.tenant, [doc.id], now)
            kept = " The file itself stays." if doc.origin == "file" else ""
            return Removed(
                message=f"Removed '{doc.title}' ({counted(doc.chunks, 'chunk')}) "
                f"from '{names[doc.collection_id]}'.{kept}",
                document=views.brief(doc, names),
            )

        return await call.commit(self._db, work)

    async def rebuild(self, params: RebuildIndex, call: Call) -> Rebuilt:
        """A page at a time, each in a transaction of its own: documents stay findable all the while."""
        chosen = await self._db.read(lambda tx: _chosen(tx, call.tenant, params.collection), timeout=PATIENCE)
        ids = None if chosen is None else [chosen.id]
        total = (await self._db.read(lambda tx: store_listing.totals(tx, call.tenant, ids))).documents
        done, cut, after = 0, 0, ""
        while page := await self._refile_page(call.tenant, ids, after):
            after, filed, chunks = page
            done, cut = done + filed, cut + chunks
            await call.progress(done, max(total, done), f"Re-indexed {counted(done, 'document')}")
        message = f"Re-indexed {counted(done, 'document')} ({counted(cut, 'chunk')})."
        return Rebuilt(message=message, documents=done, chunks=cut)

    async def _refile_page(self, tenant: str, ids: Sequence[str] | None, after: str) -> tuple[str, int, int] | None:
        """The last document of the page, how many were filed, and their chunks. None past the end."""

        def look(tx: Tx) -> tuple[Sequence[Doc], dict[str, str]]:
            docs = store_listing.by_id(tx, tenant, ids, after, REFILED_AT_ONCE)
            return docs, store_listing.texts(tx, tenant, [doc.id for doc in docs])

        docs, texts = await self._db.read(look)
        if not docs:
            return None
        filings = await asyncio.to_thread(lambda: [filing.make(tenant, doc, texts[doc.id]) for doc in docs])
        filed = await self._db.write(lambda tx: self._documents.refile(tx, tenant, filings))
        return docs[-1].id, filed, sum(one.doc.chunks for one in filings)

    async def status(self, params: KbStatus, call: Call) -> Status:
        def work(tx: Tx) -> Status:
            chosen = _chosen(tx, call.tenant, params.collection)
            ids = None if chosen is None else [chosen.id]
            totals = store_listing.totals(tx, call.tenant, ids)
            jobs = store_jobs.newest(tx, call.tenant, JOBS, chosen.id if chosen else None)
            named = store_collections.by_ids(tx, call.tenant, [job.collection_id for job in jobs if job.collection_id])
            names = {id: row.name for id, row in named.items()}
            projects, archived = store_projects.counts(tx, call.tenant)
            pending = passages.pending(tx, SearchFilter(SPACE, call.tenant, tuple(ids or ()))) if self._model else 0
            return Status(
                collections=1 if chosen else store_collections.count(tx, call.tenant),
                documents=totals.documents,
                chunks=totals.chunks,
                size_bytes=totals.bytes,
                projects=projects,
                archived_projects=archived,
                embedder=self._model or "none (search by words)",
                vectors_pending=pending,
                problem=passages.problem(tx) if pending else None,
                last_change=None if totals.last_change is None else iso(totals.last_change),
                jobs=[views.job(job, names) for job in jobs],
            )

        return await self._db.read(work, timeout=call.remaining(PATIENCE))


def _chosen(tx: Tx, tenant: str, name: str | None) -> Collection | None:
    return None if name is None else store_collections.need(tx, tenant, name)


def _names(tx: Tx, tenant: str, docs: Sequence[Doc]) -> dict[str, str]:
    ids = sorted({doc.collection_id for doc in docs})
    return {id: row.name for id, row in store_collections.by_ids(tx, tenant, ids).items()}
