"""The hubs under attack, and how many requests they got."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.target import REQUESTS, SEED, Target, sent, serving

from kho.research.settings import ResearchSettings
from kho.settings import Settings

NOWHERE = ResearchSettings(roots=["/srv"])
"""A folder with little in it, whose name tells nothing."""


@pytest.fixture(scope="module")
def on_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home: Path = tmp_path_factory.mktemp("fuzz")
    with serving(Settings(home=home, database_url=None, research=NOWHERE)) as target:
        yield target


@pytest.fixture(scope="module")
def on_postgres(module_schema_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    home: Path = tmp_path_factory.mktemp("fuzz")
    with serving(Settings(home=home, database_url=module_schema_url, research=NOWHERE)) as target:
        yield target


@pytest.fixture
def target(on_sqlite: Target) -> Iterator[Target]:
    """The hub on SQLite, which must be well after every test."""
    yield on_sqlite
    on_sqlite.alive()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if sent:
        parts = ", ".join(f"{count:,} {where}" for where, count in sorted(sent.items()))
        terminalreporter.write_line(f"fuzz: {sent.total():,} requests of {REQUESTS:,} asked for, seed {SEED} ({parts})")
