"""Contract 001: every message that it prints, in both directions, over a real WebSocket and a real broker."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.devices.mqtt_brokers import dialled, free_port, listening
from tests.doors.doors import Json, Served, served
from tests.timeouts import PATIENCE
from websockets.asyncio.client import connect

from kho.devices.settings import DeviceSettings
from kho.settings import Settings

MAC = "02:4b:00:00:00:01"
VOLUME = "self.audio_speaker.set_volume"

HELLO: Json = {
    "type": "hello",
    "version": 1,
    "features": {"mcp": True},
    "audio_params": {"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 60},
    "session_id": "",
}
INITIALIZED: Json = {
    "protocolVersion": "2024-11-05",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bread-compact-wifi", "version": "1.6.2"},
}
TOOL: Json = {
    "name": VOLUME,
    "description": "Set the volume of the audio speaker.",
    "inputSchema": {
        "type": "object",
        "properties": {"volume": {"type": "integer", "description": "0 to 100", "minimum": 0, "maximum": 100}},
        "required": ["volume"],
    },
}
OTHER: Json = {**TOOL, "name": "self.lamp.set_level"}
SUCCESS: Json = {"content": [{"type": "text", "text": "true"}], "isError": False}
FAILURE: Json = {"code": -32601, "message": "Unknown tool: self.non_existent_tool", "data": {"known": 4}}
NOTIFICATION: Json = {
    "jsonrpc": "2.0",
    "method": "notifications/state_changed",
    "params": {"newState": "idle", "oldState": "connecting"},
}


@dataclass
class Board:
    """The contract's board, by hand."""

    hub: Served
    transport: str
    send: Callable[[str], Awaitable[None]]
    receive: Callable[[], Awaitable[str]]
    session: str = ""

    async def heard(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self.receive())

    async def asked(self, method: str) -> Json:
        """The hub's next request, in its envelope."""
        frame = await self.heard()
        assert frame.keys() == {"session_id", "type", "payload"}
        assert frame["type"] == "mcp"
        payload: Json = frame["payload"]
        assert (payload["jsonrpc"], payload["method"]) == ("2.0", method)
        assert isinstance(payload["id"], int)
        return payload

    async def say(self, payload: Json) -> None:
        await self.send(json.dumps({"session_id": self.session, "type": "mcp", "payload": payload}))

    async def answer(self, asked: Json, **rest: Any) -> None:
        await self.say({"jsonrpc": "2.0", "id": asked["id"], **rest})

    async def hello(self, *without: str, **other: Any) -> Json:
        said = {**HELLO, "transport": self.transport, **other}
        await self.send(json.dumps({name: value for name, value in said.items() if name not in without}))
        while (frame := await self.heard())["type"] != "hello":
            pass  # over MQTT the hub asks before the board has said a word
        self.session = frame["session_id"]
        return frame

    async def ready(self) -> None:
        await self.hello()
        await self.answer(await self.asked("initialize"), result=INITIALIZED)
        await self.answer(await self.asked("tools/list"), result={"tools": [TOOL]})

    async def ask(self, method: str, **params: Any) -> Json:
        body = {"jsonrpc": "2.0", "id": 1, "method": f"devices-server/{method}", "params": params}
        return (await self.hub.post("/jsonrpc", body)).json()

    async def until_ready(self) -> Json:
        async with asyncio.timeout(PATIENCE):
            while True:
                listed = await self.ask("devices_list")
                (known,) = listed["result"]["devices"]
                if known.get("tools"):
                    return known


@asynccontextmanager
async def over_websocket(hub: Served) -> AsyncGenerator[Board, None]:
    headers = {"device-id": MAC, "client-id": "c-1"}
    address = hub.url.replace("http", "ws") + "/xiaozhi/v1/"
    async with connect(address, additional_headers=headers, proxy=None) as socket:

        async def receive() -> str:
            return str(await socket.recv())

        yield Board(hub, "websocket", socket.send, receive)


@asynccontextmanager
async def over_mqtt(hub: Served, port: int) -> AsyncGenerator[Board, None]:
    told = (await hub.post("/xiaozhi/ota/", {}, device_id=MAC, client_id="c-1")).json()["mqtt"]
    await listening(port)
    async with dialled(port, told) as client:
        messages = client.messages()

        async def send(text: str) -> None:
            await client.publish(told["publish_topic"], text)

        async def receive() -> str:
            _, content = await anext(messages)
            return content.decode()

        yield Board(hub, "mqtt", send, receive)


@pytest.fixture(params=["websocket", "mqtt"])
async def board(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Board]:
    if request.param == "websocket":
        async with served(Settings(home=tmp_path)) as hub, over_websocket(hub) as found:
            yield found
        return
    port = free_port()
    chosen = DeviceSettings(mqtt_broker=f"127.0.0.1:{port}", public_url="http://kho.example")
    async with served(Settings(home=tmp_path, devices=chosen), serving=True) as hub, over_mqtt(hub, port) as found:
        yield found


