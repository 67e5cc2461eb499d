"""MCP over stdio: one client, acting as the machine's own user. stdout is reserved for the protocol."""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, TextIO, cast

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from kho.doors.mcp import text, toolsets
from kho.doors.mcp.server import Context, Handler, HubServer, McpDoor, hub_server, protocol_error
from kho.kernel.background import Background
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.toolset import Instructions, Selection

log = logging.getLogger("kho.stdio")

SETTLE = 0.05
"""Seconds between two checks for requests in progress, once stdin has ended."""


async def serve(
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]],
    version: str,
    said: Mapping[str, Instructions],
    selection: Selection,
    page_size: int,
) -> None:
    """Answer the handshake at once, with the instructions in `said`; open the hub at the first request."""
    wanted, calls = asyncio.Event(), _Calls()
    door: asyncio.Future[McpDoor] = asyncio.get_running_loop().create_future()

    def handler(method: str) -> Handler:
        async def answer(ctx: Context, params: Any) -> Any:
            wanted.set()
            with calls.counted(method):
                try:
                    opened = await asyncio.shield(door)
                except KhoError as error:
                    raise protocol_error(error) from None
                return await opened.handlers[method](ctx, params)

        return answer

    serving = asyncio.create_task(_run(hub_server(version, toolsets.instructions(selection, said), handler), calls))
    waiting = asyncio.create_task(wanted.wait())
    await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    try:
        if not serving.done():
            async with open_hub() as hub:
                background = Background()
                door.set_result(McpDoor(hub, background, lambda ctx: hub.local, selection, page_size))
                try:
                    await asyncio.wait({serving})
                finally:
                    await background.drain()
    except KhoError as error:
        if door.done():
            raise  # it was opened, but could not be closed
        # The read of stdin cannot be cancelled, so every request gets the error until the client leaves.
        log.error("the hub cannot be opened: %s", error.message)
        door.set_exception(error)
        door.exception()  # mark as retrieved, also if there is no request
        await asyncio.wait({serving})
        raise
    finally:
        serving.cancel()
    await serving


class _Calls:
    """Counts requests in progress. A client may close stdin after its last request and still wants the answer."""

    def __init__(self) -> None:
        self._open = 0

    @contextmanager
    def counted(self, method: str) -> Generator[None, None, None]:
        lasting = method == "subscriptions/listen"  # lasts as long as the client is connected
        self._open += not lasting
        try:
            yield
        finally:
            self._open -= not lasting

    async def ended(self) -> None:
        """Wait until there are none in two checks in a row, so that what was read reaches its handler and what was
        answered reaches stdout."""
        quiet = 0
        while quiet < 2:
            await asyncio.sleep(SETTLE)
            quiet = 0 if self._open else quiet + 1


async def _run(server: HubServer, calls: _Calls) -> None:
    with _claimed_stdin() as stdin:
        lines = _Lines(stdin, calls)
        async with stdio_server(cast("anyio.AsyncFile[str]", lines)) as (incoming, outgoing):
            lines.answer = outgoing.send
            await server.run(incoming, outgoing, server.create_initialization_options())


class _Lines:
    """The lines of stdin without the refused ones, which are answered here. The SDK only iterates over it."""

    answer: Callable[[SessionMessage], Awaitable[None]]

    def __init__(self, stdin: TextIO, calls: _Calls) -> None:
        self._file = anyio.wrap_file(stdin)
        self._calls = calls

    async def __aiter__(self) -> AsyncGenerator[str, None]:
        async for line in self._file:
            if (refusal := await text.refusal(line)) is None:
                yield line
            else:
                await self.answer(refusal)
        await self._calls.ended()


@contextmanager
def _claimed_stdin() -> Generator[TextIO, None, None]:
    """Reserve stdin for the protocol: a child process, or any other reader, finds it empty. The SDK does that only for
    a stdin that it opens itself."""
    wire = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield open(wire, encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 (a thread may still read it)
    finally:
        os.dup2(wire, 0)
