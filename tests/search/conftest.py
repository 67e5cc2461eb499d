"""The search core on every pair of database and vector index, with an embedder that keeps count."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from tests.engines import AdminPostgres

from kho.kernel.background import Background
from kho.kernel.errors import KhoError
from kho.kernel.hub import Settled
from kho.kernel.ports import Database, Embedder, SearchFilter, Vectors, Words
from kho.models.e5.embedder import E5
from kho.models.hash_embedder import HashEmbedder
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Document, Field, Index, Passage, prepare
from kho.search.indexing.passages import Where
from kho.search.query.searcher import Searcher, SearchLimits
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.qdrant import QdrantVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

T = SearchFilter("s", "t")


@dataclass
class Ticking:
    """A clock that stands still until it is moved."""

    now: int = 1_000_000_000

    def __call__(self) -> int:
        return self.now


class Watched:
    """An embedder, with a record of what it was asked; it can be broken, and made to wait."""

    def __init__(self, inner: Embedder | None = None) -> None:
        self._inner: Embedder = inner or HashEmbedder()
        self.embedded: list[str] = []
        self.asked: list[str] = []
        self.broken: KhoError | None = None
        self.gate: asyncio.Event | None = None
        """While it is there and not set, no answer comes."""
        self.reached = asyncio.Event()
        """Somebody waits at the gate."""

    @property
    def model(self) -> str:
        return self._inner.model

    async def dimension(self) -> int:
        return await self._inner.dimension()

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        await self._pass()
        self.embedded += texts
        return await self._inner.passages(texts)

    async def query(self, text: str) -> "Vector":
        await self._pass()
        self.asked.append(text)
        return await self._inner.query(text)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _pass(self) -> None:
        if self.gate is not None:
            self.reached.set()
            await self.gate.wait()
        if self.broken is not None:
            raise self.broken


@dataclass
class Core:
    db: Database
    words: Words
    vectors: Vectors
    again: Callable[[], Database]
    """The same database through other connections."""
    embedder: Watched = field(default_factory=Watched)
    clock: Ticking = field(default_factory=Ticking)
    limits: SearchLimits = field(default_factory=SearchLimits)

    def __post_init__(self) -> None:
        self.background = Background()
        self.index = Index(self.words, self.vectors, self.embedder.model, self.clock)
        self.searcher = Searcher(self.db, self.words, self.vectors, self.embedder, limits=self.limits)
        self.embedding_queue = EmbeddingQueue(
            self.db, self.vectors, self.embedder, self.background, self.clock, SqlLeases(self.clock)
        )
        self.index.on_waiting = self.embedding_queue.nudge

    def beside(self, embedder: Watched | None = None, limits: SearchLimits | None = None) -> "Core":
        """As another process would have it, on the same connections."""
        return Core(
            self.db, self.words, self.vectors, self.again, embedder or Watched(), self.clock, limits or self.limits
        )

    async def put(self, *documents: Document, **more: Any) -> None:
        prepared = [prepare(document) for document in documents]
        await self.db.write(lambda tx: self.index.put(tx, prepared, **more))

    async def drop(self, *keys: str, tenant: str = "t", collection: str = "") -> None:
        await self.db.write(lambda tx: self.index.drop(tx, "s", tenant, keys, collection))

    async def settle(self) -> Settled:
        return await self.embedding_queue.settle(lambda done, total: None)

    async def ready(self, *documents: Document) -> None:
        """Filed, and with vectors. What it took is forgotten."""
        await self.put(*documents)
        assert (await self.settle()).left == 0
        self.embedder.embedded.clear()

    async def keys(self, text: str, where: Where = T, **more: Any) -> list[str]:
        return [hit.passage.key for hit in (await self.searcher.search(where, text, **more)).hits]

    async def first(self, text: str, where: SearchFilter = T) -> str | None:
        """The best: the hash embedder finds some likeness in texts that have nothing in common."""
        return next(iter(await self.keys(text, where, limit=1)), None)

    async def number(self, table: str) -> int:
        [[count]] = await self.all(f"SELECT count(*) FROM {table}")
        return count

    async def all(self, sql: str) -> list[tuple[Any, ...]]:
        return await self.db.read(lambda tx: tx.all(sql))

    async def seqs(self, key: str) -> list[int]:
        """In the order of the document."""
        rows = await self.db.read(lambda tx: tx.all("SELECT seq FROM passages WHERE key = $1 ORDER BY part", key))
        return [row[0] for row in rows]

    async def nearest(self, text: str, where: SearchFilter = T, limit: int = 10) -> list[int]:
        """What the vectors alone say."""
        asked = await self.embedder.query(text)
        return [seq for seq, _ in await self.vectors.nearest(self.embedder.model, where, asked, limit)]


def doc(key: str, *texts: str, heading: str = "", **more: Any) -> Document:
    passages = [Passage((Field(text),), heading) for text in texts]
    return Document(more.pop("space", "s"), more.pop("tenant", "t"), key, passages, **more)


@asynccontextmanager
async def by_meaning(documents: Iterable[Document]) -> AsyncGenerator[Searcher]:
    """Documents that the real model has read, in a database of their own."""
    db = Sqlite.open(None)
    await migrate(db, [OWN])
    words, vectors, model, clock = SqliteWords(), SqliteVectors(db), E5(), Ticking()
    index = Index(words, vectors, model.model, clock)
    embedding_queue = EmbeddingQueue(db, vectors, model, Background(), clock, SqlLeases(clock))
    prepared = [prepare(document) for document in documents]
    await db.write(lambda tx: index.put(tx, prepared))
    assert (await embedding_queue.settle(lambda done, total: None)).left == 0
    yield Searcher(db, words, vectors, model)
    await embedding_queue.aclose()
    await db.aclose()


@pytest.fixture(params=["sqlite", "postgres", "qdrant"])
async def core(request: pytest.FixtureRequest) -> AsyncIterator[Core]:
    opened: list[Database] = []

    def again() -> Database:
        db: Database
        if request.param == "postgres":
            db = AdminPostgres.open(request.getfixturevalue("postgres_schema_url"), PostgresLimits(pool_size=4))
        else:
            db = Sqlite.open(request.getfixturevalue("sqlite_path"), durable=False)
        opened.append(db)
        return db

    db = again()
    await migrate(db, [OWN])
    vectors: dict[str, Callable[[], Vectors]] = {
        "sqlite": lambda: SqliteVectors(db),
        "postgres": lambda: PostgresVectors(db),
        "qdrant": lambda: QdrantVectors(db, ":memory:"),
    }
    words = PostgresWords() if request.param == "postgres" else SqliteWords()
    core = Core(db, words, vectors[request.param](), again)
    yield core
    await core.background.drain()
    await core.embedding_queue.aclose()
    for one in reversed(opened):
        await one.aclose()
