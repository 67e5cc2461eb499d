"""The MCP door, in both eras: lists and pages, cache hints, annotations, progress, and tools that come and go."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import orjson
import pytest
from mcp import Client, MCPError
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import ToolsListChanged
from tests.doors import doors
from tests.doors.doors import (
    AUDIT,
    DEVICES,
    DOCUMENTS,
    ERAS,
    EXPERIENCES,
    FACTS,
    HANDSHAKE,
    MEMORY,
    MODERN,
    RECALL,
    RESEARCH,
    TOOLBOX,
    Boards,
    Json,
    Served,
    served,
    talking,
)
from tests.timeouts import PATIENCE

from kho.app import open_hub
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.settings import Settings

OURS = [*MEMORY, *TOOLBOX, *FACTS, *RECALL, *EXPERIENCES, *RESEARCH, *DOCUMENTS, *DEVICES, *AUDIT]
BOARDS = ["plug", "unplug", "count", "fail"]


@asynccontextmanager
async def connected(
    settings: Settings,
    era: str,
    *,
    boards: Boards | None = None,
    tools: tuple[str, ...] = ("all",),
    page_size: int = 200,
    **more: Any,
) -> AsyncGenerator[Client, None]:
    """A client of the door, without a transport in between."""
    async with open_hub(settings, (boards.capability,) if boards else ()) as hub:
        background = Background()
        selection = hub.registry.select(tools)
        door = McpDoor(hub, background, lambda ctx: hub.local, selection, page_size)
        async with Client(door.server, mode=era, **more) as client:
            yield client
        await background.drain()


def names(result: types.ListToolsResult) -> list[str]:
    return [tool.name for tool in result.tools]


# -- tools -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.query.tool", "003.submit.tool")
@pytest.mark.parametrize("era", ERAS)
async def test_tools_are_listed_in_a_fixed_order_with_names_that_models_take(settings: Settings, era: str) -> None:
    async with connected(settings, era) as client:
        listed = await client.list_tools(cache_mode="bypass")
        assert names(listed) == names(await client.list_tools(cache_mode="bypass")) == OURS
        for tool in listed.tools:
            assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name)
            assert tool.description
            assert tool.title
            assert tool.annotations is not None
            assert tool.annotations.title == tool.title
            assert tool.input_schema["type"] == "object"
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"


@pytest.mark.parametrize("era", ERAS)
async def test_annotations_say_what_a_tool_may_do(settings: Settings, era: str) -> None:
    async with connected(settings, era) as client:
        tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
    hints = {
        name: (a.read_only_hint, a.destructive_hint, a.open_world_hint) for name, a in tools.items() if a is not None
    }
    assert hints == {
        "memory_get_or_create": (False, False, False),
        "memory_add_message": (False, False, False),
        "memory_clear": (False, True, False),
        "memory_delete": (False, True, False),
        "memory_get_context": (True, False, False),
        "memory_get_all_messages": (True, False, False),
        "memory_search": (True, False, False),
        "memory_list": (True, False, False),
        "memory_get_summary": (True, False, False),
        "memory_set_summary": (False, False, False),
        "duckduckgo_search": (True, False, True),
        "fetch_url": (True, False, True),
        "remember": (False, False, False),
        "forget": (False, True, False),
        "restore_fact": (False, False, False),
        "list_facts": (True, False, False),
        "fact_history": (True, False, False),
        "update_fact": (False, False, False),
        "search": (True, False, False),
        "fetch": (True, False, False),
        "recent": (True, False, False),
        "query_experiences": (True, False, False),
        "get_experience": (True, False, False),
        "submit_experience": (False, False, False),
        "update_experience": (False, False, False),
        "rate_experience": (False, False, False),
        "delete_experience": (False, True, False),
        "restore_experience": (False, False, False),
        "list_waiting_experiences": (True, False, False),
        "approve_experience": (False, False, False),
        "reject_experience": (False, True, False),
        "query_knowledge_base": (True, False, False),
        "manage_collections": (False, True, False),
        "manage_projects": (False, False, False),
        "ingest_documents": (False, False, False),
        "list_kb_documents": (True, False, False),
        "get_kb_document": (True, False, False),
        "remove_kb_document": (False, True, False),
        "augment_knowledge": (False, False, False),
        "submit_feedback": (False, False, False),
        "similar_documents": (True, False, False),
        "ingest_status": (False, False, False),
        "create_document": (False, False, False),
        "update_document": (False, False, False),
        "delete_document": (False, True, False),
        "move_document": (False, False, False),
        "query_knowledge": (True, False, False),
        "edit_document": (False, False, False),
        "restore_document": (False, False, False),
        "restore_revision": (False, False, False),
        "get_document": (True, False, False),
        "get_documents": (True, False, False),
        "list_documents": (True, False, False),
        "document_history": (True, False, False),
        "diff_revisions": (True, False, False),
        "audit_log": (True, False, False),
        "devices_list": (True, False, False),
        "device_tools": (True, False, False),
        "device_call": (False, False, True),
        "device_notifications": (True, False, False),
        "device_log": (True, False, False),
        "device_label": (False, False, False),
    }


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_a_protocol_error(settings: Settings, era: str) -> None:
    async with connected(settings, era) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("no_such_tool", {})
        assert refused.value.error.code == types.INVALID_PARAMS


@pytest.mark.parametrize("era", ERAS)
async def test_a_bug_tells_nothing(settings: Settings, era: str) -> None:
    async with connected(settings, era, boards=Boards()) as client:
        result = await client.call_tool("fail", {})
        assert result.is_error
        [content] = result.content
        assert isinstance(content, types.TextContent)
        assert orjson.loads(content.text)["error"]["code"] == "INTERNAL"
        assert "umami" not in content.text


# -- pages and cache hints ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("size", [1, 3, 7])
async def test_lists_come_in_pages(settings: Settings, era: str, size: int) -> None:
    async with connected(settings, era, page_size=size) as client:
        pages: list[list[str]] = []
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            pages.append(names(page))
            cursor = page.next_cursor
            if cursor is None:
                break
        assert [name for page in pages for name in page] == OURS
        assert [len(page) for page in pages[:-1]] == [size] * (len(pages) - 1)
        first = await client.list_prompts()
        assert (len(first.prompts), first.next_cursor is None) == (min(size, 4), size >= 4)
        for wrong in ("nonsense", "OTk5"):
            with pytest.raises(MCPError) as refused:
                await client.list_tools(cursor=wrong)
            assert refused.value.error.code == types.INVALID_PARAMS
            with pytest.raises(MCPError):
                await client.list_prompts(cursor=wrong)
        with pytest.raises(MCPError):
            await client.list_resources(cursor="nonsense")


async def test_cache_hints_are_private(settings: Settings) -> None:
    async with connected(settings, MODERN) as client:
        listed: list[Any] = [
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
        ]
    for result in listed:
        assert (result.cache_scope, result.ttl_ms) == ("private", 30_000)


async def test_discovery_is_hinted_private_too(shared_hub: Served) -> None:
    answer = await modern(shared_hub, "server/discover", {})
    assert (answer["result"]["cacheScope"], answer["result"]["ttlMs"]) == ("private", 30_000)
    assert MODERN in answer["result"]["supportedVersions"]


# -- prompts and progress ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
async def test_prompts_are_listed_and_rendered(settings: Settings, era: str) -> None:
    async with connected(settings, era) as client:
        listed = (await client.list_prompts()).prompts
        assert [(p.name, [(a.name, a.required) for a in p.arguments or ()]) for p in listed] == [
            ("summarize_experience", [("topic", False)]),
            ("submit_doc_experience", [("draft", True)]),
            ("refine_query", [("query", True), ("collections", False)]),
            ("extract_context", [("query", True), ("collections", False), ("top_k", False)]),
        ]
        drafted = await client.get_prompt("summarize_experience", {"topic": "ấm đun"})
        [message] = drafted.messages
        assert isinstance(message.content, types.TextContent)
        assert (message.role, "ấm đun" in message.content.text) == ("user", True)
        for name in ("submit_doc_experience", "no_such_prompt"):
            with pytest.raises(MCPError) as refused:
                await client.get_prompt(name)
            assert refused.value.error.code == types.INVALID_PARAMS


Progress = list[tuple[float, float | None, str | None]]
COUNTED: Progress = [(1.0, 3.0, "step 1"), (2.0, 3.0, "step 2"), (3.0, 3.0, "step 3")]


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_reported(settings: Settings, era: str) -> None:
    async with connected(settings, era, boards=Boards()) as client:
        assert await count(client) == COUNTED
        assert not (await client.call_tool("count", {})).is_error  # nobody asked for progress


@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_reported_over_http(settings: Settings, era: str) -> None:
    async with served(settings, Boards().capability) as hub, Client(f"{hub.url}/mcp?tools=all", mode=era) as client:
        assert await count(client) == COUNTED


async def count(client: Client) -> Progress:
    seen: Progress = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    assert not (await client.call_tool("count", {}, progress_callback=report)).is_error
    return seen


# -- tools that come and go --------------------------------------------------------------------------------------------


class Changes:
    """Counts the handshake era's notifications that the list of tools changed."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[None] = asyncio.Queue()

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._seen.put_nowait(None)

    async def next(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._seen.get()


async def test_a_handshake_client_is_told_that_tools_changed(settings: Settings) -> None:
    changes = Changes()
    async with connected(settings, "legacy", boards=Boards(), message_handler=changes) as client:
        await see_boards_come_and_go(client, changes)


async def test_a_handshake_client_is_told_over_stdio(home: Path) -> None:
    changes = Changes()
    async with talking(home, "legacy", sys.executable, "-m", doors.__name__, message_handler=changes) as client:
        await see_boards_come_and_go(client, changes)


async def see_boards_come_and_go(client: Client, changes: Changes) -> None:
    capabilities = client.server_capabilities
    assert capabilities.tools is not None
    assert capabilities.tools.list_changed is True
    await client.call_tool("plug", {"name": "lamp"})
    await changes.next()
    assert "lamp" in names(await client.list_tools())
    result = await client.call_tool("lamp", {})
    assert [orjson.loads(c.text) for c in result.content if isinstance(c, types.TextContent)] == [{"board": "lamp"}]
    await client.call_tool("unplug", {"name": "lamp"})
    await changes.next()
    assert "lamp" not in names(await client.list_tools())
    with pytest.raises(MCPError):
        await client.call_tool("lamp", {})


async def test_a_modern_client_is_told_over_its_subscription(settings: Settings) -> None:
    boards = Boards()
    async with (
        served(settings, boards.capability) as hub,
        Client(f"{hub.url}/mcp?tools=all", mode=MODERN) as client,
        client.listen(tools_list_changed=True) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        events = aiter(subscription)
        for change, present in ((boards.plug, True), (boards.unplug, False)):
            change("lamp")
            assert isinstance(await anext(events), ToolsListChanged)
            assert ("lamp" in names(await client.list_tools())) is present


async def test_a_modern_client_that_asks_for_nothing_is_told_nothing(settings: Settings) -> None:
    boards = Boards()
    async with (
        connected(settings, MODERN, boards=boards) as client,
        client.listen(prompts_list_changed=True) as deaf,
        client.listen(tools_list_changed=True) as keen,
    ):
        boards.plug("lamp")
        async with asyncio.timeout(PATIENCE):
            assert isinstance(await anext(aiter(keen)), ToolsListChanged)
        heard = asyncio.ensure_future(anext(aiter(deaf)))
        await asyncio.sleep(0)
        assert not heard.done()
        heard.cancel()


@pytest.mark.parametrize("session", [None, "nobody-knows-this-one"])
async def test_a_handshake_client_over_http_is_told_on_its_stream(settings: Settings, session: str | None) -> None:
    """Any worker can hold the stream: it needs no session that this process knows."""
    boards = Boards()
    headers = {"accept": "text/event-stream", "mcp-protocol-version": HANDSHAKE}
    if session:
        headers["mcp-session-id"] = session
    async with (
        served(settings, boards.capability) as hub,
        hub.http.stream("GET", "/mcp?tools=all", headers=headers) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.aiter_lines()
        async with asyncio.timeout(PATIENCE):
            assert await anext(lines) == ": listening"
            for change in (boards.plug, boards.unplug):
                change("lamp")
                event = await next_event(lines)
                assert (event["jsonrpc"], event["method"]) == ("2.0", "notifications/tools/list_changed")


async def next_event(lines: AsyncIterator[str]) -> Json:
    async for line in lines:
        if line.startswith("data: "):
            return orjson.loads(line.removeprefix("data: "))
    raise AssertionError("the stream ended")


async def test_the_sdk_s_handshake_client_is_told_over_http(settings: Settings) -> None:
    boards, changes = Boards(), Changes()
    async with (
        served(settings, boards.capability) as hub,
        Client(f"{hub.url}/mcp?tools=all", mode="legacy", message_handler=changes) as client,
    ):
        told = asyncio.ensure_future(changes.next())
        while not told.done():  # the client opens its stream some time after the handshake
            await client.call_tool("plug", {"name": "lamp"})
        await told
        assert "lamp" in names(await client.list_tools())


# -- the wire ----------------------------------------------------------------------------------------------------------

ACCEPT = "application/json, text/event-stream"


def payload(response: httpx2.Response) -> Json:
    """The one message of an answer, which may come as JSON or as a stream of events."""
    if response.headers["content-type"].startswith("application/json"):
        return response.json()
    [data] = re.findall(r"^data: (\{.*\})\s*$", response.text, re.MULTILINE)
    return orjson.loads(data)


async def handshake(hub: Served, method: str, params: Json, **headers: str) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return await hub.post("/mcp?tools=all", body, accept=ACCEPT, mcp_protocol_version=HANDSHAKE, **headers)


async def modern(hub: Served, method: str, params: Json) -> Json:
    prefix = "io.modelcontextprotocol/"
    meta: Json = {f"{prefix}protocolVersion": MODERN, f"{prefix}clientCapabilities": {}}
    headers = {"mcp_method": method, **({"mcp_name": params["name"]} if "name" in params else {})}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    response = await hub.post("/mcp?tools=all", body, accept=ACCEPT, mcp_protocol_version=MODERN, **headers)
    assert response.status_code == 200, response.text
    return payload(response)


INITIALIZE = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}


async def test_a_session_that_this_process_does_not_hold_is_served(shared_hub: Served) -> None:
    for session in ("made-by-another-worker", "from-before-the-restart"):
        response = await handshake(shared_hub, "tools/list", {}, mcp_session_id=session)
        assert response.status_code == 200
        assert [tool["name"] for tool in payload(response)["result"]["tools"]] == OURS
        called = await handshake(
            shared_hub,
            "tools/call",
            {"name": "query_experiences", "arguments": {"keywords": "x"}},
            mcp_session_id=session,
        )
        assert payload(called)["result"]["structuredContent"]["success"] is True


async def test_a_session_outlives_the_hub_that_made_it(settings: Settings) -> None:
    async with served(settings) as hub:
        session = (await handshake(hub, "initialize", INITIALIZE)).headers["mcp-session-id"]
    async with served(settings) as hub:
        response = await handshake(hub, "tools/list", {}, mcp_session_id=session)
        assert response.status_code == 200


async def test_a_request_without_any_session_is_served(shared_hub: Served) -> None:
    assert (await handshake(shared_hub, "tools/list", {})).status_code == 200


async def test_the_modern_era_has_no_sessions(shared_hub: Served) -> None:
    answer = await modern(shared_hub, "tools/call", {"name": "query_experiences", "arguments": {"keywords": "x"}})
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["isError"] is False


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", HANDSHAKE])
async def test_every_handshake_version_is_agreed_to(shared_hub: Served, version: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {**INITIALIZE, "protocolVersion": version}}
    response = await shared_hub.post("/mcp", body, accept=ACCEPT)
    result = payload(response)["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"]["name"] == "kho"
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert "query_experiences" in result["instructions"]


async def test_arguments_may_be_left_out(shared_hub: Served) -> None:
    answer = await modern(shared_hub, "tools/call", {"name": "query_experiences"})
    assert answer["result"]["structuredContent"]["error"]["code"] == "INVALID_KEYWORDS"


async def test_a_plain_get_is_told_what_this_is(settings: Settings) -> None:
    async with served(settings) as hub:
        reply = await hub.get("/mcp", accept="*/*")
    assert reply.status_code == 406
    assert "POST a message" in reply.json()["error"]["message"]
