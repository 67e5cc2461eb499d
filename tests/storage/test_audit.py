"""Refused requests are in the audit trail, one row each; what is allowed, or fails otherwise, leaves none of these."""

from pathlib import Path
from typing import Any

import pytest

from kho.app import open_database, open_hub
from kho.kernel import audit
from kho.kernel.audit import AuditEntry
from kho.kernel.call import Call, Principal
from kho.settings import Settings

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
