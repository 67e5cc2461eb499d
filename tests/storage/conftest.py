"""A vector index of every kind, each with a real database."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.engines import AdminPostgres

from kho.kernel.ports import Database, Vectors
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import PostgresLimits
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.qdrant import QdrantVectors
from kho.storage.vector_index.sqlite import SqliteVectors


async def _nothing() -> None:
    pass


@dataclass
class Store:
    db: Database
    vectors: Vectors
    settle: Callable[[], Awaitable[object]] = _nothing
    """What is written can be found from here on. Only Qdrant lags behind."""
    other: Callable[[], "Store"] | None = None
    """The same store through other connections."""


def _open(kind: str, request: pytest.FixtureRequest) -> Store:
    db: Database
    if kind.endswith("postgres"):
        db = AdminPostgres.open(request.getfixturevalue("postgres_schema_url"), PostgresLimits(pool_size=4))
    else:
        path: Path = request.getfixturevalue("sqlite_path")
        db = Sqlite.open(path)
    if kind.startswith("qdrant"):
        qdrant = QdrantVectors(db, ":memory:")
        return Store(db, qdrant, qdrant.deliver)
    vectors = PostgresVectors(db) if kind == "postgres" else SqliteVectors(db)
    return Store(db, vectors, other=lambda: _open(kind, request))


@pytest.fixture(params=["sqlite", "postgres", "qdrant-sqlite", "qdrant-postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    """A vector index in a fresh database."""
    store = _open(request.param, request)
    await migrate(store.db, [OWN])
    yield store
    if isinstance(store.vectors, QdrantVectors):
        await store.vectors.aclose()
    await store.db.aclose()
