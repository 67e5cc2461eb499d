"""Contract 004, the times: simple operations have five seconds and questions thirty, also when the database is stuck."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.timeouts import PATIENCE

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.ports import Database, Tx, Words
from kho.kernel.registry import Outcome, Registry
from kho.lib.clock import system_clock
from kho.parsers import Worker
from kho.research import capability as research
from kho.research.ingest.allowed_paths import AllowedPaths
from kho.research.settings import ResearchSettings
from kho.search.core import Core
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate

SIMPLE: list[tuple[str, dict[str, Any]]] = [
    ("manage_collections", {"action": "list"}),
    ("manage_collections", {"action": "info", "collection_name": "papers"}),
    ("manage_collections", {"action": "create", "collection_name": "more"}),
    ("manage_projects", {"action": "list"}),
    ("manage_projects", {"action": "create", "project_name": "thesis"}),
    ("list_kb_documents", {}),
    ("knowledge_base_status", {}),
    ("ingest_status", {}),
    ("query_history", {}),
]


@dataclass
class Room:
    db: Database
    registry: Registry

    async def ask(self, tool: str, arguments: dict[str, Any], call: Call | None = None) -> Outcome:
        call = call or self.call()
        return await self.registry.call(self.registry.methods[f"research-server/{tool}"], arguments, call)

    def call(self) -> Call:
        return Call(Principal("somebody", "t", frozenset({"*"})))


@pytest.fixture
async def make_room(db: Database, words: Words, tmp_path: Path) -> AsyncIterator[Callable[..., Room]]:
    await migrate(db, [OWN, ("research", research.MIGRATIONS)])
    background, reader, index = Background(), Worker(cut=True), Index(words, None, "", system_clock)

    def make(**limits: float) -> Room:
        capability = research.capability(
            Core(db, index, Searcher(db, words), background, None, SqlLeases(system_clock)),
            ResearchSettings(**limits),  # type: ignore[arg-type] # of its fields those that are seconds
            allowed_paths=AllowedPaths.of([tmp_path], [], kho_home=tmp_path / "home"),
            reader=reader,
        )
        return Room(db, Registry([capability], background))

    room = make()
    assert (await room.ask("manage_collections", {"action": "create", "collection_name": "papers"})).error is None
    yield make
    await background.drain()
    await reader.aclose()


def test_the_times_are_those_of_the_contract_unless_set_otherwise() -> None:
    assert (ResearchSettings().simple_timeout, ResearchSettings().query_timeout) == (5, 30)


@pytest.mark.requirement("004.time.simple")
@pytest.mark.parametrize(("tool", "arguments"), SIMPLE)
async def test_a_simple_operation_has_five_seconds(
    make_room: Callable[..., Room], tool: str, arguments: dict[str, Any]
) -> None:
    room = make_room()
    call = room.call()
    before = time.monotonic()
    assert (await room.ask(tool, arguments, call)).error is None
    assert call.deadline is not None
    assert before < call.deadline <= time.monotonic() + 5


@pytest.mark.requirement("004.time.simple", "004.time.timeout")
async def test_a_simple_operation_is_given_up_while_the_database_is_stuck(make_room: Callable[..., Room]) -> None:
    room = make_room(simple_timeout=0.2)
    async with stuck(room.db.write, 1):
        refused = (await room.ask("manage_collections", {"action": "create", "collection_name": "late"})).error
        assert refused is not None
        assert (refused.code, refused.contract_code) == ("TIMEOUT", -32000)
        assert "Check whether the change was made" in refused.guidance
    async with stuck(room.db.read, 64):
        for tool, arguments in (SIMPLE[0], SIMPLE[3], SIMPLE[5], SIMPLE[6]):
            refused = (await room.ask(tool, arguments)).error
            assert refused is not None, tool
            assert (refused.code, refused.contract_code) == ("TIMEOUT", -32000), tool
    assert (await make_room().ask("manage_collections", {"action": "list"})).error is None


@pytest.mark.requirement("004.time.query", "004.time.timeout")
async def test_a_question_is_given_up_while_the_database_is_stuck(make_room: Callable[..., Room]) -> None:
    room = make_room(query_timeout=0.2)
    async with stuck(room.db.read, 64):
        for tool, arguments in (("query_knowledge_base", {"query": "x"}), ("similar_documents", {"document": "x"})):
            refused = (await room.ask(tool, arguments)).error
            assert refused is not None, tool
            assert (refused.code, refused.contract_code) == ("QUERY_TIMEOUT", -32004), tool
            assert "Ask again with fewer words" in refused.guidance
    assert (await make_room().ask("query_knowledge_base", {"query": "x"})).error is None


@asynccontextmanager
async def stuck(do: Callable[[Callable[[Tx], None]], Coroutine[Any, Any, None]], times: int) -> AsyncGenerator[None]:
    """The database is busy with as many works, which hold on to it until this ends."""
    begun, let_go = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        if times == 1 and tx.engine == "postgres":  # one writer of several
            tx.run("LOCK TABLE research_collections IN EXCLUSIVE MODE")
        begun.set()
        let_go.wait(PATIENCE)

    works = [asyncio.ensure_future(do(hold)) for _ in range(times)]
    try:
        await asyncio.to_thread(begun.wait, 60)
        yield
    finally:
        let_go.set()
        await asyncio.gather(*works)
