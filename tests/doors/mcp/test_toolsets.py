"""What clients list: sets, capabilities, single tools; what it costs a model; and tools that come with a board."""

import asyncio
import re
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import mcp_types as types
import orjson
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ToolsListChanged
from tests.doors.doors import (
    DEVICES,
    DOCUMENTS,
    ERAS,
    EXPERIENCES,
    KHO,
    MEMORY,
    MODERN,
    RESEARCH,
    TOOLBOX,
    Boards,
    Json,
    kho,
    served,
    talking,
)
from tests.doors.streams import board_that_speaks, streamed
from tests.timeouts import PATIENCE

from kho import slices
from kho.app import open_hub
from kho.doors.mcp import toolsets
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.errors import InvalidParams
from kho.kernel.toolset import TOOLSETS, Selection, select
from kho.settings import Mcp, Settings
from kho.slices import SLICES, describe, instructions

WIRES = ["memory", "stdio", "http"]
EVERY = {*slices.tools()}
MINIMAL = [name for name in ("remember", "forget", "search", "fetch", "recent") if name in EVERY]
CONTRACTS = [
    "query_experiences", "submit_experience", "query_knowledge_base", "manage_collections", "manage_projects",
    "ingest_documents", "augment_knowledge", "create_document", "update_document", "delete_document", "move_document",
    "query_knowledge",
]  # fmt: skip
TALKS = ["memory_add_message", "memory_get_context", "memory_search"]
WITH_BOARD = ["devices_list", "device_call"]
CHANGED = "notifications/tools/list_changed"
KB = 1024


def names(listed: types.ListToolsResult) -> list[str]:
    return [tool.name for tool in listed.tools]


async def listed(client: Client) -> list[str]:
    return names(await client.list_tools(cache_mode="bypass"))


@asynccontextmanager
async def connected(wire: str, era: str, settings: Settings, *tools: str) -> AsyncGenerator[Client, None]:
    match wire:
        case "memory":
            async with open_hub(settings) as hub:
                background = Background()
                selection = hub.registry.select(tools)
                door = McpDoor(hub, background, lambda ctx: hub.local, selection, 200)
                async with Client(door.server, mode=era) as client:
                    yield client
                await background.drain()
        case "stdio":
            flags = [flag for name in tools for flag in ("--tools", name)]
            async with talking(settings.home, era, KHO, "stdio", *flags) as client:
                yield client
        case _:
            query = "&".join(f"tools={name}" for name in tools)
            async with served(settings) as hub, Client(f"{hub.url}/mcp?{query}", mode=era) as client:
                yield client


# -- the sets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_the_sets_list_what_they_promise(wire: str, era: str, settings: Settings) -> None:
    async with connected(wire, era, settings) as client:
        found = await listed(client)
        assert sorted(found) == sorted([*MINIMAL, *CONTRACTS, *TALKS, "more"])
        assert found[-1] == "more"
    async with connected(wire, era, settings, "minimal") as client:
        assert sorted(await listed(client)) == sorted(MINIMAL)
    async with connected(wire, era, settings, "all") as client:
        found = await listed(client)
        assert {*MEMORY, *TOOLBOX, *EXPERIENCES, *RESEARCH, *DOCUMENTS, *DEVICES} < {*found}
        assert "more" not in found  # nothing is left for it


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        (("experiences",), EXPERIENCES),
        (("docs",), DOCUMENTS),
        (("tools", "exp"), [*TOOLBOX, *EXPERIENCES]),
        (("tool-server",), TOOLBOX),
        (("memory_list, audit_log",), ["memory_list", "audit_log"]),
        (("toolbox,memory_list", "more"), ["memory_list", *TOOLBOX, "more"]),
        (("devices",), DEVICES),
    ],
)
async def test_capabilities_and_tools_add_up(
    tools: tuple[str, ...], expected: Sequence[str], settings: Settings
) -> None:
    for wire in ("memory", "http"):
        async with connected(wire, MODERN, settings, *tools) as client:
            assert await listed(client) == expected


async def test_repeated_flags_add_up_on_a_command_line(settings: Settings) -> None:
    async with connected("stdio", MODERN, settings, "kb", "memory_list,more") as client:
        assert await listed(client) == ["memory_list", *RESEARCH, "more"]


