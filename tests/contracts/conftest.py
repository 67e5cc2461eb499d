"""A desk on each database."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.capability_harness import Desk
from tests.engines import words_of

from kho.experiences import capability as experiences
from kho.kernel.ports import Database, Words
from kho.storage.migrate import OWN, migrate

MakeDesk = Callable[..., Desk]


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str | None:
    """For the settings of a hub; None is the file in its home."""
    return None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")


@pytest.fixture(scope="module")
def slice_tables() -> tuple[str, Path]:
    return "experiences", experiences.MIGRATIONS


@pytest.fixture
async def make_desk(shared_database: Database) -> AsyncIterator[MakeDesk]:
    desks: list[Desk] = []

    def make(**more: Any) -> Desk:
        desks.append(Desk(shared_database, words_of(shared_database), **more))
        return desks[-1]

    yield make
    for desk in desks:
        await desk.settle()


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()


@pytest.fixture
async def own_desk(db: Database, words: Words, slice_tables: tuple[str, Path]) -> AsyncIterator[Desk]:
    """On a database of its own, which a test may break."""
    await migrate(db, [OWN, slice_tables])
    desk = Desk(db, words)
    yield desk
    await desk.settle()
