"""What belongs to a database: a schema of its own on PostgreSQL, and its indexes."""

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from itertools import count
from typing import TypeVar

import psycopg

from kho.kernel.ports import Database, Tx, Vectors, Words
from kho.lib.tenancy import in_all_tenants, reach
from kho.storage.postgres.database import Postgres
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.base import DEFAULT_LIMITS, PlanLimits
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

_numbers = count(1)
ROLE = "kho_test"
T = TypeVar("T")


class AdminPostgres(Postgres):
    """For tests that ask a store or a service directly, past the registry, which would say whose rows are meant. What
    they leave unsaid reaches all tenants, as administration does; a hub's own database reaches none then."""

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        with in_all_tenants() if reach() is None else nullcontext():
            return await super().read(work, timeout=timeout)

    async def write(self, work: Callable[[Tx], T]) -> T:
        with in_all_tenants() if reach() is None else nullcontext():
            return await super().write(work)


@contextmanager
def schema(postgres_url: str) -> Generator[str]:
    """A URL whose connections see a schema of their own, as a role that no wall is down for."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {ROLE}".encode())
        yield f"{as_role(postgres_url)}&options=-csearch_path%3D{name},public"
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())


def make_role(connection: psycopg.Connection) -> None:
    """The role that Kho connects as: superusers see past row-level security."""
    connection.execute(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE".encode())
    # A test of deadlocks does not want to wait for a second.
    connection.execute(f"GRANT SET ON PARAMETER deadlock_timeout TO {ROLE}".encode())


def as_role(postgres_url: str, role: str = ROLE) -> str:
    return re.sub("//[^@]*@", f"//{role}@", postgres_url)


def words_of(database: Database, limits: PlanLimits = DEFAULT_LIMITS) -> Words:
    return SqliteWords(limits) if database.engine == "sqlite" else PostgresWords(limits)


def vectors_of(database: Database) -> Vectors:
    return PostgresVectors(database) if isinstance(database, Postgres) else SqliteVectors(database)
