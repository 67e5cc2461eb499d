"""A client of this hub through one of its doors, so that measurements include what a caller experiences."""

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import field
from typing import Any, Literal

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kho.doors.http.app import Application
from kho.doors.http.uvicorn_protocols import guarded_protocol
from kho.doors.mcp.server import McpDoor
from kho.kernel import Background, Call, Hub, InvalidParams, KhoError
from kho.kernel.toolset import Selection
from kho.lib.dataclass import dataclass

Door = Literal["memory", "mcp", "http"]
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool by name with arguments, and returns its answer."""

LISTED = 1_000
"""Tools on a page of the list, which is all of them: the client warns at every call of a tool that is not there."""
ANSWER_TIMEOUT = 120.0
"""Seconds for one answer. The hub's own timeout is much shorter."""


@dataclass(frozen=True, slots=True)
class _Http:
    max_body: int = 8 * 1024 * 1024
    allowed_hosts: list[str] = field(default_factory=list[str])
    other_accounts: bool = False
    allowed_origins: list[str] = field(default_factory=list[str])


@dataclass(frozen=True, slots=True)
class _Mcp:
    tools: list[str] = field(default_factory=lambda: ["all"])
    page_size: int = LISTED


@asynccontextmanager
async def hub_client(door: Door, hub: Hub) -> AsyncGenerator[Ask, None]:
    """Open a client: `memory` calls the registry directly, `mcp` uses MCP in memory, `http` uses a server on
    loopback."""
    match door:
        case "memory":
            yield _directly(hub)
        case "mcp":
            background = Background()
            served = McpDoor(hub, background, lambda ctx: hub.local, Selection("all"), LISTED)
            try:
                async with Client(served.server, read_timeout_seconds=ANSWER_TIMEOUT) as client:
                    yield _through(client)
            finally:
                await background.drain()
        case "http":
            async with (
                _served(hub) as url,
                httpx2.AsyncClient(
                    timeout=ANSWER_TIMEOUT, trust_env=False, verify=False
                ) as http,  # plain HTTP, no proxy
                Client(streamable_http_client(url, http_client=http), read_timeout_seconds=ANSWER_TIMEOUT) as client,
            ):
                yield _through(client)


def _directly(hub: Hub) -> Ask:
    async def ask(tool: str, arguments: Mapping[str, Any]) -> Any:
        operation = hub.registry.tool(tool)
        if operation is None:
            raise InvalidParams(f"There is no tool {tool}.")
        outcome = await hub.registry.call(operation, dict(arguments), Call(hub.local))
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    return ask


def _through(client: Client) -> Ask:
    async def ask(tool: str, arguments: Mapping[str, Any]) -> Any:
        result = await client.call_tool(tool, dict(arguments))
        if result.is_error:
            raise KhoError(" ".join(part.text for part in result.content if part.type == "text"))
        return result.structured_content

    return ask


@asynccontextmanager
async def _served(hub: Hub) -> AsyncGenerator[str, None]:
    """Run a real server, in this process, on a free port."""
    application = Application(lambda: nullcontext(hub), _Http(), _Mcp())
    config = uvicorn.Config(application, http=guarded_protocol(), log_config=None, timeout_graceful_shutdown=5)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # asyncio sets this only for sockets that it created itself, and 40 ms of delay would distort the measurement.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await server.startup([listener])
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        finally:
            await server.shutdown([listener])
