"""T17: somebody changes or deletes what the audit trail says, or changes something without a row."""

import asyncio

import pytest
from tests.doors.doors import Json, Served, new_key, served

from kho.app import open_database
from kho.kernel.errors import KhoError
from kho.kernel.ports import Tx
from kho.lib.tenancy import in_all_tenants, in_tenant
from kho.settings import Settings

pytestmark = pytest.mark.anyio


async def test_t17_the_database_itself_refuses_to_change_the_trail(both_settings: Settings) -> None:
    key = await new_key(both_settings, "acme")
    async with served(both_settings) as hub:
        assert (await hub.act("remember", {"text": "The kettle is blue."}, key=key)).status_code == 200
        assert (await hub.act("remember", {"text": ""}, key=key)).status_code == 400
        trail: Json = (await hub.act("audit_log", {}, key=key)).json()["result"]
    rows = trail.get("data", trail)["entries"]
    assert [row["action"] for row in rows] == ["remember"], "one row for what changed, none for what did not"
    database, _ = open_database(both_settings)
    try:

        def counted(tx: Tx) -> int:
            row = tx.one("SELECT COUNT(*) FROM audit WHERE tenant = $1", "acme")
            assert row is not None
            return row[0]

        with in_tenant("acme"):
            before = await database.read(counted)
        for sql in (
            "UPDATE audit SET actor = 'somebody else' WHERE tenant = 'acme'",
            "UPDATE audit SET at = 0 WHERE tenant = 'acme'",
            "DELETE FROM audit WHERE tenant = 'acme'",
        ):
            with pytest.raises(KhoError), in_tenant("acme"):
                await database.write(lambda tx, sql=sql: tx.run(sql))
        with in_tenant("acme"):
            assert await database.read(counted) == before > 0
    finally:
        await database.aclose()


async def test_t17_a_change_and_its_row_are_one_transaction(both_settings: Settings) -> None:
    """What cannot be recorded is not done."""
    database, _ = open_database(both_settings)
    async with served(both_settings) as hub:
        sqlite = both_settings.database_url is None
        body = (
            "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'full'); END"
            if sqlite
            else "ALTER TABLE audit ADD CONSTRAINT full_ CHECK (tenant = '') NOT VALID"
        )
        await database.write(lambda tx: tx.script(body))
        try:
            answer = await hub.act("remember", {"text": "The kettle is green."})
            assert answer.status_code >= 500
            found = (await hub.act("list_facts", {})).text
            assert "green" not in found
        finally:
            undone = "DROP TRIGGER full" if sqlite else "ALTER TABLE audit DROP CONSTRAINT full_"
            await database.write(lambda tx: tx.script(undone))
            await database.aclose()


async def test_t17_what_the_owner_of_the_database_changes_is_found(both_settings: Settings) -> None:
    admin = await new_key(both_settings, "acme", "*", "admin")
    async with served(both_settings) as hub:
        assert (await hub.act("remember", {"text": "The kettle is blue."}, key=admin)).status_code == 200
        database, _ = open_database(both_settings)
        try:
            async with asyncio.timeout(60):
                while (await verified(hub, admin))["trails"][0]["unsealed"]:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.1)
            assert (await verified(hub, admin))["whole"]
            sqlite = both_settings.database_url is None
            off = "DROP TRIGGER audit_is_only_erased" + ("" if sqlite else " ON audit")
            with in_all_tenants():
                await database.write(lambda tx: tx.script(off))
                await database.write(
                    lambda tx: tx.run("UPDATE audit SET actor = 'mallory' WHERE operation = 'remember'")
                )
            assert not (await verified(hub, admin))["whole"]
        finally:
            await database.aclose()


async def verified(hub: Served, key: str) -> Json:
    answer = await hub.act("verify_audit", {}, key=key)
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()["result"]
    return found.get("data", found)
