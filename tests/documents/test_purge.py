"""Erasing: what is purged is nowhere any more, and the audit log says who did it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pytest
from tests.documents.document_harness import Desk
from tests.doors.command_line import program_of, run_in_process

from kho.app import open_hub
from kho.documents.deletion import Deletions
from kho.documents.purge import LEFT_IN_FILE, LEFT_IN_POSTGRES, Purge, PurgeDocument, purged
from kho.kernel.call import Call, Principal
from kho.kernel.errors import DatabaseError, KhoError
from kho.kernel.hub import Hub
from kho.models.settings import Embedding
from kho.search.indexing.index import Index
from kho.settings import Search, Settings
from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.vacuum import vacuum

Json = dict[str, Any]

PLANTED = "zaubernuss"
"""A word that is nowhere else, as it is typed and as it is folded."""


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=tmp_path / "kho", database_url=url, search=Search(embedder=Embedding(provider="hash")))


class Office:
    """Somebody at a hub."""

    def __init__(self, hub: Hub, tenant: str = "acme", *scopes: str) -> None:
        self.hub = hub
        self.principal = Principal("boss", tenant, frozenset({"*", *scopes}))

    async def ask(self, operation: str, arguments: Json) -> Any:
        found = self.hub.registry.method(f"documents-server/{operation}")
        assert found is not None
        return await self.hub.registry.call(found, arguments, Call(self.principal))

    async def do(self, operation: str, /, **arguments: Any) -> Json:
        outcome = await self.ask(operation, arguments)
        assert outcome.error is None, outcome.error
        return outcome.value

    async def refused(self, operation: str, /, **arguments: Any) -> KhoError:
        outcome = await self.ask(operation, arguments)
        assert outcome.error is not None
        return outcome.error

    async def create(self, id: str, parent: str = "root", body: str = "Some words.") -> None:
        await self.do("create_document", document_id=id, parent_id=parent, content={"body": body})

    async def ids(self, **more: Any) -> list[str]:
        listed = await self.do("list_documents", recursive=True, **more)
        return [one["document_id"] for one in listed["documents"]]


@pytest.fixture
async def office(settings: Settings) -> AsyncIterator[Office]:
    async with open_hub(settings) as hub:
        yield Office(hub, "acme", "admin")


def rows_with(settings: Settings, word: str) -> set[str]:
    """The tables in which a word is left, the index's own among them."""
    found: set[str] = set()
    if settings.database_url is None:
        connection = connect(str(settings.home / "kho.db"))
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0").fetchall()
        for (table,) in tables:
            for row in connection.execute(f'SELECT * FROM "{table}"').fetchall():
                if any(word.encode() in _bytes(value) for value in row):
                    found.add(table)
        connection.close()
        return found
    with psycopg.connect(settings.database_url) as connection:
        connection.execute("SET kho.all_tenants = on")
        tables = connection.execute(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
        ).fetchall()
        for (table,) in tables:
            query = f'SELECT count(*) FROM "{table}" AS t WHERE lower(t::text) LIKE %s'
            row = connection.execute(query.encode(), (f"%{word}%",)).fetchone()
            if row is not None and row[0]:
                found.add(table)
    return found


def _bytes(value: Any) -> bytes:
    return value.lower() if isinstance(value, bytes) else str(value).lower().encode()


def in_files(settings: Settings, word: str) -> set[str]:
    return {
        path.name for path in settings.home.glob("*") if path.is_file() and word.encode() in path.read_bytes().lower()
    }


async def plant(office: Office) -> None:
    """In every place that a document has for words, and in a revision that is not the newest."""
    await office.do(
        "create_document",
        document_id="a",
        content={"body": f"# {PLANTED}\n\nThe first text says Zaubernuss. " + f"Much of it says {PLANTED}. " * 400},
        metadata={"title": f"All about {PLANTED}", "tags": [PLANTED], "more": {"deep": PLANTED}},
    )
    await office.create("a1", "a", f"Below it, {PLANTED} again.")
    await office.do("edit_document", document_id="a", old_text="The first text says", new_text="Now it says")
    await office.do("update_document", document_id="a1", patch={"content": {"body": "Another matter."}})
    await office.create("other", body="Something else.")


