"""The threat table of docs/security.md, one file a row: the defence is met as an attacker meets it."""

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
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=home, database_url=url)


@pytest.fixture
async def hub(settings: Settings) -> AsyncIterator[Served]:
    async with served(settings) as hub:
        yield hub
