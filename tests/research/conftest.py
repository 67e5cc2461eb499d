"""A desk on each database, by words alone or with vectors. The databases serve a whole module; tenants keep the tests
apart."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from tests.research.desk import Desk

from kho import research
from kho.kernel.ports import Database, Vectors, Words
from kho.models.hashed import HashEmbedder
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import Postgres
from kho.storage.sqlite import Sqlite
from kho.storage.vectors_postgres import PostgresVectors
from kho.storage.vectors_sqlite import SqliteVectors
from kho.storage.words_postgres import PostgresWords
from kho.storage.words_sqlite import SqliteWords

MIGRATIONS = Path(research.__file__).parent / "migrations"


@pytest.fixture(scope="module")
def research_schema_url(postgres_url: str) -> Iterator[str]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA research")
        yield f"{postgres_url}&options=-csearch_path%3Dresearch,public"
        connection.execute(b"DROP SCHEMA research CASCADE")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def shared_database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        database: Database = Sqlite.open(None)
    else:
        database = Postgres.open(request.getfixturevalue("research_schema_url"), pool_size=4)
    try:
        await migrate(database, [OWN, ("research", MIGRATIONS)])
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
    await migrate(db, [OWN, ("research", MIGRATIONS)])
    vectors: Vectors = PostgresVectors(db) if isinstance(db, Postgres) else SqliteVectors(db)
    desk = Desk(db, words_of(db), vectors, HashEmbedder())
    yield desk
    await desk.close()


@pytest.fixture
def ordinary_user() -> Iterator[None]:
    """Nothing is closed to root, so these tests are not run as root."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
