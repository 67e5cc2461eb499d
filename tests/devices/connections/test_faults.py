"""Boards that misbehave, over real sockets: each has its clear outcome, and no other board notices.

Every test has a neighbour on the same hub, which must be connected and answer when all is over; and no task is left.
"""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import Dialled, Served, closing, gone, ready, web
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from kho.devices.connections.connection import SLOW
from kho.devices.errors import BoardGone, DeviceOffline, NotApproved
from kho.simulator.board import Board

GOOD, BAD = "aa:01", "bb:01"
STATUS = "self.get_device_status"
VOLUME = "self.audio_speaker.set_volume"


@asynccontextmanager
async def beside_a_neighbour(worker: HubWorker) -> AsyncGenerator[Served, None]:
    async with web(worker) as hub:
        neighbour = Dialled(Board(GOOD), await hub.dial(device_id=GOOD))
        await noted(worker, GOOD)
        link = worker.live.find(worker.tenant, GOOD)
        await call(worker, GOOD)
        await worker.settle()
        before = len(asyncio.all_tasks())
        yield hub
        assert worker.live.find(worker.tenant, GOOD) is link, "the neighbour was cut off"
        await call(worker, GOOD)
        await worker.settle()
        async with asyncio.timeout(PATIENCE):
            while len(asyncio.all_tasks()) > before:  # noqa: ASYNC110 - tasks tell nobody that they end
                await asyncio.sleep(0)
        await neighbour.leave()
        await gone(worker, GOOD)


async def noted(worker: HubWorker, device: str) -> None:
    """Until the hub has filed what the board can do."""
    await ready(worker, device)
    link = worker.live.find(worker.tenant, device)
    assert link is not None
    await link.settled()