async def test_nothing_of_the_text_is_left(settings: Settings) -> None:
    async with open_hub(settings) as hub:
        office = Office(hub, "acme", "admin")
        await plant(office)
        assert hub.backlog is not None
        await hub.backlog.settle(lambda done, total: None)
        assert {"document_bodies", "document_revisions", "passages"} <= rows_with(settings, PLANTED)
        await office.do("delete_document", document_id="a")
        kept = {"document_bodies", "document_revisions"}
        if settings.database_url is None:
            kept |= {"words_index_data"}  # the word index has only marked what it no longer finds
        assert rows_with(settings, PLANTED) == kept
        purged = await office.do("purge_document", document_id="a", reason="asked for")
        expected: Json = {"document_id": "a", "purged": ["a", "a1"], "wiped": settings.database_url is None}
        assert purged == (expected if settings.database_url is None else expected | {"left": LEFT_IN_POSTGRES})
        # While the hub runs, and with all that the word index and the log of the database keep.
        assert rows_with(settings, PLANTED) == set()
        assert in_files(settings, PLANTED) == set()
        answer = await office.do("query_knowledge", query="Something else")
        assert [one["document_id"] for one in answer["context"]] == ["other"]
        await office.create("new", body="Words that come after it are found.")
        answer = await office.do("query_knowledge", query="words that come after")
        assert [one["document_id"] for one in answer["context"]] == ["new"]
    assert in_files(settings, PLANTED) == set()


async def test_the_audit_log_stays_and_says_who_and_why(office: Office) -> None:
    await office.create("a")
    await office.create("a1", "a")
    await office.do("delete_document", document_id="a", reason="old")
    await office.do("purge_document", document_id="a", reason="the person asked for it")
    entries = (await office.do("audit_log"))["entries"]
    assert [(one["action"], one["document_id"]) for one in entries[::-1]] == [
        ("create_document", "a"),
        ("create_document", "a1"),
        ("delete_document", "a"),
        ("delete_document", "a1"),
        ("purge_document", "a"),
        ("purge_document", "a1"),
    ]
    assert entries[0]["actor"] == "boss"
    assert entries[0]["reason"] == "the person asked for it"
    assert entries[0]["before_revision"] == 1
    assert "after_revision" not in entries[0]
    assert entries[0]["details"] == {"purged_with": "a"}


async def test_the_ids_are_free_again(office: Office) -> None:
    await office.create("a")
    await office.do("edit_document", document_id="a", old_text="Some", new_text="No")
    await office.do("delete_document", document_id="a")
    assert (await office.refused("create_document", document_id="a", content={"body": "x"})).code == "CONFLICT"
    await office.do("purge_document", document_id="a", wipe=False)
    assert (await office.refused("restore_document", document_id="a")).code == "NOT_FOUND"
    assert (await office.refused("get_document", document_id="a", include_deleted=True)).code == "NOT_FOUND"
    await office.create("a", body="Another document of that name.")
    assert (await office.do("get_document", document_id="a"))["revision"] == 1
    assert len((await office.do("document_history", document_id="a"))["revisions"]) == 1


async def test_all_below_goes_however_long_ago_it_was_deleted(office: Office) -> None:
    await office.create("top")
    await office.create("a", "top")
    for id in ("early", "late"):
        await office.create(id, "a")
    await office.create("deep", "early")
    await office.do("delete_document", document_id="early")
    await office.do("delete_document", document_id="top")
    purged = await office.do("purge_document", document_id="a", wipe=False)
    assert sorted(purged["purged"]) == ["a", "deep", "early", "late"]
    assert purged["wiped"] is False
    assert purged["left"] in (LEFT_IN_FILE, LEFT_IN_POSTGRES)
    assert await office.ids(include_deleted=True) == ["top"]
    await office.do("restore_document", document_id="top")
    assert await office.ids() == ["top"]


