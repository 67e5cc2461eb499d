"""Contract 004, section 5: every failure has its number, a message, details and guidance, on every wire and in both
eras of the protocol."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.research_hub import EVERYWHERE, by_jsonrpc, connected, done, failure, settings_of
from tests.doors.doors import Json, served

CONFIGURATION, COLLECTION, DOCUMENT, QUERY = -32001, -32002, -32003, -32004

QUERIES: list[tuple[Json, str]] = [
    ({}, "query"),
    ({"query": ""}, "query"),
    ({"query": " \n"}, "query"),
    ({"query": None}, "query"),
    ({"query": 7}, "query"),
    ({"query": ["a"]}, "query"),
    ({"query": "x" * 1_000_000}, "query"),
    ({"query": "a\0b"}, "query"),
    ({"query": "x", "top_k": 0}, "top_k"),
    ({"query": "x", "top_k": "many"}, "top_k"),
    ({"query": "x", "top_k": True}, "top_k"),
    ({"query": "x", "top_k": 1.5}, "top_k"),
    ({"query": "x", "collections": 1}, "collections"),
    ({"query": "x", "document_context": []}, "document_context"),
    ({"query": "x", "nonsense": 1}, "nonsense"),
    ({"query": "x", "cursor": "nonsense"}, "cursor"),
]
COLLECTIONS: list[tuple[Json, str]] = [
    ({}, "action"),
    ({"action": "explode"}, "action"),
    ({"action": ["list"]}, "action"),
    ({"action": "create"}, "collection_name"),
    ({"action": "delete"}, "collection_name"),
    ({"action": "info"}, "collection_name"),
    ({"action": "info", "collection_name": None}, "collection_name"),
    ({"action": "create", "collection_name": ""}, "collection_name"),
    ({"action": "create", "collection_name": "a,b"}, "collection_name"),
    ({"action": "create", "collection_name": "x" * 129}, "collection_name"),
    ({"action": "create", "collection_name": "x", "collection_type": "secret"}, "collection_type"),
    ({"action": "rename", "collection_name": "papers"}, "new_name"),
    ({"action": "move-documents", "collection_name": "papers", "target_collection": "x"}, "documents"),
]
PROJECTS: list[tuple[Json, str]] = [
    ({}, "action"),
    ({"action": "explode"}, "action"),
    ({"action": "create"}, "project_name"),
    ({"action": "link", "collections": "papers"}, "project_name"),
    ({"action": "link", "project_name": "thesis"}, "collections"),
    ({"action": "unlink", "project_name": "thesis"}, "collections"),
    ({"action": "set-defaults", "project_name": "thesis"}, "collections"),
    ({"action": "create", "project_name": "x", "directory": "relative"}, "directory"),
]
INGESTS: list[tuple[Json, str]] = [
    ({}, "path"),
    ({"path": "kettle.md"}, "collection"),
    ({"path": "", "collection": "papers"}, "path"),
    ({"path": 1, "collection": "papers"}, "path"),
    ({"path": "kettle.md", "collection": "papers", "recursive": "perhaps"}, "recursive"),
]
AUGMENTS: list[tuple[Json, str]] = [
    ({}, "content"),
    ({"content": "x", "collection": "papers"}, "source"),
    ({"content": "x", "source": "y"}, "collection"),
    ({"content": " ", "source": "y", "collection": "papers"}, "content"),
    ({"content": 1, "source": "y", "collection": "papers"}, "content"),
    ({"content": "x", "source": "y", "collection": "papers", "title": 5}, "title"),
]
WRONG = [
    *((QUERY, "query_knowledge_base", *one) for one in QUERIES),
    *((COLLECTION, "manage_collections", *one) for one in COLLECTIONS),
    *((CONFIGURATION, "manage_projects", *one) for one in PROJECTS),
    *((DOCUMENT, "ingest_documents", *one) for one in INGESTS),
    *((DOCUMENT, "augment_knowledge", *one) for one in AUGMENTS),
]
"""Number, tool, arguments, and the parameter that the answer must name."""

OUTSIDE = (
    "/etc/passwd", "../home/kho.db", "..", "deep/../../home", "/", "/proc/self/environ", "link.md", "linked",
    "//server/share/x.md", "\\\\server\\share\\x.md", "C:\\x.md", "file:///etc/passwd", "https://example.org/x.md",
    "~root/x", "x" * 5000, "pipe",
)  # fmt: skip
MEANT: list[tuple[int, str, Json]] = [
    (COLLECTION, "query_knowledge_base", {"query": "x", "collections": "paper"}),
    (COLLECTION, "query_knowledge_base", {"query": "x", "collections": ["papers", "nothing"]}),
    (COLLECTION, "ingest_documents", {"path": "kettle.md", "collection": "nothing"}),
    (COLLECTION, "augment_knowledge", {"content": "x", "source": "y", "collection": "nothing"}),
    (COLLECTION, "manage_collections", {"action": "info", "collection_name": "nothing"}),
    (COLLECTION, "manage_collections", {"action": "delete", "collection_name": "nothing"}),
    (COLLECTION, "manage_collections", {"action": "create", "collection_name": "Papers"}),
    (COLLECTION, "manage_projects", {"action": "link", "project_name": "thesis", "collections": "nothing"}),
    (CONFIGURATION, "manage_projects", {"action": "info", "project_name": "nothing"}),
    (CONFIGURATION, "manage_projects", {"action": "create", "project_name": "thesis"}),
    (CONFIGURATION, "query_knowledge_base", {"query": "x", "project": "nothing"}),
    (DOCUMENT, "ingest_documents", {"path": "nothing.md", "collection": "papers"}),
    (DOCUMENT, "ingest_documents", {"path": "a\0b", "collection": "papers"}),
    *((DOCUMENT, "ingest_documents", {"path": path, "collection": "papers"}) for path in OUTSIDE),
    (DOCUMENT, "similar_documents", {"document": "nothing"}),
    (DOCUMENT, "submit_feedback", {"document_id": "nothing", "verdict": "positive"}),
    (DOCUMENT, "ingest_status", {"job_id": "nothing"}),
    (DOCUMENT, "ingest_status", {"cancel": True}),
]


def prepare(folder: Path) -> None:
    """Ways out of the allowed folder."""
    notes, secret = folder / "notes", folder / "secret"
    secret.mkdir()
    (secret / "key.md").write_text("# The secret ingredient is umami\n", "utf-8")
    (notes / "link.md").symlink_to(secret / "key.md")
    (notes / "linked").symlink_to(secret)
    os.mkfifo(notes / "pipe")


@pytest.mark.requirement(
    "004.errors.configuration", "004.errors.collection", "004.errors.document", "004.errors.query",
    "004.errors.structure", "004.errors.guidance", "004.collections.conditional", "004.projects.conditional",
    "004.test.errors", "004.security.sanitised", "004.security.traversal", "004.validation.parameters",
)  # fmt: skip
@pytest.mark.parametrize(("wire", "era", "database_url"), EVERYWHERE, indirect=["database_url"])
async def test_every_failure_has_its_number_and_says_what_to_do(
    wire: str, era: str, tmp_path: Path, database_url: str | None
) -> None:
    settings = settings_of(tmp_path, database_url)
    prepare(tmp_path)
    async with connected(wire, era, settings) as client:
        await done(client, "manage_collections", action="create", collection_name="papers")
        await done(client, "manage_projects", action="create", project_name="thesis")
        for code, tool, arguments, parameter in WRONG:
            found = await failure(client, era, tool, arguments)
            assert found.code == code, (tool, str(arguments)[:200], found)
            assert parameter in found.message + found.details, (tool, str(arguments)[:200], found)
            assert found.guidance
        for code, tool, arguments in MEANT:
            found = await failure(client, era, tool, arguments)
            assert found.code == code, (tool, str(arguments)[:200], found)
            assert found.message
            assert found.details
            assert found.guidance
            assert "umami" not in str(found)
        listed = await done(client, "manage_collections", action="info", collection_name="papers")
        assert listed["collection"]["documents"] == 0


@pytest.mark.requirement("004.errors.structure", "004.server.json-rpc")
async def test_the_same_at_jsonrpc(tmp_path: Path, database_url: str | None) -> None:
    settings = settings_of(tmp_path, database_url)
    prepare(tmp_path)
    async with served(settings) as hub:
        for tool, arguments in (
            ("manage_collections", {"action": "create", "collection_name": "papers"}),
            ("manage_projects", {"action": "create", "project_name": "thesis"}),
        ):
            assert "result" in await by_jsonrpc(hub, tool, arguments)
        for code, tool, arguments in [*((c, t, a) for c, t, a, _ in WRONG), *MEANT]:
            error: Any = (await by_jsonrpc(hub, tool, arguments))["error"]
            assert error.keys() == {"code", "message", "data"}
            assert error["code"] == code, (tool, str(arguments)[:200], error)
            assert error["data"].keys() == {"details", "guidance"}
            assert all(error["data"].values())


@pytest.mark.requirement("004.errors.messages-sanitised")
async def test_a_failure_tells_nothing_of_the_inside(tmp_path: Path, database_url: str | None) -> None:
    async with served(settings_of(tmp_path, database_url)) as hub:
        for _, tool, arguments in MEANT:
            told = str(await by_jsonrpc(hub, tool, arguments))
            for inside in ("Traceback", "site-packages", "apsw", "SELECT", "pydantic", ".py", str(tmp_path / "home")):
                assert inside not in told.replace(str(arguments.get("path", "\0")), ""), (tool, arguments, told)


async def test_the_action_envelope_gives_the_guidance_too(tmp_path: Path) -> None:
    async with served(settings_of(tmp_path)) as hub:
        answer = await hub.act("manage_collections", {"action": "info", "collection_name": "nothing"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (404, "COLLECTION_NOT_FOUND")
        assert error["details"] == {"collection": "nothing"}
        assert "manage_collections" in error["guidance"]
