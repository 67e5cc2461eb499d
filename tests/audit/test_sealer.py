"""The sealer: one chain whoever seals, nothing left out, nobody waits."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.audit.conftest import TENANT, Office
from tests.timeouts import PATIENCE

from kho.app import open_database, open_hub
from kho.audit import retention, sealer
from kho.audit.settings import AuditSettings
from kho.audit.verification import Verification
from kho.kernel.background import Background
from kho.kernel.ports import Database, Tx
from kho.lib.clock import SECOND, system_clock
from kho.settings import Settings
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres, PostgresLimits
from kho.storage.sqlite.database import Sqlite


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings.model_validate(
        {
            **{"home": tmp_path / "home", "database_url": url, "migrate": "auto"},
            "search": {"embedder": {"provider": "none"}},
        }
    )


@pytest.fixture
async def neighbours(settings: Settings) -> AsyncIterator[list[Office]]:
    """Two processes' worth of connections to one database."""
    databases = [open_database(settings)[0] for _ in range(2)]
    await migrate(databases[0], [OWN])
    offices = [Office(db) for db in databases]
    yield offices
    for office in offices:
        await office.background.drain()
        await office.db.aclose()


async def test_two_that_seal_at_once_make_one_chain(neighbours: list[Office]) -> None:
    one, other = neighbours
    for _ in range(8):
        await one.write(120)
        await asyncio.gather(*(office.sealer.seal(TENANT) for office in (one, other) for _ in range(3)))
    await one.sealer.seal_all(TENANT)
    trail = await other.verify()
    assert (trail.broken, trail.sealed, trail.unsealed, trail.head.place) == (0, 960, 0, 960)


async def test_only_the_one_with_the_lease_works_until_it_expires(neighbours: list[Office]) -> None:
    one, other = neighbours
    await one.write()
    await one.sealer.step()
    await one.write()
    other.clock.now = one.clock.now
    await other.sealer.step()
    assert (await one.verify()).unsealed == 1
    other.clock.now = one.clock.now + sealer.LEASE_DURATION  # the other process died
    await other.sealer.step()
    assert (await one.verify()).unsealed == 0


class Quick(Background):
    """Passes the time of a clock instead of the machine's."""

    def __init__(self, clock: "Standing", work: Callable[[], Awaitable[bool]]) -> None:
        super().__init__()
        self.clock, self.work = clock, work

    async def pause(self, seconds: float) -> None:
        self.clock.now += round(seconds * SECOND)
        if await self.work():
            await self.drain()


@dataclass
class Standing:
    """A clock that moves on only when somebody waits."""

    now: int = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize("phase", [0.0, 0.7, 1.4, 1.9, 2.1, 2.9])
async def test_another_process_goes_on_within_ten_seconds(neighbours: list[Office], phase: float) -> None:
    """The first is killed when it has just taken the lease; the other looks now and then, at whatever moment."""
    one, other = (Office(office.db, clock=Standing()) for office in neighbours)
    await one.write()
    await one.sealer.step()
    await one.write()
    written = one.clock()
    other.clock.now += round(phase * SECOND)

    async def sealed() -> bool:
        return not (await one.verify()).unsealed

    other.sealer.background = Quick(other.clock, sealed)
    await asyncio.wait_for(other.sealer.run(), PATIENCE)
    [(at,)] = await one.all("SELECT sealed_at FROM audit_links WHERE place = 2")
    assert written < at <= written + 10 * SECOND


async def test_one_that_lost_its_lease_in_the_middle_adds_nothing(neighbours: list[Office]) -> None:
    one, other = neighbours
    await one.write()
    assert await one.sealer.seal(TENANT, leased=True) == 0  # it never took it
    await one.sealer.step()
    other.clock.now = one.clock.now + 2 * sealer.LEASE_DURATION
    await one.write()
    assert await other.db.write(other.sealer.leases.named(sealer.LEASE, sealer.LEASE_DURATION).take)
    assert await one.sealer.seal(TENANT, leased=True) == 0
    assert (await one.verify()).unsealed == 1


async def test_a_long_trail_does_not_keep_other_tenants_waiting(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealer, "BATCH", 10)
    monkeypatch.setattr(sealer, "ROUNDS", 3)
    await office.write(45, "acme")
    await office.write(12, "globex")
    assert await office.sealer.step() == 0.0  # it is not done, and goes on at once
    assert [(await office.verify(tenant)).unsealed for tenant in ("acme", "globex")] == [15, 0]
    await office.write(1, "initech")
    assert await office.sealer.step() is None
    assert [(await office.verify(tenant)).unsealed for tenant in ("acme", "globex", "initech")] == [0, 0, 0]


# -- commits that come late --------------------------------------------------------------------------------------------


async def test_a_row_that_is_committed_late_is_linked_then_and_breaks_nothing(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=4))
    await migrate(db, [OWN])
    office = Office(db)
    columns = "tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details"
    values = "'acme', 5, 'documents', 'late', 'd', 'a', '', 'done', '', '{}'"
    with psycopg.connect(postgres_schema_url) as slow:
        slow.execute("SET kho.tenant = 'acme'")
        found = slow.execute(f"INSERT INTO audit ({columns}) VALUES ({values}) RETURNING number".encode()).fetchone()
        assert found is not None
        numbers = await office.sealed(3)
        assert found[0] < numbers[0]  # it has the lower number, and nobody sees it yet
        assert ((await office.verify()).sealed, (await office.verify()).broken) == (3, 0)
        slow.commit()
    assert (await office.verify()).unsealed == 1
    await office.sealer.step()
    assert await office.all("SELECT place, number FROM audit_links ORDER BY place") == [
        *zip((1, 2, 3), numbers, strict=True),
        (4, found[0]),
    ]
    assert await office.broken() == []
    await db.aclose()


