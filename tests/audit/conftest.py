"""A trail on each database, with a sealer and a clock that stands still."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tests.clock import Clock

from kho.audit import chain
from kho.audit.retention import Retention
from kho.audit.sealer import Sealer
from kho.audit.settings import AuditSettings
from kho.audit.verification import Trail, Verification
from kho.kernel.audit import AuditEvent, record
from kho.kernel.background import Background
from kho.kernel.ports import Database, Tx
from kho.lib.tenancy import in_all_tenants
from kho.storage.leases import SqlLeases

TENANT = "acme"
TRIGGERS = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE 'audit%'",
    "postgres": (
        "SELECT tgname::text, tgrelid::regclass::text FROM pg_trigger "
        "WHERE tgrelid::regclass::text LIKE 'audit%' AND NOT tgisinternal"
    ),
}


@dataclass
class Office:
    """Writes a trail, seals it, and does to it what somebody with the database alone can do."""

    db: Database
    clock: Any = field(default_factory=Clock)
    background: Background = field(default_factory=Background)
    settings: AuditSettings = field(default_factory=AuditSettings)

    def __post_init__(self) -> None:
        leases = SqlLeases(self.clock)
        self.retention = Retention(
            db=self.db, background=self.background, clock=self.clock, leases=leases, settings=self.settings
        )
        self.sealer = Sealer(db=self.db, background=self.background, clock=self.clock, leases=leases)

    async def write(self, count: int = 1, tenant: str = TENANT, **more: Any) -> list[int]:
        """Add rows; return their numbers."""
        also = more.pop("also", ())

        def one(number: int) -> AuditEvent:
            event = AuditEvent(
                tenant=tenant,
                operation="update_document",
                capability="documents",
                subject=f"d{number}",
                actor="minh",
                reason=f"because {number}",
                request_id=f"r{number}",
                details={"before_revision": number},
                at=self.clock(),
            )
            return replace(event, **more)

        def work(tx: Tx) -> list[int]:
            return [record(tx, one(number), also) for number in range(count)]

        return await self.db.write(work)

    async def sealed(self, count: int = 1, tenant: str = TENANT, **more: Any) -> list[int]:
        numbers = await self.write(count, tenant, **more)
        await self.sealer.seal_all(tenant)
        return numbers

    async def keep(self) -> None:
        """What a hub does now and then: seal what waits, then keep to the settings."""
        await self.sealer.step()
        await self.retention.step()

    async def verify(self, tenant: str = TENANT) -> Trail:
        return await Verification(self.db, tenant).run(_nobody_watches)

    async def broken(self, tenant: str = TENANT) -> list[tuple[str, int]]:
        """What kind of break, and of which row."""
        trail = await self.verify(tenant)
        assert trail.broken == len(trail.breaks)
        return [(one.kind, one.number) for one in trail.breaks]

    async def tamper(self, *statements: str) -> None:
        """Run SQL as somebody does who owns the database, and so can take the triggers away first."""

        def work(tx: Tx) -> None:
            for name, table in tx.all(TRIGGERS[tx.engine]):
                tx.run(f"DROP TRIGGER {name}" + (f" ON {table}" if tx.engine == "postgres" else ""))
            for statement in statements:
                assert tx.run(statement), statement

        await self.db.write(work)

    async def run(self, statement: str) -> int:
        return await self.db.write(lambda tx: tx.run(statement))

    async def all(self, query: str) -> list[tuple[Any, ...]]:
        return await self.db.read(lambda tx: tx.all(query))

    async def head(self, tenant: str = TENANT) -> chain.Head:
        return await self.db.read(lambda tx: chain.head(tx, tenant))


async def _nobody_watches(done: int, total: int) -> None:
    return None


@pytest.fixture(autouse=True)
def whole_trail() -> Iterator[None]:
    """The sealer and its store work on the trails of all tenants, and so do the tests of them; what is asked through
    the registry reaches the caller's own all the same."""
    with in_all_tenants():
        yield


@pytest.fixture
async def office(db: Database) -> AsyncIterator[Office]:
    office = Office(db)
    yield office
    await office.background.drain()
