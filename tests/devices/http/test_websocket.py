"""Boards dial in over a real WebSocket: who gets in, what is said, and what is left when they are gone."""

import asyncio
import json
from typing import Any

import pytest
from tests.devices.factories import PATIENCE, HubWorker
from tests.devices.http_server import Dialled, Json, MakeWorker, Served, closing, forget_keys, gone, new_key, ready, web
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import InvalidStatus

from kho.devices.errors import BoardGone
from kho.devices.http import websocket
from kho.devices.pairing.registrations import approve_code
from kho.devices.pairing.tokens import Tokens
from kho.lib.clock import DAY
from kho.simulator.board import Board

HELLO: Json = {
    "type": "hello",
    "version": 1,
    "features": {"mcp": True, "glyph_push": False},
    "transport": "websocket",
    "audio_params": {"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 60},
}


async def heard(socket: ClientConnection) -> Json:
    async with asyncio.timeout(PATIENCE):
        return json.loads(await socket.recv())


async def turned_away(hub: Served, path: str = "/xiaozhi/v1/", **headers: str) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        await hub.dial(path, **headers)
    error: Json = json.loads(refused.value.response.body or b"")["error"]
    return refused.value.response.status_code, error["message"]


async def approved(worker: HubWorker, device: str, client: str = "client-one-00001") -> None:
    board = await worker.registrations.register(device, client, {})
    assert board.code is not None
    code = board.code
    await worker.db.write(lambda tx: approve_code(tx, worker.tenant, code, "lan", worker.clock()))


# -- the conversation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/xiaozhi/v1/", "/xiaozhi/v1", "/devices/ws"])
async def test_a_board_says_hello_and_is_asked_as_the_contract_shows(workers: MakeWorker, path: str) -> None:
    async with (
        web(workers()) as hub,
        hub.dial(path, Device_Id="AA:BB:CC:00:00:01", Client_Id="client-one-00001") as socket,
    ):
        await socket.send(json.dumps(HELLO))
        hello = await heard(socket)
        assert hello["type"] == "hello"
        assert hello["transport"] == "websocket", "without it the firmware crashes"
        assert hello["session_id"]
        assert hello["audio_params"]["sample_rate"]
        asked = await heard(socket)
        assert (asked["type"], asked["session_id"]) == ("mcp", hello["session_id"])
        payload = asked["payload"]
        assert (payload["jsonrpc"], payload["method"]) == ("2.0", "initialize")
        assert isinstance(payload["id"], int)
        vision = payload["params"]["capabilities"]["vision"]
        assert vision["url"] == f"{hub.url}/vision/explain"
        claims = hub.tokens.check(vision["token"], "vision", hub.worker.clock())
        assert claims is not None
        assert (claims.device, claims.client) == ("aa:bb:cc:00:00:01", "client-one-00001")
        known = await hub.worker.registrations.of(hub.worker.tenant, "aa:bb:cc:00:00:01")
        assert known is not None
        assert known.approved


async def test_a_board_is_called_and_does_it(workers: MakeWorker) -> None:
    async with web(workers()) as hub, hub.dial(device_id="aa:01") as socket:
        board = Board("aa:01")
        Dialled(board, socket)
        await ready(hub.worker, "aa:01")
        link = hub.worker.live.find(hub.worker.tenant, "aa:01")
        assert link is not None
        done = await link.call("self.audio_speaker.set_volume", {"volume": 37})
        assert done.content == [{"type": "text", "text": "true"}]
        status = json.loads((await link.call("self.get_device_status", {})).content[0]["text"])
        assert status["audio_speaker"]["volume"] == 37


async def test_sound_and_talk_about_sound_are_ignored_and_a_ping_is_answered(workers: MakeWorker) -> None:
    async with web(workers()) as hub, hub.dial(device_id="aa:01") as socket:
        await socket.send(b"\0" * 120)
        await socket.send('{"type":"listen","state":"start"}')
        await socket.send(json.dumps(HELLO))
        assert (await heard(socket))["type"] == "hello"
        assert (await heard(socket))["payload"]["method"] == "initialize"
        for frame in (b"\1" * 200, b"", '{"type":"abort","reason":"wake_word_detected"}', "nonsense", '{"type":"?"}'):
            await socket.send(frame)
        await socket.send('{"type":"ping"}')
        assert (await heard(socket))["type"] == "pong"
        link = hub.worker.live.find(hub.worker.tenant, "aa:01")
        assert link is not None
        assert isinstance(link.wire, websocket.SocketWire)
        assert link.wire.audio == 2


async def test_a_browser_may_say_in_the_query_what_a_board_says_in_headers(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        token = (await hub.ota("aa:01"))["websocket"]["token"]
        query = f"?device-id=AA%3A01&client-id=client-one-00001&authorization=Bearer%20{token}"
        async with hub.dial(f"/xiaozhi/v1/{query}") as socket:
            await socket.send(json.dumps(HELLO))
            assert (await heard(socket))["type"] == "hello"


async def test_the_configured_address_is_the_one_that_boards_are_told(workers: MakeWorker) -> None:
    async with web(workers(), public_url="https://kho.example/") as hub, hub.dial(device_id="aa:01") as socket:
        await socket.send(json.dumps(HELLO))
        await heard(socket)
        asked = await heard(socket)
        assert asked["payload"]["params"]["capabilities"]["vision"]["url"] == "https://kho.example/vision/explain"


# -- who gets in -------------------------------------------------------------------------------------------------------


async def test_a_wrong_token_is_refused_before_the_handshake(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        worker = hub.worker
        token = (await hub.ota("aa:01"))["websocket"]["token"]
        await hub.ota("aa:02", "c-2")
        later = hub.tokens.issue(worker.tenant, "aa:01", "client-one-00001", "socket", worker.clock() - 31 * DAY)
        photos = hub.tokens.issue(worker.tenant, "aa:01", "client-one-00001", "vision", worker.clock())
        unknown = hub.tokens.issue(worker.tenant, "aa:09", "client-one-00001", "socket", worker.clock())
        for wrong in (token[:-2] + "xx", "nonsense", later, photos, unknown):
            status, _ = await turned_away(
                hub, device_id="aa:01", client_id="client-one-00001", authorization=f"Bearer {wrong}"
            )
            assert status == 401
        replayed = f"Bearer {token}"
        assert await turned_away(hub, device_id="aa:02", client_id="c-2", authorization=replayed) == (
            401,
            "The token is another board's.",
        )
        assert (await turned_away(hub, device_id="aa:01", client_id="c-9", authorization=replayed))[0] == 401
        for good in (replayed, token):
            async with hub.dial(device_id="aa:01", client_id="client-one-00001", authorization=good) as socket:
                await socket.send(json.dumps(HELLO))
                assert (await heard(socket))["type"] == "hello"


async def test_a_refusal_is_no_error_of_the_server(workers: MakeWorker, caplog: pytest.LogCaptureFixture) -> None:
    async with web(workers()) as hub:
        await turned_away(hub)
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_who_does_not_say_who_it_is_is_told_what_is_missing(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        status, message = await turned_away(hub)
        assert status == 400
        assert "Device-Id" in message
        assert (await turned_away(hub, device_id="a b"))[0] == 400
        assert (await turned_away(hub, device_id="x" * 129))[0] == 400


async def test_an_unapproved_board_may_say_hello_and_is_told_the_code(workers: MakeWorker) -> None:
    async with (
        web(workers(by_code=True), by_code=True) as hub,
        hub.dial(device_id="aa:91", client_id="client-one-00001") as socket,
    ):
        await socket.send(json.dumps(HELLO))
        alert = await heard(socket)
        pending = await hub.worker.registrations.find("aa:91", "client-one-00001")
        assert pending is not None
        assert pending.code is not None
        assert (alert["type"], alert["message"]) == ("alert", f"Not approved yet: kho devices approve {pending.code}")
        assert {"status", "emotion"} <= alert.keys(), "firmware wants all three"
        assert await closing(socket) == (4403, alert["message"])
        assert hub.worker.live.find(hub.worker.tenant, "aa:91") is None


async def test_where_codes_count_an_approved_board_must_show_its_token(workers: MakeWorker) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        await approved(worker, "aa:11")
        assert (await turned_away(hub, device_id="aa:11", client_id="client-one-00001"))[0] == 401
        token = (await hub.ota("aa:11"))["websocket"]["token"]
        async with hub.dial(device_id="aa:11", client_id="client-one-00001", authorization=token) as socket:
            Dialled(Board("aa:11"), socket)
            await ready(worker, "aa:11")


async def test_a_revoked_board_stays_out_with_the_tokens_it_had_even_when_it_is_approved_again(
    workers: MakeWorker,
) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        await approved(worker, "aa:21")
        old = (await hub.ota("aa:21"))["websocket"]["token"]
        worker.clock.pass_(1)
        await worker.ask("device_revoke", {"device": "aa:21"})
        assert (await turned_away(hub, device_id="aa:21", client_id="client-one-00001", authorization=old))[0] == 401
        worker.clock.pass_(1)
        await approved(worker, "aa:21")
        assert (await turned_away(hub, device_id="aa:21", client_id="client-one-00001", authorization=old))[0] == 401
        new = (await hub.ota("aa:21"))["websocket"]["token"]
        async with hub.dial(device_id="aa:21", client_id="client-one-00001", authorization=new) as socket:
            await socket.send(json.dumps(HELLO))
            assert (await heard(socket))["type"] == "hello"


async def test_unknown_boards_from_one_address_are_limited_and_known_ones_are_not(workers: MakeWorker) -> None:
    async with web(workers(by_code=True), by_code=True) as hub:
        hub.worker.registrations.newcomers.most = 2
        for device in ("bb:01", "bb:02", "bb:01"):
            await (await hub.dial(device_id=device, client_id="client-one-00001")).close()
        status, message = await turned_away(hub, device_id="bb:03", client_id="client-one-00001")
        assert status == 429
        assert "Too many boards" in message
        hub.worker.clock.pass_(601)
        await (await hub.dial(device_id="bb:03", client_id="client-one-00001")).close()


async def test_a_hub_with_keys_lets_boards_in_without_a_key(workers: MakeWorker) -> None:
    worker = workers()
    await new_key(worker)
    try:
        async with web(worker) as hub, hub.dial(device_id="aa:01") as socket:
            await socket.send(json.dumps(HELLO))
            assert (await heard(socket))["type"] == "hello"
    finally:
        await forget_keys(worker)


# -- when things go wrong ----------------------------------------------------------------------------------------------


async def test_the_newer_connection_wins_and_the_older_one_is_told(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        first = Dialled(Board("aa:01"), await hub.dial(device_id="aa:01"))
        await ready(hub.worker, "aa:01")
        older = hub.worker.live.find(hub.worker.tenant, "aa:01")
        second = Dialled(Board("aa:01"), await hub.dial(device_id="aa:01"))
        code, reason = await first.closed()
        assert (code, "newer connection" in reason) == (1000, True)
        await ready(hub.worker, "aa:01")
        newer = hub.worker.live.find(hub.worker.tenant, "aa:01")
        assert newer is not older
        assert newer is not None
        assert (await newer.call("self.get_device_status", {})).content
        await second.leave()
        await gone(hub.worker, "aa:01")


async def test_who_says_no_hello_is_sent_away(workers: MakeWorker) -> None:
    async with web(workers(), hello_within=0.05) as hub, hub.dial(device_id="aa:01") as socket:
        await socket.send('{"type":"listen"}')
        assert await closing(socket) == (4408, "Say hello within 0.05 seconds.")


async def test_a_board_that_breaks_off_fails_the_call_at_once_and_disturbs_no_other(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        lost, other = await hub.dial(device_id="aa:01"), await hub.dial(device_id="aa:02")
        board = Board("aa:01")
        Dialled(board, lost)
        Dialled(Board("aa:02"), other)
        await ready(hub.worker, "aa:01")
        await ready(hub.worker, "aa:02")
        link = hub.worker.live.find(hub.worker.tenant, "aa:01")
        assert link is not None
        calling = asyncio.ensure_future(link.call("self.get_device_status", {}, 300))
        lost.transport.abort()
        with pytest.raises(BoardGone):
            await calling
        await gone(hub.worker, "aa:01")
        unhurt = hub.worker.live.find(hub.worker.tenant, "aa:02")
        assert unhurt is not None
        assert (await unhurt.call("self.get_device_status", {})).content
        await other.close()


async def test_a_flood_of_nonsense_and_a_huge_frame_cost_only_the_board_that_sends_them(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        good, bad = await hub.dial(device_id="aa:02"), await hub.dial(device_id="aa:01")
        Dialled(Board("aa:02"), good)
        await ready(hub.worker, "aa:02")
        await bad.send(json.dumps(HELLO))
        for number in range(500):
            await bad.send(['{"type":', "[]", '{"type":"mcp","payload":7}', "\0", '{"type":"mcp"}'][number % 5])
        link = hub.worker.live.find(hub.worker.tenant, "aa:02")
        assert link is not None
        assert (await link.call("self.get_device_status", {})).content
        reading = asyncio.ensure_future(closing(bad))
        await bad.send("7" * (1024 * 1024 + 1))
        assert (await reading)[0] == 1009
        await gone(hub.worker, "aa:01")
        assert (await link.call("self.get_device_status", {})).content
        await good.close()


async def test_when_the_hub_stops_boards_are_told_and_no_task_is_left(workers: MakeWorker) -> None:
    worker = workers()
    async with web(worker) as hub, hub.dial(device_id="cc:0") as socket:  # what the first board brings about stays
        Dialled(Board("cc:0"), socket)
        await ready(worker, "cc:0")
    await gone(worker, "cc:0")
    before = len(asyncio.all_tasks())
    async with web(worker) as hub:
        boards: list[Any] = []
        for number in range(20):
            boards.append(Dialled(Board(f"cc:{number}"), await hub.dial(device_id=f"cc:{number}")))
        for number in range(20):
            await ready(worker, f"cc:{number}")
    assert {await board.closed() for board in boards} == {(1001, "")}
    for board in boards:
        await board.socket.wait_closed()
    assert all(worker.live.find(worker.tenant, f"cc:{number}") is None for number in range(20))
    known = await worker.registrations.of(worker.tenant, "cc:7")
    assert known is not None
    assert known.connected_at is None
    await worker.settle()
    assert len(asyncio.all_tasks()) == before


async def test_the_key_of_the_tokens_outlives_the_process(workers: MakeWorker) -> None:
    worker = workers()
    async with web(worker) as hub:
        token = (await hub.ota("aa:01"))["websocket"]["token"]
    again = Tokens(worker.registrations)
    await again.ready()
    assert again.check(token, "socket", worker.clock()) is not None
