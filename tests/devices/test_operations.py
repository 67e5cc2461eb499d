"""Boards at every door of a real hub: over a real WebSocket in, over MCP, JSON-RPC, actions and the command line out."""

import asyncio
import json
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.streamable_http import streamable_http_client
from tests.acceptance.processes import Hub, Place
from tests.devices.factories import PATIENCE
from tests.devices.http_server import Dialled
from tests.doors.doors import PLAIN, Served, bearer, new_key, served
from websockets.asyncio.client import connect

from kho.settings import Settings
from kho.simulator.board import Board
from kho.slices import describe

pytestmark = pytest.mark.anyio
A, B = "ee:01", "ee:02"
VOLUME = "self.audio_speaker.set_volume"
OPERATIONS = {
    "devices_list",
    "device_tools",
    "device_call",
    "device_notifications",
    "device_log",
    "device_label",
    "device_approve",
    "device_revoke",
    "device_forget",
}


@pytest.fixture(params=["sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    return Settings(home=tmp_path / "home", database_url=url)


@asynccontextmanager
async def dialled(url: str, board: Board) -> AsyncGenerator[Dialled, None]:
    address = url.replace("http", "ws") + "/xiaozhi/v1/"
    headers = {"device-id": board.id, "client-id": "client-one-00001"}
    async with connect(address, additional_headers=headers, proxy=None, compression=None) as socket:
        yield Dialled(board, socket)


async def rpc(http: httpx2.AsyncClient, method: str, params: dict[str, Any], **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": f"devices-server/{method}", "params": params}
    answer = (await http.post("/jsonrpc", json=body, headers=headers)).json()
    return answer["result"] if "result" in answer else answer["error"]


async def known(http: httpx2.AsyncClient, device: str) -> None:
    """Until the board's tools are known."""
    async with asyncio.timeout(PATIENCE):
        while not any(
            one["device"] == device and one["status"] == "connected" and one.get("tools")
            for one in (await rpc(http, "devices_list", {}))["devices"]
        ):
            pass


class Told:
    """What a client of the handshake era is told without having asked."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[types.LoggingMessageNotification] = asyncio.Queue()
        self.tools: asyncio.Queue[None] = asyncio.Queue()

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.LoggingMessageNotification):
            self.messages.put_nowait(message)
        elif isinstance(message, types.ToolListChangedNotification):
            self.tools.put_nowait(None)


@asynccontextmanager
async def talking(hub: Served, told: Told) -> AsyncGenerator[Client, None]:
    async with (
        httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=PLAIN) as http,
        Client(
            streamable_http_client(f"{hub.url}/mcp?tools=all", http_client=http), mode="legacy", message_handler=told
        ) as client,
    ):
        yield client


async def listed(client: Client) -> set[str]:
    page = await client.list_tools(cache_mode="bypass")
    names = {tool.name for tool in page.tools}
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor, cache_mode="bypass")
        names |= {tool.name for tool in page.tools}
    return names


def test_every_operation_has_its_names() -> None:
    [devices] = [one for one in describe().capabilities if one.name == "devices"]
    assert devices.server == "devices-server"
    moved = {devices.transfers[0].export, devices.transfers[0].import_}
    assert {one.rpc for one in devices.operations} == OPERATIONS | moved
    for_models = OPERATIONS - {"device_approve", "device_revoke", "device_forget"}
    assert {one.tool for one in devices.operations if one.tool} == for_models
    assert {one.action for one in devices.operations if one.action} == for_models
    words = {command.words for one in devices.operations for command in one.cli}
    verbs = ("list", "tools", "call", "notifications", "log", "label", "approve", "revoke", "forget")
    assert words == {f"devices {verb}" for verb in verbs}


async def test_a_stock_client_sees_a_board_come_calls_it_and_hears_it(settings: Settings) -> None:
    told, board = Told(), Board(A)
    async with served(settings) as hub, talking(hub, told) as client:
        names = await listed(client)
        assert "device_call" in names
        assert not names & {"device_approve", "device_revoke", "device_forget"}
        async with dialled(hub.url, board) as dial, asyncio.timeout(PATIENCE):
            await known(hub.http, A)
            await told.tools.get()
            found = await listed(client)
            assert len([name for name in found if name.startswith("board_")]) == 5
            assert "board_reboot" not in found
            done = await client.call_tool("board_audio_speaker_set_volume", {"volume": 21})
            assert (done.is_error, done.content[0].type) == (False, "text")
            assert board.state.volume == 21
            message = await told.messages.get()
            assert message.params.logger == "kho.devices"
            assert message.params.data["method"] == "notifications/state_changed"
            wrong = await client.call_tool("board_audio_speaker_set_volume", {"volume": 2100})
            assert wrong.is_error
            photo = await client.call_tool(
                "device_call", {"device": A, "tool": "self.camera.take_photo", "arguments": {"question": "What?"}}
            )
            assert photo.content[-1].type == "image"
            await dial.leave()
            await told.tools.get()
            assert await listed(client) == names


async def test_json_rpc_and_actions(settings: Settings) -> None:
    async with served(settings) as hub, dialled(hub.url, Board(A)) as dial:
        await known(hub.http, A)
        shown = await rpc(hub.http, "device_tools", {"device": A})
        assert {tool["name"] for tool in shown["tools"] if tool["user_only"]} == set()
        refused = await rpc(hub.http, "device_call", {"device": A, "tool": "self.reboot"})
        assert refused["data"]["code"] == "USER_ONLY_TOOL"
        assert (await rpc(hub.http, "device_revoke", {"device": A}))["data"]["code"] == "FORBIDDEN"
        payload = {"device": A, "tool": VOLUME, "arguments": {"volume": 66}}
        first = await hub.act("device_call", payload, request_id="once")
        again = await hub.act("device_call", payload, request_id="once")
        assert first.status_code == 200
        assert again.json() == first.json()
        assert sum("tools/call" in json.dumps(frame) for frame in dial.frames) == 1
        offline = await hub.act("device_call", {**payload, "device": "nowhere"})
        assert (offline.status_code, offline.json()["error"]["code"]) == (404, "UNKNOWN_DEVICE")
        await dial.leave()


async def test_a_tenants_boards_are_nobody_elses(settings: Settings) -> None:
    mine = await new_key(settings, "acme", "*", "admin")
    other = await new_key(settings, "umbrella")
    async with served(settings) as hub:
        headers = {"device-id": B, "client-id": "client-one-00001"}
        asked = (await hub.http.post("/xiaozhi/ota/", json={}, headers=headers)).json()
        code = asked["activation"]["code"]
        approved = await rpc(hub.http, "device_approve", {"code": code}, **bearer(mine))
        assert approved["status"] == "approved"
        token = (await hub.http.post("/xiaozhi/ota/", json={}, headers=headers)).json()["websocket"]["token"]
        address = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
        dial = connect(address, additional_headers={**headers, **bearer(token)}, proxy=None, compression=None)
        async with dial as socket, asyncio.timeout(PATIENCE):
            board = Dialled(Board(B), socket)
            while not (await rpc(hub.http, "devices_list", {}, **bearer(mine)))["devices"][0].get("tools"):
                pass
            names: set[str] = set()
            while "board_get_device_status" not in names:  # the look that brings it is on its way
                names = await tools(hub, mine)
            assert "board_get_device_status" not in await tools(hub, other)
            unknown = await rpc(hub.http, "device_call", {"device": B, "tool": VOLUME}, **bearer(other))
            assert unknown["data"]["code"] == "UNKNOWN_DEVICE"
            await rpc(hub.http, "device_revoke", {"device": B}, **bearer(mine))
            assert (await board.closed())[0] == 1008


async def tools(hub: Served, key: str) -> set[str]:
    async with (
        httpx2.AsyncClient(timeout=PATIENCE, trust_env=False, verify=PLAIN, headers=bearer(key)) as http,
        Client(streamable_http_client(f"{hub.url}/mcp?tools=all", http_client=http)) as client,
    ):
        return await listed(client)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_beside_a_running_hub_and_among_its_workers(settings: Settings, workers: str) -> None:
    settings.home.mkdir(parents=True)
    place = Place(settings.home, settings.database_url)
    board = Board(A)
    with await asyncio.to_thread(lambda: Hub(place, "--workers", workers).ready()) as hub:
        url = f"http://127.0.0.1:{hub.port}"
        async with dialled(url, board) as dial:
            async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=PLAIN) as http:
                await known(http, A)
            for value in range(1, 9):  # each over a connection of its own: the workers take turns
                async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE, trust_env=False, verify=PLAIN) as http:
                    call = {"device": A, "tool": VOLUME, "arguments": {"volume": value}}
                    assert (await rpc(http, "device_call", call))["text"] == "true"
                    assert board.state.volume == value
            words = ("devices", "call", A, VOLUME, "--arguments", '{"volume": 99}', "--json")
            done = await asyncio.to_thread(place.run, *words)
            assert done.returncode == 0, done.stderr
            assert board.state.volume == 99
            await dial.leave()
        gone = await asyncio.to_thread(place.run, *words)
        error = json.loads(gone.stdout)["error"]
        assert (error["code"], error["guidance"][:4]) == ("DEVICE_OFFLINE", "Wake")  # a hub is running
        assert await asyncio.to_thread(hub.terminate) in (0, -signal.SIGTERM)  # uvicorn ends as it was told to
        assert "Traceback" not in hub.log


async def test_a_board_that_asks_again_is_seen_by_its_own_tenant_alone(settings: Settings) -> None:
    """With new firmware a board asks again. Whose it is already, sees that; others do not learn that there is one."""
    ours, theirs = [bearer(await new_key(settings, tenant, "*", "admin")) for tenant in ("acme", "globex")]
    async with served(settings) as hub:

        async def code(client: str) -> str:
            headers = {"device-id": A, "client-id": f"client-of-a-board-{client}"}
            return (await hub.post("/xiaozhi/ota/", {}, **headers)).json()["activation"]["code"]

        async def pending(key: dict[str, str]) -> list[str]:
            return [one["device"] for one in (await rpc(hub.http, "devices_list", {}, **key)).get("pending", [])]

        first = await code("1")
        assert await pending(ours) == await pending(theirs) == [A]  # nobody's so far: whoever types its code has it
        await rpc(hub.http, "device_approve", {"code": first}, **ours)
        again = await code("2")
        assert await pending(theirs) == []
        for operation in ("device_forget", "device_revoke", "device_tools"):
            refused = await rpc(hub.http, operation, {"device": A}, **theirs)
            unknown = await rpc(hub.http, operation, {"device": B}, **theirs)
            assert str(refused).replace(A, B) == str(unknown)
        [mine] = (await rpc(hub.http, "devices_list", {}, **ours))["devices"]
        assert mine["shows_code"]
        approved = await rpc(hub.http, "device_approve", {"code": again}, **ours)
        assert approved["status"] == "approved"
