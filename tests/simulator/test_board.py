"""The virtual board behaves as firmware does, so that what works with it works with a real one."""

import base64
import json
import struct
import zlib
from typing import Any

import pytest

from kho.devices.protocol import frames
from kho.lib.jsonrpc import RpcResponse
from kho.simulator.board import PAGE_BYTES, Board, HangUp, Say
from kho.simulator.board_tools import FirmwareTool, Property
from kho.simulator.faults import Fault

COMMON = [
    "self.get_device_status",
    "self.audio_speaker.set_volume",
    "self.screen.set_brightness",
    "self.screen.set_theme",
    "self.camera.take_photo",
]
USER_ONLY = [
    "self.get_system_info",
    "self.reboot",
    "self.upgrade_firmware",
    "self.screen.get_info",
    "self.screen.snapshot",
    "self.screen.preview_image",
    "self.assets.set_download_url",
]


def ask(board: Board, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    answer, *_ = board.receive({"jsonrpc": "2.0", "id": 1, "method": method, **({"params": params} if params else {})})
    assert answer["id"] == 1
    return answer


def call(board: Board, tool: str, **arguments: Any) -> str:
    """The text of the answer, or the message of the error."""
    answer = ask(board, "tools/call", {"name": tool, "arguments": arguments})
    if "error" in answer:
        assert answer["error"].keys() == {"message"}
        return answer["error"]["message"]
    assert answer["result"]["isError"] is False
    [block] = answer["result"]["content"]
    return block["text"]


def status(board: Board) -> dict[str, Any]:
    return json.loads(call(board, "self.get_device_status"))


def listed(board: Board, **params: Any) -> list[list[str]]:
    pages: list[list[str]] = []
    while True:
        result = ask(board, "tools/list", params)["result"]
        pages.append([tool["name"] for tool in result["tools"]])
        if "nextCursor" not in result:
            return pages
        params["cursor"] = result["nextCursor"]


def is_png(data: bytes) -> bool:
    [length] = struct.unpack(">I", data[33:37])
    width, height = struct.unpack(">II", data[16:24])
    rows = zlib.decompress(data[41 : 41 + length])
    return data.startswith(b"\x89PNG\r\n\x1a\n") and len(rows) == height * (1 + 3 * width)


def test_it_introduces_itself() -> None:
    board = Board("aa:bb", name="own_broker")
    vision = {"capabilities": {"vision": {"url": "http://hub/v", "token": "t"}}}
    assert ask(board, "initialize", vision)["result"] == {
        "protocolVersion": "2024-11-05",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "own_broker", "version": "2.4.2"},
    }
    assert board.vision == ("http://hub/v", "t")
    assert json.loads(board.hello("udp"))["version"] == 3


def test_its_tools() -> None:
    assert listed(Board("b")) == [COMMON]
    assert listed(Board("b"), withUserTools=True) == [COMMON + USER_ONLY]
    assert listed(Board("b", lists_user_tools=False), withUserTools=True) == [COMMON]
    tools = {tool["name"]: tool for tool in ask(Board("b"), "tools/list", {"withUserTools": True})["result"]["tools"]}
    assert tools["self.audio_speaker.set_volume"]["inputSchema"] == {
        "type": "object",
        "properties": {"volume": {"type": "integer", "minimum": 0, "maximum": 100}},
        "required": ["volume"],
    }
    assert tools["self.screen.snapshot"]["inputSchema"]["properties"]["quality"] == {
        "type": "integer",
        "default": 80,
        "minimum": 1,
        "maximum": 100,
    }
    assert "required" not in tools["self.upgrade_firmware"]["inputSchema"]
    assert [name for name, tool in tools.items() if tool.get("annotations") == {"audience": ["user"]}] == USER_ONLY


def extra(number: int, size: int) -> FirmwareTool:
    return FirmwareTool(f"self.extra.n{number}", "x" * size, (), lambda board, given: "done")


def test_pages_have_at_most_8000_bytes_and_begin_with_their_cursor() -> None:
    board = Board("b", extra=[extra(number, 1500) for number in range(12)])
    pages = listed(board, withUserTools=True)
    assert len(pages) > 2
    names = [name for page in pages for name in page]
    assert names == [tool.name for tool in board.tools]
    params: dict[str, Any] = {"withUserTools": True}
    for page in pages:
        result = ask(board, "tools/list", {**params, "cursor": page[0]})["result"]
        assert len(frames.dump(result)) <= PAGE_BYTES
        assert result["tools"][0]["name"] == page[0]


