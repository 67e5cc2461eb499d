"""Text to frames and back, without I/O and without ever raising on what a board says.

Firmware writes error messages into its JSON without escaping them, so a quote in a tool's name makes the whole frame
unreadable to a strict parser; it sends images as JSON inside JSON; servers in the field wrap payloads differently.
A board that says something odd must not lose its connection over it.
"""

import base64
import binascii
import json
from typing import Any, cast

import orjson

from kho.lib import jsonrpc
from kho.lib.lazy_regex import pattern

MAX_FRAME = 1_000_000
"""Characters. Boards send 8 KB; a photo inside a result is the largest thing there is."""
MAX_PARTS = 5_000
"""Lists and objects of a frame: one with more would keep everybody else waiting while it is read."""
MAX_BLOCKS = 64
"""Parts of one result."""

_REPAIRABLE = 8 * 1024
"""More than firmware can send at once. Nothing longer is worth the attempts."""
_ATTEMPTS = 8
"""Behind the message stand a code, a session and a type at most."""
_ERROR_TEXT = pattern(r'"error"\s*:\s*\{[^{}]*?"message"\s*:\s*"')
_TEXT_END = pattern(r'"(?=\s*[,}])')
_IMAGE_TYPE = pattern(r"image/[a-z0-9.+-]{1,40}")
_AUDIO_TYPE = pattern(r"audio/[a-z0-9.+-]{1,40}")

Frame = dict[str, Any]


def parse(text: str) -> Frame | None:
    """The object that `text` is, or was meant to be; None if nobody can tell."""
    if len(text) > MAX_FRAME or text.count("{") + text.count("[") > MAX_PARTS:
        return None
    text = text.strip("\ufeff\0 \t\r\n")
    found = _object(text)
    return found if found is not None else _repaired(text)


def _object(text: str) -> Frame | None:
    try:
        value = jsonrpc.loads(text)
    except jsonrpc.ParseError:
        return None
    return cast(Frame, value) if isinstance(value, dict) else None


def _repaired(text: str) -> Frame | None:
    """Where an error's message really ends is not written anywhere: the last quote with which the rest is JSON."""
    begin = _ERROR_TEXT.search(text) if len(text) <= _REPAIRABLE else None
    if begin is None:
        return None
    ends = [match.start() for match in _TEXT_END.finditer(text, begin.end())]
    for end in ends[: -_ATTEMPTS - 1 : -1]:
        message = json.dumps(text[begin.end() : end])
        found = _object(text[: begin.end() - 1] + message + text[end + 1 :])
        if found is not None:
            return found
    return None


def wrap(payload: dict[str, Any], session_id: str) -> str:
    """The envelope of the contract around a JSON-RPC message. Raises TypeError on what JSON cannot say."""
    return dump({"session_id": session_id, "type": "mcp", "payload": payload})


def dump(frame: Frame) -> str:
    return orjson.dumps(frame).decode()


def unwrap(frame: Frame) -> jsonrpc.Message | None:
    """The JSON-RPC message in a frame: in an envelope, as an object or as its JSON text, or with no envelope at all."""
    payload: Any = frame.get("payload") if frame.get("type") == "mcp" else frame
    if isinstance(payload, str):
        payload = parse(payload)
    if not isinstance(payload, dict):
        return None
    # What was read can be written, and the kernel reads text: frames are small.
    (message, *_), _ = jsonrpc.parse(orjson.dumps(payload), lenient=True)
    return message


def content(result: Any) -> list[dict[str, Any]]:
    """What a tool gave, as blocks of MCP that strict clients accept."""
    blocks: Any = cast(Frame, result).get("content") if isinstance(result, dict) else None
    if not isinstance(blocks, list):
        return [_text(result)] if result is not None else []
    found = [_block(block) for block in cast(list[Any], blocks)[:MAX_BLOCKS]]
    left = len(cast(list[Any], blocks)) - MAX_BLOCKS
    return [*found, _text(f"({left} more parts were left out.)")] if left > 0 else found


def _block(block: Any) -> dict[str, Any]:
    match block:
        case {"type": "text", "text": text}:
            return _text(text)
        case {"type": "image", "image": str() as inner}:
            return _binary("image", parse(inner) or {})
        case {"type": "image", "image": inner} if isinstance(inner, dict):
            return _binary("image", cast(Frame, inner))
        case {"type": "image" | "audio" as kind}:
            return _binary(kind, cast(Frame, block))
        case _:
            return _text(block)


def _text(value: Any) -> dict[str, Any]:
    return {"type": "text", "text": value if isinstance(value, str) else orjson.dumps(value).decode()}


def _binary(kind: str, found: Frame) -> dict[str, Any]:
    data, mime = found.get("data"), found.get("mimeType")
    known = _IMAGE_TYPE if kind == "image" else _AUDIO_TYPE
    if not isinstance(data, str) or not isinstance(mime, str) or not known.fullmatch(mime):
        return _text(f"(The board sent an {kind} that cannot be read.)")
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return _text(f"(The board sent an {kind} that is no base64.)")
    return {"type": kind, "data": data, "mimeType": mime}
