"""JSON-RPC 2.0 framing without I/O: bytes to messages, answers to objects.

Strict parsing serves our own doors. Lenient parsing serves firmware in the field, which forgets `jsonrpc`
and the `code` of errors.
"""

from dataclasses import dataclass
from typing import Any, cast

import orjson

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

MAX_DEPTH = 64
MAX_PARTS = 100_000
"""Lists and objects in one text. Far more than any request needs, and few enough to walk without being noticed."""

Id = str | int | float | None


class ParseError(Exception):
    """The text is not JSON that we accept."""


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    params: dict[str, Any] | list[Any] | None
    id: Id = None
    is_notification: bool = False


@dataclass(frozen=True, slots=True)
class Response:
    id: Id
    result: Any = None
    error: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """A member that is no request; `reply` is what the sender gets for it."""

    reply: dict[str, Any]


Message = Request | Response | Invalid


def loads(raw: bytes | str) -> Any:
    """JSON of bounded depth and width. orjson already refuses NaN, lone surrogates and invalid UTF-8."""
    brackets = _brackets(raw)
    if brackets > MAX_PARTS:
        raise ParseError(f"The JSON holds more than {MAX_PARTS:,} lists and objects.")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as problem:
        raise ParseError(f"The text is not valid JSON: {problem}") from None
    # Fewer brackets than the limit cannot nest deeper than it: the walk is only for the suspicious.
    if brackets > MAX_DEPTH and deeper_than(value, MAX_DEPTH):
        raise ParseError(f"The JSON is nested more than {MAX_DEPTH} levels deep.")
    return value


def _brackets(raw: bytes | str) -> int:
    return raw.count(b"{") + raw.count(b"[") if isinstance(raw, bytes) else raw.count("{") + raw.count("[")


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
    """The messages in `raw`, and whether they came as a batch (of `most` at most). Raises ParseError."""
    value = loads(raw)
    if isinstance(value, list):
        members = cast(list[Any], value)
        if not members:
            return [_invalid(None, "A batch must not be empty.")], False
        if len(members) > most:
            return [_invalid(None, f"A batch holds at most {most} requests; this one has {len(members)}.")], False
        return [_message(member, lenient) for member in members], True
    return [_message(value, lenient)], False


def _invalid(id: Id, why: str) -> Invalid:
    return Invalid(error(id, INVALID_REQUEST, "Invalid Request", why))


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
    return Request(method, cast(Any, params), id, "id" not in body)


def _response(body: dict[str, Any], id: Id, lenient: bool) -> Message:
    failure = body.get("error")
    if failure is None:
        return Response(id, body.get("result"))
    if lenient:
        found = cast(dict[str, Any], failure) if isinstance(failure, dict) else {"message": str(failure)}
        return Response(id, error={"code": INTERNAL_ERROR, "message": "", **found})
    match failure:
        case {"code": int() as code, "message": str()} if not isinstance(code, bool):
            return Response(id, error=failure)
        case _:
            return _invalid(id, "'error' must be an object with an integer 'code' and a 'message'.")
