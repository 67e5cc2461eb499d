"""Experiences and conversations: one row for each call that changed something, none for the others."""

from pathlib import Path
from typing import Any

import pytest

from kho.app import open_database, open_hub
from kho.kernel import audit
from kho.kernel.call import Call, Principal
from kho.settings import Settings

SOMEBODY = Principal("lan", "acme", frozenset({"*"}))
RECORD = {"title": "kettle", "problem_description": "It did not boil.", "solution": "Plug it in."}
CHAT = {"conversation_id": "c"}
SAID = {**CHAT, "role": "user", "content": "hello", "message_id": "m1"}


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings.model_validate(
        {"home": tmp_path / "home", "database_url": url, "search": {"embedder": {"provider": "none"}}}
    )


async def test_what_changes_something_is_on_record_once(settings: Settings) -> None:
    expected: list[str] = []
    async with open_hub(settings) as hub:

        async def do(name: str, arguments: dict[str, Any], *, changes: bool = True) -> Any:
            outcome = await hub.registry.call(hub.registry.actions[name], arguments, Call(SOMEBODY))
            expected.extend([name] if changes else [])
            return outcome.result

        record = {"id": (await do("submit_experience", RECORD)).id}
        await do("update_experience", {**record, "expected_revision": 1, "root_cause": "no power"})
        await do("update_experience", {**record, "expected_revision": 1, "title": "stale"}, changes=False)
        await do("rate_experience", {**record, "helpful": True})
        await do("delete_experience", {**record, "reason": "superseded"})
        await do("delete_experience", record, changes=False)
        await do("restore_experience", record)
        await do("get_experience", record, changes=False)
        await do("import_experiences", {"experiences": [{**RECORD, "id": "x1"}]})
        await do("import_experiences", {"experiences": [{**RECORD, "id": "x1"}]}, changes=False)
        await do("memory_get_or_create", CHAT)
        await do("memory_get_or_create", CHAT, changes=False)
        await do("memory_add_message", SAID)
        await do("memory_add_message", SAID, changes=False)
        await do("memory_set_summary", {**CHAT, "summary": "Hello."})
        await do("memory_set_summary", {**CHAT, "summary": "Hello."}, changes=False)
        await do("memory_clear", CHAT)
        await do("memory_clear", CHAT, changes=False)
        await do("memory_delete", CHAT)
        await do("memory_delete", CHAT, changes=False)
    db, _ = open_database(settings)
    rows = await db.read(lambda tx: audit.entries(tx, "acme", limit=50))
    await db.aclose()
    assert [row.operation for row in reversed(rows)] == expected
    assert {row.actor for row in rows} == {"lan"}
    assert [row.reason for row in rows if row.operation == "delete_experience"] == ["superseded"]
