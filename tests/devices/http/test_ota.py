"""A board asks for its settings, is approved, and asks again; as the firmware does it."""

import json
from collections.abc import Callable
from typing import Any, cast

import httpx2
import pytest
from tests.devices.factories import HubWorker
from tests.devices.http_server import Json, MakeWorker, refused, web
from tests.doors.doors import PLAIN
from websockets.exceptions import InvalidStatus

from kho.devices.pairing.rate_limits import TooManyBoards
from kho.devices.pairing.registrations import approve_code
from kho.devices.store import Device
from kho.kernel.ports import Database, Tx
from kho.lib.clock import SECOND

SYSTEM: Json = {
    "version": 2,
    "language": "vi-VN",
    "flash_size": 16777216,
    "minimum_free_heap_size": "8123456",
    "mac_address": "aa:bb:cc:00:00:01",
    "uuid": "client-one-00001",
    "chip_model_name": "esp32s3",
    "application": {"name": "xiaozhi", "version": "2.4.2", "compile_time": "…", "idf_version": "v5.5"},
    "board": {"type": "bread-compact-wifi", "name": "bread-compact", "ssid": "secret home", "ip": "192.168.1.9"},
}


async def approve(worker: HubWorker, code: str, tenant: str | None = None) -> Device | None:
    return await worker.db.write(lambda tx: approve_code(tx, tenant or worker.tenant, code, "lan", worker.clock()))


