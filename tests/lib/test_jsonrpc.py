"""JSON-RPC framing: what is a message, what is not, and what the sender is told."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.lib import jsonrpc
from kho.lib.jsonrpc import MAX_DEPTH, MAX_VALUES, InvalidMessage, Message, ParseError, RpcRequest, RpcResponse, parse


def one(value: Any, *, lenient: bool = False) -> Message:
    [message], batch = parse(json.dumps(value), lenient=lenient)
    assert not batch
    return message


def refusal(message: Message) -> tuple[Any, int]:
    """The id and the code of the reply to what is no request."""
    assert isinstance(message, InvalidMessage)
    assert message.reply["jsonrpc"] == "2.0"
    assert message.reply["error"]["message"] == "Invalid Request"
    return message.reply["id"], message.reply["error"]["code"]


@pytest.mark.parametrize("id", [1, -7, 0, 2.5, "x", "", "đ", None, 10**15])
def test_an_id_is_kept_as_it_came(id: Any) -> None:
    message = one({"jsonrpc": "2.0", "method": "m", "params": {"a": 1}, "id": id})
    assert message == RpcRequest("m", {"a": 1}, id, is_notification=False)
    assert isinstance(message, RpcRequest)
    assert type(message.id) is type(id)


def test_without_an_id_it_is_a_notification() -> None:
    assert one({"jsonrpc": "2.0", "method": "m"}) == RpcRequest("m", None, None, is_notification=True)


@pytest.mark.parametrize("params", [{}, {"a": [1, None]}, [], [1, "b"], None])
def test_params_are_an_object_an_array_or_nothing(params: Any) -> None:
    assert one({"jsonrpc": "2.0", "method": "m", "params": params, "id": 1}) == RpcRequest("m", params, 1)


@pytest.mark.parametrize(
    ("value", "id"),
    [
        ({"method": "m", "id": 1}, 1),
        ({"jsonrpc": "1.0", "method": "m", "id": 1}, 1),
        ({"jsonrpc": 2.0, "method": "m", "id": 1}, 1),
        ({"jsonrpc": "2.0", "id": 1}, 1),
        ({"jsonrpc": "2.0", "method": 1, "id": 1}, 1),
        ({"jsonrpc": "2.0", "method": None, "id": "a"}, "a"),
        ({"jsonrpc": "2.0", "method": "m", "params": "bar", "id": 1}, 1),
        ({"jsonrpc": "2.0", "method": "m", "params": 5, "id": 1}, 1),
        ({"jsonrpc": "2.0", "method": "m", "id": True}, None),
        ({"jsonrpc": "2.0", "method": "m", "id": {}}, None),
        ({"jsonrpc": "2.0", "method": "m", "id": [1]}, None),
        ({}, None),
        (1, None),
        ("text", None),
        (None, None),
    ],
)
def test_what_is_no_request(value: Any, id: Any) -> None:
    assert refusal(one(value)) == (id, jsonrpc.INVALID_REQUEST)


def test_an_empty_batch_is_one_invalid_request() -> None:
    assert refusal(one([])) == (None, jsonrpc.INVALID_REQUEST)


def test_a_batch_may_mix_everything() -> None:
    messages, batch = parse(
        json.dumps(
            [
                {"jsonrpc": "2.0", "method": "a", "id": 1},
                {"jsonrpc": "2.0", "method": "b"},
                {"foo": "boo"},
                1,
                {"jsonrpc": "2.0", "result": 3, "id": 9},
            ]
        )
    )
    assert batch
    assert messages[:2] == [RpcRequest("a", None, 1), RpcRequest("b", None, None, is_notification=True)]
    assert [refusal(message) for message in messages[2:4]] == [(None, -32600), (None, -32600)]
    assert messages[4] == RpcResponse(9, 3)


def test_a_batch_of_one_is_a_batch() -> None:
    assert parse(b'[{"jsonrpc": "2.0", "method": "a", "id": 1}]') == ([RpcRequest("a", None, 1)], True)


def test_a_batch_within_a_batch_is_no_request() -> None:
    messages, _ = parse(b"[[]]")
    assert refusal(messages[0]) == (None, -32600)


def test_responses() -> None:
    assert one({"jsonrpc": "2.0", "result": None, "id": 1}) == RpcResponse(1)
    failure = {"code": -1, "message": "no", "data": [1]}
    assert one({"jsonrpc": "2.0", "error": failure, "id": "x"}) == RpcResponse("x", error=failure)
    for wrong in ({"message": "no code"}, "text", {"code": "1", "message": "m"}, {"code": True, "message": "m"}):
        assert refusal(one({"jsonrpc": "2.0", "error": wrong, "id": 1})) == (1, -32600)


def test_firmware_that_forgets_is_understood() -> None:
    assert one({"method": "m", "id": 1}, lenient=True) == RpcRequest("m", None, 1)
    assert one({"result": {}, "id": 1}, lenient=True) == RpcResponse(1, {})
    expected = {"code": jsonrpc.INTERNAL_ERROR, "message": "Unknown tool"}
    assert one({"error": {"message": "Unknown tool"}, "id": 1}, lenient=True) == RpcResponse(1, error=expected)
    assert one({"error": "Unknown tool", "id": 1}, lenient=True) == RpcResponse(1, error=expected)
    assert refusal(one({"params": {}}, lenient=True)) == (None, -32600)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b'{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]',
        b"[1,]",
        b"NaN",
        b'{"a": Infinity}',
        b'"\xff"',
        b'"\\ud800"',
        b"{'a': 1}",
        b"\xef\xbb\xbf{}",
        b"1 2",
    ],
)
def test_what_is_no_json(raw: bytes) -> None:
    with pytest.raises(ParseError):
        parse(raw)


@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded(opening: str, closing: str) -> None:
    inner = "1"
    deepest = opening * MAX_DEPTH + inner + closing * MAX_DEPTH
    assert jsonrpc.loads(deepest) == json.loads(deepest)
    with pytest.raises(ParseError, match="nested more than"):
        jsonrpc.loads(opening + deepest + closing)
    with pytest.raises(ParseError):
        jsonrpc.loads(opening * 100_000 + inner + closing * 100_000)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    wide: list[Any] = [[] for _ in range(1000)]
    assert jsonrpc.loads(json.dumps(wide)) == wide
    assert jsonrpc.loads('"' + "[" * 1000 + '"') == "[" * 1000


@pytest.mark.parametrize(("opening", "value", "closing"), [("[", "0", "]"), ("{", '"k":0', "}"), (" [", '"a"', "]")])
def test_values_are_bounded(opening: str, value: str, closing: str) -> None:
    def text(commas: int) -> str:
        return opening + f"{value}," * commas + value + closing + " " * MAX_VALUES

    jsonrpc.loads(text(MAX_VALUES - 2))
    for raw in (text(MAX_VALUES - 1), text(MAX_VALUES - 1).encode(), text(MAX_VALUES - 1)[:-1] + "nonsense"):
        with pytest.raises(ParseError, match=r"more than 100,000 values .* Send fewer at a time"):
            jsonrpc.loads(raw)


@pytest.mark.parametrize("before", range(4))
@pytest.mark.parametrize("held", [",[{", '\\",[{', "\\\\,", '\\\\\\"[', "\\n,,", "é,状[", "\\u002c,"])
def test_what_stands_inside_of_texts_is_no_value(before: int, held: str) -> None:
    """Wherever the blocks end in which it is counted: between the signs of an escape, too."""
    texts = "[" + '"",' * before + f'"{"x" * before}{held * MAX_VALUES}", 1]'
    assert jsonrpc.loads(texts.encode()) == jsonrpc.loads(texts) == json.loads(texts)
    many = texts[:-1] + ",0" * MAX_VALUES + "]"
    with pytest.raises(ParseError, match="values"):
        jsonrpc.loads(many)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text('aé状{[\\"'),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["id", "method", "params", "jsonrpc", "x"]), inner)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON, st.booleans())
def test_every_json_value_is_a_message_or_refused(value: Any, lenient: bool) -> None:
    messages, batch = parse(orjson.dumps(value), lenient=lenient)
    assert messages
    assert batch == (type(value) is list and value != [])


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_every_byte_string_is_parsed_or_refused(raw: bytes) -> None:
    try:
        messages, _ = parse(raw)
    except ParseError:
        return
    assert messages


def test_answers() -> None:
    assert jsonrpc.result(1, {"a": 1}) == {"jsonrpc": "2.0", "result": {"a": 1}, "id": 1}
    assert jsonrpc.error(None, -32700, "Parse error") == {
        "jsonrpc": "2.0",
        "error": {"code": -32700, "message": "Parse error"},
        "id": None,
    }
    assert jsonrpc.error(1, -1, "m", {"d": 0})["error"] == {"code": -1, "message": "m", "data": {"d": 0}}
    assert jsonrpc.request(7, "m") == {"jsonrpc": "2.0", "method": "m", "id": 7}
    assert jsonrpc.request(7, "m", {})["params"] == {}
