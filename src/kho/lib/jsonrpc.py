"""JSON-RPC 2.0 framing without I/O: bytes to messages, answers to objects.

Our own doors parse strictly. Boards are parsed leniently: firmware in the field omits `jsonrpc` and the `code` of
errors.
"""

from typing import Any, cast

import orjson

from kho.lib.dataclass import dataclass

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Maximum number of values in one text, at all levels: one for each comma and each opening bracket. Far more than any
request needs (an import of 1,000 lines has about 30,000), and few enough to parse and walk without noticeable delay."""
_BLOCK = 64 * 1024
"""Bytes counted at a time: each step holds the interpreter for 0.3 ms at most."""

Id = str | int | float | None


class ParseError(Exception):
    """The text is not JSON that we accept."""


@dataclass(frozen=True, slots=True)
class RpcRequest:
    method: str
    params: dict[str, Any] | list[Any] | None
    id: Id = None
    is_notification: bool = False


@dataclass(frozen=True, slots=True)
class RpcResponse:
    id: Id
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class InvalidMessage:
    """A batch member that is not a valid message; `reply` is the answer to its sender."""

    reply: dict[str, Any]


Message = RpcRequest | RpcResponse | InvalidMessage


def loads(raw: bytes | str) -> Any:
    """Parse JSON of bounded depth and size. orjson already rejects NaN, lone surrogates and invalid UTF-8."""
    check_size(raw)
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        raise ParseError(f"The text is not valid JSON: {problem}") from None
    brackets = raw.count(b"{") + raw.count(b"[") if isinstance(raw, bytes) else raw.count("{") + raw.count("[")
    # Fewer brackets than the limit cannot nest deeper than it, so the walk is rarely needed.
    if brackets > MAX_DEPTH and deeper_than(value, MAX_DEPTH):
        raise ParseError(f"The JSON is nested more than {MAX_DEPTH} levels deep.")
    return value


def check_size(raw: bytes | str) -> None:
    """Reject a text with too many values before a parser makes objects of them: 4 million zeros are 8 MB of text, but
    seconds of work. Raises ParseError. Takes 1 ms to reject 8 MB of zeros, 15 to 30 ms to accept 8 MB of prose."""
    # Each value but the first has a comma or an opening bracket before it: short texts cannot hold too many.
    if len(raw) > MAX_VALUES and _values(raw.encode("utf-8", "replace") if isinstance(raw, str) else raw) > MAX_VALUES:
        raise ParseError(
            f"The JSON holds more than {MAX_VALUES:,} values (commas and opening brackets outside of texts). "
            "Send fewer at a time, in several requests."
        )


def _values(raw: bytes) -> int:
    """Count the values in a text (an empty list counts as two), or return a number over the limit. A parser stops at
    invalid JSON, so only the text before that place has to be counted right."""
    count, start, inside = 1, 0, False
    while start < len(raw) and count <= MAX_VALUES:
        block = raw[start : start + _BLOCK]
        if len(block) == _BLOCK and (_BLOCK - len(block.rstrip(b"\\"))) % 2:
            block = block[:-1]  # half of an escape, which belongs to the next block
        start += len(block)
        # Without escapes every quote begins or ends a string, so every other part is outside of strings.
        parts = block.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        outside = b"".join(parts[inside::2])
        count += outside.count(b",") + outside.count(b"{") + outside.count(b"[")
        inside ^= len(parts) % 2 == 0
    return count


def deeper_than(value: Any, limit: int) -> bool:
    level: list[Any] = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(cast(dict[str, Any], item).values())
            elif isinstance(item, list):
                inner.extend(cast(list[Any], item))
        if not inner:
            return False
        level = inner
    return any(isinstance(item, dict | list) for item in level)


def result(id: Id, value: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "result": value, "id": id}


def error(id: Id, code: int, message: str, data: Any = None) -> dict[str, Any]:
    body: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        body["data"] = data
    return {"jsonrpc": "2.0", "error": body, "id": id}


def request(id: Id, method: str, params: Any = None) -> dict[str, Any]:
    body: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "id": id}
    if params is not None:
        body["params"] = params
    return body


def parse(raw: bytes | str, *, lenient: bool = False, most: int = 100) -> tuple[list[Message], bool]:
    """Return the messages in `raw`, and True if they came as a batch (of `most` at most). Raises ParseError."""
    value = loads(raw)
    if isinstance(value, list):
        members = cast(list[Any], value)
        if not members:
            return [_invalid(None, "A batch must not be empty.")], False
        if len(members) > most:
            return [_invalid(None, f"A batch holds at most {most} requests; this one has {len(members)}.")], False
        return [_message(member, lenient) for member in members], True
    return [_message(value, lenient)], False


def _invalid(id: Id, why: str) -> InvalidMessage:
    return InvalidMessage(error(id, INVALID_REQUEST, "Invalid Request", why))


def _message(value: Any, lenient: bool) -> Message:
    if not isinstance(value, dict):
        return _invalid(None, "A request is a JSON object.")
    body = cast(dict[str, Any], value)
    id = body.get("id")
    if isinstance(id, bool) or not isinstance(id, str | int | float | None):
        return _invalid(None, "'id' must be a string, a number or null.")
    if body.get("jsonrpc") != "2.0" and not lenient:
        return _invalid(id, "'jsonrpc' must be \"2.0\".")
    if "method" not in body and ("result" in body or "error" in body):
        return _response(body, id, lenient)
    method = body.get("method")
    if not isinstance(method, str):
        return _invalid(id, "'method' must be a string.")
    params = body.get("params")
    if not isinstance(params, dict | list | None):
        return _invalid(id, "'params' must be an object or an array.")
    return RpcRequest(method, cast(Any, params), id, "id" not in body)


def _response(body: dict[str, Any], id: Id, lenient: bool) -> Message:
    failure = body.get("error")
    if failure is None:
        return RpcResponse(id, body.get("result"))
    if lenient:
        found = cast(dict[str, Any], failure) if isinstance(failure, dict) else {"message": str(failure)}
        return RpcResponse(id, error={"code": INTERNAL_ERROR, "message": "", **found})
    match failure:
        case {"code": int() as code, "message": str()} if not isinstance(code, bool):
            return RpcResponse(id, error=failure)
        case _:
            return _invalid(id, "'error' must be an object with an integer 'code' and a 'message'.")
