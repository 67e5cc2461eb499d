"""A whole hub on each database, with something of every kind, asked as a door asks it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kho.app import open_hub
from kho.kernel.call import Call, Principal
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.settings import Http, Settings

Json = dict[str, Any]
ADDRESS = "https://kho.example.org"
SCOPES = {
    "fact": "facts:read",
    "message": "memory:read",
    "experience": "exp:read",
    "research": "research:read",
    "document": "docs:read",
}
"""What it takes to read each kind."""


@dataclass
class Desk:
    hub: Hub
    tenant: str = "acme"
    scopes: frozenset[str] = field(default_factory=lambda: frozenset({"*"}))

    def as_(self, tenant: str, *scopes: str) -> "Desk":
        return Desk(self.hub, tenant, frozenset(scopes or ("*",)))

    @property
    def call(self) -> Call:
        return Call(Principal("lan", self.tenant, self.scopes, "key"))

    async def ask(self, tool: str, arguments: Mapping[str, Any]) -> Json | KhoError:
        operation = self.hub.registry.tool(tool)
        assert operation is not None, tool
        outcome = await self.hub.registry.call(operation, dict(arguments), self.call)
        return outcome.error or outcome.value

    async def do(self, tool: str, **arguments: Any) -> Json:
        """The answer of a call that must succeed."""
        answer = await self.ask(tool, arguments)
        assert not isinstance(answer, KhoError), (tool, answer.as_dict())
        return answer

    async def refused(self, tool: str, **arguments: Any) -> KhoError:
        answer = await self.ask(tool, arguments)
        assert isinstance(answer, KhoError), (tool, answer)
        return answer

    async def found(self, query: str, **more: Any) -> list[Json]:
        return (await self.do("search", query=query, **more))["results"]

    async def fill(self, text: str) -> dict[str, str]:
        """The global ids of a text that is put into every kind of store."""
        fact = await self.do("remember", text=text, about="Lan", tags=["home"])
        await self.do("memory_add_message", conversation_id="chat/1", role="user", content=text, user_id="lan")
        experience = await self.do("submit_experience", title=text, problem_description=text, solution="Read it.")
        await self.do("manage_collections", action="create", collection_name="notes")
        added = await self.do("augment_knowledge", content=text, source="a book", collection="notes", tags=["home"])
        await self.do("create_document", document_id="guide/one", content={"body": text}, metadata={"tags": ["home"]})
        return {
            "fact": f"fact:{fact['id']}",
            "message": "msg:chat/1/1",
            "experience": f"exp:{experience['data']['id']}",
            "research": f"kb:{added['document']['id']}",
            "document": "doc:guide/one",
        }


def settings_of(home: Path, url: str | None) -> Settings:
    return Settings(home=home, database_url=url, http=Http(public_url=ADDRESS))


@pytest.fixture(params=["sqlite", "postgres"])
async def desk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Desk]:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    async with open_hub(settings_of(tmp_path / "home", url)) as hub:
        yield Desk(hub)
