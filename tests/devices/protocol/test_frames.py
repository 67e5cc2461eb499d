"""Frames: what boards really send is read, and nothing that they send raises."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.devices.protocol import frames
from kho.lib.jsonrpc import InvalidMessage, RpcRequest, RpcResponse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=10,
)


@pytest.mark.parametrize(
    "message",
    [
        'Unknown tool: "x"',
        'say "a", then "b"',
        '"',
        'ends with a brace "}',
        'a path C:\\temp and a "quote"',
        "two\nlines and a\ttab",
        'half escaped: \\"x\\" and "y"',
        'đèn "phòng khách" không có',
        "",
    ],
)
@pytest.mark.parametrize(
    "frame",
    [
        '{"jsonrpc":"2.0","id":3,"error":{"message":"%s"}}',
        '{"session_id":"s","type":"mcp","payload":{"jsonrpc":"2.0","id":3,"error":{"message":"%s"}}}',
        '{"type":"mcp","payload":{"jsonrpc":"2.0","error":{"code":-32601,"message":"%s"},"id":3},"session_id":"s"}',
        '{"id" : 3, "error" : { "message" : "%s" , "code" : -1 } }',
    ],
)
def test_an_error_is_read_though_its_message_is_not_escaped(frame: str, message: str) -> None:
    found = frames.parse(frame.replace("%s", message))
    assert found is not None
    response = frames.unwrap(found)
    assert isinstance(response, RpcResponse)
    assert response.id == 3
    assert response.error is not None
    assert response.error["message"] == message


def test_signs_around_a_frame_are_no_part_of_it() -> None:
    assert frames.parse('\ufeff {"type":"hello"}\r\n\0') == {"type": "hello"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "1",
        '"x"',
        "{",
        "\ud800",
        '{"a":NaN}',
        "[" * 2000,
        '{"a":' * 100 + "1" + "}" * 100,
        '"error":{"message":"',
    ],
)
def test_what_nobody_can_read_is_none(text: str) -> None:
    assert frames.parse(text) is None


def test_a_frame_has_a_largest_size() -> None:
    assert frames.parse('{"a":"' + "x" * (frames.MAX_FRAME - 8) + '"}') is not None
    assert frames.parse('{"a":"' + "x" * frames.MAX_FRAME + '"}') is None
    assert frames.parse('{"a":[' + "[]," * (frames.MAX_PARTS - 2) + "1]}") is not None
    assert frames.parse('{"a":[' + "[]," * frames.MAX_PARTS + "1]}") is None


def test_an_envelope_goes_around_and_comes_off() -> None:
    text = frames.wrap({"jsonrpc": "2.0", "method": "m", "id": 1}, "s-1")
    assert json.loads(text) == {
        "session_id": "s-1",
        "type": "mcp",
        "payload": {"jsonrpc": "2.0", "method": "m", "id": 1},
    }
    frame = frames.parse(text)
    assert frame is not None
    assert frames.unwrap(frame) == RpcRequest("m", None, 1)


def test_a_payload_may_be_text_or_stand_alone() -> None:
    payload: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert frames.unwrap({"type": "mcp", "payload": json.dumps(payload)}) == RpcResponse(1, {})
    assert frames.unwrap(payload) == RpcResponse(1, {})
    broken = '{"jsonrpc":"2.0","id":1,"error":{"message":"no "x""}}'
    response = frames.unwrap({"type": "mcp", "payload": broken})
    assert isinstance(response, RpcResponse)
    assert response.error is not None
    assert response.error["message"] == 'no "x"'


@pytest.mark.parametrize("payload", [None, 3, [], "[]", "x"])
def test_a_payload_that_is_none(payload: Any) -> None:
    assert frames.unwrap({"type": "mcp", "payload": payload}) is None


def test_text_stays_text() -> None:
    block = {"type": "text", "text": "true"}
    assert frames.content({"content": [block], "isError": False}) == [block]


IMAGE = {"type": "image", "data": "iVBORw==", "mimeType": "image/png"}


@pytest.mark.parametrize(
    "image", [IMAGE, {"type": "image", "image": IMAGE}, {"type": "image", "image": json.dumps(IMAGE)}]
)
def test_an_image_is_one_however_it_is_wrapped(image: dict[str, Any]) -> None:
    assert frames.content({"content": [image]}) == [IMAGE]


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "image": "no JSON"},
        {"type": "image", "data": "iVBORw==", "mimeType": "text/html"},
        {"type": "image", "data": "***", "mimeType": "image/png"},
        {"type": "image", "data": "é", "mimeType": "image/png"},
        {"type": "audio", "data": 5, "mimeType": "audio/wav"},
    ],
)
def test_what_is_no_image_is_said_in_words(block: dict[str, Any]) -> None:
    [found] = frames.content({"content": [block]})
    assert found["type"] == "text"
    assert "The board sent an" in found["text"]


def test_other_results_become_text() -> None:
    assert frames.content(None) == []
    assert frames.content("42 °C") == [{"type": "text", "text": "42 °C"}]
    assert frames.content({"level": 3}) == [{"type": "text", "text": '{"level":3}'}]
    assert frames.content({"content": [{"type": "text", "text": {"a": 1}}, 7, {"type": "resource"}]}) == [
        {"type": "text", "text": '{"a":1}'},
        {"type": "text", "text": "7"},
        {"type": "text", "text": '{"type":"resource"}'},
    ]


def test_a_result_has_a_largest_number_of_parts() -> None:
    found = frames.content({"content": [{"type": "text", "text": "x"}] * (frames.MAX_BLOCKS + 2)})
    assert len(found) == frames.MAX_BLOCKS + 1
    assert found[-1]["text"] == "(2 more parts were left out.)"


@given(st.text() | JSON.map(json.dumps) | st.binary().map(lambda raw: raw.decode("utf-8", "surrogateescape")))
def test_no_text_raises(text: str) -> None:
    found = frames.parse(text)
    if found is not None:
        frames.unwrap(found)
        frames.content(found)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), JSON))
def test_no_payload_raises(payload: dict[str, Any]) -> None:
    found = frames.parse(json.dumps({"type": "mcp", "payload": payload}))
    assert found is None or isinstance(frames.unwrap(found), RpcRequest | RpcResponse | InvalidMessage)


@given(JSON)
def test_content_is_always_blocks(value: Any) -> None:
    parsed = frames.parse(json.dumps({"content": value}))
    if parsed is not None:
        assert all(block["type"] in ("text", "image", "audio") for block in frames.content(parsed))