async def test_a_row_that_is_rolled_back_leaves_nothing_to_wait_for(office: Office) -> None:
    def fail(tx: Tx) -> None:
        tx.run(
            "INSERT INTO audit (tenant, at, capability, operation, subject, actor, reason, outcome, request_id, details) "
            "VALUES ('acme', 1, '', '', '', '', '', '', '', '{}')"
        )
        raise ValueError("rolled back")

    with pytest.raises(ValueError, match="rolled back"):
        await office.db.write(fail)
    await office.sealed()
    trail = await office.verify()
    assert (trail.broken, trail.sealed, trail.unsealed) == (0, 1, 0)


# -- writers -----------------------------------------------------------------------------------------------------------


async def test_writers_go_on_while_links_are_made(office: Office) -> None:
    """Whoever reads rows and computes digests holds no lock: a write is done while that stands still."""
    await office.write(5)
    standing, go_on = threading.Event(), threading.Event()

    real = office.sealer.clock

    def stands_still() -> int:
        standing.set()
        assert go_on.wait(PATIENCE)
        return real()

    office.sealer.clock = stands_still  # asked for each link that is made
    sealing = asyncio.create_task(office.sealer.seal(TENANT))
    await asyncio.to_thread(standing.wait, PATIENCE)
    numbers = await office.write(2)  # would never be answered
    go_on.set()
    assert await sealing == 5
    assert [number for (number,) in await office.all("SELECT number FROM audit_unsealed ORDER BY number")] == numbers
    await office.sealer.seal_all(TENANT)
    assert await office.broken() == []


# -- the hub -----------------------------------------------------------------------------------------------------------


async def test_a_hub_seals_what_it_writes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "INTERVAL", 0.02)
    async with open_hub(settings) as hub:
        db, _ = open_database(settings)
        office = Office(db)
        await office.write(7)
        async with asyncio.timeout(PATIENCE):
            while (await office.verify()).unsealed:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        trail = await office.verify()
        assert (trail.broken, trail.sealed) == (0, 7)
        assert {gauge.name: value for gauge, value in await hub.measure()}["kho_audit_unsealed"] == 0
        await db.aclose()


async def test_a_hub_seals_while_it_erases(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's rows wait until the many old rows of another tenant are done."""
    monkeypatch.setattr(sealer, "INTERVAL", 0.02)
    monkeypatch.setattr(retention, "SETTLE", 0.0)
    monkeypatch.setattr(retention, "BATCH", 1)
    settings.audit = AuditSettings(keep_text_days=1)
    db, _ = open_database(settings)
    await migrate(db, [OWN])
    office = Office(db)
    await office.sealed(1_500, at=5)  # long ago
    async with open_hub(settings), asyncio.timeout(PATIENCE):
        while not (await office.verify()).erased:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
        await office.write(1, "globex")
        while (await office.verify("globex")).unsealed:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert 0 < (await office.verify()).erased < 1_500
    await db.aclose()


async def test_a_hub_keeps_to_its_settings(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealer, "INTERVAL", 0.02)
    monkeypatch.setattr(retention, "SETTLE", 0.0)
    settings.audit = AuditSettings(keep_text_days=1)
    db, _ = open_database(settings)
    await migrate(db, [OWN])
    office = Office(db)
    await office.write(3, at=5)  # long ago
    await office.write(2, at=system_clock())
    await office.sealer.seal_all(TENANT)
    async with open_hub(settings), asyncio.timeout(PATIENCE):
        while (await office.verify()).erased < 3:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    trail = await office.verify()
    assert (trail.broken, trail.erased) == (0, 3)
    assert [actor for (actor,) in await office.all("SELECT actor FROM audit ORDER BY number")][3:5] == ["minh", "minh"]
    await db.aclose()


SEAL_FOR_EVER = """
import asyncio, sys
sys.path.insert(0, {root!r})
from tests.audit.conftest import Office
from kho.storage.sqlite.database import Sqlite
from kho.storage.postgres.database import Postgres
from kho.lib.tenancy import in_all_tenants
from pathlib import Path

async def main(where):
    db = Postgres.open(where) if "://" in where else Sqlite.open(Path(where))
    office = Office(db)
    with in_all_tenants():
        while True:
            await office.write(40)
            if await office.sealer.seal("acme"):
                print("sealed", flush=True)

asyncio.run(main(sys.argv[1]))
"""


async def test_one_that_is_killed_in_the_middle_leaves_a_whole_chain_to_go_on_with(
    request: pytest.FixtureRequest, blank: Database, tmp_path: Path
) -> None:
    await migrate(blank, [OWN])
    kind = "sqlite" if isinstance(blank, Sqlite) else "postgres_schema_url"
    where = str(request.getfixturevalue("sqlite_path" if kind == "sqlite" else kind))
    root = str(Path(__file__).parents[2])
    places = 0
    for lines in (3, 11, 6):  # each time at another moment
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SEAL_FOR_EVER.format(root=root), where, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        for _ in range(lines):
            assert await process.stdout.readline() == b"sealed\n"
        process.kill()
        await process.wait()
        trail = await verified(blank)
        assert trail.broken == 0
        assert trail.head.place >= places + 40 * lines
        places = trail.head.place
    office = Office(blank)
    await office.sealer.seal_all(TENANT)
    trail = await verified(blank)
    assert (trail.broken, trail.unsealed) == (0, 0)


async def verified(db: Database) -> Any:
    async def progress(done: int, total: int) -> None:
        return None

    return await Verification(db, TENANT).run(progress)
