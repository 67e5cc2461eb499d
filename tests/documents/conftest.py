"""A desk on each database, by words alone or with vectors. The databases serve a whole module; tenants keep the tests
apart."""

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from tests.documents.desk import Desk

from kho import documents
from kho.kernel.ports import Database, Vectors, Words
from kho.models.hashed import HashEmbedder
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import Postgres
from kho.storage.sqlite import Sqlite
from kho.storage.vectors_postgres import PostgresVectors
from kho.storage.vectors_sqlite import SqliteVectors
from kho.storage.words_postgres import PostgresWords
from kho.storage.words_sqlite import SqliteWords


@pytest.fixture(scope="module")
def documents_schema_url(postgres_url: str) -> Iterator[str]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA documents")
        yield f"{postgres_url}&options=-csearch_path%3Ddocuments,public"
        connection.execute(b"DROP SCHEMA documents CASCADE")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def shared_database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        database: Database = Sqlite.open(None)
    else:
        database = Postgres.open(request.getfixturevalue("documents_schema_url"))
    try:
        await migrate(database, [OWN, ("documents", documents.MIGRATIONS)])
        yield database
    finally:
        await database.aclose()


def words_of(database: Database) -> Words:
    return SqliteWords() if database.engine == "sqlite" else PostgresWords()


@pytest.fixture
async def desk(shared_database: Database) -> AsyncIterator[Desk]:
    """By words alone."""
    desk = Desk(shared_database, words_of(shared_database))
    yield desk
    await desk.close()


@pytest.fixture
async def desk_with_vectors(db: Database) -> AsyncIterator[Desk]:
    """On a database of its own: the queue of vectors is everybody's."""
    await migrate(db, [OWN, ("documents", documents.MIGRATIONS)])
    vectors: Vectors = PostgresVectors(db) if isinstance(db, Postgres) else SqliteVectors(db)
    desk = Desk(db, words_of(db), vectors, HashEmbedder())
    yield desk
    await desk.close()
