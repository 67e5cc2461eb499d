"""Where the tests of research collections sit: the services on a real database, a clock that is set by hand, and a
tenant that nobody else has."""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.clock import Clock

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Embedder, SearchFilter, Tx, Vectors, Words
from kho.research import model
from kho.research.ingest import indexing
from kho.research.ingest.indexing import SPACE, Doc, Filing
from kho.research.library import collection_store, document_store
from kho.research.library.collections import Collections
from kho.research.library.document_store import DocumentStore, Put
from kho.research.library.documents import Documents
from kho.research.library.projects import Projects
from kho.research.library.transfer import KnowledgeTransfer
from kho.research.model import CollectionsAnswer, ProjectsAnswer
from kho.research.query.feedback import Feedback
from kho.research.query.history import History
from kho.research.query.scope import Scope, scope_of
from kho.research.settings import ResearchSettings
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases


def settings(**changes: Any) -> ResearchSettings:
    """With time enough for a busy machine; `changes` may be smaller than what an operator may set."""
    return ResearchSettings().model_copy(update={"simple_timeout": 60.0, **changes})


@dataclass
class Desk:
    db: Database
    words: Words
    vectors: Vectors | None = None
    embedder: Embedder | None = None
    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Clock = field(default_factory=Clock)
    background: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        model = self.embedder.model if self.embedder else ""
        self.index = Index(self.words, self.vectors, model, self.clock)
        self.searcher = Searcher(self.db, self.words, self.vectors, self.embedder)
        self.embedding_queue: EmbeddingQueue | None = None
        if self.vectors is not None and self.embedder is not None:
            self.embedding_queue = EmbeddingQueue(
                self.db, self.vectors, self.embedder, self.background, self.clock, SqlLeases(self.clock)
            )
        self.store = DocumentStore(self.index)
        known: dict[str, Any] = {"db": self.db, "clock": self.clock, "settings": settings()}
        self.collections = Collections(store=self.store, model=model, **known)
        self.projects = Projects(**known)
        self.documents = Documents(store=self.store, model=model, **known)
        self.transfer = KnowledgeTransfer(db=self.db, store=self.store, clock=self.clock, settings=settings())
        self.history = History(**known)
        self.feedback = Feedback(**known)

    def neighbour(self) -> "Desk":
        """Another tenant on the same database."""
        return replace(self, tenant=str(uuid.uuid4()))

    def call(self, by: str = "somebody", **more: Any) -> Call:
        return Call(Principal(by, self.tenant, frozenset({"*"})), **more)

    async def collection(self, action: str, name: str | None = None, **more: Any) -> CollectionsAnswer:
        params = model.ManageCollections.model_validate({"action": action, "collection_name": name, **more})
        return await self.collections.manage(params, self.call())

    async def project(self, action: str, name: str | None = None, **more: Any) -> ProjectsAnswer:
        params = model.ManageProjects.model_validate({"action": action, "project_name": name, **more})
        return await self.projects.manage(params, self.call())

    async def scope(
        self, collections: Sequence[str] | None = None, project: str | None = None, directory: str | None = None
    ) -> Scope:
        return await self.db.read(lambda tx: scope_of(tx, self.tenant, collections, project, directory))

    async def draft(self, collection: str, text: str, **more: Any) -> Filing:
        """A document for a collection that is there, ready to be stored."""
        row = await self.db.read(lambda tx: collection_store.need(tx, self.tenant, collection))
        now, content = self.clock(), text.encode("utf-8", "surrogatepass")
        usual: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "origin": "file" if more.get("path") else "external",
            "source": None if more.get("path") else f"https://example.org/{uuid.uuid4()}",
            "title": "A note",
            "cut": "markdown",
            "hash": hashlib.sha256(content).hexdigest(),
            "size_bytes": len(content),
            "created_at": now,
            "updated_at": now,
        }
        return indexing.make(self.tenant, Doc(**{**usual, **more}, collection_id=row.id), text)

    async def put(self, collection: str, text: str = "Some words.", **more: Any) -> Put:
        one = await self.draft(collection, text, **more)
        [put] = await self.db.write(lambda tx: self.store.put_documents(tx, self.tenant, [one], self.clock()))
        return put

    async def add(self, collection: str, text: str = "Some words.", **more: Any) -> Doc:
        return (await self.put(collection, text, **more)).doc

    async def text(self, id: str) -> str:
        return (await self.db.read(lambda tx: document_store.texts(tx, self.tenant, [id])))[id]

    async def found(self, words: str, *collections: str) -> list[str]:
        """The ids of the documents that a search brings."""
        rows = await self.db.read(lambda tx: [collection_store.need(tx, self.tenant, one).id for one in collections])
        where = SearchFilter(SPACE, self.tenant, tuple(rows))
        return [hit.passage.key for hit in (await self.searcher.search(where, words, per_key=True)).hits]

    async def count(self, table: str) -> int:
        row = await self.db.read(lambda tx: tx.one(f"SELECT count(*) FROM {table} WHERE tenant = $1", self.tenant))
        assert row is not None
        return row[0]

    async def settle(self) -> int:
        """Fills in vectors, and returns how many were waiting."""
        assert self.embedding_queue is not None
        settled = await self.embedding_queue.settle(lambda done, total: None)
        assert settled.left == 0
        return settled.done

    async def close(self) -> None:
        await self.background.drain()
        if self.embedding_queue is not None:
            await self.embedding_queue.aclose()


def told(error: KhoError) -> str:
    """Everything that an error says."""
    return f"{error.message} {error.contract_data()['details']} {error.contract_data()['guidance']}"


def files_of(tx: Tx, tenant: str, collection_id: str) -> dict[str, Doc]:
    """All documents of a collection that are files, by path."""
    docs = document_store.by_id(tx, tenant, [collection_id], "", 10_000)
    return {doc.path: doc for doc in docs if doc.path is not None}
