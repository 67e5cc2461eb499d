"""A contract with error numbers and Markdown of its own, over MCP in both eras and at /jsonrpc."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import jsonschema
import mcp_types as types
import orjson
import pytest
from mcp import Client, MCPError
from tests.doors.doors import ERAS, MODERN, Json, served, talking
from tests.doors.sample_capability import PROGRAM, Shelves

from kho.app import open_hub
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.errors import Conflict, DatabaseError, InvalidParams, KhoError, NotFound
from kho.kernel.toolset import ALL
from kho.settings import Settings

WIRES = ("memory", "stdio", "http")
UNKNOWN: Json = {"action": "delete", "shelf_name": "nothing"}
TOLD = {
    "details": "name: nothing",
    "guidance": 'See what there is with manage_shelves(action="list").',
}


@asynccontextmanager
async def connected(wire: str, era: str, home: Path) -> AsyncGenerator[Client, None]:
    settings, capability = Settings(home=home, database_url=None), Shelves().capability
    match wire:
        case "memory":
            async with open_hub(settings, (capability,)) as hub:
                background = Background()
                door = McpDoor(hub, background, lambda ctx: hub.local, ALL, 200)
                async with Client(door.server, mode=era) as client:
                    yield client
                await background.drain()
        case "stdio":
            async with talking(home, era, *PROGRAM, "stdio") as client:
                yield client
        case _:
            async with served(settings, capability) as hub, Client(f"{hub.url}/mcp?tools=all", mode=era) as client:
                yield client


def text(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("wire", WIRES)
async def test_text_is_markdown_and_the_structured_content_json(wire: str, era: str, home: Path) -> None:
    async with connected(wire, era, home) as client:
        listed = await client.call_tool("manage_shelves", {"action": "list"})
        assert text(listed) == "**list**: full"
        assert listed.structured_content == {"action": "list", "shelves": {"full": {"books": ["Kiều"]}}}
        plain = await client.call_tool("count_words", {"words": "a b"})  # no Markdown was asked of this one
        assert orjson.loads(text(plain)) == plain.structured_content == {"words": ["a", "b"]}


@pytest.mark.parametrize("wire", WIRES)
async def test_in_the_handshake_era_a_failure_is_a_json_rpc_error(wire: str, home: Path) -> None:
    async with connected(wire, "legacy", home) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("manage_shelves", UNKNOWN)
        error = refused.value.error
        assert (error.code, error.message, error.data) == (-32002, "There is no shelf 'nothing'.", TOLD)


@pytest.mark.parametrize("wire", WIRES)
async def test_since_2026_a_failure_is_a_result_that_its_schema_covers(wire: str, home: Path) -> None:
    async with connected(wire, MODERN, home) as client:
        [tool] = [tool for tool in (await client.list_tools()).tools if tool.name == "manage_shelves"]
        result = await client.call_tool("manage_shelves", UNKNOWN)
        assert result.is_error
        assert result.structured_content == orjson.loads(text(result))
        assert result.structured_content == {
            "code": "SHELF_NOT_FOUND",
            "contract_code": -32002,
            "message": "There is no shelf 'nothing'.",
            **TOLD,
        }
        jsonschema.validate(result.structured_content, cast(Any, tool.output_schema))


@pytest.mark.parametrize(
    ("arguments", "code", "details"),
    [
        ({"words": "x", "fail": "bug"}, -32000, "request_id: "),
        ({"fail": "shelf"}, -32602, "words is required"),
        ({"words": "x", "fail": "shelf"}, -32002, "name: x"),
        ({"words": "x\0"}, -32602, "words: Text must not contain the NUL character."),
    ],
)
async def test_every_failure_has_a_number_details_and_guidance(
    settings: Settings, arguments: Json, code: int, details: str
) -> None:
    async with served(settings, Shelves().capability) as hub:
        async with Client(f"{hub.url}/mcp", mode="legacy") as client:
            with pytest.raises(MCPError) as refused:
                await client.call_tool("count_words", arguments)
        async with Client(f"{hub.url}/mcp", mode=MODERN) as client:
            result = await client.call_tool("count_words", arguments)
        body = {"jsonrpc": "2.0", "id": 1, "method": "shelves-server/count_words", "params": arguments}
        answer: Json = (await hub.post("/jsonrpc", body)).json()["error"]
    assert result.structured_content is not None
    for found in (refused.value.error.code, result.structured_content["contract_code"], answer["code"]):
        assert found == code
    for data in (refused.value.error.data, result.structured_content, answer["data"]):
        assert details in data["details"]
        assert data["guidance"]
        assert "umami" not in str(data)
    assert answer["data"].keys() == {"details", "guidance"}


@pytest.mark.parametrize("era", ERAS)
async def test_an_unknown_tool_is_no_failure_of_the_contract(era: str, home: Path) -> None:
    async with connected("memory", era, home) as client:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("manage_nothing", {})
        assert refused.value.error.code == types.INVALID_PARAMS


# -- the shared shape --------------------------------------------------------------------------------------------------


def test_guidance_is_the_class_s_unless_one_is_given() -> None:
    class Guided(KhoError):
        """It failed."""

        guidance = "Do this."

    assert Guided().as_dict() == {"code": "INTERNAL", "message": "It failed.", "guidance": "Do this."}
    assert Guided("x", guidance="Do that.", id=1).as_dict() == {
        "code": "INTERNAL",
        "message": "x",
        "details": {"id": 1},
        "guidance": "Do that.",
    }


def test_the_contract_form_is_never_empty() -> None:
    for error in (KhoError(), InvalidParams(), Conflict(), DatabaseError()):
        form = error.contract_form()
        assert all(form.values())
        assert form["details"] == error.message
    assert (Conflict().contract_code, InvalidParams().contract_code, NotFound().contract_code) == (
        -32000, -32602, -32001,
    )  # fmt: skip


def test_details_are_put_in_words() -> None:
    error = KhoError("x", path="a.md", sizes=[1, 2.5], ok=None, problems=[{"field": "", "message": "is wrong"}])
    assert error.contract_data()["details"] == "path: a.md; sizes: 1, 2.5; ok: null; problems: is wrong"
