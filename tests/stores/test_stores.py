"""Stores of earlier versions, opened by this one: brought up to date, read back whole, and written to."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.stores.kept import Json, Kept, all_kept, command, differences, exported, replay

from kho.app import opened
from kho.doctor import examine
from kho.kernel.ports import Tx
from kho.lib.tenancy import in_all_tenants
from kho.settings import Settings

Unpack = Callable[[Kept], Settings]

ANY = pytest.mark.parametrize("kept", all_kept(), ids=str)
EMPTY = {
    "audit_unsealed",  # rows that wait for their link
    "document_files",  # what earlier versions knew of folders
    "device_owners",  # processes that run
    "experience_submissions",  # records that wait, where they have to
    "device_requests",  # calls on their way from one process to another
    "leases",  # work that is being done
    "vector_queue",  # passages that wait for a vector
    "vector_outbox",  # what Qdrant is still to be told
    "vector_deliveries",
}
"""Tables that hold nothing once the hub has stopped and its work is done."""
_TABLES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()",
}


@pytest.fixture
def unpack(tmp_path: Path, request: pytest.FixtureRequest) -> Unpack:
    def unpacked(kept: Kept) -> Settings:
        url = None if kept.database == "sqlite" else request.getfixturevalue("postgres_schema_url")
        return kept.unpack(tmp_path / "home", url)

    return unpacked


def test_there_is_one_for_each_database() -> None:
    names = {database: {kept.name for kept in all_kept() if kept.database == database} for database in _TABLES}
    assert names["sqlite"] == names["postgres"] != set()
    assert all(kept.packed.stat().st_size < 500_000 for kept in all_kept())


@ANY
async def test_everything_is_read_back(kept: Kept, unpack: Unpack) -> None:
    assert await replay(unpack(kept), kept.recorded(), "exchanges") == []


@ANY
async def test_commands_read_it(kept: Kept, unpack: Unpack, tmp_path: Path) -> None:
    settings, recorded = unpack(kept), kept.recorded()
    keys, files = await asyncio.gather(
        command(settings, "keys", "list", "--json"), exported(settings, tmp_path / "exported")
    )
    known = [{name: value for name, value in key.items() if value is not None} for key in recorded["keys_list"]]
    assert [*differences(known, json.loads(keys)["keys"])] == []  # what is not there is left out now
    assert files.keys() >= recorded["files"].keys()
    for name, text in recorded["files"].items():
        assert {*files[name].splitlines()} >= {*text.splitlines()}, name


@ANY
async def test_the_doctor_finds_nothing_wrong_before_and_after_it_is_written_to(kept: Kept, unpack: Unpack) -> None:
    settings = unpack(kept)
    found = await examine(settings, repair=False, progress=lambda what, done, total: None)
    assert (found["wrong"], found["problem"], found["current"]) == ([], None, True)
    assert {*found["spaces"]} >= {"documents", "experiences", "memory", "research"}
    assert await replay(settings, kept.recorded(), "writes") == []
    found = await examine(settings, repair=False, progress=lambda what, done, total: None)
    assert (found["wrong"], found["problem"]) == ([], None)


@pytest.mark.parametrize("database", _TABLES)
async def test_every_table_has_rows_in_the_newest(database: str, unpack: Unpack) -> None:
    """A change that adds a table adds rows of it to `fill.py`, and makes the next store."""

    def without_rows(tx: Tx) -> set[str]:
        tables = [row[0] for row in tx.all(_TABLES[database])]
        return {table for table in tables if tx.one(f"SELECT 1 FROM {table} LIMIT 1") is None}

    newest = [kept for kept in all_kept() if kept.database == database][-1]
    async with opened(unpack(newest)) as (core, _):
        with in_all_tenants():
            empty = await core.db.read(without_rows) - EMPTY
    assert empty == set(), "write some of it in fill.py, and make the next store"


def test_a_loss_and_a_change_are_seen_and_an_addition_is_not() -> None:
    recorded = {"documents": [{"id": "a", "tags": ["x"]}]}
    assert [*differences(recorded, {"documents": [{"id": "a", "tags": ["x"], "new": 1}], "more": 2})] == []
    wrong: list[Json] = [
        {},
        {"documents": []},
        {"documents": [{"id": "a"}]},
        {"documents": [{"id": "a", "tags": ["y"]}]},
        {"documents": [{"id": "a", "tags": ["x", "y"]}]},
        {"documents": None},
    ]
    for actual in wrong:
        assert [*differences(recorded, actual)], actual
