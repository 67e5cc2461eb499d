"""T7: a text changes a statement: SQL, the word index's own language, filters and orders."""

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import apsw
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
WRITES = (
    ("remember", "text"), ("remember", "about"), ("memory_add_message", "content"), ("memory_add_message", "conversation_id"),
    ("submit_experience", "title"), ("submit_experience", "solution"), ("create_document", "document_id"),
    ("manage_collections", "collection_name"), ("manage_projects", "project_name"), ("augment_knowledge", "content"),
)  # fmt: skip
FILLED: dict[str, dict[str, Any]] = {
    "remember": {"text": "x"},
    "memory_add_message": {"conversation_id": "c", "role": "user", "content": "x"},
    "submit_experience": {"title": "t", "problem_description": "p", "solution": "s"},
    "create_document": {"content": {"body": "x"}},
    "manage_collections": {"action": "create"},
    "manage_projects": {"action": "create"},
    "augment_knowledge": {"collection": "papers"},
}
"""What else an action needs."""


async def count(hub: Served) -> int:
    return len((await done(hub, "export_facts", {}))["lines"])


async def done(hub: Served, action: str, payload: dict[str, Any]) -> Any:
    answer = await hub.act(action, payload)
    assert answer.status_code == 200, answer.text
    found = answer.json()["result"]
    return found.get("data", found)


@contextmanager
def traced() -> Generator[tuple[set[str], set[str]]]:
    """The text of every statement that SQLite is given meanwhile, and every text that is bound to one."""
    statements, bound = set[str](), set[str]()

    def note(cursor: Any, sql: str, bindings: Any) -> bool:
        statements.add(sql)
        values = cast(Sequence[object], bindings or ())
        bound.update(value for value in values if isinstance(value, str))
        return True

    def trace(connection: apsw.Connection) -> None:
        connection.exec_trace = note

    apsw.connection_hooks.append(trace)
    try:
        yield statements, bound
    finally:
        apsw.connection_hooks.remove(trace)


async def test_t07_what_is_sent_is_bound_and_never_part_of_a_statement(settings: Settings) -> None:
    mark = f"zq{secrets.token_hex(6)}"
    with traced() as (statements, bound):
        async with served(settings) as hub:
            for text in HOSTILE:
                for action, field in (*SEARCHES, *WRITES):
                    answer = await hub.act(action, {**FILLED.get(action, {}), field: f"{mark} {text}"})
                    assert answer.status_code in (200, 400, 404), (action, text, answer.text)
    assert any(mark in value for value in bound), "it was traced"
    assert len(statements) > 20
    assert [sql for sql in statements if mark in sql] == []


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
