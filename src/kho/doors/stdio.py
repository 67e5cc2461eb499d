"""MCP over stdio: one client, the machine's own user. stdout belongs to the protocol."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mcp.server.stdio import stdio_server

from kho.doors.mcp import McpDoor
from kho.kernel.background import Background
from kho.kernel.hub import Hub


async def serve(
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]], toolsets: frozenset[str], page_size: int
) -> None:
    async with open_hub() as hub:
        background = Background()
        door = McpDoor(hub, background, lambda ctx: hub.local, toolsets, page_size)
        try:
            async with stdio_server() as (incoming, outgoing):
                await door.server.run(incoming, outgoing, door.server.create_initialization_options())
        finally:
            await background.drain()