def test_a_cursor_that_leads_nowhere_and_a_tool_that_fits_no_page() -> None:
    message = "Failed to add tool {} because of payload size limit"
    assert ask(Board("b"), "tools/list", {"cursor": "x"})["error"]["message"] == message.format("")
    board = Board("b", extra=[extra(1, 9000)])
    answer = ask(board, "tools/list", {"cursor": "self.extra.n1"})
    assert answer["error"]["message"] == message.format("self.extra.n1")


def test_what_it_is_told_it_does() -> None:
    board = Board("b")
    assert call(board, "self.audio_speaker.set_volume", volume=30) == "true"
    assert call(board, "self.screen.set_brightness", brightness=10.9) == "true"
    assert call(board, "self.screen.set_theme", theme="dark") == "true"
    assert call(board, "self.screen.set_theme", theme="pink") == "false"
    now = status(board)
    assert now["audio_speaker"] == {"volume": 30}
    assert now["screen"] == {"brightness": 10, "theme": "dark"}
    assert call(board, "self.reboot") == "true"
    assert status(board) == status(Board("b"))
    assert json.loads(call(board, "self.get_system_info"))["mac_address"] == "b"
    assert json.loads(call(board, "self.screen.get_info")) == {"width": 100, "height": 40, "monochrome": False}
    assert call(board, "self.assets.set_download_url", url="http://a/b") == "true"
    assert board.state.download_url == "http://a/b"
    assert call(board, "self.screen.preview_image", url="http://a/b.png") == "true"
    assert board.state.preview == "http://a/b.png"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("self.audio_speaker.set_volume", {}, "Missing valid argument: volume"),
        ("self.audio_speaker.set_volume", {"volume": "50"}, "Missing valid argument: volume"),
        ("self.audio_speaker.set_volume", {"volume": True}, "Missing valid argument: volume"),
        ("self.audio_speaker.set_volume", {"volume": -1}, "Value is below minimum allowed: 0"),
        ("self.audio_speaker.set_volume", {"volume": 1e20}, "Value exceeds maximum allowed: 100"),
        ("self.nothing", {}, "Unknown tool: self.nothing"),
        ("self.screen.preview_image", {"url": "ftp://x"}, "Failed to open URL: ftp://x"),
        ("self.screen.snapshot", {"url": "http://x", "quality": 0}, "Value is below minimum allowed: 1"),
    ],
)
def test_what_it_refuses(tool: str, arguments: dict[str, Any], message: str) -> None:
    board = Board("b")
    before = status(board)
    assert call(board, tool, **arguments) == message
    assert status(board) == before


def test_an_optional_argument_of_a_wrong_type_becomes_its_default_and_others_are_ignored() -> None:
    seen: list[dict[str, Any]] = []

    def keep(board: Any, given: dict[str, Any]) -> str:
        seen.append(given)
        return "kept"

    tool = FirmwareTool(
        "self.keep", "", (Property("n", "integer", default=80), Property("on", "boolean", default=False)), keep
    )
    board = Board("b", extra=[tool])
    assert call(board, "self.keep", n="5", on=1, more=True) == "kept"
    assert call(board, "self.keep", n=5.9, on=True) == "kept"
    assert seen == [{"n": 80, "on": False}, {"n": 5, "on": True}]


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"jsonrpc": "1.0", "id": 1, "method": "initialize"},
        {"jsonrpc": "2.0", "id": "1", "method": "initialize"},
        {"jsonrpc": "2.0", "id": True, "method": "initialize"},
        {"jsonrpc": "2.0", "method": "initialize"},
        {"jsonrpc": "2.0", "id": 1},
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": []},
        {"jsonrpc": "2.0", "id": 1, "method": "notifications/x"},
    ],
)
def test_what_it_drops_without_a_word(payload: dict[str, Any]) -> None:
    assert Board("b").receive(payload) == []


def test_methods_and_calls_that_firmware_does_not_know() -> None:
    assert ask(Board("b"), "ping")["error"] == {"message": "Method not implemented: ping"}
    assert ask(Board("b"), "tools/call", {"name": 5})["error"] == {"message": "Missing name"}
    assert ask(Board("b"), "tools/call", {"name": "x", "arguments": 5})["error"] == {"message": "Invalid arguments"}


