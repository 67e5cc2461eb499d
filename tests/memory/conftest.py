"""Conversations on each database, by words alone, for a tenant that nobody else has."""

import uuid
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.clock import Clock

from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Changes
from kho.kernel.ports import Database, Llm, Words
from kho.memory import attribution, model
from kho.memory.capability import MIGRATIONS
from kho.memory.resources import ConversationResources
from kho.memory.service import MemoryService
from kho.memory.settings import MemorySettings
from kho.memory.store import SPACE
from kho.memory.summarizer import Summarizer
from kho.memory.transfer import MemoryTransfer
from kho.search.indexing.index import Index
from kho.search.query.searcher import Searcher
from kho.storage.migrate import OWN, migrate


@dataclass
class Desk:
    db: Database
    words: Words
    settings: MemorySettings = field(default_factory=MemorySettings)
    tenant: str = field(default_factory=lambda: str(uuid.uuid4()))
    clock: Clock = field(default_factory=Clock)
    llm: Llm | None = None
    told: list[tuple[str, str | None]] = field(default_factory=list[tuple[str, str | None]])
    """Whose resources changed, and which; None where it was the list."""

    def __post_init__(self) -> None:
        index = Index(self.words, None, "", self.clock)
        changes = Changes(scope="memory:read")
        changes.subscribe(lambda tenant, uri: self.told.append((tenant, uri)))
        parts: dict[str, Any] = {"db": self.db, "clock": self.clock, "settings": self.settings, "changes": changes}
        self.summaries = Summarizer(**parts, background=Background(), llm=self.llm)
        self.service = MemoryService(
            **parts,
            index=index,
            searcher=Searcher(self.db, self.words, spoken={SPACE: attribution.names}, clock=self.clock),
        )
        self.resources = ConversationResources(self.db, 10.0)
        self.transfer = MemoryTransfer(**parts, index=index)

    @property
    def call(self) -> Call:
        return Call(Principal("someone", self.tenant, frozenset({"*"})))

    async def open(self, id: str | None = None) -> str:
        opened = await self.service.get_or_create(model.GetOrCreate(conversation_id=id), self.call)
        return opened.conversation_id

    async def say(self, id: str, *said: tuple[str, str], **more: Any) -> None:
        for role, content in said:
            params = {"conversation_id": id, "role": role, "content": content, **more}
            await self.service.add_message(model.AddMessage.model_validate(params), self.call)

    async def all(self, id: str) -> list[tuple[str, str]]:
        found = await self.service.get_all_messages(model.OfConversation(conversation_id=id), self.call)
        return [(message.role, message.content) for message in found.messages]

    async def summary(self, id: str) -> str:
        while await self.summaries.step():
            pass
        return (await self.service.get_summary(model.OfConversation(conversation_id=id), self.call)).summary

    async def found(self, query: str, id: str | None = None, **more: Any) -> list[str]:
        asked = model.SearchMemory.model_validate({"query": query, "conversation_id": id, **more})
        hits = await self.service.search(asked, self.call)
        return [hit.content for hit in hits.results]


@pytest.fixture
async def desk(db: Database, words: Words) -> Desk:
    await migrate(db, [OWN, ("memory", MIGRATIONS)])
    return Desk(db, words)
