"""FastMCP's client: python_fastmcp.py http URL | stdio COMMAND ARGUMENT..."""

import asyncio
import os
import sys
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from story import tell


async def main(kind: str, target: str, *arguments: str) -> None:
    if kind == "http":
        transport = StreamableHttpTransport(target)
    else:
        transport = StdioTransport(target, list(arguments), env=dict(os.environ), keep_alive=False)
    async with Client(transport) as client:
        tools = await client.list_tools()

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return (await client.call_tool_mcp(name, arguments)).model_dump(by_alias=True)

        await tell([tool.name for tool in tools], call)
        agreed = client.protocol_version
    sys.stdout.write(f"{agreed}\n")


asyncio.run(main(*sys.argv[1:]))
