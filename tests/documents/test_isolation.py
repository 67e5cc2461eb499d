"""Tenants do not see each other: whatever one sends, no byte of another's comes back and nothing of another's changes."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.documents.document_harness import Desk, Json
from tests.engines import AdminPostgres, words_of

from kho.documents import capability as documents
from kho.kernel.ports import Database
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite

MARK = "zyxmark"
"""In everything that the other tenant ever wrote: titles, tags, texts, reasons, names, keys."""
THEIRS = ["theirs", "theirs-below", "theirs-gone", "theirs-due"]
OWN_IDS = ["own", "own-below", "own-gone"]


@dataclass
class Pair:
    runner: asyncio.Runner
    mine: Desk
    theirs: Desk
    cursors: list[str]
    """Those that the other tenant was given."""
    webhook: str
    """The other tenant's."""


async def furnish(desk: Desk, prefix: str, mark: str) -> str:
    """The id of its webhook, which still has something to be told."""
    metadata = {"title": f"{mark} title", "tags": [f"{mark}tag"], mark: mark}
    for id, parent in (
        (prefix, "root"),
        (f"{prefix}-below", prefix),
        (f"{prefix}-gone", "root"),
        (f"{prefix}-due", "root"),
    ):
        await desk.create(id, parent, f"The {mark} sleeps here.", metadata=metadata)
    hook = await desk.done("add_webhook", url=f"http://127.0.0.1:9/{mark}", events=["document.deleted"])
    await desk.update(prefix, content={"body": f"The {mark} slept here."})
    await desk.delete(f"{prefix}-gone", reason=f"{mark} reason", deleted_by=f"{mark} person")
    await desk.delete(f"{prefix}-due", delete_at="2999-01-01T00:00:00Z", reason=f"{mark} later")
    return hook["webhook_id"]


