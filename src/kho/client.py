"""The client that other programs import: conversation memory and server-side tools of a running hub, typed.

from kho.client import Kho

async with Kho() as kho:                      # $MCP_SERVER_URL, or http://localhost:8001
    chat = await kho.memory.get_or_create()
    await kho.memory.add_message(chat, "user", "Xin chào!")
    print(await kho.memory.get_context(chat))
    await kho.remember("Lan prefers pnpm over npm.", about="Lan")
    print(await kho.search("package manager"))
"""

import json
import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Literal, Self, cast

import httpx2

DEFAULT_URL = "http://localhost:8001"
TIMEOUT = 30.0

Role = Literal["user", "assistant", "system", "tool"]


class HubError(Exception):
    """The request failed, or the hub refused it."""


class HubUnreachable(HubError):
    """The hub does not answer at that address. Is 'kho serve' running?"""


class HubTimeout(HubError):
    """The hub took too long."""


class RpcError(HubError):
    """The hub refused the request; the message says why."""

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
    speaker: str = ""
    at: str = ""

    def __str__(self) -> str:
        return f"{self.speaker or self.role}: {self.content}"


@dataclass(frozen=True, slots=True)
class Context:
    """What to put before a model: the summary, then the messages. Iterating yields the messages."""

    summary: str
    messages: list[Message]
    uncovered: int
    """Messages that are in neither."""

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)


@dataclass(frozen=True, slots=True)
class Found:
    conversation_id: str
    message_id: str
    role: str
    content: str
    created_at: str
    score: float
    speaker: str = ""
    at: str = ""
    """When it was said."""


@dataclass(frozen=True, slots=True)
class SimilarFact:
    id: str
    text: str
    about: str
    when: str


