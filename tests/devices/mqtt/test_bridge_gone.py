"""Boards at a stranger's broker that are sent away, or have gone: the broker says neither to them nor of them."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import MakeWorker
from tests.devices.mqtt_brokers import AnyBroker, client, external, heard, introduce, linked, mqtt, unlinked

from kho.devices.errors import DeviceTimeout
from kho.devices.mqtt import topics
from kho.devices.mqtt.bridge import Patience
from kho.devices.pairing.registrations import approve_code
from kho.lib.mqtt_client import Client
from kho.simulator.board import Board, Say
from kho.simulator.simulator import BoardEvent

VOLUME = "self.audio_speaker.set_volume"


async def next_of(found: Client, kind: str) -> str:
    """What the hub says next that is of this kind."""
    while (frame := await heard(found))["type"] != kind:
        pass
    return json.dumps(frame)


async def answer(board: Board, found: Client, up: str, asked: str) -> None:
    for said in board.hear(asked):
        assert isinstance(said, Say)
        await found.publish(up, said.text)


async def until(queue: asyncio.Queue[BoardEvent], what: str) -> BoardEvent:
    async with asyncio.timeout(PATIENCE):
        while (happening := await queue.get()).what != what:
            pass
    return happening


@pytest.mark.parametrize("how", ["device_forget", "device_revoke"])
async def test_a_board_that_is_sent_away_is_told_and_shows_a_code(
    workers: MakeWorker, broker: AnyBroker, mac: str, how: str
) -> None:
    worker, told = workers(by_code=True), asyncio.Queue[BoardEvent]()

    async def approve() -> None:
        code = (await until(told, "waiting")).more["code"]
        await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))

    async with external(worker, broker, by_code=True) as simulate, asyncio.TaskGroup() as group:
        group.create_task(approve())
        await simulate(mac, subscribes=True, tell=told.put_nowait, ask_again=0.02)
        await worker.ask(how, {"device": mac})
        assert (await until(told, "refused")).text.startswith("is told: This device was ")
        code = (await until(told, "waiting")).more["code"]
        found = await worker.ask("devices_list", {})
        if how == "device_forget":
            assert mac in [one["device"] for one in found["pending"]]
        else:
            assert found["devices"][0]["shows_code"]
        await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))
        await linked(worker, mac)


async def test_a_board_of_which_nobody_knew_that_it_is_there_is_met_anew_once_it_was_forgotten(
    workers: MakeWorker, broker: AnyBroker, mac: str
) -> None:
    worker, url = workers(by_code=True), f"mqtt://127.0.0.1:{broker.port}"
    up = topics.up(mac)
    async with mqtt(worker, by_code=True, mqtt_url=url) as served, client(broker, topics.down(mac)) as found:
        await found.publish(up, "{}")
        code = json.loads(await next_of(found, "alert"))["message"].split()[-1]
        await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))
        assert served.door is not None
        await served.door.look()
        assert "initialize" in await next_of(found, "mcp"), "it is asked as soon as it is approved"
        await worker.ask("device_forget", {"device": mac})
        await found.publish(up, "{}")
        again = json.loads(await next_of(found, "alert"))["message"]
        assert again.startswith("kho devices approve ")
        assert mac in [one["device"] for one in (await worker.ask("devices_list", {}))["pending"]]


async def test_a_board_that_does_not_answer_a_call_is_asked_at_once_and_given_up_soon(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    async with (
        mqtt(worker, mqtt_url=f"mqtt://127.0.0.1:{broker.port}") as served,
        client(broker, topics.down(mac)) as found,
    ):
        board, up = Board(mac), topics.up(mac)
        await found.publish(up, "{}")
        await introduce(board, found, up)
        await (await linked(worker, mac)).settled()
        call = {"device": mac, "tool": VOLUME, "arguments": {"volume": 3}, "timeout": 1, "queue_for": "10m"}
        with pytest.raises(DeviceTimeout) as failed:
            await worker.ask("device_call", call)
        assert "It was not queued" in failed.value.guidance
        assert "tools/call" in await next_of(found, "mcp")
        listing = await next_of(found, "mcp")
        assert "tools/list" in listing, "nobody waits until it has been silent for long"
        await answer(board, found, up, listing)
        assert served.door is not None
        served.door.patience = replace(served.door.patience, grace=0.1)
        with pytest.raises(DeviceTimeout):
            await worker.ask("device_call", call)
        await unlinked(worker, mac)


async def test_a_virtual_board_that_ends_says_goodbye_and_is_gone_soon(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    async with external(worker, broker, patience=Patience(leaving=0.1)) as simulate:
        async with AsyncExitStack() as stack:
            await simulate(mac, stack, subscribes=True)
        await unlinked(worker, mac)


async def test_firmware_says_goodbye_at_the_end_of_a_conversation_and_stays(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    up, board = topics.up(mac), Board(mac)
    async with (
        mqtt(worker, mqtt_url=f"mqtt://127.0.0.1:{broker.port}") as served,
        client(broker, topics.down(mac)) as found,
    ):
        await found.publish(up, "{}")
        await introduce(board, found, up)
        link = await linked(worker, mac)
        await found.publish(up, board.goodbye())
        await answer(board, found, up, await next_of(found, "mcp"))
        await linked(worker, mac)
        assert served.door is not None
        await served.door.look()
        assert not link.closed
