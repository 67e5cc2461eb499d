"""A hub of its own for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.doors.doors import Served, served

from kho.settings import Settings


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def settings(home: Path) -> Settings:
    return Settings(home=home, database_url=None)


@pytest.fixture(params=["sqlite", "postgres"])
def both_settings(request: pytest.FixtureRequest, home: Path) -> Settings:
    """For what must hold on either database."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=home, database_url=url)


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as hub:
        yield hub


@pytest.fixture(scope="module")
async def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """For tests that leave nothing behind."""
    async with served(Settings(home=tmp_path_factory.mktemp("shared"), database_url=None)) as hub:
        yield hub


@pytest.fixture
async def both_hubs(both_settings: Settings) -> AsyncIterator[Served]:
    async with served(both_settings) as hub:
        yield hub