@dataclass(frozen=True, slots=True)
class Remembered:
    id: str
    status: str
    """remembered | known (nothing was added) | restored | replaced"""
    similar: Sequence[SimilarFact]
    """Near facts that were there already: pass the id of one as `replaces` if the new fact supersedes it."""
    message: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    id: str
    """The global id, for `fetch`: `fact:…`, `doc:…`, `kb:…`, `exp:…`, `msg:…`."""
    kind: str
    title: str
    text: str
    url: str
    when: str
    score: float = 0.0
    """0 to 1; `recent` gives none."""
    label: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Of a message: `role`, `speaker`, and `at`, when it was said."""


@dataclass(frozen=True, slots=True)
class Fetched:
    id: str
    title: str
    text: str
    url: str
    metadata: Mapping[str, Any]
    """With `next_offset` if there is more text than was returned."""


class Kho:
    """Connection to one hub. `async with` keeps it open; `aclose` ends it."""

    def __init__(self, url: str | None = None, *, key: str | None = None, timeout: float = TIMEOUT) -> None:
        """`key` is the output of 'kho keys create', for a hub that needs one."""
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

    async def remember(
        self,
        text: str,
        *,
        tags: Sequence[str] | None = None,
        about: str | None = None,
        source: str | None = None,
        expires_at: str | None = None,
        replaces: str | None = None,
    ) -> Remembered:
        """Store one short fact. `about` names a person, project or agent; `replaces` is the id of a fact that this one
        supersedes."""
        answer = await self.call(
            "facts-server/remember",
            text=text,
            tags=None if tags is None else list(tags),
            about=about,
            source=source,
            expires_at=expires_at,
            replaces=replaces,
        )
        similar = [SimilarFact(one["id"], one["text"], one.get("about", ""), one["when"]) for one in answer["similar"]]
        return Remembered(answer["id"], answer["status"], similar, answer["message"])

    async def forget(self, id: str, reason: str | None = None) -> None:
        """Forget a fact. It can be restored."""
        await self.call("facts-server/forget", id=id, reason=reason)

    async def search(
        self,
        query: str,
        *,
        kinds: Sequence[str] | None = None,
        about: str | None = None,
        speaker: str | None = None,
        tags: Sequence[str] | None = None,
        since: str | None = None,
        until: str | None = None,
        limit: int | None = None,
    ) -> list[SearchResult]:
        """Search everything that the key may read, best first."""
        answer = await self.call(
            "recall-server/search",
            query=query,
            kinds=None if kinds is None else list(kinds),
            about=about,
            speaker=speaker,
            tags=None if tags is None else list(tags),
            since=since,
            until=until,
            limit=limit,
        )
        return _results(answer)

    async def fetch(self, id: str) -> Fetched:
        """The whole of what `search` or `recent` found, by its id."""
        answer = await self.call("recall-server/fetch", id=id)
        return Fetched(answer["id"], answer["title"], answer["text"], answer["url"], answer["metadata"])

    async def recent(
        self,
        *,
        since: str | None = None,
        kinds: Sequence[str] | None = None,
        about: str | None = None,
        limit: int | None = None,
    ) -> list[SearchResult]:
        """What was added or changed recently, the latest first."""
        chosen = None if kinds is None else list(kinds)
        return _results(await self.call("recall-server/recent", since=since, kinds=chosen, about=about, limit=limit))

    async def call(self, method: str, **params: Any) -> Any:
        """Call any method, e.g. 'experiences-server/query_experiences'. Parameters that are None are left out."""
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
            raise HubError(f"{self.url} answered {response.status_code} with something that is not JSON.") from None
        if response.is_error and "error" in answer:
            error = answer["error"]
            raise HubError(f"{error.get('message', error)} ({response.status_code})")
        return cast(dict[str, Any], answer)


class Memory:
    """Conversations: the memory server."""

    def __init__(self, hub: Kho) -> None:
        self._hub = hub

    async def get_or_create(
        self, conversation_id: str | None = None, *, user_id: str | None = None, agent_id: str | None = None
    ) -> str:
        """Open a conversation or begin one. The labels are to filter by; they protect nothing."""
        labels = {"user_id": user_id, "agent_id": agent_id}
        return (await self._call("get_or_create", conversation_id=conversation_id, **labels))["conversation_id"]

    async def add_message(
        self,
        conversation_id: str,
        role: Role,
        content: str,
        *,
        message_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        speaker: str | None = None,
        at: str | None = None,
        user_id: str | None = None,
        agent_id: str | None = None,
    ) -> None:
        """Add a message; the conversation is begun if there is none with this id. With your own `message_id` it can be
        sent again after a lost answer without a duplicate. `at` is when it was said, in ISO 8601."""
        await self._call(
            "add_message",
            conversation_id=conversation_id,
            role=role,
            content=content,
            message_id=message_id,
            metadata=metadata,
            speaker=speaker,
            at=at,
            user_id=user_id,
            agent_id=agent_id,
        )

    async def get_context(
        self,
        conversation_id: str,
        max_messages: int | None = None,
        *,
        max_characters: int | None = None,
        details: bool = False,
    ) -> Context:
        """Return the summary and what it does not cover. `details`: with the ids and times of the messages."""
        limits = {"max_messages": max_messages, "max_characters": max_characters}
        chosen = {name: limit for name, limit in limits.items() if limit is not None}
        answer = await self._call("context", conversation_id=conversation_id, details=details, **chosen)
        return Context(answer["summary"], _messages(answer), answer["uncovered"])

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

    async def search(
        self,
        query: str = "",
        conversation_id: str | None = None,
        limit: int = 10,
        *,
        user_id: str | None = None,
        agent_id: str | None = None,
        speaker: str | None = None,
        since: str | None = None,
        until: str | None = None,
    ) -> list[Found]:
        """The best first; without a query, what the other parameters say, in the order of time."""
        where = {"conversation_id": conversation_id, "user_id": user_id, "agent_id": agent_id}
        said = {"speaker": speaker, "since": since, "until": until}
        answer = await self._call("search", query=query, limit=limit, **where, **said)
        names = ("conversation_id", "message_id", "role", "content", "created_at", "score")
        return [
            Found(*(one[name] for name in names), speaker=one.get("speaker", ""), at=one.get("at", ""))
            for one in answer["results"]
        ]

    async def conversations(
        self, *, user_id: str | None = None, agent_id: str | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """Yield all conversations, or those with these labels, the most recently used first."""
        cursor: str | None = None
        while True:
            page = await self._call("list", cursor=cursor, user_id=user_id, agent_id=agent_id)
            for one in page["conversations"]:
                yield one
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def export(self, conversation_id: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """Yield the lines of one conversation or of all, as `import_lines` takes them."""
        cursor: str | None = None
        while True:
            page = await self._call("export", conversation_id=conversation_id, cursor=cursor)
            for line in page["lines"]:
                yield line
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    async def import_lines(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """Import at most 1,000 lines at a time; existing messages stay unchanged. Return the number of new messages."""
        return (await self._call("import", lines=list(lines)))["messages"]

    async def resources(self) -> AsyncIterator[dict[str, Any]]:
        """Yield every conversation, as `{uri, name, description, mimeType}`."""
        cursor: str | None = None
        while True:
            page = await self._hub.call("memory-server/resources/list", cursor=cursor)
            for one in page["resources"]:
                yield one
            cursor = page.get("nextCursor")
            if cursor is None:
                return

    async def read_resource(self, uri: str) -> dict[str, Any]:
        """Return `{messages, summary: {text, by, updated_at, folded}}`; `folded`: the paragraphs that it replaced."""
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


def _results(answer: dict[str, Any]) -> list[SearchResult]:
    return [
        SearchResult(
            id=one["id"],
            kind=one["kind"],
            title=one["title"],
            text=one.get("text", ""),
            url=one["url"],
            when=one.get("when", ""),
            score=one.get("score", 0.0),
            label=one.get("label", ""),
            metadata=one.get("metadata", {}),
        )
        for one in answer["results"]
    ]


def _messages(answer: dict[str, Any]) -> list[Message]:
    names = ("id", "created_at", "metadata", "speaker", "at")
    return [
        Message(one["role"], one["content"], **{name: one[name] for name in names if name in one})
        for one in answer["messages"]
    ]