async def test_others_write_and_read_meanwhile(settings: Settings, office: Office) -> None:
    async with open_hub(settings) as hub:
        other = Office(hub)
        names = [f"d{number}" for number in range(30)]
        await office.create("a")
        await office.do("delete_document", document_id="a")
        purging = asyncio.ensure_future(office.do("purge_document", document_id="a"))
        await asyncio.gather(
            *((office, other)[number % 2].create(name) for number, name in enumerate(names)),
            *(other.do("query_knowledge", query="some words") for _ in range(10)),
        )
        assert (await purging)["wiped"] is (settings.database_url is None)
        assert sorted(await other.ids()) == sorted(names)


async def test_only_what_is_deleted(office: Office) -> None:
    await office.create("a")
    error = await office.refused("purge_document", document_id="a")
    assert (error.code, error.status) == ("CONFLICT", 409)
    assert "delete_document" in error.guidance
    assert await office.ids() == ["a"]
    assert (await office.refused("purge_document", document_id="nothing")).code == "NOT_FOUND"
    assert (await office.refused("purge_document", document_id="root")).code == "NOT_FOUND"


async def test_only_an_admin_and_only_in_its_own_tenant(office: Office) -> None:
    await office.create("a")
    await office.do("delete_document", document_id="a")
    assert (await Office(office.hub).refused("purge_document", document_id="a")).code == "FORBIDDEN"
    rival = Office(office.hub, "rival", "admin")
    assert (await rival.refused("purge_document", document_id="a")).code == "NOT_FOUND"
    assert await office.ids(include_deleted=True) == ["a"]
    assert office.hub.registry.tool("purge_document") is None
    assert office.hub.registry.action("purge_document") is None


async def test_a_deletion_whose_time_has_come_counts(desk: Desk) -> None:
    await desk.create("a")
    await desk.delete("a", delete_at=desk.clock.later(60))
    purging = Purge(db=desk.db, deletions=_deletions(desk), clock=desk.clock)
    with pytest.raises(KhoError) as refusal:
        await purging.purge(PurgeDocument(document_id="a"), desk.call())
    assert refusal.value.code == "CONFLICT"
    desk.clock.pass_seconds(60)
    assert (await purging.purge(PurgeDocument(document_id="a"), desk.call())).purged == ["a"]


async def test_a_file_that_cannot_be_rewritten_is_said(desk: Desk) -> None:
    async def wipe() -> None:
        raise DatabaseError("The disk is full.")

    await desk.create("a")
    await desk.delete("a")
    purging = Purge(db=desk.db, deletions=_deletions(desk), clock=desk.clock, vacuum=wipe)
    done = await purging.purge(PurgeDocument(document_id="a"), desk.call())
    assert (done.purged, done.wiped, done.problem, done.left) == (["a"], False, "The disk is full.", LEFT_IN_FILE)
    assert purged(done) == f"Erased: `a`. The disk is full. {LEFT_IN_FILE}"


def _deletions(desk: Desk) -> Deletions:
    index = Index(desk.words, None, "", desk.clock)
    return Deletions(db=desk.db, index=index, background=desk.background, clock=desk.clock)


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "kho.db").write_bytes(b"not a database, but long enough to look like one " * 100)
    with pytest.raises(DatabaseError):
        await vacuum(tmp_path / "kho.db")


def typed(settings: Settings, *words: str) -> tuple[int, str, str]:
    finished = run_in_process(program_of(settings), *words)
    return finished.status, finished.out, finished.err


async def test_on_the_command_line(settings: Settings) -> None:
    async def kho(*words: str) -> Any:
        return await asyncio.to_thread(typed, settings, *words)

    async with open_hub(settings) as hub:
        office = Office(hub, "local", "admin")
        await office.create("a")
        await office.do("delete_document", document_id="a")
    status, _, said = await kho("admin", "purge", "a")
    assert status == 1
    assert "--yes" in said
    status, answer, _ = await kho("admin", "purge", "a", "--reason", "asked for", "--yes", "--json")
    assert (status, orjson.loads(answer)["purged"]) == (0, ["a"])
