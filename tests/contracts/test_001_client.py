"""Contract 001 seen from a stock MCP client, in both eras: a board's tools are the hub's tools."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from tests.doors.doors import ERAS, MODERN, served
from tests.timeouts import PATIENCE

from kho.settings import Settings
from kho.simulator import simulator
from kho.simulator.board import Board
from kho.simulator.board_tools import STATE_CHANGED
from kho.simulator.simulator import Simulated

MAC = simulator.mac(1)


class Told:
    """What a client of the handshake era hears of its own accord: log messages, and that tools came or went."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[types.LoggingMessageNotificationParams] = asyncio.Queue()

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.LoggingMessageNotification):
            self.messages.put_nowait(message.params)


@dataclass
class Scene:
    client: Client
    simulated: Simulated
    told: Told
    lives: list[asyncio.Task[None]] = field(default_factory=list[asyncio.Task[None]])

    @property
    def board(self) -> Board:
        return self.simulated.board

    async def plug_in(self) -> None:
        self.lives.append(asyncio.create_task(self.simulated.run()))
        async with asyncio.timeout(PATIENCE):
            await self.simulated.connected.wait()

    async def pull_out(self) -> None:
        """The connection ends, and the hub knows it."""
        for life in self.lives:
            life.cancel()
            await asyncio.wait({life})
        async with asyncio.timeout(PATIENCE):
            while await self.status() != "offline":
                pass

    async def status(self) -> str:
        [listed] = (await self.told_by("devices_list"))["devices"]
        return listed["status"]

    async def tool(self, last: str) -> types.Tool:
        """A tool of the board, once the hub offers it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                tools: list[types.Tool] = []
                page: types.ListToolsResult | None = None
                while page is None or page.next_cursor:
                    cursor = page.next_cursor if page else None
                    page = await self.client.list_tools(cursor=cursor, cache_mode="bypass")
                    tools += page.tools
                for tool in tools:
                    if tool.name.endswith(last):
                        return tool

    async def told_by(self, name: str, /, **arguments: Any) -> Any:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result
        return result.structured_content

    async def text(self, name: str, /, **arguments: Any) -> str:
        result = await self.client.call_tool(name, arguments)
        assert not result.is_error, result
        [block] = result.content
        assert isinstance(block, types.TextContent)
        return block.text

    async def refused(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(name, arguments)
        assert result.is_error, result
        [block] = result.content
        assert isinstance(block, types.TextContent)
        return json.loads(block.text)["error"]


@asynccontextmanager
async def scene(home: Path, database_url: str | None, era: str) -> AsyncGenerator[Scene, None]:
    told = Told()
    async with (
        served(Settings(home=home, database_url=database_url)) as hub,
        Client(f"{hub.url}/mcp?tools=all", mode=era, message_handler=told) as client,
        simulator.http() as http,
    ):
        made = Scene(client, Simulated(Board(MAC), hub.url, http, first_pause=0.05), told)
        try:
            yield made
        finally:
            for life in made.lives:
                life.cancel()
            await asyncio.gather(*made.lives, return_exceptions=True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_is_found_and_called_and_the_board_has_done_it(
    tmp_path: Path, database_url: str | None, era: str
) -> None:
    async with scene(tmp_path / "home", database_url, era) as the:
        await the.plug_in()
        volume = await the.tool("set_volume")
        takes = volume.input_schema["properties"]["volume"]
        assert (takes["type"], takes["minimum"], takes["maximum"]) == ("integer", 0, 100)
        assert await the.text(volume.name, volume=37) == "true"
        seen = json.loads(await the.text((await the.tool("get_device_status")).name))
        assert (seen["audio_speaker"]["volume"], the.board.state.volume) == (37, 37)
        wrong = await the.refused(volume.name, volume=101)
        assert "from 0 to 100" in wrong["message"]
        assert the.board.state.volume == 37
        by_name = await the.told_by("device_call", device=MAC, tool="self.get_device_status")
        assert json.loads(by_name["text"]) == seen


@pytest.mark.parametrize("era", ERAS)
async def test_what_the_board_says_reaches_the_client(tmp_path: Path, database_url: str | None, era: str) -> None:
    async with scene(tmp_path / "home", database_url, era) as the, asyncio.timeout(PATIENCE):
        await the.plug_in()
        await the.tool("set_volume")
        if era != MODERN:
            await heard_as_a_log_message(the)
        else:
            await the.simulated.become("listening")
        kept: list[dict[str, Any]] = []
        while not kept:  # it is stored a moment after it was told
            kept = (await the.told_by("device_notifications", device=MAC, method=STATE_CHANGED))["notifications"]
        assert {one["device"] for one in kept} == {MAC}
        assert ("idle", "listening") in {(one["params"]["oldState"], one["params"]["newState"]) for one in kept}


async def heard_as_a_log_message(the: Scene) -> None:
    """A client opens its stream some time after the handshake; so the board says it until it is heard."""
    hearing = asyncio.ensure_future(the.told.messages.get())
    modes = ["listening", "idle"]
    while not hearing.done():
        await the.simulated.become(modes[0])
        modes.reverse()
        await the.told_by("devices_list")
    message = hearing.result()
    assert (message.level, message.logger) == ("info", "kho.devices")
    assert message.data["device"] == MAC
    assert message.data["method"] == STATE_CHANGED
    assert message.data["params"].keys() >= {"newState", "oldState"}


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_board_keeps_for_people_is_refused(tmp_path: Path, database_url: str | None, era: str) -> None:
    async with scene(tmp_path / "home", database_url, era) as the:
        await the.plug_in()
        await the.tool("set_volume")
        problem = await the.refused("device_call", device=MAC, tool="self.reboot")
        assert problem["code"] == "USER_ONLY_TOOL"
        assert "admin" in problem["message"]
        assert the.board.restarts == 0
        shown = (await the.told_by("device_tools", device=MAC))["tools"]
        assert "self.reboot" not in {tool["name"] for tool in shown}


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_waits_for_a_board_that_is_away(tmp_path: Path, database_url: str | None, era: str) -> None:
    async with scene(tmp_path / "home", database_url, era) as the:
        await the.plug_in()
        await the.tool("set_volume")
        await the.pull_out()
        asked: dict[str, Any] = {"device": MAC, "tool": "self.audio_speaker.set_volume", "arguments": {"volume": 12}}
        problem = await the.refused("device_call", **asked)
        assert problem["code"] == "DEVICE_OFFLINE"
        assert "not been connected since" in problem["message"]
        assert "queue_for" in problem["guidance"]
        queued = await the.told_by("device_call", **asked, queue_for="10m")
        assert queued["status"] == "queued"
        assert the.board.state.volume == 70
        await the.plug_in()
        async with asyncio.timeout(PATIENCE):
            while (entry := (await the.told_by("device_log", device=MAC, limit=1))["calls"][0])["outcome"] != "ok":
                assert entry["outcome"] in ("queued", "sent"), entry
        assert the.board.state.volume == 12
