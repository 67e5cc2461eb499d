"""What belongs to a database: a schema of its own on PostgreSQL, and its indexes."""

from collections.abc import Generator
from contextlib import contextmanager
from itertools import count

import psycopg

from kho.kernel.ports import Database, Vectors, Words
from kho.storage.postgres.database import Postgres
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.base import DEFAULT_LIMITS, PlanLimits
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

_numbers = count(1)


@contextmanager
def schema(postgres_url: str) -> Generator[str]:
    """A URL whose connections see a schema of their own."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        yield f"{postgres_url}&options=-csearch_path%3D{name},public"
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def words_of(database: Database, limits: PlanLimits = DEFAULT_LIMITS) -> Words:
    return SqliteWords(limits) if database.engine == "sqlite" else PostgresWords(limits)


def vectors_of(database: Database) -> Vectors:
    return PostgresVectors(database) if isinstance(database, Postgres) else SqliteVectors(database)
