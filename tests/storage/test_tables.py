"""Both engines hold the same tables, with the same columns and keys, whatever a backup or a check does with them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.engines import AdminPostgres

from kho.app import PACKAGE
from kho.kernel.ports import Database
from kho.slices import SLICES
from kho.storage import tables
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite

FOLDERS = [OWN, *((name, PACKAGE / name / "migrations") for name in SLICES)]


@pytest.fixture
async def both(sqlite_path: Path, postgres_schema_url: str) -> AsyncIterator[tuple[Database, Database]]:
    sqlite, postgres = Sqlite.open(sqlite_path), AdminPostgres.open(postgres_schema_url)
    for db in (sqlite, postgres):
        await migrate(db, FOLDERS)
    yield sqlite, postgres
    for db in (sqlite, postgres):
        await db.aclose()


async def test_stored_tables_are_the_same_on_both_engines(both: tuple[Database, Database]) -> None:
    one, other = [{table.name: table for table in await db.read(tables.stored)} for db in both]
    assert one == other
    assert {"documents", "messages", "facts", "audit", "api_keys", "passages", "device_keys"} <= one.keys()
    assert one["documents"].key == ("tenant", "id")
    assert not {"leases", "words_entries", "words_index_data", "vector_queue", "migrations"} & one.keys()


async def test_each_table_is_stored_rebuilt_or_passing(both: tuple[Database, Database]) -> None:
    for db in both:
        names = await db.read(tables.all_names)
        kept = {table.name for table in await db.read(tables.stored)}
        left = {name for name in names if tables.REBUILT.fullmatch(name)} | tables.PASSING | {tables.HISTORY}
        assert kept | left >= {*names}
        assert not kept & left
        assert {*names} >= tables.PASSING


async def test_a_table_comes_after_those_it_refers_to(both: tuple[Database, Database]) -> None:
    for db in both:
        names = [table.name for table in await db.read(tables.stored)]
        assert names.index("research_project_collections") > names.index("research_projects")
        assert names.index("research_project_collections") > names.index("research_collections")
