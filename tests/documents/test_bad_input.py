"""Bad input: each constraint is refused at /actions with its own code and a message that says what to do, and nothing
is written."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from tests.documents.document_harness import TABLES
from tests.doors.doors import Json, Served, served

from kho.documents.model import MAX_BODY, MAX_METADATA
from kho.settings import Settings
from kho.storage.sqlite.database import Sqlite

COUNTED = [f"{table} WHERE outcome = 'done'" if table == "audit" else table for table in TABLES]
"""That a request was refused is on record; it changes nothing else."""
TEXT = {"body": "Some words."}
DOC: Json = {"document_id": "new", "content": TEXT}
INVALID, MISSING, CLASH, FORBIDDEN = "INVALID_ARGUMENT", "NOT_FOUND", "CONFLICT", "FORBIDDEN"
STATUS = {INVALID: 400, MISSING: 404, CLASH: 409, FORBIDDEN: 403}


def create(**more: Any) -> Json:
    return {**DOC, **more}


def content(body: Any, mime: str = "text/markdown") -> Json:
    return create(content={"mime_type": mime, "body": body})


def update(patch: Any, mask: Any = None, **more: Any) -> Json:
    return {"document_id": "d", "patch": patch, "update_mask": mask, **more}


def move(**more: Any) -> Json:
    return {"document_id": "d", "new_parent_id": "root", **more}


CREATES: list[tuple[Json, str, tuple[str, ...]]] = [
    ({"document_id": "new"}, INVALID, ("content", "required")),
    (create(content={}), INVALID, ("content.body", "required")),
    (content(""), INVALID, ("content.body", "must not be empty")),
    (content(" \n\t"), INVALID, ("content.body", "must not be empty")),
    (content(None), INVALID, ("content.body",)),
    (content("x" * (MAX_BODY + 1)), INVALID, ("content.body", "4 MiB", "several documents")),
    (content("ễ" * (MAX_BODY // 3 + 1)), INVALID, ("content.body", "4 MiB")),
    (content("a\0b"), INVALID, ("content.body", "NUL")),
    (content("x", "text/html"), INVALID, ("content.mime_type", "text/markdown", "application/json")),
    (content("{", "application/json"), INVALID, ("content", "not valid JSON", "character")),
    (content("[NaN]", "application/json"), INVALID, ("content", "not valid JSON")),
    (create(document_id="root"), INVALID, ("'root'",)),
    (create(document_id="a b"), INVALID, ("document_id",)),
    (create(document_id=""), INVALID, ("document_id",)),
    (create(document_id="x" * 129), INVALID, ("document_id",)),
    (create(document_id="d"), CLASH, ("exists already", "update_document")),
    (create(document_id="gone"), CLASH, ("deleted document has this id", "restore_document")),
    (create(parent_id="nothing"), MISSING, ("parent", "'root'")),
    (create(parent_id="gone"), MISSING, ("parent", "'root'")),
    (create(parent_id=""), INVALID, ("parent_id",)),
    (create(parent_id="new"), MISSING, ("parent",)),
    (create(created_at="yesterday"), INVALID, ("created_at", "2025-09-16T03:00:00Z")),
    (create(created_at=5), INVALID, ("created_at", "2025-09-16T03:00:00Z")),
    (create(metadata=[]), INVALID, ("metadata",)),
    (create(metadata={"x": "x" * MAX_METADATA}), INVALID, ("metadata", "64 KiB")),
    (create(metadata={"title": ""}), INVALID, ("metadata", "title", "1 to 256")),
    (create(metadata={"title": 5}), INVALID, ("metadata", "title")),
    (create(metadata={"title": "x" * 257}), INVALID, ("metadata", "title", "256")),
    (create(metadata={"tags": "a"}), INVALID, ("metadata", "tags", "64")),
    (create(metadata={"tags": [""]}), INVALID, ("metadata", "tags", "1 to 128")),
    (create(metadata={"tags": ["x"] * 65}), INVALID, ("metadata", "tags")),
    (create(metadata={"tags": [str(number) for number in range(65)]}), INVALID, ("metadata", "tags", "64")),
    (create(is_human_readable="perhaps"), INVALID, ("is_human_readable",)),
    (create(contents="x"), INVALID, ("contents",)),
]
UPDATES: list[tuple[Json, str, tuple[str, ...]]] = [
    (update({"content": TEXT}) | {"document_id": "nothing"}, MISSING, ("no such document", "list_documents")),
    (update({"content": TEXT}) | {"document_id": "gone"}, CLASH, ("deleted", "restore_document")),
    (update({}), INVALID, ("'patch' is empty",)),
    (update({"content": None}), INVALID, ("'patch' is empty",)),
    (update({"content": {}}), INVALID, ("'patch' is empty",)),
    (update({"metadata": None, "is_human_readable": None}), INVALID, ("'patch' is empty",)),
    (update({"content": TEXT}, []), INVALID, ("'update_mask' is empty", "Leave it out")),
    (update({"content": TEXT}, ["title"]), INVALID, ("update_mask", "'title'", "content.body")),
    (update({"content": TEXT}, ["content.text"]), INVALID, ("update_mask", "'content.text'", "is_human_readable")),
    (update({"content": TEXT}, ["metadata."]), INVALID, ("update_mask", "'metadata.'")),
    (update({"content": TEXT}, ["content", "metadata"]), INVALID, ("update_mask", "'metadata'", "'patch'")),
    (update({"content": TEXT}, ["content.mime_type"]), INVALID, ("update_mask", "'content.mime_type'", "'patch'")),
    (update({"content": {}}, ["content"]), INVALID, ("update_mask", "'content'", "'patch'")),
    (update({"content": {"body": " "}}), INVALID, ("patch.content.body", "must not be empty")),
    (update({"content": {"mime_type": "application/json"}}), INVALID, ("patch.content", "not valid JSON")),
    (update({"title": "x"}), INVALID, ("patch.title",)),
    (update({"metadata": {"tags": [1]}}), INVALID, ("patch.metadata", "tags")),
    (update({"content": TEXT}, last_known_revision=2), CLASH, ("revision 1, not 2", "get_document")),
    (update({"content": TEXT}, last_known_revision=0), INVALID, ("last_known_revision",)),
    (update({"content": TEXT}, last_known_revision=True), INVALID, ("last_known_revision",)),
    (update({"content": TEXT}, last_known_revision=2**63), INVALID, ("last_known_revision",)),
]
EDITS: list[tuple[Json, str, tuple[str, ...]]] = [
    ({"old_text": "nowhere", "new_text": "x"}, INVALID, ("'old_text'", "does not occur", "Copy the text")),
    ({"old_text": "o", "new_text": "x"}, INVALID, ("'old_text'", "2 times", "exactly once")),
    ({"old_text": "aa", "new_text": "x"}, INVALID, ("'old_text'", "2 times")),
    ({"old_text": "", "new_text": "x"}, INVALID, ("old_text",)),
    ({"old_text": "Some words aaa.", "new_text": " "}, INVALID, ("new_text", "must not be empty")),
    ({"old_text": "Some", "new_text": "x" * MAX_BODY}, INVALID, ("new_text", "4 MiB")),
    ({"old_text": "Some", "new_text": "x", "last_known_revision": 3}, CLASH, ("revision 1, not 3",)),
    ({"document_id": "nothing", "old_text": "Some", "new_text": "x"}, MISSING, ("no such document",)),
    ({"document_id": "json", "old_text": "1", "new_text": "]"}, INVALID, ("new_text", "not valid JSON")),
]
MOVES: list[tuple[Json, str, tuple[str, ...]]] = [
    (move(document_id="nothing"), MISSING, ("no such document",)),
    (move(document_id="root"), MISSING, ("no such document",)),
    (move(document_id="gone"), CLASH, ("deleted", "restore_document")),
    (move(new_parent_id="nothing"), MISSING, ("parent", "'root'")),
    (move(new_parent_id="gone"), MISSING, ("parent", "'root'")),
    (move(new_parent_id="d"), INVALID, ("below itself", "Choose a parent")),
    (move(new_parent_id="below"), INVALID, ("below itself", "Choose a parent")),
    (move(position={"before": "below"}), INVALID, ("'position.before'", "directly below the new parent")),
    (move(position={"before": "nothing"}), INVALID, ("'position.before'",)),
    (move(position={"before": "gone"}), INVALID, ("'position.before'",)),
    (move(position={"before": "d"}), INVALID, ("'position.before'", "another document")),
    (move(position={"ordering": -1}), INVALID, ("position.ordering",)),
    (move(position={"ordering": 2**63}), INVALID, ("position.ordering",)),
    (move(position={"after": "json"}), INVALID, ("position.after",)),
    ({"document_id": "d"}, INVALID, ("new_parent_id", "required")),
]
DELETES: list[tuple[Json, str, tuple[str, ...]]] = [
    ({"document_id": "nothing"}, MISSING, ("no such document",)),
    ({"document_id": "gone"}, CLASH, ("deleted",)),
    ({"document_id": "d", "delete_at": "soon"}, INVALID, ("delete_at", "2025-09-16T03:00:00Z")),
    ({"document_id": "d", "reason": "x" * 2_001}, INVALID, ("reason", "2000")),
    ({"document_id": "d", "deleted_by": "x" * 257}, INVALID, ("deleted_by",)),
    ({}, INVALID, ("document_id", "required")),
]
QUERIES: list[tuple[Json, str, tuple[str, ...]]] = [
    ({}, INVALID, ("query", "required")),
    ({"query": ""}, INVALID, ("query",)),
    ({"query": "  "}, INVALID, ("query", "must not be empty")),
    ({"query": "x" * 2_049}, INVALID, ("query", "2048")),
    ({"query": "x", "top_k": 0}, INVALID, ("top_k", "1")),
    ({"query": "x", "top_k": 21}, INVALID, ("top_k", "20")),
    ({"query": "x", "top_k": 2.5}, INVALID, ("top_k",)),
    ({"query": "x", "filters": {"tenant_id": "another"}}, FORBIDDEN, ("filters.tenant_id", "Leave it out")),
    ({"query": "x", "filters": {"under": "nothing"}}, MISSING, ("parent",)),
    ({"query": "x", "filters": {"parent_id": "gone"}}, MISSING, ("parent",)),
    ({"query": "x", "filters": {"mime_type": "text/html"}}, INVALID, ("filters.mime_type", "text/plain")),
    ({"query": "x", "filters": {"created_after": "x"}}, INVALID, ("filters.created_after", "2025-09-16T03:00:00Z")),
    ({"query": "x", "filters": {"tag": ["x"]}}, INVALID, ("filters.tag",)),
    ({"query": "x", "routing": {"max_latency_ms": 0}}, INVALID, ("routing.max_latency_ms",)),
    ({"query": "x", "context_hints": {"language": "x" * 36}}, INVALID, ("context_hints.language",)),
    ({"query": "x", "context_hints": {"lang": "vi"}}, INVALID, ("'context_hints.lang' is not a known parameter",)),
    ({"query": "x", "routing": {"latency": 3}}, INVALID, ("'routing.latency' is not a known parameter",)),
    ({"query": "x", "filters": {"tags": "a,b"}}, INVALID, ("'filters.tags' must be a list",)),
]
READS: list[tuple[str, Json, str, tuple[str, ...]]] = [
    ("get_document", {"document_id": "nothing"}, MISSING, ("no such document", "list_documents")),
    ("get_document", {"document_id": "gone"}, MISSING, ("no such document",)),
    ("get_document", {"document_id": "d", "revision": 9}, MISSING, ("no such revision", "document_history")),
    ("get_document", {"document_id": "d", "revision": 0}, INVALID, ("revision",)),
    ("get_documents", {"document_ids": ["x"] * 51}, INVALID, ("document_ids", "50")),
    ("get_documents", {"document_ids": []}, INVALID, ("document_ids",)),
    ("list_documents", {"parent_id": "nothing"}, MISSING, ("parent",)),
    ("list_documents", {"limit": 201}, INVALID, ("limit", "200")),
    ("list_documents", {"sort": "size"}, INVALID, ("sort", "updated_at")),
    ("list_documents", {"cursor": "!"}, INVALID, ("cursor", "Start again")),
    ("document_history", {"document_id": "nothing"}, MISSING, ("no such document",)),
    ("diff_revisions", {"document_id": "d", "from_revision": 1, "to_revision": 7}, MISSING, ("no such revision",)),
    ("restore_revision", {"document_id": "d", "revision": 7}, MISSING, ("no such revision", "document_history")),
    ("restore_document", {"document_id": "d"}, CLASH, ("not deleted", "restore_revision")),
    ("restore_document", {"document_id": "nothing"}, MISSING, ("no such document",)),
    ("audit_log", {"since": "never"}, INVALID, ("since", "2025-09-16T03:00:00Z")),
]
ALL: list[tuple[str, Json, str, tuple[str, ...]]] = [
    *(("create_document", *case) for case in CREATES),
    *(("update_document", *case) for case in UPDATES),
    *(("edit_document", {"document_id": "d", **payload}, code, said) for payload, code, said in EDITS),
    *(("move_document", *case) for case in MOVES),
    *(("delete_document", *case) for case in DELETES),
    *(("query_knowledge", *case) for case in QUERIES),
    *READS,
]


class Shelf:
    """A hub with a few documents, and a look at the rows below it."""

    def __init__(self, hub: Served, home: Path, url: str | None) -> None:
        self.hub, self._home, self._url = hub, home, url

    async def counts(self) -> dict[str, int]:
        if self._url is not None:
            with psycopg.connect(self._url) as connection:
                connection.execute("SET kho.all_tenants = on")
                found = [connection.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() for table in COUNTED]
        else:
            database = Sqlite.open(self._home / "kho.db")
            found = await database.read(lambda tx: [tx.one(f"SELECT count(*) FROM {table}") for table in COUNTED])
            await database.aclose()
        return {table: row[0] for table, row in zip(COUNTED, found, strict=True) if row is not None}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
async def shelf(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Shelf]:
    url = None if request.param == "sqlite" else request.getfixturevalue("module_schema_url")
    home = tmp_path_factory.mktemp("home")
    async with served(Settings(home=home, database_url=url)) as hub:
        for payload in (
            {"document_id": "d", "content": {"body": "Some words aaa."}},
            {"document_id": "below", "parent_id": "d", "content": TEXT},
            {"document_id": "json", "content": {"mime_type": "application/json", "body": "[1]"}},
            {"document_id": "gone", "content": TEXT},
        ):
            assert (await hub.act("create_document", payload)).status_code == 200
        assert (await hub.act("delete_document", {"document_id": "gone"})).status_code == 200
        yield Shelf(hub, home, url)


@pytest.mark.requirement(
    "000.create.unique", "000.create.parent", "000.create.body", "000.create.mime-types", "000.create.json",
    "000.update.mask", "000.update.conflict", "000.move.cycle", "000.move.position", "000.query.length",
    "000.query.top-k", "000.query.tenant", "000.errors.codes",
)  # fmt: skip
async def test_each_constraint(shelf: Shelf) -> None:
    before = await shelf.counts()
    wrong: list[str] = []
    for action, payload, code, said in ALL:
        response = await shelf.hub.act(action, payload)
        shown = f"{action} {str(payload)[:120]}: {response.status_code} {response.text[:400]}"
        answer = response.json()
        if (response.status_code, answer.get("error", {}).get("code")) != (STATUS[code], code):
            wrong.append(shown)
            continue
        told = f"{answer['error']['message']} {answer['error'].get('guidance', '')} {answer['error']['details']}"
        wrong += [f"{shown} does not say {part}" for part in said if part not in told]
    assert not wrong, "\n".join(wrong)
    assert await shelf.counts() == before


@pytest.mark.requirement("000.errors.codes")
@pytest.mark.parametrize(
    "body",
    [
        b'{"action": "create_document", "payload": {"content": {"body": "\\ud800"}}}',
        b'{"action": "create_document", "payload": {"content": {"body": "\xff"}}}',
        b'{"action": "create_document", "payload": {"metadata": ' + b"[" * 101 + b"]" * 101 + b"}}",
        b'{"action": "create_document", "payload": {"content": {"body": "x"}',
        b'{"action": "create_document", "payload": [1]}',
        b'{"action": "create_document", "payload": {"content": {"body": "x"}, "metadata": {"a\\u0000": 1}}}',
        b'{"action": "create_document", "payload": {"content": {"body": "x"}, "document_id": "a\\u0000"}}',
    ],
    ids=["surrogate", "no-utf8", "nested", "cut", "list", "nul-key", "nul-id"],
)
async def test_what_is_no_proper_json(shelf: Shelf, body: bytes) -> None:
    before = await shelf.counts()
    response = await shelf.hub.post("/actions", body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, INVALID)
    assert await shelf.counts() == before


@pytest.mark.requirement("000.query.length", "000.query.top-k")
async def test_what_is_just_right(shelf: Shelf) -> None:
    for payload in (
        {"query": "x" * 2_048},
        {"query": "ễ" * 2_048},
        {"query": "x", "top_k": 1},
        {"query": "x", "top_k": 20},
        {"query": "x", "filters": {"tenant_id": "local", "under": "root", "parent_id": "root"}},
    ):
        response = await shelf.hub.act("query_knowledge", payload)
        assert (response.status_code, response.json()["result"]["response"]) == (200, "")
    big = await shelf.hub.act("create_document", content("x " * (MAX_BODY // 2), "text/plain") | {"document_id": "big"})
    assert big.status_code == 200, big.text
    metadata = {"n": [1, 2**63 - 1, -(2**63), 1e300], "x": "x" * (MAX_METADATA - 100)}
    wide = await shelf.hub.act("create_document", create(document_id="wide", metadata=metadata))
    assert wide.status_code == 200, wide.text
    got = await shelf.hub.act("get_document", {"document_id": "wide"})
    assert got.json()["result"]["metadata"] == metadata
