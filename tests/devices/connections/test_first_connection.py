"""Boards that were known before it was noted when one connected for the first time."""

import shutil
from pathlib import Path

import pytest

from kho.devices import store
from kho.devices.capability import MIGRATIONS
from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_tenant
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_those_whose_tools_are_known_have_been_connected(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    for name in ("001_devices.sql", "002_guesses.sql"):
        shutil.copy(MIGRATIONS / name, before)
    db: Database = (
        Sqlite.open(tmp_path / "kho.db", durable=False)
        if engine == "sqlite"
        else Postgres.open(request.getfixturevalue("postgres_schema_url"))
    )

    def known(tx: Tx) -> None:
        for id, toolset in (("a", "digest"), ("b", "")):
            store.add(tx, "t", id, "client", {}, 7)
            tx.run("UPDATE devices SET toolset = $1 WHERE tenant = 't' AND id = $2", toolset, id)

    try:
        await migrate(db, [OWN, ("devices", before)])
        with in_tenant("t"):
            await db.write(known)
        await migrate(db, [OWN, ("devices", MIGRATIONS)])
        with in_tenant("t"):
            found = await db.read(lambda tx: store.page(tx, "t", "", 9))
        assert {one.id: one.first_connected_at for one in found} == {"a": 7, "b": None}
    finally:
        await db.aclose()
