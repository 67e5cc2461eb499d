"""Facts on each database, found by words, for a tenant that nobody else has."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.clock import Clock
from tests.engines import words_of

from kho.facts import capability as facts
from kho.facts.settings import FactSettings
from kho.kernel import audit
from kho.kernel.audit import AuditEntry
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import ResourceProvider
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, SearchFilter, Words
from kho.kernel.registry import Registry
from kho.kernel.searchable import FoundPassage, Narrowing, Searchable
from kho.sanitizer.policy import Sanitizer
from kho.sanitizer.settings import SanitizerSettings
from kho.search.core import Core
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases
from kho.storage.migrate import OWN, migrate

Json = dict[str, Any]


@dataclass
class Desk:
    db: Database
    words: Words
    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Clock = field(default_factory=Clock)
    told: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    """Whose resources changed, and which; None where it was the list."""

    def __post_init__(self) -> None:
        index, self.searcher = Index(self.words, None, "", self.clock), Searcher(self.db, self.words)
        background = Background()
        core = Core(self.db, index, self.searcher, background, None, SqlLeases(self.clock), clock=self.clock)
        capability = facts.capability(core, FactSettings())
        [self.searchable] = capability.searchable
        assert capability.resources is not None
        assert capability.resource_changes is not None
        capability.resource_changes.subscribe(lambda tenant, uri: self.told.append((tenant, uri)))
        self.resources: ResourceProvider = capability.resources
        self.registry = Registry([capability], background, screen=Sanitizer(SanitizerSettings().policies))

    def call(self, by: str = "somebody", kind: str = "local", tenant: str | None = None) -> Call:
        return Call(Principal(by, tenant or self.tenant, frozenset({"*"}), kind))

    async def ask(self, operation: str, arguments: Any, call: Call) -> Json | KhoError:
        outcome = await self.registry.call(self.registry.methods[f"facts-server/{operation}"], arguments, call)
        return outcome.error or outcome.value

    async def do(self, operation: str, by: str = "somebody", /, **arguments: Any) -> Json:
        """The answer of an operation that must succeed."""
        answer = await self.ask(operation, arguments, self.call(by))
        assert not isinstance(answer, KhoError), (operation, answer.as_dict())
        return answer

    async def refused(self, operation: str, **arguments: Any) -> KhoError:
        """The error of an operation that must fail, and has changed nothing."""
        before = await self.everything()
        error = await self.ask(operation, arguments, self.call())
        assert isinstance(error, KhoError), error
        assert await self.everything() == before
        return error

    async def remember(self, text: str, **more: Any) -> str:
        """The id of a fact."""
        return (await self.do("remember", text=text, **more))["id"]

    async def listed(self, **more: Any) -> list[str]:
        return [fact["text"] for fact in (await self.do("list_facts", **more))["facts"]]

    async def found(self, query: str, searchable: Searchable | None = None, **where: Any) -> list[str]:
        """The texts of the facts that a search shows, as the declaration describes them."""
        searchable = searchable or self.searchable
        wanted = searchable.narrow(SearchFilter(searchable.space, self.tenant, **where), Narrowing())
        assert wanted is not None
        return await self.found_in(wanted, query)

    async def found_in(self, where: SearchFilter, query: str) -> list[str]:
        hits = (await self.searcher.search(where, query, per_key=True)).hits
        found = [
            FoundPassage(
                one.passage.key,
                one.passage.ref.collection,
                one.passage.ref.kind,
                one.passage.part,
                one.passage.heading,
                one.passage.text,
                one.passage.ref.created_at,
            )
            for one in hits
        ]
        items = await self.db.read(lambda tx: self.searchable.described(tx, self.tenant, found))
        return [item.text for item in items if item is not None]

    async def trail(self) -> list[AuditEntry]:
        """The rows of the audit trail, the oldest first."""
        return (await self.db.read(lambda tx: audit.entries(tx, self.tenant, limit=1_000)))[::-1]

    async def everything(self) -> tuple[list[Json], int]:
        """All that is stored, and the number of rows in the trail."""
        lines = (await self.do("export_facts", limit=1000))["lines"]
        return lines, len(await self.trail())


MakeDesk = Callable[[], Desk]


@pytest.fixture(scope="module")
def slice_tables() -> tuple[str, Path]:
    return "facts", facts.MIGRATIONS


@pytest.fixture
def make_desk(shared_database: Database) -> MakeDesk:
    return lambda: Desk(shared_database, words_of(shared_database))


@pytest.fixture
def desk(make_desk: MakeDesk) -> Desk:
    return make_desk()


@pytest.fixture
async def own_desk(db: Database, words: Words, slice_tables: tuple[str, Path]) -> Desk:
    """On a database of its own, which a test may break."""
    await migrate(db, [OWN, slice_tables])
    return Desk(db, words)
