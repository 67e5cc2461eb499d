"""Where the tests of documents sit: the operations on a real database, a clock that is set by hand, and a tenant that
nobody else has."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.clock import Clock

from kho.documents import capability as documents
from kho.documents import store
from kho.documents.knowledge import WebSearch
from kho.documents.settings import DocumentSettings
from kho.documents.store import DocumentVersion, Revision, StoredDocument
from kho.documents.tree import GAP
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Embedder, Llm, Tx, Vectors, Words
from kho.kernel.registry import Outcome, Registry
from kho.search.core import Core
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases

Json = dict[str, Any]

TABLES = (
    "documents", "document_revisions", "document_bodies", "document_deletions", "document_webhooks",
    "document_events", "document_deliveries", "passages", "audit", "audit_subjects",
)  # fmt: skip
"""All that a change could leave something in."""


async def one_user() -> bool:
    """As on a hub without keys: whether it serves others than this machine's user."""
    return False


@dataclass
class Desk:
    db: Database
    words: Words
    vectors: Vectors | None = None
    embedder: Embedder | None = None
    llm: Llm | None = None
    web: WebSearch | None = None
    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Clock = field(default_factory=Clock)
    background: Background = field(default_factory=Background)
    scopes: frozenset[str] = frozenset({"*"})
    read_only: bool = False

    def __post_init__(self) -> None:
        model = self.embedder.model if self.embedder else ""
        index = Index(self.words, self.vectors, model, self.clock)
        searcher = Searcher(self.db, self.words, self.vectors, self.embedder)
        leases = SqlLeases(self.clock)
        core = Core(self.db, index, searcher, self.background, None, leases, model, clock=self.clock)
        self.capability = documents.capability(
            core,
            DocumentSettings(timeout=30.0),
            llm=self.llm,
            web_search=self.web,
            shared=one_user,
            read_only=self.read_only,
        )
        self.registry = Registry([self.capability], self.background, read_only=self.read_only)
        self.embedding_queue: EmbeddingQueue | None = None
        if self.vectors is not None and self.embedder is not None:
            self.embedding_queue = EmbeddingQueue(
                self.db, self.vectors, self.embedder, self.background, self.clock, SqlLeases(self.clock)
            )

    def neighbour(self, **more: Any) -> "Desk":
        """Another tenant on the same database, or another hub for the same."""
        return replace(self, **{"tenant": str(uuid.uuid4()), **more})

    def call(self, by: str = "somebody", **more: Any) -> Call:
        return Call(Principal(by, self.tenant, self.scopes), **more)

    async def ask(self, operation: str, arguments: Any, *, by: str = "somebody") -> Outcome:
        found = self.registry.action(operation) or self.registry.method(f"documents-server/{operation}")
        assert found is not None, operation
        return await self.registry.call(found, arguments, self.call(by))

    async def done(self, operation: str, /, **arguments: Any) -> Json:
        """The answer, which must be a success."""
        outcome = await self.ask(operation, arguments)
        assert outcome.error is None, outcome.error.as_dict()
        return outcome.value

    async def refused(self, operation: str, /, **arguments: Any) -> KhoError:
        """The error, which must be one that the caller can mend."""
        outcome = await self.ask(operation, arguments)
        assert outcome.error is not None, outcome.value
        assert outcome.error.status < 500, outcome.error.as_dict()
        return outcome.error

    async def create(self, id: str, parent: str = "root", body: str = "Some words.", **more: Any) -> Json:
        mime = more.pop("mime_type", "text/markdown")
        content = {"mime_type": mime, "body": body}
        return await self.done("create_document", document_id=id, parent_id=parent, content=content, **more)

    async def plant(self, rows: Sequence[tuple[str, str]]) -> None:
        """Many documents and their parents at once, as rows. No search finds them."""

        def work(tx: Tx) -> None:
            for place, (id, parent) in enumerate(rows):
                version = DocumentVersion(1, "text/plain", {}, True)
                store.insert(tx, self.tenant, StoredDocument(id, parent, place * GAP, 1, 0, 0, None, None, version))
                store.add_revision(tx, self.tenant, id, Revision(1, "create_document", "somebody", 0, version), "x")

        await self.db.write(work)

    async def update(self, id: str, **patch: Any) -> Json:
        return await self.done("update_document", document_id=id, patch=patch)

    async def move(self, id: str, parent: str, **position: Any) -> Json:
        more = {"position": position} if position else {}
        return await self.done("move_document", document_id=id, new_parent_id=parent, **more)

    async def delete(self, id: str, **more: Any) -> Json:
        return await self.done("delete_document", document_id=id, **more)

    async def restore(self, id: str) -> Json:
        return await self.done("restore_document", document_id=id)

    async def get(self, id: str, **more: Any) -> Json:
        return await self.done("get_document", document_id=id, **more)

    async def query(self, query: str, **more: Any) -> Json:
        return await self.done("query_knowledge", query=query, **more)

    async def found(self, query: str, **filters: Any) -> set[str]:
        """The ids of the documents that a question brings."""
        answer = await self.query(query, top_k=20, filters=filters)
        return {one["document_id"] for one in answer["context"]}

    async def pages(self, operation: str, key: str, **arguments: Any) -> list[Json]:
        """All of a list, page by page."""
        items: list[Json] = []
        cursor = None
        while True:
            page = await self.done(operation, cursor=cursor, **arguments)
            items += page[key]
            cursor = page.get("next_cursor")
            if cursor is None:
                return items

    async def children(self, parent: str = "root") -> list[str]:
        listed = await self.pages("list_documents", "documents", parent_id=parent, limit=200)
        assert [one["ordering"] for one in listed] == list(range(len(listed)))
        return [one["document_id"] for one in listed]

    async def audited(self, **filters: Any) -> list[Json]:
        """The log, the oldest entry first."""
        return (await self.pages("audit_log", "entries", limit=200, **filters))[::-1]

    async def dump(self, tables: Sequence[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
        """Every row that this tenant has."""
        return await self.db.read(
            lambda tx: {
                table: sorted(tx.all(f"SELECT * FROM {table} WHERE tenant = $1", self.tenant), key=repr)
                for table in tables
            }
        )

    async def settle(self) -> int:
        """Fills in vectors, and returns how many were waiting."""
        assert self.embedding_queue is not None
        settled = await self.embedding_queue.settle(lambda done, total: None)
        assert settled.left == 0
        return settled.done

    async def close(self) -> None:
        await self.background.drain()
        for work in self.capability.stop:
            await work()
        if self.embedding_queue is not None:
            await self.embedding_queue.aclose()
