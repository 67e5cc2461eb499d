"""The hub's own broker: boards with their credentials get in, are pushed what the hub has for them, and see nothing of
each other."""

import asyncio
import json
import time
from contextlib import suppress

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.mqtt_brokers import dialled, linked, own_broker, unlinked

from kho.devices.connections.frame_pace import BURST
from kho.devices.errors import BoardGone, BoardRefused
from kho.devices.mqtt import broker
from kho.devices.mqtt.board import MAX_MESSAGE, MAX_UNREAD
from kho.lib.clock import DAY, SECOND
from kho.lib.mqtt_client import Client, Disconnected
from kho.simulator.board import Board

MAC = "02:4b:00:00:00:01"
VOLUME = "self.audio_speaker.set_volume"


async def said(client: Client) -> str:
    async with asyncio.timeout(PATIENCE):
        async for _, content in client.messages():
            return content.decode()
    raise AssertionError("nothing was said")


async def cut_off(client: Client) -> None:
    with suppress(Disconnected):
        async with asyncio.timeout(PATIENCE):
            async for _ in client.messages():
                pass


async def test_a_board_that_never_subscribes_is_called_and_does_it(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        simulated = await at.simulate(MAC)
        link = await at.link(MAC)
        assert link.wire.name == "mqtt"
        done = await link.call(VOLUME, {"volume": 37})
        assert done.content == [{"type": "text", "text": "true"}]
        assert simulated.board.state.volume == 37
        await link.settled()
        known = await worker.registrations.of(worker.tenant, MAC)
        assert known is not None
        assert known.info["transport"] == "mqtt"


async def test_a_board_gets_its_credentials_when_it_asks_for_its_settings(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        assert told["endpoint"] == f"127.0.0.1:{at.port}"
        assert told["client_id"] == "GID_kho@@@02_4b_00_00_00_01@@@c-1"
        assert told["publish_topic"] == "devices/02_4b_00_00_00_01/up"
        assert told["subscribe_topic"] == "devices/p2p/02_4b_00_00_00_01"
        async with dialled(at.port, told) as client:
            assert json.loads(await said(client))["payload"]["method"] == "initialize"


@pytest.mark.parametrize(
    "other",
    [{"password": "kd1.wrong"}, {"password": None}, {"client_id": "GID_kho@@@aa_bb@@@c-1"}, {"username": None}],
    ids=["wrong", "none", "another's name", "nobody"],
)
async def test_wrong_credentials_are_refused_and_nothing_is_left_of_it(
    worker: HubWorker, other: dict[str, str]
) -> None:
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        if "username" in other:
            told["password"] = None
        with pytest.raises(Disconnected):
            async with dialled(at.port, told, **other):
                pass
        assert worker.live.find(worker.tenant, MAC) is None
        async with dialled(at.port, await at.credentials(MAC)) as client:
            await said(client)


async def test_a_token_for_the_socket_or_one_that_is_too_old_is_no_password(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        for_socket = worker.parts.tokens.issue(worker.tenant, MAC, "c-1", "socket", worker.clock())
        with pytest.raises(Disconnected):
            async with dialled(at.port, told, password=for_socket):
                pass
        worker.clock.pass_(31 * DAY / 1_000_000)
        with pytest.raises(Disconnected):
            async with dialled(at.port, told):
                pass


async def test_a_revoked_board_is_cut_off_and_stays_out(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        async with dialled(at.port, told) as client:
            await said(client)
            await worker.ask("device_revoke", {"device": MAC})
            await cut_off(client)
        with pytest.raises(Disconnected):
            async with dialled(at.port, told):
                pass


async def test_boards_do_not_hear_each_other(worker: HubWorker) -> None:
    """Whatever one subscribes or publishes to."""
    async with own_broker(worker) as at:
        await at.simulate(MAC)
        spying, name = await at.credentials("02:4b:00:00:00:02"), "devices/p2p/02_4b_00_00_00_02"
        topics = ["#", "devices/+/up", "devices/p2p/02_4b_00_00_00_01", name]
        async with dialled(at.port, spying, topics=topics) as spy:
            await said(spy)
            await spy.publish("devices/p2p/02_4b_00_00_00_01", '{"type":"system","command":"reboot"}')
            await spy.publish("devices/02_4b_00_00_00_01/up", '{"type":"ping"}')
            link = await at.link(MAC)
            await link.call(VOLUME, {"volume": 1})
            await spy.publish("device-server", '{"type":"ping"}')
            assert json.loads(await said(spy))["type"] == "pong", "only what is its own reaches the spy"


async def test_hello_is_answered_as_firmware_and_as_the_contract_want_it(worker: HubWorker) -> None:
    async with own_broker(worker) as at, dialled(at.port, await at.credentials(MAC)) as client:
        await said(client)
        board = Board(MAC)
        await client.publish("device-server", board.hello("udp"))
        hello = json.loads(await said(client))
        assert (hello["type"], hello["transport"]) == ("hello", "udp")
        assert len(bytes.fromhex(hello["udp"]["key"])) == len(bytes.fromhex(hello["udp"]["nonce"])) == 16
        assert hello["udp"].keys() == {"server", "port", "key", "nonce", "encryption"}
        await said(client)
        await client.publish("device-server", board.hello("mqtt"))
        hello = json.loads(await said(client))
        assert (hello["transport"], "udp" in hello) == ("mqtt", False)
        assert hello["session_id"]


async def test_the_connection_ends_in_the_middle_of_a_call(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        simulated = await at.simulate(MAC)
        simulated.faults.append("drop")
        link = await at.link(MAC)
        with pytest.raises(BoardGone):
            await link.call(VOLUME, {"volume": 37})
        again = await linked(worker, MAC)
        assert again is not link
        await again.call(VOLUME, {"volume": 38})


async def test_a_board_that_comes_back_under_its_name_takes_its_place(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        async with dialled(at.port, told) as first:
            await said(first)
            simulated = await at.simulate(Board(MAC))
            assert simulated.client != "c-1", "the simulator has a name of its own"
            link = await at.link(MAC)
            await link.call(VOLUME, {"volume": 12})
            assert simulated.board.state.volume == 12


async def test_what_is_too_long_for_a_board_is_refused_and_the_next_call_goes_through(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        await at.simulate(MAC)
        link = await at.link(MAC)
        with pytest.raises(BoardRefused, match="8192 bytes"):
            await link.call("self.screen.set_theme", {"theme": "x" * MAX_MESSAGE})
        await link.call("self.screen.set_theme", {"theme": "dark"})


async def test_who_sends_too_much_or_nonsense_is_cut_off_and_nobody_else(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        await at.simulate(MAC)
        told = await at.credentials("02:4b:00:00:00:02")
        async with dialled(at.port, told) as client:
            await said(client)
            await client.publish("device-server", "x" * (broker.MAX_PACKET + 1))
            await cut_off(client)
        for bytes_ in (b"GET / HTTP/1.1\r\n\r\n", b"\x10\xff\xff\xff\x7f", b"\x00", b""):
            reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
            writer.write(bytes_)
            writer.write_eof()
            async with asyncio.timeout(PATIENCE):
                await reader.read()
            writer.close()
            await writer.wait_closed()
        await (await at.link(MAC)).call(VOLUME, {"volume": 37})


async def test_who_says_nothing_is_cut_off(worker: HubWorker) -> None:
    async with own_broker(worker) as at:
        assert at.served.broker is not None
        at.served.broker.first_within = 0.05
        reader, writer = await asyncio.open_connection("127.0.0.1", at.port)
        async with asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_500_clients_that_begin_to_say_who_they_are_hold_up_no_board(worker: HubWorker) -> None:
    """Each sends half of a CONNECT, and no more; all are cut off, and boards come and go meanwhile."""
    half = b"\x10\x20\x00\x04MQTT"
    async with own_broker(worker) as at:
        assert at.served.broker is not None
        streams = [await asyncio.open_connection("127.0.0.1", at.port) for _ in range(500)]
        for _, writer in streams:
            writer.write(half)
        await at.simulate(MAC)
        assert (await (await at.link(MAC)).call(VOLUME, {"volume": 37})).content
        for reader, writer in streams:
            async with asyncio.timeout(PATIENCE):
                with suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.close()
        assert (await (await at.link(MAC)).call(VOLUME, {"volume": 38})).content
        assert len(at.served.broker.visits) == 1, "the board's alone is left"


async def test_when_the_hub_stops_boards_are_gone_and_no_task_is_left(worker: HubWorker) -> None:
    before = asyncio.all_tasks()
    async with own_broker(worker) as at:
        await at.simulate(MAC)
        port = at.port
    await unlinked(worker, MAC)
    await worker.live.close()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    assert asyncio.all_tasks() - before == set()


class Seer:
    async def explain(self, image: bytes, mime: str, question: str) -> str:
        return f"{mime}: a cup"


async def test_a_photo_goes_where_the_board_asked_for_its_settings_and_does_so_for_weeks(worker: HubWorker) -> None:
    """Nobody told the hub its address."""
    async with own_broker(worker, seer=Seer()) as at:
        await at.simulate(Board(MAC, online=True))
        link = await at.link(MAC)
        await link.settled()
        link.clock = lambda: time.monotonic() + worker.clock.ahead / SECOND
        photo = {"device": MAC, "tool": "self.camera.take_photo", "arguments": {"question": "What is it?"}}
        for _ in range(4):
            answer = await worker.ask("device_call", photo)
            assert json.loads(answer["text"]) == {"success": True, "action": "RESPONSE", "response": "image/png: a cup"}
            worker.clock.pass_(13 * 24 * 3600)
            await worker.live.beat()


async def test_a_board_that_says_too_much_is_read_more_slowly_and_nothing_is_lost(worker: HubWorker) -> None:
    go_on, waiting = asyncio.Event(), asyncio.Event()

    async def pause(seconds: float) -> None:
        waiting.set()
        await go_on.wait()

    worker.live.frames, worker.live.pause = 10, pause
    many = MAX_UNREAD + 100
    async with own_broker(worker) as at:
        told = await at.credentials(MAC)
        async with dialled(at.port, told) as client, asyncio.timeout(PATIENCE):
            for _ in range(many):
                await client.publish(told["publish_topic"], '{"type":"odd"}')
            await waiting.wait()
            loud = worker.live.find(worker.tenant, MAC)
            assert loud is not None
            assert loud.session.troubles["unknown frame"] <= 10 * BURST
            neighbour = await at.simulate("02:4b:00:00:00:02")
            await (await at.link("02:4b:00:00:00:02")).call(VOLUME, {"volume": 5})
            assert neighbour.board.state.volume == 5
            go_on.set()
            while loud.session.troubles["unknown frame"] < many:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert loud.session.troubles["unknown frame"] == many
