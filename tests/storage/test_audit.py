"""Refused requests are in the audit trail: what a credential does not allow one row each, no credential counted."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from kho.app import open_database, open_hub
from kho.kernel import audit
from kho.kernel.audit import AuditEntry
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database
from kho.kernel.registry import Outcome
from kho.lib.tenancy import in_tenant
from kho.settings import Settings
from kho.storage.audit import MAX_ADDRESSES, MAX_LIMITED, MAX_MINUTES, MINUTE, OTHERS, SqlRefusals
from kho.storage.migrate import OWN, migrate

READER = Principal("reader", "acme", frozenset({"exp:read"}), "key")
RECORD = {"title": "kettle", "problem_description": "It did not boil.", "solution": "Plug it in."}


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "search": {"embedder": {"provider": "none"}}}
    )


async def ask(settings: Settings, *calls: tuple[str, dict[str, Any]]) -> list[str | None]:
    async with open_hub(settings) as hub:  # leaving it waits for what follows the answers
        outcomes = [
            await hub.registry.call(hub.registry.actions[name], arguments, Call(READER, door="actions"))
            for name, arguments in calls
        ]
    return [outcome.error and outcome.error.code for outcome in outcomes]


async def trail(settings: Settings, tenant: str = "acme", **filters: Any) -> list[AuditEntry]:
    db, _ = open_database(settings)
    try:
        with in_tenant(tenant):
            return await db.read(lambda tx: audit.entries(tx, tenant, limit=50, **filters))
    finally:
        await db.aclose()


async def test_each_refused_request_is_one_row(settings: Settings) -> None:
    codes = await ask(
        settings,
        ("submit_experience", RECORD),
        ("memory_list", {}),
        ("query_experiences", {"keywords": "kettle"}),
        ("get_experience", {"id": "no-such"}),
    )
    assert codes == ["FORBIDDEN", "FORBIDDEN", None, "NOT_FOUND"]
    rows = await trail(settings)
    assert [(row.capability, row.operation, row.outcome, row.actor) for row in rows] == [
        ("memory", "memory_list", "refused", "reader"),
        ("experiences", "submit_experience", "refused", "reader"),
    ]
    assert rows[1].details == {"door": "actions", "scope": "exp:write"}
    assert rows[0].request_id
    assert rows[0].request_id != rows[1].request_id
    assert await trail(settings, outcome="done") == []
    assert await trail(settings, "another") == []


async def test_keys_that_come_and_go_are_rows(settings: Settings) -> None:
    admin = Principal("lan", settings.local.tenant, frozenset({"*", "admin"}))
    async with open_hub(settings) as hub:

        async def done(operation: str, **arguments: Any) -> dict[str, Any]:
            outcome = await hub.registry.call(hub.registry.actions[operation], arguments, Call(admin))
            assert outcome.error is None, outcome.error
            return outcome.value

        first, second = [
            (await done("create_key", name="bot", tenant="acme", scopes=["exp:read"], confirm=True))["id"]
            for _ in range(2)
        ]
        await done("revoke_key", id=first, reason="lost")
        await done("delete_key", id=first)
    rows = await trail(settings, "acme")
    assert [(row.capability, row.operation, row.subject, row.actor, row.reason) for row in reversed(rows)] == [
        ("administration", "create_key", first, "lan", ""),
        ("administration", "create_key", second, "lan", ""),
        ("administration", "revoke_key", first, "lan", "lost"),
        ("administration", "delete_key", first, "lan", ""),
    ]
    assert {str(row.details) for row in rows} == {"{'name': 'bot', 'scopes': ['exp:read']}"}


# -- credentials that are missing or wrong -----------------------------------------------------------------------------


@pytest.fixture
async def db(settings: Settings) -> AsyncGenerator[Database]:
    db, _ = open_database(settings)
    await migrate(db, [OWN])
    yield db
    await db.aclose()


async def counted(db: Database) -> list[tuple[int, str, int]]:
    with in_tenant("local"):
        rows = await db.read(lambda tx: audit.entries(tx, "local", limit=500))
    assert {(row.capability, row.operation, row.actor, row.outcome) for row in rows} <= {
        ("", "authenticate", "", "refused")
    }
    return [(row.at // MINUTE, row.subject, row.details["requests"]) for row in reversed(rows)]


async def test_refused_credentials_are_counted_per_address_and_minute(db: Database) -> None:
    now = 10 * MINUTE
    background = Background()
    refusals = SqlRefusals(db, background, lambda: now, "local")
    for _ in range(1_000):
        refusals.unauthorized("192.0.2.1")
    refusals.unauthorized("192.0.2.2")
    await refusals.write_past()
    assert await counted(db) == []  # the minute is not over
    now = 11 * MINUTE
    refusals.unauthorized("192.0.2.1")
    await refusals.write_past()
    assert await counted(db) == [(10, "192.0.2.1", 1_000), (10, "192.0.2.2", 1)]
    await refusals.write_past()
    await background.drain()  # the hub stops
    assert await counted(db) == [(10, "192.0.2.1", 1_000), (10, "192.0.2.2", 1), (11, "192.0.2.1", 1)]


async def test_a_flood_from_many_addresses_grows_neither_the_memory_nor_the_trail(db: Database) -> None:
    now = 0
    background = Background()
    refusals = SqlRefusals(db, background, lambda: now, "local")
    for minute in range(3 * MAX_MINUTES):  # nothing is written meanwhile, as if the store did not answer
        now = minute * MINUTE
        for address in range(MAX_ADDRESSES + 20 if minute >= 3 * MAX_MINUTES - 2 else 1):
            refusals.unauthorized(f"2001:db8::{address:x}")
            refusals.unauthorized(f"2001:db8::{address:x}")
    await background.drain()
    rows = await counted(db)
    assert len(rows) == (MAX_MINUTES - 2) + 2 * (MAX_ADDRESSES + 1)
    assert rows[0][0] == 2 * MAX_MINUTES
    assert [row for row in rows if row[1] == OTHERS] == [
        (3 * MAX_MINUTES - 2, OTHERS, 40),
        (3 * MAX_MINUTES - 1, OTHERS, 40),
    ]


# -- what limits refuse ------------------------------------------------------------------------------------------------


class Limited(KhoError):
    """Too many requests."""

    status = 429


def bot(sub: str = "bot", tenant: str = "acme", operation: str = "documents/create_document") -> Call:
    call = Call(Principal(sub, tenant, frozenset({"*"}), "key"))
    call.operation = operation
    return call


async def limits(db: Database, tenant: str = "acme") -> list[tuple[str, str, str, dict[str, Any]]]:
    with in_tenant(tenant):
        rows = await db.read(lambda tx: audit.entries(tx, tenant, limit=500, outcome="refused"))
    return [(row.capability, row.operation, row.actor, row.details) for row in reversed(rows)]


async def test_what_limits_refuse_is_counted_per_caller_operation_limit_and_minute(db: Database) -> None:
    background, now = Background(), 10 * MINUTE
    refusals = SqlRefusals(db, background, lambda: now, "local")
    for _ in range(1_000):
        refusals.limited(bot(), Limited(limit="writes"))
    refusals.limited(bot(), Limited(limit="requests"))
    refusals.limited(bot(operation="memory/memory_list"), Limited(limit="requests"))
    refusals.limited(bot("other"), Limited())
    refusals.limited(bot(tenant="globex"), Limited(limit="writes"))
    await background.drain()
    assert await limits(db) == [
        ("documents", "create_document", "bot", {"requests": 1_000, "limit": "writes"}),
        ("documents", "create_document", "bot", {"requests": 1, "limit": "requests"}),
        ("memory", "memory_list", "bot", {"requests": 1, "limit": "requests"}),
        ("documents", "create_document", "other", {"requests": 1}),
    ]
    assert len(await limits(db, "globex")) == 1
    assert await limits(db, "local") == []


async def test_a_flood_of_callers_and_addresses_costs_neither_the_other_its_place(db: Database) -> None:
    background = Background()
    refusals = SqlRefusals(db, background, lambda: 0, "acme")
    for number in range(MAX_LIMITED + 30):
        refusals.unauthorized(f"2001:db8::{number:x}")
        refusals.limited(bot(f"bot-{number}"), Limited(limit="writes"))
    await background.drain()
    rows = await limits(db)
    assert len(rows) == MAX_LIMITED + 1 + MAX_ADDRESSES + 1
    assert [row for row in rows if row[2] == OTHERS] == [("", "", OTHERS, {"requests": 30})]


async def test_the_registry_reports_what_a_limit_refused(settings: Settings) -> None:
    async with open_hub(settings) as hub:
        operation = hub.registry.actions["create_document"]
        for observe in hub.registry.observers:
            observe(operation, bot(), Outcome(operation, None, error=Limited(limit="writes")), 0.0)
    [row] = await trail(settings, outcome="refused")
    assert (row.operation, row.actor, row.details) == ("create_document", "bot", {"requests": 1, "limit": "writes"})
