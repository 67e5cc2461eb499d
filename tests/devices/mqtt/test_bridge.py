"""Boards at a broker that is there already: a stranger's one, which says nothing of who is there."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import MakeWorker
from tests.devices.mqtt_brokers import (
    Amqtt,
    AnyBroker,
    client,
    external,
    free_port,
    heard,
    introduce,
    linked,
    mqtt,
    served_by,
    unlinked,
)

from kho.devices.errors import BoardGone, DeviceFailed
from kho.devices.mqtt import topics
from kho.devices.mqtt.bridge import Patience
from kho.devices.pairing.registrations import approve_code
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable, address
from kho.simulator.board import Board, Say

VOLUME = "self.audio_speaker.set_volume"


async def test_a_board_is_called_and_does_it(worker: HubWorker, broker: AnyBroker, mac: str) -> None:
    async with external(worker, broker) as simulate:
        simulated = await simulate(mac, subscribes=True)
        link = await linked(worker, mac)
        assert link.wire.name == "mqtt"
        await link.call(VOLUME, {"volume": 37})
        assert simulated.board.state.volume == 37


async def test_a_board_that_never_asked_the_hub_takes_no_photo_and_the_caller_is_told_what_to_set(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    board = Board(mac, online=True)
    async with mqtt(worker, mqtt_url=f"mqtt://127.0.0.1:{broker.port}"), client(broker, topics.down(mac)) as found:
        await found.publish(topics.up(mac), "{}")
        await introduce(board, found, topics.up(mac))
        await (await linked(worker, mac)).settled()
        photo = {"device": mac, "tool": "self.camera.take_photo", "arguments": {"question": "What is it?"}}
        asking = asyncio.ensure_future(worker.ask("device_call", photo))
        for said in board.hear(json.dumps(await heard(found))):
            assert isinstance(said, Say)
            await found.publish(topics.up(mac), said.text)
        with pytest.raises(DeviceFailed, match="explain URL") as failed:
            await asking
        assert "Set KHO_DEVICES__PUBLIC_URL" in failed.value.guidance


async def test_the_broker_restarts_and_the_boards_are_back(worker: HubWorker, broker: AnyBroker, mac: str) -> None:
    async with external(worker, broker) as simulate:
        simulated = await simulate(mac, subscribes=True)
        before = await linked(worker, mac)
        await broker.stop()
        await unlinked(worker, mac)
        with pytest.raises(BoardGone):
            await before.call(VOLUME, {"volume": 1})
        await broker.start()
        link = await linked(worker, mac)
        await link.call(VOLUME, {"volume": 38})
        assert simulated.board.state.volume == 38


async def test_at_the_shared_topic_a_board_is_known_by_what_it_says_and_then_by_its_session(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    board = Board(mac)
    async with (
        mqtt(worker, mqtt_url=f"mqtt://127.0.0.1:{broker.port}") as served,
        client(broker, topics.down(mac)) as found,
    ):
        await found.publish("device-server", '{"type":"hello","transport":"mqtt"}')
        named = {**json.loads(board.hello("mqtt")), "mac": mac.upper().replace(":", "_")}
        await found.publish("device-server", json.dumps(named))
        hello = await heard(found)
        assert (hello["type"], hello["transport"]) == ("hello", "mqtt")
        board.hear(json.dumps(hello))
        await introduce(board, found, "device-server")
        await linked(worker, mac)
        assert served.door is not None
        assert served.door.unknown == 1, "nobody knows whose the first hello was"


async def test_by_code_nobody_is_believed_at_the_shared_topic_and_new_boards_show_a_code(
    workers: MakeWorker, broker: AnyBroker, mac: str
) -> None:
    worker = workers(by_code=True)
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with mqtt(worker, by_code=True, mqtt_url=url) as served, client(broker, topics.down(mac)) as found:
        await found.publish("device-server", json.dumps({**json.loads(Board(mac).hello("mqtt")), "mac": mac}))
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        alert = await heard(found)
        assert alert["type"] == "alert"
        assert served.door is not None
        assert served.door.unknown == 1
        code = alert["message"].split()[-1]
        await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        assert (await heard(found))["type"] == "hello"


async def test_a_board_that_is_idle_is_found_when_the_hub_starts_again(
    workers: MakeWorker, broker: AnyBroker, mac: str
) -> None:
    first = workers()
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with AsyncExitStack() as stack:
        async with external(first, broker) as simulate:
            await simulate(mac, subscribes=True)
            await (await linked(first, mac)).settled()
        await first.live.close()
        found = await stack.enter_async_context(client(broker, topics.down(mac)))
        again = workers(tenant=first.tenant)
        await stack.enter_async_context(mqtt(again, mqtt_url=url))
        assert again.live.find(again.tenant, mac) is None, "it is not there before it answers"
        await introduce(Board(mac), found, topics.up(mac))
        await linked(again, mac)


async def test_a_board_that_falls_silent_is_asked_and_then_given_up(
    worker: HubWorker, broker: AnyBroker, mac: str
) -> None:
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with mqtt(worker, mqtt_url=url) as served, client(broker, topics.down(mac)) as found:
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        await heard(found)
        assert served.door is not None
        served.door.patience = Patience(quiet=-1.0, grace=0.0)
        await served.door.look()
        await unlinked(worker, mac)


async def test_only_one_process_of_a_hub_holds_the_connection(workers: MakeWorker, broker: AnyBroker) -> None:
    url = f"mqtt://127.0.0.1:{broker.port}"
    one, two = workers(), workers()
    async with mqtt(one, mqtt_url=url):
        (leader,) = served_by(two, mqtt_url=url).leaders
        assert not await leader._mine()  # pyright: ignore[reportPrivateUsage]
        two.clock.pass_(60)
        assert await leader._mine(), "a process that fell silent is succeeded"  # pyright: ignore[reportPrivateUsage]
        await two.background.drain()
        await leader.run()  # lets go of it


async def test_there_is_no_broker_and_the_hub_tries_later(worker: HubWorker) -> None:
    url = f"mqtt://127.0.0.1:{free_port()}"
    (leader,) = served_by(worker, mqtt_url=url).leaders
    worker.background.add(leader.run)
    later = Amqtt(address(url).port)
    await later.start()
    async with asyncio.timeout(PATIENCE):
        await leader.there.wait()
    await worker.background.drain()
    await later.stop()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("127.0.0.1:1883", Address("127.0.0.1", 1883)),
        ("mqtt://broker", Address("broker", 1883)),
        ("mqtts://an:p%40ss@broker", Address("broker", 8883, "an", "p@ss", True)),
    ],
)
def test_addresses(text: str, found: Address) -> None:
    assert address(text) == found
    assert "p@ss" not in f"{found} {found!r}"


@pytest.mark.parametrize("text", ["http://broker", "mqtt://", "mqtt://broker:x", ""])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(Unusable, match="mqtt://HOST:PORT"):
        address(text)


def test_who_speaks() -> None:
    mac = "02:4b:00:00:00:01"
    assert topics.by_topic("devices/02_4B_00_00_00_01/up") == mac
    assert topics.by_topic("devices/kitchen_lamp/up") == "kitchen_lamp"
    assert topics.by_topic("devices/a/b/up") is None
    assert topics.by_message({"client_id": "GID_x@@@02_4b_00_00_00_01@@@uuid"}) == mac
    assert topics.by_message({"device_id": "02:4B:00:00:00:01"}) == mac
    assert topics.by_message({"mac": "a b"}) is None
    assert topics.by_message({"type": "hello"}) is None


def test_what_is_missing_is_said() -> None:
    with pytest.raises(Unusable, match=r"pip install .*aiomqtt.* .*amqtt"):
        mqtt_client.need("no_such_package")
