"""The Python SDK, first generation: python_mcp1.py http URL | stdio COMMAND ARGUMENT...

It has an environment of its own. What stands here is valid with both generations, so that pyright can read it.
"""

import asyncio
import os
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from story import tell


async def main(kind: str, target: str, *arguments: str) -> None:
    stdio = StdioServerParameters(command=target, args=list(arguments), env=dict(os.environ))
    transport: Any = streamable_http_client(target) if kind == "http" else stdio_client(stdio)
    async with transport as streams, ClientSession(streams[0], streams[1]) as session:
        agreed = await session.initialize()
        tools = await session.list_tools()

        async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
            return (await session.call_tool(name, arguments)).model_dump(by_alias=True)

        await tell([tool.name for tool in tools.tools], call)
    sys.stdout.write(f"{agreed.model_dump(by_alias=True)['protocolVersion']}\n")


asyncio.run(main(*sys.argv[1:]))
