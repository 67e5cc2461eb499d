"""The client that other programs import: conversation memory and server-side tools of a running hub, typed.

from kho.client import Kho

async with Kho() as kho:                      # $MCP_SERVER_URL, or http://localhost:8001
    chat = await kho.memory.get_or_create()
    await kho.memory.add_message(chat, "user", "Xin chào!")
    print(await kho.memory.get_context(chat))
"""

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, cast

import httpx2

DEFAULT_URL = "http://localhost:8001"
TIMEOUT = 30.0

Role = Literal["user", "assistant", "system"]


class HubError(Exception):
    """The hub could not be asked, or refused."""


class HubUnreachable(HubError):
    """The hub does not answer at that address. Is 'kho serve' running?"""


class HubTimeout(HubError):
    """The hub took too long."""


class RpcError(HubError):
    """The hub refused, and says why."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class NotFound(RpcError):
    """There is no such conversation or resource (-32001)."""


class ToolError(RpcError):
    """A tool failed (-32002)."""


_KINDS: dict[int, type[RpcError]] = {-32001: NotFound, -32002: ToolError}


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str
    id: str = ""
    created_at: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        return f"{self.role}: {self.content}"


@dataclass(frozen=True, slots=True)
class Found:
    conversation_id: str
    message_id: str
    role: str
    content: str
    created_at: str
    score: float


class Kho:
    """One hub. `async with` keeps the connection open; `aclose` ends it."""

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout: float = TIMEOUT) -> None:
        """`key` is what 'kho keys create' printed, for a hub that asks for one."""
        self.url = (url or os.environ.get("MCP_SERVER_URL") or DEFAULT_URL).rstrip("/")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.AsyncClient(timeout=timeout, headers=headers)
        self._numbers = count(1)
        self.memory = Memory(self)
        self.tools = Tools(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()

    async def health(self) -> dict[str, Any]:
        return await self._get("/health")

    async def servers(self) -> list[dict[str, Any]]:
        return (await self._get("/servers"))["servers"]

    async def capabilities(self, server: str) -> dict[str, Any]:
        return (await self._get(f"/servers/{server}/capabilities"))["capabilities"]

    async def call(self, method: str, **params: Any) -> Any:
        """Any method, e.g. 'experiences-server/query_experiences'. Parameters that are None are left out."""
        given = {name: value for name, value in params.items() if value is not None}
        body = {"jsonrpc": "2.0", "method": method, "params": given, "id": next(self._numbers)}
        answer = await self._sent("POST", "/jsonrpc", body)
        if "error" in answer:
            error = answer["error"]
            kind = _KINDS.get(error["code"], RpcError)
            raise kind(error["code"], error["message"], error.get("data"))
        return answer["result"]

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._sent("GET", path, None)

    async def _sent(self, verb: str, path: str, body: Any) -> dict[str, Any]:
        try:
            response = await self._http.request(verb, self.url + path, json=body)
        except httpx2.TimeoutException:
            raise HubTimeout(f"{self.url} did not answer in time.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as problem:
            raise HubUnreachable(
                f"{self.url} cannot be reached ({type(problem).__name__}). Is 'kho serve' running?"
            ) from None
        try:
            answer: Any = response.json()
        except ValueError:
            raise HubError(f"{self.url} answered {response.status_code} with something that is no JSON.") from None
        if response.is_error and "error" in answer:
            error = answer["error"]
            raise HubError(f"{error.get('message', error)} ({response.status_code})")
        return cast(dict[str, Any], answer)


class Memory:
    """Conversations: the memory server."""

    def __init__(self, hub: Kho) -> None:
        self._hub = hub

    async def get_or_create(self, conversation_id: str | None = None) -> str:
        return (await self._call("get_or_create", conversation_id=conversation_id))["conversation_id"]

    async def add_message(
        self,
        conversation_id: str,
        role: Role,
        content: str,
        *,
        message_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """With a `message_id` of your own, it may be sent again after a lost answer: nothing is doubled."""
        await self._call(
            "add_message",
            conversation_id=conversation_id,
            role=role,
            content=content,
            message_id=message_id,
            metadata=metadata,
        )

    async def get_context(self, conversation_id: str, max_messages: int | None = None) -> list[Message]:
        return _messages(await self._call("get_context", conversation_id=conversation_id, max_messages=max_messages))

    async def get_all_messages(self, conversation_id: str) -> list[Message]:
        return _messages(await self._call("get_all_messages", conversation_id=conversation_id))

    async def get_old_messages(self, conversation_id: str) -> list[Message]:
        return _messages(await self._call("get_old_messages", conversation_id=conversation_id))

    async def get_summary(self, conversation_id: str) -> str:
        return (await self._call("get_summary", conversation_id=conversation_id))["summary"]

    async def get_or_create_summary(
        self, conversation_id: str, old_messages: Sequence[Message] | None = None, language: str | None = None
    ) -> str:
        sent = [{"role": one.role, "content": one.content} for one in old_messages] if old_messages else None
        answer = await self._call(
            "get_or_create_summary", conversation_id=conversation_id, old_messages=sent, language=language
        )
        return answer["summary"]

    async def set_summary(self, conversation_id: str, summary: str) -> None:
        await self._call("set_summary", conversation_id=conversation_id, summary=summary)

    async def clear(self, conversation_id: str) -> None:
        await self._call("clear", conversation_id=conversation_id)

    async def delete(self, conversation_id: str) -> None:
        await self._call("delete", conversation_id=conversation_id)

    async def search(self, query: str, conversation_id: str | None = None, limit: int = 10) -> list[Found]:
        answer = await self._call("search", query=query, conversation_id=conversation_id, limit=limit)
        names = ("conversation_id", "message_id", "role", "content", "created_at", "score")
        return [Found(*(one[name] for name in names)) for one in answer["results"]]

    async def conversations(self) -> AsyncIterator[dict[str, Any]]:
        """All of them, the most lately used first."""
        cursor: str | None = None
        while True:
            page = await self._call("list", cursor=cursor)
            for one in page["conversations"]:
                yield one
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def export(self, conversation_id: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Line by line, of one conversation or of all: what `import_lines` takes."""
        cursor: str | None = None
        while True:
            page = await self._call("export", conversation_id=conversation_id, cursor=cursor)
            for line in page["lines"]:
                yield line
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def import_lines(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """At most 1,000 at a time. How many messages were new: those that are there already stay as they are."""
        return (await self._call("import", lines=list(lines)))["messages"]

    async def resources(self) -> AsyncIterator[dict[str, Any]]:
        """Every conversation, as `{uri, name, description, mimeType}`."""
        cursor: str | None = None
        while True:
            page = await self._hub.call("memory-server/resources/list", cursor=cursor)
            for one in page["resources"]:
                yield one
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """`{messages, summary: {text, by, updated_at, folded}}`: `folded` is what the summary let go of."""
        [content] = (await self._hub.call("memory-server/resources/read", uri=uri))["contents"]
        return json.loads(content["text"])

    async def _call(self, method: str, **params: Any) -> Any:
        return await self._hub.call(f"memory-server/memory/{method}", **params)


class Tools:
    """The tool server."""

    def __init__(self, hub: Kho) -> None:
        self._hub = hub

    async def list(self) -> Sequence[dict[str, Any]]:
        return (await self._hub.call("tool-server/tools/list"))["tools"]

    async def call(self, name: str, **arguments: Any) -> str:
        answer = await self._hub.call("tool-server/tools/call", name=name, arguments=arguments)
        return "\n".join(part["text"] for part in answer["content"] if part["type"] == "text")


def _messages(answer: dict[str, Any]) -> list[Message]:
    return [
        Message(one["role"], one["content"], one.get("id", ""), one.get("created_at", ""), one.get("metadata") or {})
        for one in answer["messages"]
    ]