async def call(worker: HubWorker, device: str, tool: str = STATUS, **more: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await worker.ask("device_call", {"device": device, "tool": tool, "timeout": 300, **more})


async def status(worker: HubWorker, device: str) -> str:
    listed = await worker.ask("devices_list", {})
    return next(one["status"] for one in listed["devices"] if one["device"] == device)


async def dialled(hub: Served, **headers: str) -> Dialled:
    board = Dialled(Board(BAD), await hub.dial(**{"device_id": BAD, "client_id": "client-one-00001", **headers}))
    await noted(hub.worker, BAD)
    return board


@asynccontextmanager
async def boards_of_a_process(hub: Served, home: Path, *options: str) -> AsyncGenerator[Any, None]:
    """`kho devices simulate`: the process, and what it says, one thing at a time."""
    url = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
    command = [sys.executable, "-m", "kho", "devices", "simulate", "--url", url, "--json", *options]
    environment = os.environ | {"KHO_HOME": str(home)}
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert process.stdout is not None
    stdout = process.stdout

    async def said() -> AsyncIterator[Any]:
        async for line in stdout:
            yield json.loads(line)

    try:
        yield process, said()
    finally:
        if process.returncode is None:
            process.kill()
        await stdout.read()
        await process.wait()


async def test_a_process_of_boards_is_killed_in_mid_call(worker: HubWorker, tmp_path: Path) -> None:
    async with (
        beside_a_neighbour(worker) as hub,
        boards_of_a_process(hub, tmp_path, "--count", "2", "--fault", "silence") as (process, said),
    ):
        one, other = "02:4b:00:00:00:01", "02:4b:00:00:00:02"
        for device in (one, other):
            await noted(worker, device)
        calling = asyncio.ensure_future(call(worker, one, VOLUME, arguments={"volume": 5}))
        async for happening in said:
            if happening["what"] == "called":
                break
        await call(worker, GOOD)
        process.send_signal(signal.SIGKILL)
        with pytest.raises(BoardGone) as problem:
            await calling
        assert problem.value.code == "DEVICE_OFFLINE"
        assert "ended" in problem.value.message
        for device in (one, other):
            await gone(worker, device)
            assert await status(worker, device) == "offline"
        with pytest.raises(DeviceOffline, match="not been connected since") as offline:
            await call(worker, one)
        assert "queue_for" in (offline.value.guidance or "")


async def test_a_flood_of_nonsense_costs_nobody_anything(worker: HubWorker) -> None:
    nonsense = ['{"type":', "[]", '{"type":"mcp","payload":7}', "\0", '{"type":"mcp"}', "7" * 5000, "[" * 5000]
    worker.live.frames = 0  # read as fast as it comes
    nonsense += ['{"type":"mcp","payload":{"jsonrpc":"2.0","id":99,"result":{}}}', '{"jsonrpc":"2.0","id":{}}']
    async with beside_a_neighbour(worker) as hub:
        board = await dialled(hub)

        async def flood() -> None:
            for number in range(3_000):
                await board.socket.send(nonsense[number % len(nonsense)])

        flooding = asyncio.ensure_future(flood())
        while not flooding.done():
            await call(worker, GOOD)
        await flooding
        assert (await call(worker, BAD, VOLUME, arguments={"volume": 9}))["text"] == "true"
        link = worker.live.find(worker.tenant, BAD)
        assert link is not None
        assert sum(link.session.troubles.values()) >= 2_500, "they are counted"
        await board.leave()
        await gone(worker, BAD)


async def test_a_frame_of_ten_megabytes_ends_the_connection(worker: HubWorker) -> None:
    async with beside_a_neighbour(worker) as hub:
        async with hub.dial(device_id=BAD) as lonely:
            await lonely.send(Board(BAD).hello())
            ending = asyncio.ensure_future(closing(lonely))
            with suppress(ConnectionClosed):  # it may be over before all of it is sent
                await lonely.send("7" * 10_000_000)
            assert (await ending)[0] == 1009
        await gone(worker, BAD)
        again = await dialled(hub)
        assert (await call(worker, BAD))["text"]
        await again.leave()
        await gone(worker, BAD)


async def deaf(hub: Served) -> ClientConnection:
    """A connection of which nothing is read but the handshake, and whose buffers hold little."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    host, port = hub.url.removeprefix("http://").split(":")
    plain.connect((host, int(port)))
    url = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
    named = {"device-id": BAD}
    dialling = connect(url, sock=plain, additional_headers=named, proxy=None, compression=None, max_queue=1)
    return await dialling


async def test_a_board_that_does_not_read_is_given_up(worker: HubWorker) -> None:
    worker.live.send_timeout = 0.2
    question = {"jsonrpc": "2.0", "id": "x" * 500_000, "method": "what/is/this"}
    async with beside_a_neighbour(worker) as hub:
        board = await deaf(hub)
        await board.send(Board(BAD).hello())
        async with asyncio.timeout(PATIENCE):
            while (link := worker.live.find(worker.tenant, BAD)) is None:  # noqa: ASYNC110 - it never becomes ready
                await asyncio.sleep(0)
        calling = asyncio.ensure_future(link.call(STATUS, {}, 300))
        with worker.events.listen(worker.tenant, BAD) as listener:
            async with asyncio.timeout(PATIENCE):
                while not link.closed:
                    await board.send(json.dumps({"type": "mcp", "payload": question}))
                with pytest.raises(BoardGone):
                    await calling
                told = await listener.next()
        assert told is not None
        assert (told.kind, told.data) == ("disconnected", {"reason": SLOW})
        await gone(worker, BAD)
        board.transport.abort()
        await board.wait_closed()
        assert await status(worker, BAD) == "offline"


async def test_an_impostor_is_refused_and_the_real_board_stays(worker: HubWorker) -> None:
    async with beside_a_neighbour(worker) as hub:
        token = (await hub.ota(BAD))["websocket"]["token"]
        other = (await hub.ota("bb:02", "c-2"))["websocket"]["token"]
        board = await dialled(hub, authorization=f"Bearer {token}")
        link = worker.live.find(worker.tenant, BAD)
        for wrong in ("nonsense", token[:-2] + "xx", other):
            with pytest.raises(InvalidStatus) as refused:
                await hub.dial(device_id=BAD, client_id="client-one-00001", authorization=f"Bearer {wrong}")
            assert refused.value.response.status_code == 401
            assert json.loads(refused.value.response.body or b"")["error"]["code"] == "UNAUTHORIZED"
        assert worker.live.find(worker.tenant, BAD) is link
        assert (await call(worker, BAD))["text"]
        await board.leave()
        await gone(worker, BAD)


async def test_a_revoked_board_is_cut_off_and_its_token_opens_nothing(worker: HubWorker) -> None:
    async with beside_a_neighbour(worker) as hub:
        token = (await hub.ota(BAD))["websocket"]["token"]
        board = await dialled(hub, authorization=f"Bearer {token}")
        worker.clock.pass_(1)
        await worker.ask("device_revoke", {"device": BAD})
        code, reason = await board.closed()
        assert (code, reason) == (1008, "This device was revoked.")
        with pytest.raises(InvalidStatus) as refused:
            await hub.dial(device_id=BAD, client_id="client-one-00001", authorization=f"Bearer {token}")
        assert refused.value.response.status_code == 401
        assert "revoked" in json.loads(refused.value.response.body or b"")["error"]["message"]
        with pytest.raises(NotApproved) as problem:
            await call(worker, BAD)
        assert f"kho devices approve {BAD}" in (problem.value.guidance or "")


async def test_of_two_boards_with_one_id_the_newer_wins(worker: HubWorker) -> None:
    async with beside_a_neighbour(worker) as hub:
        older = await dialled(hub)
        older.board.fail("silence")
        calling = asyncio.ensure_future(call(worker, BAD))
        async with asyncio.timeout(PATIENCE):
            while "tools/call" not in str(older.frames):  # noqa: ASYNC110 - nobody tells what a board hears
                await asyncio.sleep(0)
        newer = Dialled(Board(BAD), await hub.dial(device_id=BAD, client_id="client-one-00001"))
        code, reason = await older.closed()
        assert (code, reason) == (1000, "A newer connection of this device took its place.")
        with pytest.raises(BoardGone):
            await calling
        await noted(worker, BAD)
        assert (await call(worker, BAD, VOLUME, arguments={"volume": 11}))["text"] == "true"
        assert (older.board.state.volume, newer.board.state.volume) == (70, 11)
        assert await status(worker, BAD) == "connected"
        await newer.leave()
        await gone(worker, BAD)
