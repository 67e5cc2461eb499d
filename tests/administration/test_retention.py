"""What leaves by setting leaves once a day, and nothing else does."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.administration.purge_office import HOOKS, Person, stored
from tests.clock import Clock

from kho.administration.purge.retention import LEASE, Retention
from kho.app import open_core, open_hub
from kho.devices.settings import DeviceSettings
from kho.kernel.background import Background
from kho.kernel.ports import Database
from kho.kernel.upkeep.daily import Daily
from kho.lib.clock import DAY, system_clock
from kho.lib.tenancy import in_all_tenants
from kho.memory.settings import MemorySettings
from kho.research.settings import ResearchSettings
from kho.settings import Settings
from kho.slices import open_purges
from kho.storage.leases import SqlLeases

KEPT = {
    "conversations": "memory",
    "messages": "memory",
    "research_history": "research",
    "device_notifications": "devices",
    "device_calls": "devices",
}


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=tmp_path / "kho", database_url=url, documents=HOOKS)


class Kept:
    def __init__(self, db: Database, clock: Clock, retention: Retention) -> None:
        self.db, self.clock, self.retention = db, clock, retention

    async def step(self) -> None:
        with in_all_tenants():
            await self.retention.step()


@pytest.fixture
async def kept(settings: Settings) -> AsyncIterator[Kept]:
    async with open_hub(settings) as hub:
        core = open_core(settings, Background())
        for tenant in ("acme", "globex"):
            await Person(hub, core.db, tenant, "holunder").use_everything()
        clock = Clock()
        clock.now = system_clock()
        daily = Daily(core.db, clock, SqlLeases(clock), LEASE)
        purges = open_purges(
            settings.model_copy(
                update={
                    "memory": MemorySettings(keep_days=30),
                    "research": ResearchSettings(keep_history_days=30),
                    "devices": DeviceSettings(keep_calls_days=30, keep_notifications_days=30),
                }
            ),
            core,
        )
        retention = Retention(
            db=core.db, background=core.background, clock=clock, daily=daily, erasures=purges.erasures
        )
        yield Kept(core.db, clock, retention)
        await core.db.aclose()


async def test_what_is_old_leaves_once_a_day(kept: Kept) -> None:
    before = await stored(kept.db)
    await kept.step()  # calls and notifications were made in 1970
    after = await stored(kept.db)
    gone = {table for table in before if len(after[table]) < len(before[table])}
    assert gone == {"device_calls", "device_notifications"}
    kept.clock.now += 31 * DAY
    await kept.step()
    last = await stored(kept.db)
    assert {table for table in KEPT if last[table]} == set()
    lost = {table for table in before if len(last[table]) < len(before[table])}
    assert lost <= {*KEPT, "folded_summaries", "passages"}
    assert len(last["facts"]) == len(before["facts"])
    with in_all_tenants():
        told = await kept.db.read(
            lambda tx: tx.all("SELECT tenant, capability FROM audit WHERE operation = 'remove_old' ORDER BY 1, 2")
        )
    assert told == [
        (tenant, part) for tenant in ("acme", "globex") for part in ("devices", "devices", "memory", "research")
    ]


async def test_another_process_on_the_same_day_does_nothing(settings: Settings, kept: Kept) -> None:
    kept.clock.now += 31 * DAY
    other = Daily(kept.db, kept.clock, SqlLeases(kept.clock), LEASE)
    with in_all_tenants():
        assert await other.due()
    await kept.step()
    assert (await stored(kept.db))["conversations"]
    kept.clock.now += DAY + 1
    await kept.step()
    assert not (await stored(kept.db))["conversations"]


async def test_nothing_leaves_by_itself(settings: Settings, kept: Kept) -> None:
    core = open_core(settings, Background())
    kept.retention.erasures = open_purges(settings, core).erasures
    kept.clock.now += 36_000 * DAY
    before = await stored(kept.db)
    await kept.step()
    assert await stored(kept.db) == before
    await core.db.aclose()
