"""A hub with research collections, as the tests of contract 004 use it: a folder of notes that it may read, and clients
of it on every wire and in both eras."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp import Client, MCPError
from tests.doors.doors import KHO, MODERN, Json, Served, served, talking

from kho.app import open_hub
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.toolset import ALL
from kho.research.settings import ResearchSettings
from kho.settings import Settings

WIRES = [("memory", "legacy"), ("memory", MODERN), ("stdio", "legacy"), ("stdio", MODERN), ("http", "legacy"),
         ("http", MODERN)]  # fmt: skip

EVERYWHERE = [*((wire, era, "sqlite") for wire, era in WIRES), ("memory", "legacy", "postgres"),
              ("http", MODERN, "postgres")]  # fmt: skip
"""Every wire on SQLite, and two on PostgreSQL: what differs there is below the doors."""

NOTES = {
    "kettle.md": "# Kettles\n\n## Descaling\n\nCitric acid, twenty grams per litre, takes limescale off the coil.\n",
    "ranking.md": "# Ranking\n\nBM25 ranks by the rarity of words; re-ranking takes a closer look at the best.\n",
    "deep/meo.md": "# Mèo\n\nCon mèo ngủ trên mái nhà suốt buổi chiều.\n",
    "deep/table.md": "# Numbers\n\n| model | size |\n|---|---|\n| e5-small | 118 |\n\n```python\nprint('e5-small')\n```\n",
}


LONG_AGO = 1_700_000_000
"""When the notes were written: of a file that changed just now, no time is kept, because it may change again."""


def write_notes(folder: Path) -> Path:
    for name, text in NOTES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
        os.utime(folder / name, (LONG_AGO, LONG_AGO))
    return folder


def settings_of(folder: Path, database_url: str | None = None, **more: Any) -> Settings:
    """A home and one allowed folder of notes, both below `folder`. SQLite unless a database is named."""
    notes = write_notes(folder / "notes")
    return Settings(
        home=folder / "home", database_url=database_url, research=ResearchSettings(roots=[str(notes)], **more)
    )


@dataclass(frozen=True)
class Failure:
    code: int
    message: str
    details: str
    guidance: str


@asynccontextmanager
async def connected(wire: str, era: str, settings: Settings, **more: Any) -> AsyncGenerator[Client, None]:
    match wire:
        case "memory":
            async with open_hub(settings) as hub:
                background = Background()
                door = McpDoor(hub, background, lambda ctx: hub.local, ALL, 200)
                async with Client(door.server, mode=era, **more) as client:
                    yield client
                await background.drain()
        case "stdio":
            roots = f'["{settings.research.roots[0]}"]'
            env = {"KHO_RESEARCH__ROOTS": roots, "KHO_MCP__TOOLS": "all"}
            async with talking(settings.home, era, KHO, "stdio", env=env, **more) as client:
                yield client
        case _:
            async with served(settings) as hub, Client(f"{hub.url}/mcp?tools=all", mode=era, **more) as client:
                yield client


def text(result: types.CallToolResult) -> str:
    [content] = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def done(client: Client, tool: str, **arguments: Any) -> Json:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    assert result.structured_content is not None
    return result.structured_content


async def failure(client: Client, era: str, tool: str, arguments: Json) -> Failure:
    """The contract's error, in the form that the era has for it."""
    if era == MODERN:
        result = await client.call_tool(tool, arguments)
        assert result.is_error, text(result)
        told: Any = result.structured_content
        assert told.keys() == {"code", "contract_code", "message", "details", "guidance"}
        return Failure(told["contract_code"], told["message"], told["details"], told["guidance"])
    try:
        await client.call_tool(tool, arguments)
    except MCPError as problem:
        data: Any = problem.error.data
        assert data.keys() == {"details", "guidance"}
        return Failure(problem.error.code, problem.error.message, data["details"], data["guidance"])
    raise AssertionError(f"{tool} accepted {arguments}")


async def by_jsonrpc(hub: Served, tool: str, arguments: Json) -> Json:
    body = {"jsonrpc": "2.0", "id": "request-id", "method": f"research-server/{tool}", "params": arguments}
    answer: Json = (await hub.post("/jsonrpc", body)).json()
    assert answer["jsonrpc"] == "2.0"
    assert answer["id"] == "request-id"
    return answer