async def test_the_settings_choose_and_an_address_overrides(home: Path) -> None:
    settings = Settings(home=home, database_url=None, mcp=Mcp(tools=["toolbox"]))
    async with served(settings) as hub:
        for query, expected in (("", TOOLBOX), ("?tools=experiences", EXPERIENCES), ("?tools=", TOOLBOX)):
            async with Client(f"{hub.url}/mcp{query}", mode=MODERN) as client:
                assert await listed(client) == expected
    async with talking(home, MODERN, KHO, "stdio", env={"KHO_MCP__TOOLS": "toolbox,memory_list"}) as client:
        assert await listed(client) == ["memory_list", *TOOLBOX]


@pytest.mark.parametrize("command", [("stdio",), ("serve",), ("devices", "attach", "ws://127.0.0.1:9/")])
async def test_a_name_of_nothing_is_refused_with_those_there_are(home: Path, command: tuple[str, ...]) -> None:
    done = await kho(home, *command, "--tools", "default", "--tools", "documents,nonsense")
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith("error: There is no toolset, capability or tool called nonsense. Sets: minimal, default")
    for known in (*TOOLSETS, *SLICES, "memory_list", "more"):
        assert re.search(rf"\b{known}\b", done.err)


@pytest.mark.parametrize("era", ERAS)
async def test_an_address_with_a_name_of_nothing_is_refused(settings: Settings, era: str) -> None:
    async with served(settings) as hub:
        refused = await hub.post("/mcp?tools=nonsense", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert refused.status_code == 400
        assert "called nonsense. Sets: minimal, default, all." in refused.json()["error"]["message"]
        with pytest.raises((MCPError, ExceptionGroup)):
            async with Client(f"{hub.url}/mcp?tools=nonsense", mode=era) as client:
                await client.list_tools()


def test_the_slices_are_loaded_only_for_the_name_of_a_tool() -> None:
    def load() -> list[str]:
        raise AssertionError("nobody named a tool")

    assert select([], ["documents"], load) == Selection("default")
    assert select(["minimal,docs", " default "], ["documents"], load) == Selection("default", frozenset({"documents"}))
    with pytest.raises(InvalidParams, match="memory_lst"):
        select(["memory_lst"], ["documents"], lambda: ["memory_list"])


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_not_listed_can_be_called(wire: str, era: str, settings: Settings) -> None:
    async with connected(wire, era, settings, "minimal") as client:
        assert "memory_list" not in await listed(client)
        assert (await client.call_tool("memory_list", {})).structured_content == {"conversations": []}


async def test_sets_do_not_touch_the_contract_s_own_lists(home: Path) -> None:
    settings = Settings(home=home, database_url=None, mcp=Mcp(tools=["minimal"]))
    async with served(settings) as hub:
        body: Json = {"jsonrpc": "2.0", "id": 1, "method": "tool-server/tools/list", "params": {}}
        answer = (await hub.post("/jsonrpc?tools=minimal", body)).json()
        assert [tool["name"] for tool in answer["result"]["tools"]] == TOOLBOX
        shown = (await hub.get("/servers/tool-server/capabilities")).json()["capabilities"]
        assert [tool["name"] for tool in shown["tools"]] == TOOLBOX


# -- what a model reads ------------------------------------------------------------------------------------------------


def size(tool: types.Tool) -> int:
    read = tool.model_dump(by_alias=True, include={"name", "description", "input_schema"})
    return len(orjson.dumps(read))


async def test_what_a_model_reads_is_small(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    found: dict[str, list[types.Tool]] = {}
    for tools in ("minimal", "default", "default,devices_list,device_call", "all"):
        async with connected("memory", MODERN, settings, tools) as client:
            found[tools] = (await client.list_tools()).tools
    with capsys.disabled():
        for tools, listed in found.items():
            sys.stdout.write(f"\n{tools}: {len(listed)} tools, {sum(map(size, listed)):,} bytes")
    assert len(found["default"]) <= 21
    assert len(found["default,devices_list,device_call"]) <= 23
    assert sum(map(size, found["default,devices_list,device_call"])) <= 15 * KB
    assert sum(map(size, found["minimal"])) <= 3 * KB


@pytest.mark.parametrize("era", ["legacy", "auto"])  # a client that names its version does not ask for them
@pytest.mark.parametrize("wire", ["memory", "http"])
@pytest.mark.parametrize("tools", ["", "minimal", "devices", "experiences,documents", "toolbox", "all", "memory_list"])
async def test_instructions_are_short_and_name_what_is_listed(
    wire: str, era: str, tools: str, settings: Settings
) -> None:
    async with connected(wire, era, settings, tools) as client:
        offered, told = {*await listed(client)}, client.instructions or ""
    named = {*re.findall(r"\w+", told)} & {*EVERY, "more"}
    assert named <= offered
    assert ("device_call" in named) is (tools in ("devices", "all"))
    assert ({"remember", "search"} & EVERY <= named) is (not MINIMAL or tools in ("", "minimal", "all"))
    assert len(told) <= 900


def test_instructions_begin_with_remember_and_search() -> None:
    told = toolsets.instructions(Selection("all"), instructions())
    named = re.findall(r"\b(remember|search|[a-z]+_[a-z_]+)\b", told)
    first = {"remember", "search"} & EVERY
    assert {*named[: len(first)]} == first
    assert len(told) <= 900


def test_every_tool_says_when_to_use_it() -> None:
    for capability in describe().capabilities:
        for operation in capability.operations:
            if operation.tool and capability.name != "toolbox":  # its words are the contract's
                assert operation.description, operation.tool
                assert len(operation.description) <= 300, operation.tool


# -- tools that come with a board --------------------------------------------------------------------------------------


async def heard(lines: AsyncIterator[str], wanted: str) -> None:
    async for line in lines:
        if wanted in line:
            return


async def forget(home: Path, board: str) -> None:
    done = await kho(home, "devices", "forget", board, "--yes")
    assert done.status == 0, done.err


async def has_boards(client: Client) -> bool:
    found = {*await listed(client)} & {*DEVICES}
    assert found in ({*WITH_BOARD}, set())
    return bool(found)


async def test_a_modern_client_is_told_when_the_first_board_is_known_and_when_the_last_goes(settings: Settings) -> None:
    async with (
        served(settings, serving=True) as hub,
        Client(f"{hub.url}/mcp", mode=MODERN) as client,
        client.listen(tools_list_changed=True) as subscription,
        asyncio.timeout(PATIENCE),
    ):
        events = aiter(subscription)
        assert not await has_boards(client)
        async with board_that_speaks(hub, "board-1"):
            assert isinstance(await anext(events), ToolsListChanged)
            assert await has_boards(client)
        assert await has_boards(client)  # it is known, though not connected
        await forget(settings.home, "board-1")
        assert isinstance(await anext(events), ToolsListChanged)
        assert not await has_boards(client)


async def test_a_handshake_client_is_told_over_http(settings: Settings) -> None:
    async with (
        served(settings, serving=True) as hub,
        Client(f"{hub.url}/mcp", mode="legacy") as client,
        streamed(hub, "/mcp") as (_, lines),
        asyncio.timeout(PATIENCE),
    ):
        async with board_that_speaks(hub, "board-1"):
            await heard(lines, CHANGED)
            assert await has_boards(client)
        await forget(settings.home, "board-1")
        await heard(lines, CHANGED)
        assert not await has_boards(client)


@pytest.mark.parametrize("era", ERAS)
async def test_another_process_sees_the_board_too(settings: Settings, era: str) -> None:
    """At once, because not every client asks again."""
    async with served(settings, serving=True) as hub, asyncio.timeout(PATIENCE):
        async with streamed(hub, "/mcp") as (_, lines), board_that_speaks(hub, "board-1"):
            await heard(lines, CHANGED)
        async with talking(settings.home, era, KHO, "stdio") as client:
            assert await has_boards(client)


async def test_nobody_is_told_of_tools_that_it_does_not_list(settings: Settings) -> None:
    boards = Boards()
    async with (
        served(settings, boards.capability) as hub,
        Client(f"{hub.url}/mcp", mode=MODERN) as usual,
        Client(f"{hub.url}/mcp?tools=boards", mode=MODERN) as keen,
        usual.listen(tools_list_changed=True) as quiet,
        keen.listen(tools_list_changed=True) as told,
        asyncio.timeout(PATIENCE),
    ):
        boards.plug("lamp")
        assert isinstance(await anext(aiter(told)), ToolsListChanged)
        event = asyncio.ensure_future(anext(aiter(quiet)))
        assert "lamp" not in await listed(usual)  # an answer on the same connection: a notice would have come before
        assert not event.done()
        event.cancel()