def test_it_tells_when_its_state_changes() -> None:
    board = Board("b")
    payload = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    volume = {"name": "self.audio_speaker.set_volume", "arguments": {"volume": 30}}
    _, told = board.receive({**payload, "params": volume})
    assert told == {
        "jsonrpc": "2.0",
        "method": "notifications/state_changed",
        "params": {"what": "volume", "newState": 30, "oldState": 70},
    }
    assert len(board.receive({**payload, "params": volume})) == 1
    [told] = board.become("listening")
    assert told["params"] == {"what": "device", "newState": "listening", "oldState": "idle"}


def test_a_photo_is_an_image_inside_json_inside_json() -> None:
    board = Board("b")
    params = {"name": "self.camera.take_photo", "arguments": {"question": "?"}}
    blocks = [frames.content(ask(board, "tools/call", params)["result"]) for _ in range(2)]
    images = [base64.b64decode(block["data"]) for [block] in blocks]
    assert all(is_png(image) for image in images)
    assert images[0] != images[1]
    [other] = frames.content(ask(Board("c", seed=1), "tools/call", params)["result"])
    assert other["data"] != blocks[0][0]["data"]


def test_online_it_uploads_before_it_answers() -> None:
    board = Board("b", online=True)
    assert call(board, "self.camera.take_photo", question="?") == "Image explain URL or token is not set"
    board.vision = ("http://hub/v", "t")
    request: dict[str, Any] = {"jsonrpc": "2.0", "id": 9, "method": "tools/call"}
    photo = {"name": "self.camera.take_photo", "arguments": {"question": "a cat?"}}
    assert board.receive({**request, "params": photo}) == []
    upload = board.uploads.popleft()
    assert (upload.url, upload.token, upload.question) == ("http://hub/v", "t", "a cat?")
    assert is_png(upload.image)
    [answer] = board.uploaded(upload, 200, "yes")
    assert answer["id"] == 9
    assert answer["result"]["content"] == [{"type": "text", "text": "yes"}]
    [answer] = board.uploaded(upload, 500, "")
    assert answer["error"] == {"message": "Unexpected status code: 500"}

    snapshot = {"name": "self.screen.snapshot", "arguments": {"url": "http://a/b"}}
    assert board.receive({**request, "params": snapshot}) == []
    upload = board.uploads.popleft()
    assert is_png(upload.image)
    assert board.uploaded(upload, 200, "x")[0]["result"]["content"][0]["text"] == "true"
    assert board.uploaded(upload, 0, "")[0]["error"] == {"message": "Failed to open URL: http://a/b"}


# -- frames ---------------------------------------------------------------------------------------------------------


def hear(board: Board, tool: str = "self.get_device_status") -> list[Say | HangUp]:
    payload = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": tool}}
    return board.hear(frames.wrap(payload, "s"))


def read(said: Say | HangUp) -> RpcResponse | None:
    assert isinstance(said, Say)
    frame = frames.parse(said.text)
    message = frames.unwrap(frame) if frame else None
    assert message is None or isinstance(message, RpcResponse)
    return message


def test_it_learns_its_session_from_the_hello() -> None:
    board = Board("b")
    assert board.hear('{"type":"hello","transport":"websocket","session_id":"s-1"}') == []
    [said] = hear(board)
    assert isinstance(said, Say)
    assert json.loads(said.text)["session_id"] == "s-1"


def test_it_writes_errors_as_firmware_does() -> None:
    [said] = hear(Board("b"), 'a "b"')
    assert isinstance(said, Say)
    with pytest.raises(json.JSONDecodeError):
        json.loads(said.text)
    response = read(said)
    assert response is not None
    assert response.error is not None
    assert response.error["message"] == 'Unknown tool: a "b"'


def test_it_hangs_up_when_it_restarts() -> None:
    answer, end = hear(Board("b"), "self.reboot")
    assert isinstance(answer, Say)
    assert end == HangUp()


@pytest.mark.parametrize("text", ["", "{}", '{"type":"mcp"}', '{"type":"tts","state":"start"}', "nonsense"])
def test_it_ignores_other_frames(text: str) -> None:
    assert Board("b").hear(text) == []


def test_faults_spoil_one_answer_each() -> None:
    def spoilt(fault: Fault) -> list[Say | HangUp]:
        board = Board("b")
        board.fail(fault)
        found = hear(board)
        assert len(hear(board)) == 1
        return found

    assert spoilt("drop") == [HangUp()]
    assert spoilt("silence") == []
    [late] = spoilt("delay")
    assert isinstance(late, Say)
    assert late.after == 1
    [half] = spoilt("malformed")
    assert read(half) is None
    one, other = spoilt("duplicate")
    assert one == other
    [wrong] = spoilt("wrong id")
    response = read(wrong)
    assert response is not None
    assert response.id == 1004