async def test_a_board_gets_the_time_its_own_version_and_a_websocket_with_a_token(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        answer = await hub.ota("AA:BB:CC:00:00:01", "client-one-00001", SYSTEM)
        assert set(answer) == {"server_time", "firmware", "websocket"}, "with mqtt there, it would not use the socket"
        assert abs(answer["server_time"]["timestamp"] - hub.worker.clock() // 1000) < 60_000
        assert isinstance(answer["server_time"]["timezone_offset"], int)
        assert answer["firmware"] == {"version": "2.4.2"}, "nothing newer, nowhere to get it"
        assert answer["websocket"]["url"] == hub.url.replace("http", "ws") + "/xiaozhi/v1/"
        assert answer["websocket"]["version"] == 1
        claims = hub.tokens.check(answer["websocket"]["token"], "socket", hub.worker.clock())
        assert claims is not None
        assert (claims.tenant, claims.device, claims.client) == (
            hub.worker.tenant,
            "aa:bb:cc:00:00:01",
            "client-one-00001",
        )
        known = await hub.worker.registrations.of(hub.worker.tenant, "aa:bb:cc:00:00:01")
        assert known is not None
        about = {"board": "bread-compact", "chip": "esp32s3", "firmware": "2.4.2", "language": "vi-VN"}
        assert known.info == {**about, "hub": hub.url}
        assert "secret home" not in json.dumps(known.info)


async def test_a_get_works_too_and_without_a_board_it_says_what_this_is(workers: MakeWorker) -> None:
    async with web(workers(), public_url="https://kho.example") as hub:
        looked = await hub.http.get("/xiaozhi/ota/")
        assert looked.json()["websocket"] == {"url": "wss://kho.example/xiaozhi/v1/"}
        named = {"device-id": "aa:01", "client-id": "client-one-00001", "user-agent": "bread-compact/1.9.0"}
        answer = (await hub.http.get("/xiaozhi/ota", headers=named)).json()
        assert answer["firmware"] == {"version": "1.9.0"}
        assert answer["websocket"]["url"] == "wss://kho.example/xiaozhi/v1/"
        assert answer["websocket"]["token"]


async def test_with_a_broker_boards_get_mqtt_and_nothing_else(workers: MakeWorker) -> None:
    def mqtt(board: Device, now: int, host: str) -> Json:
        return {"endpoint": "broker.example:1883", "client_id": board.id, "publish_topic": "device-server"}

    async with web(workers(), mqtt=mqtt) as hub:
        answer = await hub.ota("aa:01")
        assert "websocket" not in answer
        assert answer["mqtt"] == {
            "endpoint": "broker.example:1883",
            "client_id": "aa:01",
            "publish_topic": "device-server",
        }


async def test_by_code_a_board_waits_until_somebody_approves_the_digits_it_shows(workers: MakeWorker) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        first = await hub.ota("d0:01", "client-one-00001", SYSTEM)
        activation = first["activation"]
        assert set(activation) == {"code", "message", "challenge", "timeout_ms"}
        assert len(activation["code"]) == 6
        assert activation["code"].isdigit()
        assert activation["code"] in activation["message"]
        assert first["websocket"]["token"] == ""
        assert (await hub.ota("d0:01", "client-one-00001", SYSTEM))["activation"]["code"] == activation["code"], (
            "it stays the same"
        )

        signed = {
            "algorithm": "hmac-sha256",
            "serial_number": "SN1",
            "challenge": activation["challenge"],
            "hmac": "00" * 32,
        }
        for body in ({}, signed):
            assert (await hub.post("/xiaozhi/ota/activate", "d0:01", "client-one-00001", body)).status_code == 202
        assert await approve(worker, activation["code"]) is not None
        for body in ({}, signed):
            assert (await hub.post("/xiaozhi/ota/activate", "d0:01", "client-one-00001", body)).status_code == 200
        after = await hub.ota("d0:01", "client-one-00001", SYSTEM)
        assert "activation" not in after
        assert hub.tokens.check(after["websocket"]["token"], "socket", worker.clock()) is not None


async def test_who_only_knows_the_board_s_address_does_not_get_its_token(workers: MakeWorker) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        code = (await hub.ota("d0:11", "client-one-00001"))["activation"]["code"]
        await approve(worker, code)
        stranger = await hub.ota("d0:11", "client-other-0001")
        assert stranger["websocket"]["token"] == ""
        assert stranger["activation"]["code"]
        assert (await hub.post("/xiaozhi/ota/activate", "d0:11", "client-other-0001")).status_code == 202
        assert (await hub.ota("d0:11", "client-one-00001"))["websocket"]["token"], "the board itself goes on"


async def test_by_code_a_board_states_a_client_id_that_nobody_can_guess(workers: MakeWorker) -> None:
    """Its MAC is no secret: who states that alone gets no token, whoever approved what."""
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        for short in ("", "x" * 15):
            board = await worker.registrations.register("d0:12", short, {})  # as a hub before took it
            assert board.code is not None
            assert await approve(worker, board.code) is not None
            asked = await hub.post("/xiaozhi/ota/", "d0:12", short)
            refused(asked, 400, "INVALID_ARGUMENT")
            assert "Client-Id of at least 16" in asked.json()["error"]["message"]
        assert "activation" in await hub.ota("d0:12", "x" * 16)
    async with web(workers()) as hub:  # approval is automatic: whoever reaches the hub may be a board
        assert (await hub.ota("d0:13", ""))["websocket"]["token"]


async def test_who_knows_the_address_of_a_waiting_board_does_not_void_its_code(workers: MakeWorker) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        shown = (await hub.ota("d0:14"))["activation"]["code"]
        other = (await hub.ota("d0:14", "client-other-0001"))["activation"]["code"]
        assert other != shown
        assert (await hub.ota("d0:14"))["activation"]["code"] == shown
        await approve(worker, shown)
        assert (await hub.ota("d0:14"))["websocket"]["token"]
        assert not (await hub.ota("d0:14", "client-other-0001"))["websocket"]["token"]


async def test_an_ipv6_network_is_one_source_of_new_boards(workers: MakeWorker) -> None:
    newcomers = workers(by_code=True).registrations.newcomers
    newcomers.most = 3
    for number in range(3):
        newcomers.admit(f"2001:db8:0:1::{number}", number)
    with pytest.raises(TooManyBoards):
        newcomers.admit("2001:db8:0:1:ffff::9", 4)
    for other in ("2001:db8:0:2::1", "::ffff:192.0.2.1", "192.0.2.1", "mqtt://broker"):
        newcomers.admit(other, 5)


async def test_a_code_is_its_board_s_alone_and_runs_out(workers: MakeWorker) -> None:
    worker = workers(by_code=True)
    async with web(worker, by_code=True) as hub:
        codes = {(await hub.ota(f"d0:2{number}"))["activation"]["code"] for number in range(5)}
        assert len(codes) == 5
        code = (await hub.ota("d0:31"))["activation"]["code"]
        worker.clock.pass_(3600)
        assert await approve(worker, code) is None
        assert (await hub.ota("d0:31"))["activation"]["code"] != code


async def test_new_boards_from_one_address_are_limited_and_known_ones_are_not(workers: MakeWorker) -> None:
    async with web(workers(by_code=True), by_code=True) as hub:
        hub.worker.registrations.newcomers.most = 3
        for number in (1, 2, 3, 1, 2, 3):
            await hub.ota(f"d0:4{number}")
        answer = await hub.post("/xiaozhi/ota/", "d0:49")
        refused(answer, 429, "TOO_MANY_BOARDS")
        assert 0 < int(answer.headers["retry-after"]) <= 601
        hub.worker.clock.pass_(601)
        await hub.ota("d0:49")


async def test_a_revoked_board_is_told_so(workers: MakeWorker) -> None:
    worker = workers()
    async with web(worker) as hub:
        await hub.ota("aa:51")
        await worker.ask("device_revoke", {"device": "aa:51"})
        refused(await hub.post("/xiaozhi/ota/", "aa:51"), 403, "DEVICE_NOT_APPROVED")


@pytest.mark.parametrize("body", [b"{", b"[1]", b"7", b'"x"', b"\xff", b'{"a": 1'])
async def test_nonsense_is_refused_with_a_reason(workers: MakeWorker, body: bytes) -> None:
    async with web(workers()) as hub:
        headers = {"device-id": "aa:01", "content-type": "application/json"}
        for path in ("/xiaozhi/ota/", "/xiaozhi/ota/activate"):
            refused(await hub.http.post(path, content=body, headers=headers), 400, "INVALID_ARGUMENT")


async def test_whatever_shape_the_system_info_has_it_does_no_harm(workers: MakeWorker) -> None:
    odd: list[Any] = [
        {"application": [], "board": "x"},
        {"application": {"version": 7}, "board": {"name": None}},
        {"board": {"name": "a\u0000\u202eb" + "c" * 500}},
    ]
    async with web(workers()) as hub:
        for body in odd:
            assert (await hub.ota("aa:61", "client-one-00001", body))["websocket"]["token"]
        known = await hub.worker.registrations.of(hub.worker.tenant, "aa:61")
        assert known is not None
        assert len(known.info["board"]) == 128
        assert known.info["board"].startswith("abc")


async def test_who_says_nothing_or_nonsense_of_itself_is_told_what_is_missing(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        refused(await hub.http.post("/xiaozhi/ota/", json={}), 400, "INVALID_ARGUMENT")
        refused(await hub.post("/xiaozhi/ota/", "a b"), 400, "INVALID_ARGUMENT")
        refused(await hub.post("/xiaozhi/ota/", "aa:01", "c 1"), 400, "INVALID_ARGUMENT")
        refused(await hub.post("/xiaozhi/ota/activate", "aa:77"), 404, "UNKNOWN_DEVICE")
        await hub.ota("aa:01")
        refused(await hub.post("/xiaozhi/ota/activate", "aa:01", body={"challenge": "x"}), 400, "INVALID_ARGUMENT")


async def test_without_keys_boards_elsewhere_get_nothing(workers: MakeWorker) -> None:
    async with web(workers()) as hub:
        transport = httpx2.ASGITransport(app=hub.app, client=("192.168.1.9", 4000))
        async with httpx2.AsyncClient(transport=transport, base_url=hub.url, verify=PLAIN) as http:
            refused(await http.post("/xiaozhi/ota/", json={}, headers={"device-id": "aa:01"}), 401, "UNAUTHORIZED")


class Counting:
    """A database that counts its writes."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)

    async def write(self, work: Callable[[Tx], Any]) -> Any:
        self.writes += 1
        return await self._db.write(work)


@pytest.mark.parametrize("by_code", [False, True], ids=["auto", "code"])
async def test_a_board_that_asks_again_and_again_is_written_down_once_a_minute(
    workers: MakeWorker, by_code: bool
) -> None:
    """Anybody may ask, and there is one writer."""
    board, worker = f"d0:6{by_code:d}", workers(by_code=by_code)
    counting = worker.registrations.db = cast(Any, Counting(worker.db))
    async with web(worker, by_code=by_code) as hub:
        first = await hub.ota(board, body=SYSTEM)
        counting.writes = 0
        for _ in range(20):
            again = await hub.ota(board, body=SYSTEM)
            assert again.get("activation") == first.get("activation")
        assert counting.writes == 0
        if by_code:
            await approve(worker, first["activation"]["code"])
            assert (await hub.ota(board, body=SYSTEM))["websocket"]["token"], "what has changed counts at once"
            counting.writes = 0
        await hub.ota(board, body={**SYSTEM, "application": {"version": "2.5.0"}})
        assert counting.writes == 1, "what it says of itself, too"
        for _ in range(3):
            worker.clock.pass_(60)
            await hub.ota(board)
        assert counting.writes == 4
        known = await worker.registrations.find(board)
        assert known is not None
        assert worker.clock() - known.last_seen < 60 * SECOND


async def test_requests_without_a_credential_from_one_address_are_limited(workers: MakeWorker) -> None:
    async with web(workers(by_code=True), by_code=True) as hub:
        hub.worker.registrations.sources.most = 3
        for _ in range(3):
            await hub.ota("d0:71")
        for path in ("/xiaozhi/ota/", "/xiaozhi/ota/activate"):
            answer = await hub.post(path, "d0:71")
            refused(answer, 429, "RATE_LIMITED")
            assert 0 < int(answer.headers["retry-after"]) <= 20
        with pytest.raises(InvalidStatus) as turned_away:
            async with hub.dial(device_id="d0:71", client_id="client-one-00001"):
                pass
        assert turned_away.value.response.status_code == 429
        hub.worker.clock.pass_(20)
        await hub.ota("d0:71")
    async with web(workers()) as hub:  # approval is automatic: this machine's own boards
        hub.worker.registrations.sources.most = 1
        for _ in range(3):
            await hub.ota("d0:72")
