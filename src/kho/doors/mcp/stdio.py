"""MCP over stdio: one client, the machine's own user. stdout belongs to the protocol."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TextIO, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from kho.doors.mcp import text
from kho.doors.mcp.server import McpDoor
from kho.kernel.background import Background
from kho.kernel.hub import Hub


async def serve(
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]], toolsets: frozenset[str], page_size: int
) -> None:
    async with open_hub() as hub:
        background = Background()
        door = McpDoor(hub, background, lambda ctx: hub.local, toolsets, page_size)
        try:
            with _claimed_stdin() as stdin:
                lines = _Lines(stdin)
                async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
                    lines.answer = outgoing.send
                    await door.server.run(incoming, outgoing, door.server.create_initialization_options())
        finally:
            await background.drain()


class _Lines:
    """The lines of stdin, without those that are refused: these are answered here. The SDK only iterates over it."""

    answer: Callable[[SessionMessage], Awaitable[None]]

    def __init__(self, stdin: TextIO) -> None:
        self._file = anyio.wrap_file(stdin)

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        async for line in self._file:
            if (refusal := await text.refusal(line)) is None:
                yield line
            else:
                await self.answer(refusal)


@contextmanager
def _claimed_stdin() -> Generator[TextIO, None, None]:
    """stdin for the protocol alone: a child process, or whoever else reads it, finds it empty. The SDK sees to that
    only for a stdin that it opens itself."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield open(wire, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (a thread may still read it)
    finally:
        os.dup2(wire, 0)
