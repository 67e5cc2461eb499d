"""T12: a board floods, lies about who it is, or answers what was not asked; somebody knows its MAC."""

from typing import Any

import orjson
import pytest
from tests.devices.protocol.session_frames import ready, say, session
from tests.doors.doors import Served, bearer, new_key, served
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from kho.devices.protocol import frames
from kho.settings import Settings

pytestmark = pytest.mark.anyio
BOARD = {"device-id": "aa:bb:cc:00:00:01", "client-id": "11111111-2222-4333-8444-555555555555"}


async def approved(hub: Served, admin: str) -> str:
    """Its token, once it is approved."""
    asked = (await hub.http.post("/xiaozhi/ota/", json={}, headers=BOARD)).json()
    done = await hub.act("device_approve", {"code": asked["activation"]["code"]}, key=admin)
    if done.status_code != 200:
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "devices-server/device_approve",
            "params": {"code": asked["activation"]["code"]},
        }  # fmt: skip
        done = await hub.post("/jsonrpc", body, **bearer(admin))
        assert "result" in done.json(), done.text
    return (await hub.http.post("/xiaozhi/ota/", json={}, headers=BOARD)).json()["websocket"]["token"]


async def test_t12_a_mac_opens_nothing(both_settings: Settings) -> None:
    admin = await new_key(both_settings, "acme", "*", "admin")
    async with served(both_settings) as hub:
        token = await approved(hub, admin)
        assert token
        for headers in (
            {"device-id": BOARD["device-id"]},
            {**BOARD, "client-id": "99999999-2222-4333-8444-555555555555"},
            {"device-id": BOARD["device-id"], "client-id": "x"},
        ):
            answer = await hub.http.post("/xiaozhi/ota/", json={}, headers=headers)
            assert not answer.json().get("websocket", {}).get("token")
        address = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
        for wrong in ("", admin, token[:-2], "x" * 100):
            headers = {**BOARD, "authorization": f"Bearer {wrong}"} if wrong else BOARD
            with pytest.raises(InvalidStatus) as refused:
                await connect(address, additional_headers=headers, proxy=None)
            assert refused.value.response.status_code == 401
        assert (await hub.get("/servers", **bearer(token))).status_code == 401, "nor is its token a key"


async def test_t12_a_huge_frame_ends_the_board_s_own_connection_only(settings: Settings) -> None:
    async with served(settings) as hub:
        address = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
        async with connect(address, additional_headers=BOARD, proxy=None, compression=None, max_size=None) as socket:
            await socket.send("x" * (2 * 1024 * 1024))
            await socket.wait_closed()
            assert socket.close_code == 1009
        assert (await hub.get("/health")).status_code == 200


def test_t12_answers_to_nothing_are_dropped_and_counted() -> None:
    machine = session()
    ready(machine, {"name": "x"})
    for id in (0, 7, -1, "x", None, 2**70):
        assert not [
            act for act in say(machine, id=id, result={"content": []}) if "answer" in type(act).__name__.lower()
        ]
    assert machine.troubles.total() >= 4
    assert machine.state == "ready"


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"type": 5}', "\ud800", '{"a": 1e999}', "9" * 5_000])
def test_t12_nonsense_is_no_frame(text: str) -> None:
    found: Any = frames.parse(text)
    assert found is None or isinstance(found, dict)
    assert orjson.dumps(found) is not None
