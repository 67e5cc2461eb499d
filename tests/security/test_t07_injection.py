"""T7: a text changes a statement: SQL, the word index's own language, filters and orders."""

from typing import Any

import pytest
from tests.doors.doors import Served, served

from kho.settings import Settings

pytestmark = pytest.mark.anyio

HOSTILE = (
    "'; DROP TABLE facts; --", '" OR 1=1 --', "x' UNION SELECT * FROM api_keys --", "NEAR(kettle blue, 5)", "kettle*",
    "kettle AND NOT blue", "{text}: kettle", "^kettle", '"unclosed', "kettle OR", "(((", "a\\'b", "%", "_", "$1", ":x", "?",
    "1; SELECT pg_sleep(10)", "&|!<->", "\x00kettle",
)  # fmt: skip
SEARCHES = (
    ("search", "query"), ("query_experiences", "keywords"), ("query_knowledge", "query"), ("memory_search", "query"),
    ("query_history", "filter"), ("list_facts", "about"), ("list_documents", "parent_id"), ("get_document", "document_id"),
)  # fmt: skip


async def count(hub: Served) -> int:
    return len((await done(hub, "export_facts", {}))["lines"])


async def done(hub: Served, action: str, payload: dict[str, Any]) -> Any:
    answer = await hub.act(action, payload)
    assert answer.status_code == 200, answer.text
    found = answer.json()["result"]
    return found.get("data", found)


async def test_t07_a_hostile_text_is_a_text(both_settings: Settings) -> None:
    async with served(both_settings) as hub:
        stored: list[str] = []
        for text in HOSTILE:
            kept = await hub.act("remember", {"text": text})
            if kept.status_code == 200:
                stored.append(text)
            else:
                assert "\x00" in text
        assert len(stored) >= len(HOSTILE) - 1
        for text in HOSTILE:
            for action, field in SEARCHES:
                answer = await hub.act(action, {field: text})
                assert answer.status_code in (200, 400, 404), (action, text, answer.text)
                assert "INTERNAL" not in answer.text
        for field in ("cursor", "about", "tag"):
            for text in HOSTILE:
                assert (await hub.act("list_facts", {field: text})).status_code in (200, 400)
        assert await count(hub) == len(stored)
        found = {line["text"] for line in (await done(hub, "export_facts", {}))["lines"]}
        assert found == {*stored}
