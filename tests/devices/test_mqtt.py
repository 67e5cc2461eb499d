"""Boards at a broker that is there already: a stranger's one, which says nothing of who is there."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.devices.house import PATIENCE, House
from tests.devices.mqtt_house import (
    Amqtt,
    AnyBroker,
    client,
    external,
    free_port,
    heard,
    introduce,
    linked,
    mqtt,
    unlinked,
)
from tests.devices.web_house import Houses

from kho.devices.errors import BoardGone, DeviceFailed
from kho.devices.mqtt import bridge as door
from kho.devices.mqtt import config, topics
from kho.devices.pairing.registrations import approve_code
from kho.devices.settings import DeviceSettings
from kho.lib import mqtt_client
from kho.lib.mqtt_client import Address, Unusable, address
from kho.simulator.board import Board, Say

VOLUME = "self.audio_speaker.set_volume"


async def test_a_board_is_called_and_does_it(house: House, broker: AnyBroker, mac: str) -> None:
    async with external(house, broker) as simulate:
        simulated = await simulate(mac, subscribes=True)
        link = await linked(house, mac)
        assert link.wire.name == "mqtt"
        await link.call(VOLUME, {"volume": 37})
        assert simulated.board.state.volume == 37


async def test_a_board_that_never_asked_the_hub_takes_no_photo_and_the_caller_is_told_what_to_set(
    house: House, broker: AnyBroker, mac: str
) -> None:
    board = Board(mac, online=True)
    async with mqtt(house, mqtt_url=f"mqtt://127.0.0.1:{broker.port}"), client(broker, topics.down(mac)) as found:
        await found.publish(topics.up(mac), "{}")
        await introduce(board, found, topics.up(mac))
        await (await linked(house, mac)).settled()
        photo = {"device": mac, "tool": "self.camera.take_photo", "arguments": {"question": "What is it?"}}
        asking = asyncio.ensure_future(house.ask("device_call", photo))
        for said in board.hear(json.dumps(await heard(found))):
            assert isinstance(said, Say)
            await found.publish(topics.up(mac), said.text)
        with pytest.raises(DeviceFailed, match="explain URL") as failed:
            await asking
        assert "Set KHO_DEVICES__PUBLIC_URL" in failed.value.guidance


async def test_the_broker_restarts_and_the_boards_are_back(house: House, broker: AnyBroker, mac: str) -> None:
    async with external(house, broker) as simulate:
        simulated = await simulate(mac, subscribes=True)
        before = await linked(house, mac)
        await broker.stop()
        await unlinked(house, mac)
        with pytest.raises(BoardGone):
            await before.call(VOLUME, {"volume": 1})
        await broker.start()
        link = await linked(house, mac)
        await link.call(VOLUME, {"volume": 38})
        assert simulated.board.state.volume == 38


async def test_at_the_shared_topic_a_board_is_known_by_what_it_says_and_then_by_its_session(
    house: House, broker: AnyBroker, mac: str
) -> None:
    board = Board(mac)
    async with (
        mqtt(house, mqtt_url=f"mqtt://127.0.0.1:{broker.port}") as served,
        client(broker, topics.down(mac)) as found,
    ):
        await found.publish("device-server", '{"type":"hello","transport":"mqtt"}')
        named = {**json.loads(board.hello("mqtt")), "mac": mac.upper().replace(":", "_")}
        await found.publish("device-server", json.dumps(named))
        hello = await heard(found)
        assert (hello["type"], hello["transport"]) == ("hello", "mqtt")
        board.hear(json.dumps(hello))
        await introduce(board, found, "device-server")
        await linked(house, mac)
        assert served.door is not None
        assert served.door.unknown == 1, "nobody knows whose the first hello was"


async def test_by_code_nobody_is_believed_at_the_shared_topic_and_new_boards_show_a_code(
    houses: Houses, broker: AnyBroker, mac: str
) -> None:
    house = houses(by_code=True)
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with mqtt(house, by_code=True, mqtt_url=url) as served, client(broker, topics.down(mac)) as found:
        await found.publish("device-server", json.dumps({**json.loads(Board(mac).hello("mqtt")), "mac": mac}))
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        alert = await heard(found)
        assert alert["type"] == "alert"
        assert served.door is not None
        assert served.door.unknown == 1
        code = alert["message"].split()[-1]
        await house.db.write(lambda tx: approve_code(tx, house.tenant, code, "lan", house.clock()))
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        assert (await heard(found))["type"] == "hello"


async def test_a_board_that_is_idle_is_found_when_the_hub_starts_again(
    houses: Houses, broker: AnyBroker, mac: str
) -> None:
    first = houses()
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with AsyncExitStack() as stack:
        async with external(first, broker) as simulate:
            await simulate(mac, subscribes=True)
            await (await linked(first, mac)).settled()
        await first.live.close()
        found = await stack.enter_async_context(client(broker, topics.down(mac)))
        again = houses(tenant=first.tenant)
        await stack.enter_async_context(mqtt(again, mqtt_url=url))
        assert again.live.find(again.tenant, mac) is None, "it is not there before it answers"
        await introduce(Board(mac), found, topics.up(mac))
        await linked(again, mac)


async def test_a_board_that_falls_silent_is_asked_and_then_given_up(
    house: House, broker: AnyBroker, mac: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"mqtt://127.0.0.1:{broker.port}"
    async with mqtt(house, mqtt_url=url) as served, client(broker, topics.down(mac)) as found:
        await found.publish(topics.up(mac), Board(mac).hello("mqtt"))
        await heard(found)
        assert served.door is not None
        monkeypatch.setattr(door, "QUIET", -1.0)
        monkeypatch.setattr(door, "GRACE", 0.0)
        await served.door.look()
        await unlinked(house, mac)


async def test_only_one_process_of_a_hub_holds_the_connection(houses: Houses, broker: AnyBroker) -> None:
    url = f"mqtt://127.0.0.1:{broker.port}"
    one, two = houses(), houses()
    async with mqtt(one, mqtt_url=url):
        parts = two.live, two.registrations, two.parts.tokens
        other = config.MqttServed(two.core, DeviceSettings(mqtt_url=url), *parts, _auto)
        (holder,) = other.holders
        assert not await holder._mine()  # pyright: ignore[reportPrivateUsage]
        two.clock.pass_(60)
        assert await holder._mine(), "a process that fell silent is succeeded"  # pyright: ignore[reportPrivateUsage]
        await two.background.drain()
        await holder.run()  # lets go of it


async def _auto() -> Any:
    return "auto"


async def test_there_is_no_broker_and_the_hub_tries_later(house: House) -> None:
    parts = house.live, house.registrations, house.parts.tokens
    url = f"mqtt://127.0.0.1:{free_port()}"
    served = config.MqttServed(house.core, DeviceSettings(mqtt_url=url), *parts, _auto)
    (holder,) = served.holders
    house.background.add(holder.run)
    later = Amqtt(address(url).port)
    await later.start()
    async with asyncio.timeout(PATIENCE):
        await holder.there.wait()
    await house.background.drain()
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
    with pytest.raises(Unusable, match=r"pip install 'kho\[mqtt\]'"):
        mqtt_client.need("no_such_package")
