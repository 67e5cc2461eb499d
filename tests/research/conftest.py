"""A desk on each database, by words alone or with vectors."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.engines import vectors_of, words_of
from tests.research.factories import Desk

from kho.kernel.ports import Database
from kho.models.hash_embedder import HashEmbedder
from kho.research.capability import MIGRATIONS
from kho.storage.migrate import OWN, migrate


@pytest.fixture(scope="module")
def slice_tables() -> tuple[str, Path]:
    return "research", MIGRATIONS


@pytest.fixture
async def desk(shared_database: Database) -> AsyncIterator[Desk]:
    """By words alone."""
    desk = Desk(shared_database, words_of(shared_database))
    yield desk
    await desk.close()


@pytest.fixture
async def desk_with_vectors(db: Database, slice_tables: tuple[str, Path]) -> AsyncIterator[Desk]:
    """On a database of its own: the queue of vectors is everybody's."""
    await migrate(db, [OWN, slice_tables])
    desk = Desk(db, words_of(db), vectors_of(db), HashEmbedder())
    yield desk
    await desk.close()


@pytest.fixture
async def three(desk: Desk) -> Desk:
    """With three collections."""
    for name in ("a", "b", "c"):
        await desk.collection("create", name)
    return desk


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