@pytest.mark.requirement("001.hello.accepted", "001.envelope.transports")
async def test_hello(board: Board) -> None:
    answer = await board.hello()
    assert answer["transport"] == board.transport
    assert answer["session_id"]


@pytest.mark.requirement("001.envelope.session-id")
async def test_messages_carry_the_session_id_of_the_hub_s_hello(board: Board) -> None:
    greeted = await board.hello()
    frame = await board.heard()
    assert frame["payload"]["method"] == "initialize"
    assert frame["session_id"] == greeted["session_id"] != ""


@pytest.mark.requirement("001.hello.without-mcp")
@pytest.mark.parametrize("features", [{"mcp": False}, {}, None, "absent"])
async def test_a_board_without_mcp_is_left_alone(board: Board, features: Any) -> None:
    await (board.hello("features") if features == "absent" else board.hello(features=features))
    await board.send('{"type":"ping"}')
    assert (await board.heard())["type"] == "pong", "and nothing before it"


@pytest.mark.requirement(
    "001.initialize.request", "001.initialize.vision", "001.initialize.response", "001.envelope.form"
)
async def test_initialize(board: Board) -> None:
    await board.hello()
    asked = await board.asked("initialize")
    vision = asked["params"]["capabilities"]["vision"]
    assert vision["url"].startswith("http://")
    assert vision["token"]
    await board.answer(asked, result=INITIALIZED)
    await board.answer(await board.asked("tools/list"), result={"tools": [TOOL]})
    known = await board.until_ready()
    assert (known["name"], known["version"]) == ("bread-compact-wifi", "1.6.2")
    assert (known["status"], known["transport"]) == ("connected", board.transport)


@pytest.mark.requirement("001.list.request", "001.list.pages", "001.list.tools")
async def test_tools_list(board: Board) -> None:
    await board.hello()
    await board.answer(await board.asked("initialize"), result=INITIALIZED)
    first = await board.asked("tools/list")
    assert first["params"]["cursor"] == ""
    await board.answer(first, result={"tools": [TOOL], "nextCursor": OTHER["name"]})
    second = await board.asked("tools/list")
    assert second["params"]["cursor"] == OTHER["name"]
    await board.answer(second, result={"tools": [OTHER], "nextCursor": ""})
    await board.until_ready()
    tools = (await board.ask("device_tools", device=MAC))["result"]["tools"]
    assert [(one["name"], one["description"], one["input_schema"]) for one in tools] == [
        (one["name"], one["description"], one["inputSchema"]) for one in (TOOL, OTHER)
    ]


@pytest.mark.requirement("001.call.request", "001.call.success", "001.envelope.ids")
async def test_tools_call(board: Board) -> None:
    await board.ready()
    await board.until_ready()
    calling = asyncio.ensure_future(board.ask("device_call", device=MAC, tool=VOLUME, arguments={"volume": 50}))
    asked = await board.asked("tools/call")
    assert asked["params"] == {"name": VOLUME, "arguments": {"volume": 50}}
    await board.say({"jsonrpc": "2.0", "id": asked["id"] + 7, "result": {"content": [{"type": "text", "text": "no"}]}})
    await board.answer(asked, result=SUCCESS)
    answer = await calling
    assert '"true"' in json.dumps(answer["result"])
    assert '"no"' not in json.dumps(answer["result"])


@pytest.mark.requirement("001.call.error", "001.call.error-code")
async def test_tools_call_that_fails(board: Board) -> None:
    await board.ready()
    await board.until_ready()
    calling = asyncio.ensure_future(board.ask("device_call", device=MAC, tool=VOLUME, arguments={"volume": 50}))
    await board.answer(await board.asked("tools/call"), error=FAILURE)
    error = (await calling)["error"]
    assert FAILURE["message"] in error["message"]
    assert (error["data"]["board_code"], error["data"]["board_data"]) == (FAILURE["code"], FAILURE["data"])


@pytest.mark.requirement("001.notification.kept", "001.notification.unanswered", "001.notification.names")
@pytest.mark.parametrize("method", [NOTIFICATION["method"], "battery_low", "vendor.x/event"])
async def test_notification(board: Board, method: str) -> None:
    await board.ready()
    await board.until_ready()
    await board.say({**NOTIFICATION, "method": method})
    await board.send('{"type":"ping"}')
    assert (await board.heard())["type"] == "pong", "and nothing before it"
    async with asyncio.timeout(PATIENCE):
        while not (said := (await board.ask("device_notifications", device=MAC))["result"]["notifications"]):
            pass
    assert (said[0]["method"], said[0]["params"]) == (method, NOTIFICATION["params"])
