"""`kho verify` on both databases: what is wrong with rows, with references and with indexes, and what `--repair` does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.stores.kept import Kept

from kho.app import opened
from kho.kernel.ports import Tx
from kho.lib.tenancy import in_all_tenants
from kho.settings import Settings


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """Rows of every slice, indexed in the newest form."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    chosen = Kept("2026-12-chain", request.param).unpack(tmp_path / "home", url)
    return chosen


def verify(chosen: Settings, *flags: str) -> dict[str, Any]:
    done = run_in_process(program_of(chosen), "verify", "--json", *flags)
    assert done.status in (0, 1), done
    found = json.loads(done.out)
    assert done.status == (0 if found["ok"] else 1)
    return found


async def damage(chosen: Settings, *statements: str) -> None:
    def work(tx: Tx) -> None:
        for statement in statements:
            assert tx.run(statement), statement

    async with opened(chosen) as (core, _):
        with in_all_tenants():
            await core.db.write(work)


ROWS = {
    "another text": ("UPDATE facts SET text = 'Changed.' WHERE forgotten_at IS NULL", "not what was said"),
    "no JSON": ("UPDATE facts SET tags = '[\"x'", "unreadable in facts: tags"),
    "a lost fact": ("DELETE FROM facts", "revision is of no fact"),
    "a lost body": ("DELETE FROM document_bodies", "without a body"),
    "a lost revision": ("DELETE FROM document_revisions", "without the revision that"),
    "a lost parent": (
        "UPDATE documents SET parent = 'nowhere' WHERE id = 'kettle'",
        "below a parent that is not there",
    ),
    "a circle": ("UPDATE documents SET parent = id WHERE id = 'kettle'", "in a circle of parents"),
    "a lost webhook": ("DELETE FROM document_webhooks", "of a webhook that is not there"),
    "a lost event": ("DELETE FROM document_events", "of an event that is not there"),
    "a lost conversation": ("DELETE FROM conversations", "of no conversation"),
    "a lost message": ("DELETE FROM messages WHERE place = 2", "have another number of messages than"),
    "a lost record": ("DELETE FROM experiences", "of no record"),
    "lost uses": ("DELETE FROM experience_uses", "without the row that counts"),
    "a lost text": ("DELETE FROM research_texts", "without a text"),
    "a lost collection": ("DELETE FROM research_collections", "in a collection that is not there"),
    "a lost document": ("DELETE FROM research_documents", "of no document"),
    "a changed text": ("UPDATE research_texts SET packed = 1", "unreadable"),
    "lost tools": ("DELETE FROM device_toolsets", "without its tools"),
    "changed tools": ("UPDATE device_toolsets SET tools = '[]'", "not what a board told"),
}


@pytest.mark.parametrize(("statement", "told"), ROWS.values(), ids=ROWS)
async def test_what_is_wrong_with_rows_is_found_and_not_touched(
    store: Settings, statement: str, told: str, run: Callable[..., Any]
) -> None:
    await damage(store, statement)
    found = await run(verify, store, "--repair")
    assert not found["ok"]
    assert [one for one in found["findings"] if told in one["problem"]], found
    assert not found["repaired"]
    assert "salvage" in {one["cure"] for one in found["findings"]}
    again = await run(verify, store)
    assert again["findings"] == found["findings"]


@pytest.fixture
def run() -> Callable[..., Any]:
    import asyncio

    return asyncio.to_thread


INDEXES = {
    "lost passages": (("DELETE FROM passages WHERE space = 'facts'",), "not indexed, of facts"),
    "stray passages": (("UPDATE passages SET key = 'nobody' WHERE space = 'facts'",), "of facts, but of no row"),
    "stale passages": (("UPDATE passages SET created_at = 7 WHERE space = 'facts'",), "in an older form, of facts"),
    "changed passages": (("UPDATE passages SET text = 'Changed.' WHERE space = 'facts'",), "not what was indexed"),
    "lost words": (("DELETE FROM words_entries",), "without words"),
    "stray words": (("UPDATE words_entries SET seq = seq + 1000000",), "of no passage"),
    "lost vectors": (("DELETE FROM vectors_1",), "without a vector"),
    "stray vectors": (("UPDATE vectors_1 SET seq = seq + 1000000",), "of no passage"),
    "counters": (("UPDATE search_versions SET items = items + 3",), "counters"),
}


@pytest.mark.parametrize(("statements", "told"), INDEXES.values(), ids=INDEXES)
async def test_what_is_wrong_with_an_index_is_found_and_made_again(
    store: Settings, statements: tuple[str, ...], told: str, run: Callable[..., Any]
) -> None:
    whole = await run(verify, store, "--repair")
    assert (whole["ok"], whole["repaired"]) == (True, True), whole
    assert (await run(verify, store))["findings"] == []
    await damage(store, *statements)
    found = await run(verify, store)
    assert [one for one in found["findings"] if told in one["problem"]], found
    assert {one["cure"] for one in found["findings"]} == {"repair"}
    assert found["what_to_do"] == ["'kho verify --repair' makes the indexes again from the rows."]
    mended = await run(verify, store, "--repair")
    assert (mended["ok"], mended["findings"]) == (True, []), mended
    assert (await run(verify, store))["findings"] == []


async def test_a_store_that_cannot_be_read_is_another_status(tmp_path: Path, run: Callable[..., Any]) -> None:
    (tmp_path / "file").touch()
    away = Settings(home=tmp_path / "file" / "home")
    done = await run(run_in_process, program_of(away), "verify")
    assert (done.status, done.out.partition(":")[0]) == (2, "The store could not be checked")
