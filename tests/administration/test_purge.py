"""What is purged is nowhere any more, and nothing else is touched."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.administration.purge_office import HOOKS, Person, of_others, stored
from tests.documents.test_purge import in_files, rows_with
from tests.doors.command_line import program_of, run_in_process
from tests.timeouts import PATIENCE

from kho.app import open_core, open_hub
from kho.kernel.background import Background
from kho.kernel.hub import Hub
from kho.kernel.ports import Database, Tx
from kho.kernel.upkeep.erasure import NAMES
from kho.lib.clock import iso
from kho.lib.tenancy import in_all_tenants
from kho.models.settings import Embedding
from kho.settings import Search, Settings
from kho.slices import open_purges
from kho.storage import tables

GONE, STAYS = "zaubernuss", "holunder"
PURGE = "administration-server/purge"
COUNTERS = {"api_key_changes", "search_versions", "audit_unsealed", "purges", "document_trees", "device_counts"}
"""Tables of figures that go on counting."""
TRAIL = {"audit", "audit_subjects", "audit_links", "audit_checkpoints"}


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    search = Search(embedder=Embedding(provider="hash"))
    return Settings(home=tmp_path / "kho", database_url=url, search=search, documents=HOOKS)


class World:
    """A hub, and a second connection to its store."""

    def __init__(self, hub: Hub, db: Database) -> None:
        self.hub, self.db = hub, db
        self.boss = Person(hub, db, "local", "boss")

    def person(self, tenant: str, word: str) -> Person:
        return Person(self.hub, self.db, tenant, word)

    async def settle(self) -> None:
        assert self.hub.backlog is not None
        await self.hub.backlog.settle(lambda done, total: None)

    async def purge(self, **arguments: Any) -> dict[str, Any]:
        return await self.boss.do(PURGE, **arguments, confirm=True)

    async def left(self, **arguments: Any) -> dict[str, int]:
        found = await self.boss.do(PURGE, **arguments, dry_run=True)
        return {f"{one['slice']}/{one['table']}": one["rows"] for one in found["takes"]}

    async def all(self, sql: str) -> list[tuple[Any, ...]]:
        with in_all_tenants():
            return await self.db.read(lambda tx: tx.all(sql))


@pytest.fixture
async def world(settings: Settings) -> AsyncIterator[World]:
    async with open_hub(settings) as hub:
        core = open_core(settings, Background())
        yield World(hub, core.db)
        await core.db.aclose()


async def test_a_tenant_is_gone_and_the_others_are_as_they_were(settings: Settings, world: World) -> None:
    other, more = world.person("globex", STAYS), world.person("acme", f"{GONE}ii")
    await other.use_everything()
    await world.person("acme", GONE).use_everything()
    await more.use_everything()
    await world.settle()
    before = await stored(world.db)
    assert rows_with(settings, GONE) >= {
        "messages",
        "facts",
        "receipts",
        "audit",
        "device_calls",
        "passages",
        "api_keys",
    }
    done = await world.purge(tenant="acme", reason="the contract ended")
    assert (done["finished"], done["wiped"], done.get("problem")) == (True, True, None)
    assert await world.left(tenant="acme") == {}
    assert rows_with(settings, GONE) == set()
    assert in_files(settings, GONE) == set()
    after = await stored(world.db)
    for table, rows in of_others(before, "acme").items():
        if table not in COUNTERS | TRAIL:
            assert of_others(after, "acme")[table] == rows, table
        elif table in TRAIL:  # but for the row that says it, and seals
            assert rows <= of_others(after, "acme")[table], table
    mine = {table for table, rows in after.items() if any("acme" in row for row in rows)}
    assert mine <= TRAIL | COUNTERS
    verified = await world.boss.do("audit-server/verify_audit", tenant="acme")
    assert verified["whole"], verified
    [(details, actor, reason)] = await world.all(
        "SELECT details, actor, reason FROM audit WHERE tenant = 'acme' AND operation = 'purge'"
    )
    assert orjson.loads(details) == {"purge": done["id"], "what": "tenant", "rows": done["rows"]}
    assert (actor, reason) == ("boss-person", "the contract ended")
    found = await other.do("facts-server/list_facts")
    assert len(found["facts"]) == 2


async def test_a_person_is_gone_and_the_others_are_as_they_were(settings: Settings, world: World) -> None:
    other = world.person("acme", STAYS)
    await other.use_everything()
    await world.person("globex", f"{STAYS}ii").use_everything()
    person = world.person("acme", GONE)
    before = await stored(world.db)
    await person.use_everything()
    await world.settle()
    assert rows_with(settings, GONE) >= {
        "messages",
        "facts",
        "experience_feedback",
        "document_revisions",
        "document_events",
    }
    foreseen = await world.left(tenant="acme", subject=person.name)
    assert {
        "memory/conversations",
        "facts/facts",
        "research/research_history",
        "devices/device_queue",
    } <= foreseen.keys()
    assert foreseen["memory/messages"] == 14
    assert foreseen[f"documents/document_revisions{NAMES}"] == 4
    done = await world.purge(tenant="acme", subject=person.name, reason="asked for it")
    assert (done["finished"], done["wiped"]) == (True, True)
    assert "spellings" not in done
    assert await world.left(tenant="acme", subject=person.name) == {}
    assert rows_with(settings, GONE) == set()
    assert in_files(settings, GONE) == set()
    after = await stored(world.db)
    for table, rows in before.items():
        if table not in COUNTERS | {"audit_unsealed"}:
            assert rows <= after[table], (table, rows - after[table])
    # What is everybody's is still there, without the name.
    shared = {row[0] for row in await world.all("SELECT id FROM documents WHERE tenant = 'acme'")}
    assert f"doc-{person.shared}" in shared
    assert await world.all("SELECT count(*) FROM experiences WHERE created_by = ''") == [(1,)]
    kept = await other.do("memory-server/memory/get_all_messages", conversation_id=f"group-{person.shared}")
    assert [one["content"] for one in kept["messages"]] == ["Who has the ladder?", "On Thursday."]
    found = await other.do("memory-server/memory/search", query="Thursday", conversation_id=f"group-{person.shared}")
    assert found["total"] == 1
    assert (await world.boss.do("audit-server/verify_audit", tenant="acme"))["whole"]
    [(what,)] = await world.all("SELECT what FROM purges")
    assert orjson.loads(what).keys() == {"subject"}
    [(key,)] = await world.all("SELECT count(*) FROM api_keys WHERE tenant = 'acme'")
    assert key == 1


async def test_what_is_older_than_a_date(world: World) -> None:
    old, new = world.person("acme", GONE), world.person("acme", STAYS)
    await old.use_everything()
    [(latest,)] = await world.all("SELECT max(at) FROM audit")
    await new.use_everything()
    await world.settle()
    day = "2000-01-01"
    assert await world.left(tenant="acme", before=day) == {"devices/device_calls": 4, "devices/device_notifications": 2}
    moment = iso(latest + 1)
    foreseen = await world.left(tenant="acme", before=moment)
    assert foreseen["memory/conversations"] == 2
    assert foreseen["documents/documents"] == 1
    await world.purge(tenant="acme", before=moment)
    assert await world.left(tenant="acme", before=moment) == {}
    kept = {row[0] for row in await world.all("SELECT id FROM conversations")}
    assert kept == {f"{STAYS}-chat", f"group-{new.shared}"}
    assert await world.all("SELECT count(*) FROM facts") == [(4,)]
    assert (await world.boss.do("audit-server/verify_audit", tenant="acme"))["whole"]


async def test_only_admins_and_others_only_their_own(world: World) -> None:
    person = world.person("acme", GONE)
    await person.use_everything()
    rival = world.person("globex", STAYS)
    assert (await rival.refused(PURGE, tenant="acme", confirm=True)).code == "FORBIDDEN"
    assert (await world.boss.refused(PURGE, tenant="acmee", confirm=True)).code == "NOT_FOUND"
    for wrong in ({}, {"tenant": ""}, {"subject": " "}, {"before": "soon"}):
        assert (await world.boss.refused(PURGE, **wrong, confirm=True)).status == 400
    named = await world.boss.refused(PURGE, tenant="acme", subject=person.name, reason=f"{person.name} asked")
    assert "names the person" in named.message
    await world.settle()
    before = await stored(world.db)
    asked = await world.boss.refused(PURGE, tenant="acme")
    assert (asked.code, asked.confirmable) == ("CONFIRMATION_NEEDED", True)
    assert "facts" in asked.message
    assert await stored(world.db) == before
    done = await person.do(PURGE, tenant="acme", confirm=True)
    assert done["finished"]
    assert await world.left(tenant="acme") == {}


async def test_the_last_key_goes_on_keeping_others_out(world: World) -> None:
    person = world.person("acme", GONE)
    await person.use_everything()
    await world.purge(tenant="acme", subject=person.name)
    [(sub, revoked)] = await world.all("SELECT sub, revoked_at FROM api_keys")
    assert sub == ""
    assert revoked is not None
    assert await world.hub.keys.in_use()


async def test_it_goes_on_when_nobody_waits_for_it_any_more(settings: Settings, world: World) -> None:
    """As when an admin's own key is purged: the key's calls end with it."""
    person = world.person("acme", GONE)
    await person.use_everything()
    asked = asyncio.ensure_future(person.do(PURGE, tenant="acme", confirm=True))
    async with asyncio.timeout(PATIENCE):
        while not await world.all("SELECT 1 FROM purges"):  # noqa: ASYNC110 - the database does not tell
            await asyncio.sleep(0.001)
        asked.cancel()
        while await world.all("SELECT 1 FROM purges WHERE finished_at IS NULL"):  # noqa: ASYNC110 - the same
            await asyncio.sleep(0.001)
    assert await world.left(tenant="acme") == {}


async def test_the_record_does_it_again_in_a_store_that_came_back(settings: Settings, world: World) -> None:
    person = world.person("acme", GONE)
    await world.person("acme", STAYS).use_everything()
    await world.purge(tenant="acme", subject="nobody-of-that-name")
    [(started,)] = await world.all("SELECT max(at) FROM audit")
    await person.use_everything()
    await world.purge(tenant="acme", subject=person.name)
    kept = await stored(world.db)
    again = world.person("acme", GONE)
    again.shared += "again"
    await again.use_everything()
    assert GONE in str(await stored(world.db))
    core = open_core(settings, Background())
    purges = open_purges(settings, core)
    assert await purges.reapply(started) == 1
    await core.db.aclose()
    assert rows_with(settings, GONE) == set()
    assert kept["facts"] == (await stored(world.db))["facts"]


async def test_every_table_of_tenants_is_covered(settings: Settings, world: World) -> None:
    def of_tenants(tx: Tx) -> set[str]:
        return {one.name for one in tables.stored(tx) if "tenant" in one.columns}

    core = open_core(settings, Background())
    covered = {table for one in open_purges(settings, core).erasures() for table in one.tables}
    assert await world.db.read(of_tenants) - covered == set()
    await core.db.aclose()


async def test_on_the_command_line(settings: Settings) -> None:
    async def kho(*words: str) -> tuple[int, str, str]:
        finished = await asyncio.to_thread(run_in_process, program_of(settings), *words)
        return finished.status, finished.out, finished.err

    await kho("remember", "Lan likes a window seat.", "--about", "Lan")
    status, out, _ = await kho("admin", "purge", "--subject", "lan", "--dry-run")
    assert status == 0
    assert "`Lan`" in out
    assert "facts" in out
    status, _, said = await kho("admin", "purge", "--subject", "lan")
    assert status == 1
    assert "--yes" in said
    status, out, _ = await kho("admin", "purge", "--subject", "lan", "--yes", "--json")
    assert (status, orjson.loads(out)["finished"]) == (0, True)
    status, out, _ = await kho("admin", "purge", "--subject", "lan", "--dry-run", "--json")
    assert orjson.loads(out)["rows"] == 0
    status, _, said = await kho("admin", "purge")
    assert status == 1
    status, out, _ = await kho("admin", "purge", "--help")
    assert "--subject" in out
    status, _, said = await kho("admin", "purge", "no-such-document", "--yes")
    assert "no such document" in said