@pytest.fixture(params=["sqlite", "postgres"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    with asyncio.Runner() as runner:
        database: Database = Sqlite.open(None) if url is None else AdminPostgres.open(url)
        runner.run(migrate(database, [OWN, ("documents", documents.MIGRATIONS)]))
        mine = Desk(database, words_of(database), scopes=frozenset({"*", "admin"}))
        theirs = mine.neighbour()
        runner.run(furnish(mine, "own", "plain"))
        webhook = runner.run(furnish(theirs, "theirs", MARK))
        asked = [
            runner.run(theirs.done(operation, limit=1, **more))
            for operation, more in (
                ("list_documents", {}),
                ("list_documents", {"sort": "title"}),
                ("list_documents", {"recursive": True}),
                ("document_history", {"document_id": "theirs"}),
                ("audit_log", {}),
            )
        ]
        yield Pair(runner, mine, theirs, [page["next_cursor"] for page in asked], webhook)
        runner.run(mine.close())
        runner.run(database.aclose())


ids = st.sampled_from([*THEIRS, *THEIRS, *OWN_IDS])
parents = st.sampled_from([*THEIRS, *OWN_IDS, "root"])
revisions = st.none() | st.integers(1, 3)
words = st.sampled_from([MARK, f"{MARK} sleeps", f"{MARK}tag", f"{MARK} title", "slept here", "sleeps"])
flags = st.booleans()
marked = st.sampled_from([MARK, "plain"])


def shapes(cursors: list[str], tenant: str, webhook: str) -> st.SearchStrategy[tuple[str, Json]]:
    """Every operation, with whatever of the other tenant's fits into it."""
    cursor = st.none() | st.sampled_from(cursors)
    content = st.fixed_dictionaries({"body": st.just("Mine.")})
    position = st.fixed_dictionaries({}, optional={"before": ids, "ordering": st.integers(0, 3)})
    filters = st.fixed_dictionaries(
        {},
        optional={
            "tags": st.just([f"{MARK}tag"]),
            "tags_any": st.just([f"{MARK}tag", "plaintag"]),
            "parent_id": parents,
            "under": parents,
            "tenant_id": st.just(tenant),
        },
    )
    made: dict[str, dict[str, st.SearchStrategy[Any]]] = {
        "create_document": {"document_id": ids, "parent_id": parents, "content": content},
        "update_document": {"document_id": ids, "patch": st.just({"metadata": {}}), "last_known_revision": revisions},
        "edit_document": {"document_id": ids, "old_text": marked, "new_text": st.just("x")},
        "move_document": {"document_id": ids, "new_parent_id": parents, "position": position},
        "delete_document": {"document_id": ids, "delete_at": st.sampled_from([None, "2999-01-01T00:00:00Z"])},
        "restore_document": {"document_id": ids},
        "restore_revision": {"document_id": ids, "revision": st.integers(1, 2)},
        "query_knowledge": {"query": words, "filters": filters},
        "get_document": {"document_id": ids, "revision": revisions, "include_deleted": flags},
        "get_documents": {"document_ids": st.lists(ids, min_size=1, max_size=6), "include_deleted": flags},
        "list_documents": {
            "parent_id": parents,
            "recursive": flags,
            "sort": st.sampled_from(["order", "title", "updated_at"]),
            "include_deleted": flags,
            "cursor": cursor,
        },
        "document_history": {"document_id": ids, "cursor": cursor},
        "diff_revisions": {"document_id": ids, "from_revision": st.integers(1, 2), "to_revision": revisions},
        "add_webhook": {"url": st.just("http://127.0.0.1:9/mine")},
        "list_webhooks": {},
        "remove_webhook": {"webhook_id": st.just(webhook)},
        "dead_deliveries": {"webhook_id": st.none() | st.just(webhook)},
        "retry_deliveries": {"webhook_id": st.none() | st.just(webhook)},
        "audit_log": {"document_id": st.none() | ids, "actor": st.none() | st.just("somebody"), "cursor": cursor},
    }
    return st.one_of([st.tuples(st.just(name), st.fixed_dictionaries(fields)) for name, fields in made.items()])


@pytest.mark.requirement("000.envelope.principal", "000.query.tenant")
def test_no_operation_reaches_another_tenant(pair: Pair) -> None:
    mine, theirs = pair.mine, pair.theirs
    before = pair.runner.run(theirs.dump())
    named = {operation.action for operation in mine.capability.operations if operation.action} | {"audit_log"}
    seen: set[str] = set()
    whole = {one["document_id"] for one in pair.runner.run(mine.pages("list_documents", "documents", recursive=True))}
    assert whole == {"own", "own-below", "own-due"}

    @settings(max_examples=300, deadline=None, derandomize=True, database=None)
    @given(shapes(pair.cursors, theirs.tenant, pair.webhook))
    def drive(request: tuple[str, Json]) -> None:
        operation, arguments = request
        seen.add(operation)
        sent = orjson.dumps(arguments).decode()
        outcome = pair.runner.run(mine.ask(operation, arguments))
        error = outcome.error
        assert error is None or error.status < 500, error
        answer = orjson.dumps(outcome.value if error is None else error.as_dict()).decode()
        # Ids are told back to whoever named them; a question comes back in no answer.
        assert MARK not in answer, (operation, sent, answer)
        assert theirs.tenant not in answer, (operation, sent, answer)
        assert pair.runner.run(theirs.dump()) == before, (operation, sent)

    drive()
    assert seen == named
    assert theirs.tenant not in orjson.dumps(pair.runner.run(mine.dump()), default=str).decode()


@pytest.mark.requirement("000.query.tenant")
def test_unknown_and_foreign_are_told_alike(pair: Pair) -> None:
    told_alike: list[tuple[str, Json]] = [
        ("get_document", {}),
        ("update_document", {"patch": {"metadata": {}}}),
        ("edit_document", {"old_text": MARK, "new_text": "x"}),
        ("move_document", {"new_parent_id": "root"}),
        ("delete_document", {}),
        ("restore_document", {}),
        ("restore_revision", {"revision": 1}),
        ("document_history", {}),
        ("diff_revisions", {"from_revision": 1}),
    ]
    for operation, more in told_alike:
        told: list[str] = []
        for id in ("theirs", "theirs-gone", "nothing"):
            refused = pair.runner.run(pair.mine.refused(operation, document_id=id, **more))
            assert refused.status == 404
            told.append(orjson.dumps(refused.as_dict()).decode().replace(id, "ID"))
        assert len({*told}) == 1, told


def test_another_tenant_s_resources_are_not_there(pair: Pair) -> None:
    shelf, call = pair.mine.capability.resources, pair.mine.call()
    assert shelf is not None
    page, _ = pair.runner.run(shelf.page(call, None))
    assert {one.uri for one in page} == {f"kho://documents/{id}" for id in ("own", "own-below", "own-due")}
    assert pair.runner.run(shelf.read(call, "kho://documents/theirs")) is None
    assert pair.runner.run(shelf.complete(call, "kho://documents/{id}", "id", "th")) == []
