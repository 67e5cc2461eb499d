"""Streams over real HTTP, and something that happens on all of them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from tests.doors.doors import HANDSHAKE, MODERN, Json, Served
from tests.timeouts import PATIENCE
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from kho.simulator.board import Board, Say
from kho.simulator.board_tools import FirmwareTool

PREFIX = "io.modelcontextprotocol/"
META: Json = {f"{PREFIX}protocolVersion": MODERN, f"{PREFIX}clientCapabilities": {}}


@asynccontextmanager
async def streamed(
    hub: Served, stream: str, uris: Iterable[str] = (), path: str = "/mcp", **headers: str
) -> AsyncGenerator[tuple[int, AsyncIterator[str]], None]:
    """The status and the lines of a stream, without what it begins with (a comment, or the acknowledgement of what is
    listened to). It is a path, or `listen` for the one of MCP 2026-07-28, which is told of all lists and of `uris`,
    opened at `path`."""
    headers = {"accept": "application/json, text/event-stream", **headers}
    if stream == "listen":
        wanted = {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": sorted(uris)}
        params = {"notifications": wanted, "_meta": META}
        body = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
        named = {"mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen", **headers}
        asked = hub.http.stream("POST", path, json=body, headers=named)
    else:
        asked = hub.http.stream("GET", stream, headers={"mcp-protocol-version": HANDSHAKE, **headers})
    async with asked as response:
        lines = response.aiter_lines()
        async for line in lines:
            if line.startswith(": listening") or "acknowledged" in line or response.status_code != 200:
                break
        yield response.status_code, lines


@dataclass
class Hearing:
    """What a caller is told on a stream, which is read in the background for as long as the test goes on."""

    status: int
    text: str = ""
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def read(self, lines: AsyncIterator[str]) -> None:
        async for line in lines:
            self.text += f"{line}\n"
            self._news.set()

    async def until(self, *words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while not all(word in self.text for word in words):
                self._news.clear()
                await self._news.wait()


@asynccontextmanager
async def hearing(hub: Served, stream: str, uris: Iterable[str] = (), **headers: str) -> AsyncGenerator[Hearing, None]:
    async with streamed(hub, stream, uris, **headers) as (status, lines):
        heard = Hearing(status)
        reading = asyncio.create_task(heard.read(lines))
        try:
            yield heard
        finally:
            reading.cancel()
            await asyncio.wait([reading])


@asynccontextmanager
async def board_that_speaks(
    hub: Served, id: str, room: str = "secret lab", extra: Iterable[FirmwareTool] = (), **headers: str
) -> AsyncGenerator[None, None]:
    """A board comes, which is an event and changes the list of tools, and says something, which is an announcement."""
    board = Board(id, extra=extra)

    async def answer(socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):  # the hub may end it, as when the board is revoked
            async for text in socket:
                for said in board.hear(str(text)):
                    assert isinstance(said, Say)
                    await socket.send(said.text)

    address = f"{hub.url.replace('http', 'ws')}/xiaozhi/v1/"
    async with connect(address, additional_headers={"device-id": id, **headers}, proxy=None) as socket:
        await socket.send(board.hello())
        assert board.hear(str(await socket.recv())) == []
        [said] = board.say([{"jsonrpc": "2.0", "method": "notifications/motion", "params": {"room": room}}])
        assert isinstance(said, Say)
        await socket.send(said.text)
        answering = asyncio.ensure_future(answer(socket))
        yield
        await socket.close()
        await answering
