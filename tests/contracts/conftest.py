"""A desk on each database. The databases serve a whole module; tenants keep the tests apart."""

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.contracts.desk import Desk

from kho import experiences
from kho.kernel.ports import Database, Words
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres import Postgres
from kho.storage.sqlite import Sqlite
from kho.storage.words_postgres import PostgresWords
from kho.storage.words_sqlite import SqliteWords

MakeDesk = Callable[..., Desk]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """For the settings of a hub; None is the file in its home."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")


@pytest.fixture(scope="module")
def module_schema_url(postgres_url: str) -> Iterator[str]:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(b"CREATE SCHEMA contracts")
        yield f"{postgres_url}&options=-csearch_path%3Dcontracts,public"
        connection.execute(b"DROP SCHEMA contracts CASCADE")


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def shared_database(request: pytest.FixtureRequest) -> AsyncIterator[Database]:
    if request.param == "sqlite":
        database: Database = Sqlite.open(None)
    else:
        database = Postgres.open(request.getfixturevalue("module_schema_url"), pool_size=4)
    try:
        await migrate(database, [OWN, ("experiences", experiences.MIGRATIONS)])
        yield database
    finally:
        await database.aclose()


@pytest.fixture
async def make_desk(shared_database: Database) -> AsyncIterator[MakeDesk]:
    desks: list[Desk] = []

    def make(**more: Any) -> Desk:
        words: Words = SqliteWords() if shared_database.engine == "sqlite" else PostgresWords()
        desks.append(Desk(shared_database, words, **more))
        return desks[-1]

    yield make
    for desk in desks:
        await desk.settle()


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()


@pytest.fixture
async def own_desk(db: Database, words: Words) -> AsyncIterator[Desk]:
    """On a database of its own, which a test may break."""
    await migrate(db, [OWN, ("experiences", experiences.MIGRATIONS)])
    desk = Desk(db, words)
    yield desk
    await desk.settle()
