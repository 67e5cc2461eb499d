"""Virtual boards on real wires: they do what boards do, and come back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import MakeWorker, Served, web
from tests.devices.mqtt_brokers import boards, linked
from tests.doors.doors import served as serving

from kho.devices.connections import connection
from kho.devices.errors import BoardGone
from kho.devices.http import ota
from kho.devices.mqtt import topics
from kho.devices.pairing.registrations import approve_code
from kho.kernel.errors import KhoError
from kho.settings import Settings
from kho.simulator import endpoints, simulator
from kho.simulator.board import Board
from kho.simulator.board_tools import STATE_CHANGED
from kho.simulator.faults import Fault
from kho.simulator.simulator import BoardEvent, Simulated

MAC = simulator.mac(1)
VOLUME = "self.audio_speaker.set_volume"


async def start(stack: AsyncExitStack, hub: Served, device: str | Board = MAC, **more: Any) -> Simulated:
    http = await stack.enter_async_context(simulator.http())
    return await (await boards(stack, hub.worker, hub.url, http))(device, **more)


async def test_a_board_gets_its_token_connects_and_serves_its_tools(worker: HubWorker) -> None:
    told: list[BoardEvent] = []
    async with web(worker) as hub, AsyncExitStack() as stack:
        simulated = await start(stack, hub, tell=told.append)
        link = await linked(worker, MAC)
        assert link.wire.name == "websocket"
        assert len(link.tools) == 12
        await link.call(VOLUME, {"volume": 37})
        assert simulated.board.state.volume == 37
        known = await worker.registrations.of(worker.tenant, MAC)
        assert known is not None
        assert known.client == simulated.client
        assert known.info["firmware"] == "2.4.2"
    assert [one.what for one in told] == ["connected", "called"]
    assert told[1].text == f"is asked for {VOLUME} volume=37"


async def test_a_board_waits_until_it_is_approved(workers: MakeWorker) -> None:
    worker, codes = workers(by_code=True), asyncio.Queue[str]()

    def tell(happening: BoardEvent) -> None:
        if happening.what == "waiting":
            codes.put_nowait(happening.more["code"])

    async def approve() -> None:
        code = await codes.get()
        await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))

    async with web(worker, by_code=True) as hub, AsyncExitStack() as stack, asyncio.TaskGroup() as group:
        group.create_task(approve())
        await start(stack, hub, "02:4b:00:00:ff:01", tell=tell, ask_again=0.02)


@pytest.mark.parametrize("fault", ["drop", "malformed", "wrong id", "silence"])
async def test_faults_on_demand_and_the_next_call_goes_through(worker: HubWorker, fault: Fault) -> None:
    async with web(worker) as hub, AsyncExitStack() as stack:
        simulated = await start(stack, hub)
        simulated.faults.append(fault)
        link = await linked(worker, MAC)
        with pytest.raises(KhoError) as failed:
            await link.call(VOLUME, {"volume": 1}, timeout=0.2)
        assert isinstance(failed.value, BoardGone) is (fault == "drop")
        link = await linked(worker, MAC)
        await link.call(VOLUME, {"volume": 2})
        assert simulated.board.state.volume == 2


async def test_a_board_that_is_told_to_restart_comes_back_as_it_was(worker: HubWorker) -> None:
    async with web(worker) as hub, AsyncExitStack() as stack:
        simulated = await start(stack, hub)
        link = await linked(worker, MAC)
        await link.call(VOLUME, {"volume": 1})
        await link.call("self.reboot", {})
        async with asyncio.timeout(PATIENCE):
            while worker.live.find(worker.tenant, MAC) is link:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
        await linked(worker, MAC)
        assert simulated.board.state.volume == 70


async def test_a_photo_is_sent_to_the_hub_and_its_answer_is_the_tools(worker: HubWorker) -> None:
    async with web(worker) as hub, AsyncExitStack() as stack:
        await start(stack, hub, Board(MAC, online=True))
        link = await linked(worker, MAC)
        seen = await link.call("self.camera.take_photo", {"question": "What is this?"})
        assert "no vision model" in seen.content[0]["text"]


async def test_a_board_says_what_it_does_of_its_own_accord(worker: HubWorker) -> None:
    async with web(worker) as hub, AsyncExitStack() as stack:
        simulated = await start(stack, hub)
        await simulated.become("listening")
        link = await linked(worker, MAC)
        await link.call("self.get_device_status", {})
        await link.settled()
        await worker.settle()
        said = await worker.ask("device_notifications", {"device": MAC})
        assert STATE_CHANGED in json.dumps(said)


async def test_many_boards_and_nothing_is_left_of_them(worker: HubWorker) -> None:
    before = asyncio.all_tasks()
    count = 60
    async with web(worker) as hub:
        running = asyncio.ensure_future(simulator.simulate(count, hub.url))
        links = [await linked(worker, simulator.mac(number)) for number in range(1, count + 1)]
        done = await asyncio.gather(*(link.call(VOLUME, {"volume": 5}) for link in links))
        assert len(done) == count
        running.cancel()
        await asyncio.wait({running})
        async with asyncio.timeout(PATIENCE):
            while worker.live.count:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
    await worker.settle()
    await worker.live.close()
    assert asyncio.all_tasks() - before == set()


async def test_two_boards_with_one_id_take_turns_slower_each_time_and_are_told_why(worker: HubWorker) -> None:
    told = asyncio.Queue[BoardEvent]()
    async with web(worker) as hub, AsyncExitStack() as stack:
        first = await start(stack, hub, tell=told.put_nowait)
        await (await linked(worker, MAC)).settled()
        with worker.events.listen(worker.tenant, MAC) as listener:
            second = await start(stack, hub)
            async with asyncio.timeout(PATIENCE):
                while (happening := await told.get()).what != "disconnected":
                    pass
                assert happening.text.startswith("was cut off: another board with this id connected")
                assert "--first" in happening.text
                seen = [event for _ in range(2) if (event := await listener.next()) is not None]
                assert [event.kind for event in seen] == ["disconnected", "connected"]
                assert "newer connection" in seen[0].data["reason"]
                while min(first.pause, second.pause) < 0.4:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0)


async def test_a_board_says_that_it_spoils_an_answer(worker: HubWorker) -> None:
    told: list[BoardEvent] = []
    async with web(worker) as hub, AsyncExitStack() as stack:
        simulated = await start(stack, hub, tell=told.append)
        simulated.faults.append("duplicate")
        await (await linked(worker, MAC)).call(VOLUME, {"volume": 1})
    assert told[-1].text == f"is asked for {VOLUME} volume=1, and spoils the answer (duplicate)"
    assert told[-1].more["fault"] == "duplicate"


async def test_there_is_no_hub_and_it_says_so() -> None:
    told = asyncio.Queue[BoardEvent]()
    running = asyncio.ensure_future(simulator.simulate(1, "http://127.0.0.1:9", tell=told.put_nowait))
    async with asyncio.timeout(PATIENCE):
        happening = await told.get()
    running.cancel()
    await asyncio.wait({running})
    assert happening.what == "disconnected"
    assert happening.text.startswith("finds no hub at http://127.0.0.1:9")


async def test_what_is_no_address_is_refused() -> None:
    async with simulator.http() as http:
        with pytest.raises(KhoError, match="ws://HOST:PORT"):
            Simulated(Board(MAC), "127.0.0.1:8001", http)


async def test_the_command_speaks_json_lines_and_ends_when_it_is_interrupted(tmp_path: Path) -> None:
    async with serving(Settings(home=tmp_path)) as hub:
        url = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
        command = [sys.executable, "-m", "kho", "devices", "simulate", "--count", "2", "--first", "7", "--json"]
        command += ["--url", url]
        environment = {**os.environ, "KHO_HOME": str(tmp_path / "other")}
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            lines = [json.loads(await process.stdout.readline()) for _ in range(2)]
        assert sorted(line["device"] for line in lines) == [simulator.mac(7), simulator.mac(8)]
        assert {line["what"] for line in lines} == {"connected"}
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
        assert (process.returncode, errors.decode().strip()) == (0, "Stopped.")


def test_what_virtual_boards_know_by_heart_is_what_the_hub_says() -> None:
    assert endpoints.REPLACED == connection.REPLACED
    assert endpoints.OTA_PATH == ota.PATH
    up, down, identifier = endpoints.topics("02:4b:00:00:00:01", "client")
    known = topics.up("02:4b:00:00:00:01"), topics.down("02:4b:00:00:00:01")
    assert (up, down) == known
    assert identifier == topics.client_id("02:4b:00:00:00:01", "client")
