"""A desk on each database, by words alone or with vectors; and an office at a whole hub, with a receiver of webhooks."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.documents.document_harness import Desk
from tests.documents.webhook_receiver import Office, Receiver, settings_of
from tests.engines import vectors_of, words_of

from kho.app import open_hub
from kho.documents import capability as documents
from kho.kernel.ports import Database
from kho.models.hash_embedder import HashEmbedder
from kho.settings import Settings
from kho.storage.migrate import OWN, migrate


@pytest.fixture(scope="module")
def slice_tables() -> tuple[str, Path]:
    return "documents", documents.MIGRATIONS


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


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Of a hub that tells webhooks what happens."""
    return settings_of(request, tmp_path / "kho")


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[Office]:
    async with open_hub(settings) as hub:
        yield Office(hub.registry)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    async with receiver.listening():
        yield receiver
