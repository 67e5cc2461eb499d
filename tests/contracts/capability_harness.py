"""Where contract tests sit: the operations of a capability on a real database, a clock that is set by hand, and a
tenant that nobody else has."""

import uuid
from dataclasses import dataclass, field
from typing import Any

from kho.experiences import capability as experiences
from kho.experiences.service import Limits
from kho.experiences.settings import ExperienceSettings
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.ports import Database, Words
from kho.kernel.registry import Registry
from kho.lib.clock import DAY, from_iso
from kho.sanitizer.policy import Sanitizer
from kho.sanitizer.settings import SanitizerSettings
from kho.search.core import Core
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases

Json = dict[str, Any]

NOW = from_iso("2026-01-01T00:00:00Z")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += round(days * DAY)


@dataclass
class Desk:
    db: Database
    words: Words
    settings: ExperienceSettings = field(default_factory=ExperienceSettings)
    limits: Limits | None = None
    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Clock = field(default_factory=Clock)
    background: Background = field(default_factory=Background)

    def __post_init__(self) -> None:
        index, searcher = Index(self.words, None, "", self.clock), Searcher(self.db, self.words)
        core = Core(self.db, index, searcher, self.background, None, SqlLeases(self.clock), clock=self.clock)
        capability = experiences.capability(core, self.settings, self.limits)
        self.registry = Registry([capability], self.background, screen=Sanitizer(SanitizerSettings().policies))

    async def ask(self, operation: str, arguments: Any, *, by: str = "somebody", kind: str = "local") -> Json:
        """The envelope of an operation's answer."""
        call = Call(Principal(by, self.tenant, frozenset({"*"}), kind))
        return (
            await self.registry.call(self.registry.methods[f"experiences-server/{operation}"], arguments, call)
        ).value

    async def done(self, operation: str, **arguments: Any) -> Json:
        """The data of an answer that must be a success."""
        envelope = await self.ask(operation, arguments)
        assert envelope["success"], envelope
        return envelope["data"]

    async def refused(self, operation: str, **arguments: Any) -> Json:
        """The error of an answer that must be a failure, in the one form that failures have."""
        envelope = await self.ask(operation, arguments)
        assert envelope == {"success": False, "error": envelope["error"]}, envelope
        error: Json = envelope["error"]
        assert isinstance(error["code"], str)
        assert isinstance(error["message"], str)
        assert error["message"]
        assert error.keys() <= {"code", "message", "validation_errors", "details"}
        return error

    async def submit(self, title: str = "A title", **fields: Any) -> str:
        """The new record's id."""
        fields = {"problem_description": "It did not work.", "solution": "Now it does.", **fields}
        return (await self.done("submit_experience", title=title, **fields))["id"]

    async def query(self, keywords: Any, **more: Any) -> Json:
        return await self.done("query_experiences", keywords=keywords, **more)

    async def titles(self, keywords: Any, **more: Any) -> list[str]:
        return [hit["title"] for hit in (await self.query(keywords, **more))["experiences"]]

    async def get(self, id: str, **more: Any) -> Json:
        """The record as it is now. Reading it does not count."""
        return await self.done("get_experience", id=id, **more)

    async def take_in(self, *records: Json) -> None:
        """Records with a past: counts, times and ids are kept as given."""
        plain = {"problem_description": "It did not work.", "solution": "Now it does."}
        done = await self.done("import_experiences", experiences=[{**plain, **record} for record in records])
        assert done["imported"] == len(records)

    async def stored(self) -> list[Json]:
        return (await self.done("export_experiences", include_deleted=True, limit=1000))["experiences"]

    async def settle(self) -> None:
        """Waits for everything that follows the answers."""
        await self.background.drain()
