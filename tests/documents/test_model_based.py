"""The service beside a model of it in memory: whatever is done to both, both say the same."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from tests.documents.document_harness import Desk
from tests.engines import AdminPostgres, words_of

from kho.documents import capability as documents
from kho.kernel.ports import Database
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite

T = TypeVar("T")


class Refused(Exception):
    pass


@dataclass
class Node:
    parent: str
    bodies: list[str]
    deletion: int | None = None


@dataclass
class Model:
    """The rules of the tree, as plainly as they can be said."""

    nodes: dict[str, Node] = field(default_factory=dict[str, Node])
    order: dict[str, list[str]] = field(default_factory=lambda: {"root": []})
    """The children of each, deleted ones too: they come back to their place."""
    deletions: int = 0

    def create(self, id: str, parent: str, body: str) -> None:
        self._need_parent(parent)
        if id in self.nodes:
            raise Refused
        self.nodes[id], self.order[id] = Node(parent, [body]), []
        self.order[parent].append(id)

    def update(self, id: str, body: str, known: int | None) -> None:
        if known not in (None, len(self.live(id).bodies)):
            raise Refused
        self.nodes[id].bodies.append(body)

    def move(self, id: str, parent: str, before: str | None, ordering: int | None) -> None:
        self.live(id)
        self._need_parent(parent)
        others = [one for one in self.children(parent) if one != id]
        if id in (parent, *self.above(parent)) or (before is not None and before not in others):
            raise Refused
        if before is None and ordering is not None and ordering < len(others):
            before = others[ordering]
        self.order[self.nodes[id].parent].remove(id)
        siblings = self.order[parent]
        siblings.insert(len(siblings) if before is None else siblings.index(before), id)
        self.nodes[id].parent = parent

    def delete(self, id: str) -> None:
        self.live(id)
        self.deletions += 1
        for one in [other for other in self.nodes if id in (other, *self.above(other))]:
            if self.nodes[one].deletion is None:
                self.nodes[one].deletion = self.deletions

    def restore(self, id: str) -> None:
        deletion = self.nodes[id].deletion if id in self.nodes else None
        if deletion is None or any(self.nodes[one].deletion is not None for one in self.above(id)):
            raise Refused
        for one in self.nodes.values():
            one.deletion = None if one.deletion == deletion else one.deletion

    def live(self, id: str) -> Node:
        if id not in self.nodes or self.nodes[id].deletion is not None:
            raise Refused
        return self.nodes[id]

    def children(self, id: str) -> list[str]:
        return [one for one in self.order[id] if self.nodes[one].deletion is None]

    def above(self, id: str) -> list[str]:
        parent = self.nodes[id].parent if id != "root" else "root"
        return [] if parent == "root" else [parent, *self.above(parent)]

    def _need_parent(self, id: str) -> None:
        if id != "root":
            self.live(id)


IDS = [f"d{number}" for number in range(7)]
ids = st.sampled_from(IDS)
parents = st.sampled_from(["root", "root", *IDS])


class Beside(RuleBasedStateMachine):
    """Every step is done to both; then whatever can be asked is asked of both."""

    database: Database
    runner: asyncio.Runner

    def __init__(self) -> None:
        super().__init__()
        self.desk, self.model, self.words = Desk(self.database, words_of(self.database)), Model(), 0
        self.touched: set[str] = set()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def word(self) -> str:
        """A new word that shares no part with the others, as names with digits do."""
        self.words += 1
        return "ko" + "".join("bdfglmnprz"[int(digit)] + "u" for digit in str(self.words)) + "k"

    def both(self, operation: str, sent: dict[str, Any], *arguments: Any) -> None:
        self.touched = {sent["document_id"]}
        outcome = self.run(self.desk.ask(f"{operation}_document", sent))
        assert outcome.error is None or outcome.error.status < 500, outcome.error
        try:
            getattr(self.model, operation)(sent["document_id"], *arguments)
        except Refused:
            assert outcome.error is not None, f"{operation} {sent} was done: {outcome.value}"
        else:
            assert outcome.error is None, f"{operation} {sent} was refused: {outcome.error.message}"

    @rule(id=ids, parent=parents)
    def create(self, id: str, parent: str) -> None:
        body = self.word()
        self.both("create", {"document_id": id, "parent_id": parent, "content": {"body": body}}, parent, body)

    @rule(id=ids, known=st.none() | st.integers(1, 3))
    def update(self, id: str, known: int | None) -> None:
        body = self.word()
        sent = {"document_id": id, "patch": {"content": {"body": body}}, "last_known_revision": known}
        self.both("update", sent, body, known)

    @rule(id=ids, parent=parents, before=st.none() | ids, ordering=st.none() | st.integers(0, 4))
    def move(self, id: str, parent: str, before: str | None, ordering: int | None) -> None:
        position = {"before": before, "ordering": ordering}
        sent = {"document_id": id, "new_parent_id": parent, "position": position}
        self.both("move", sent, parent, before, ordering)

    @rule(id=ids)
    def delete(self, id: str) -> None:
        self.both("delete", {"document_id": id})

    @rule(id=ids)
    def restore(self, id: str) -> None:
        self.both("restore", {"document_id": id})

    @invariant()
    def they_say_the_same(self) -> None:
        self.run(self.compare())
        self.run(self.compare_found(self.touched))

    async def compare(self) -> None:
        listed = (await self.desk.done("list_documents", recursive=True))["documents"]
        shown = {parent: [one for one in listed if one["parent_id"] == parent] for parent in ("root", *IDS)}
        for parent, below in shown.items():
            visible = parent == "root" or (parent in self.model.nodes and self.model.nodes[parent].deletion is None)
            assert [one["document_id"] for one in below] == (self.model.children(parent) if visible else [])
            assert [one["ordering"] for one in below] == list(range(len(below)))
        got = (await self.desk.done("get_documents", document_ids=IDS))["documents"]
        assert {one["document_id"]: (one["content"]["body"], one["revision"], one["path"]) for one in got} == {
            id: (node.bodies[-1], len(node.bodies), self.model.above(id)[::-1])
            for id, node in self.model.nodes.items()
            if node.deletion is None
        }

    async def compare_found(self, ids: set[str]) -> None:
        """The newest text of what is there, and nothing of what is deleted or was said before."""
        for id in ids & self.model.nodes.keys():
            node = self.model.nodes[id]
            assert await self.desk.found(node.bodies[-1]) == ({id} if node.deletion is None else set())
            assert len(node.bodies) == 1 or await self.desk.found(node.bodies[-2]) == set()

    def teardown(self) -> None:
        self.run(self.compare_found({*IDS}))
        for id, node in self.model.nodes.items():
            history = self.run(self.desk.done("document_history", document_id=id))
            assert [one["revision"] for one in history["revisions"]] == list(range(len(node.bodies), 0, -1))
        self.run(self.desk.close())


@contextmanager
def opened(url: str | None) -> Generator[tuple[asyncio.Runner, Database]]:
    with asyncio.Runner() as runner:
        database: Database = Sqlite.open(None) if url is None else AdminPostgres.open(url)
        runner.run(migrate(database, [OWN, ("documents", documents.MIGRATIONS)]))
        try:
            yield runner, database
        finally:
            runner.run(database.aclose())


@pytest.mark.requirement("000.create.unique", "000.move.cycle", "000.delete.hidden", "000.update.conflict")
@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_service_does_as_the_model(engine: str, request: pytest.FixtureRequest) -> None:
    url = None if engine == "sqlite" else request.getfixturevalue("postgres_schema_url")
    with opened(url) as (runner, database):
        machine = type("Machine", (Beside,), {"runner": runner, "database": database})
        steps = settings(
            max_examples=20 if url is None else 8,
            stateful_step_count=25,
            deadline=None,
            derandomize=True,
            database=None,
        )
        run_state_machine_as_test(machine, settings=steps)
