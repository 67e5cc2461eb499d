"""A board's tool that is called by its name while no board that has it is connected."""

import asyncio
from pathlib import Path

import pytest
from mcp import Client, MCPError
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import MakeWorker
from tests.doors.doors import served

from kho.devices.errors import DeviceOffline
from kho.settings import Settings
from kho.simulator import simulator
from kho.simulator.board import Board
from kho.simulator.simulator import Simulated

ALIAS = "board_audio_speaker_set_volume"
MAC = simulator.mac(1)


async def test_it_says_that_the_board_is_offline(worker: HubWorker) -> None:
    wire = await worker.join(Board(MAC))
    await worker.leave(wire)
    tool = await worker.offering.absent(ALIAS, worker.tenant)
    assert tool is not None
    for which in ({}, {"device": MAC}):
        outcome = await worker.registry.call(tool, {"volume": 3, **which}, worker.caller())
        assert isinstance(outcome.error, DeviceOffline)
        assert "device_call can queue a call" in outcome.error.guidance


async def test_what_no_board_has_or_another_tenant_s_is_unknown(worker: HubWorker, workers: MakeWorker) -> None:
    await worker.leave(await worker.join(Board(MAC)))
    assert await worker.offering.absent("board_nothing", worker.tenant) is None
    assert await worker.offering.absent(ALIAS, "another-tenant") is None
    assert await worker.offering.absent("board_reboot", worker.tenant) is None, "it is for people"
    assert await workers(tenant=worker.tenant, tools="off").offering.absent(ALIAS, worker.tenant) is None
    each = workers(tenant=worker.tenant, tools="each")
    assert await each.offering.absent(ALIAS, worker.tenant) is None, "its names hold the board's id"


async def test_over_mcp(tmp_path: Path) -> None:
    async with served(Settings(home=tmp_path)) as hub, simulator.http() as http:
        board = Simulated(Board(MAC), hub.url, http)
        life = asyncio.ensure_future(board.run())
        async with Client(f"{hub.url}/mcp?tools=all") as client:
            async with asyncio.timeout(PATIENCE):
                while ALIAS not in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]:
                    pass
            life.cancel()
            await asyncio.wait({life})
            async with asyncio.timeout(PATIENCE):
                while ALIAS in [tool.name for tool in (await client.list_tools(cache_mode="refresh")).tools]:
                    pass
            answer = await client.call_tool(ALIAS, {"volume": 3})
            assert answer.is_error
            assert "DEVICE_OFFLINE" in str(answer.content)
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("board_nothing", {})
