"""Parses and writes frames, without I/O. Never raises on what a board sends.

Firmware writes error messages into its JSON without escaping them, so a quote in a tool's name makes the whole frame
invalid JSON; it sends images as JSON inside JSON; servers in the field wrap payloads differently. A board must not lose
its connection because of an odd frame.
"""

import base64
import binascii
import json
from typing import Any, cast

import orjson

from kho.lib import jsonrpc
from kho.lib.lazy_regex import pattern

MAX_FRAME = 1_000_000
"""Maximum characters of a frame. Boards send 8 KB; the largest are photos inside results."""
MAX_PARTS = 5_000
"""Maximum lists and objects of a frame: parsing more would block the event loop."""
MAX_BLOCKS = 64
"""Maximum content blocks of a result."""

_REPAIRABLE = 8 * 1024
"""Maximum characters of a frame that is repaired: more than firmware can send at once."""
_ATTEMPTS = 8
"""Maximum positions tried as the end of the message: at most a code, a session and a type follow it."""
_ERROR_TEXT = pattern(r'"error"\s*:\s*\{[^{}]*?"message"\s*:\s*"')
_TEXT_END = pattern(r'"(?=\s*[,}])')
_IMAGE_TYPE = pattern(r"image/[a-z0-9.+-]{1,40}")
_AUDIO_TYPE = pattern(r"audio/[a-z0-9.+-]{1,40}")

Frame = dict[str, Any]


def parse(text: str) -> Frame | None:
    """Return the JSON object in `text`, repaired if necessary; None if it cannot be parsed."""
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
    """Escape an error's message. Its end is not marked, so take the last quote with which the rest is valid JSON."""
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
    """Wrap a JSON-RPC message in the contract's envelope. Raises TypeError for what JSON cannot represent."""
    return dump({"session_id": session_id, "type": "mcp", "payload": payload})


def dump(frame: Frame) -> str:
    return orjson.dumps(frame).decode()


def alert(why: str) -> str:
    """Return an alert frame, which boards show on their display."""
    return dump({"type": "alert", "status": "Kho", "message": why, "emotion": "sad"})


def unwrap(frame: Frame) -> jsonrpc.Message | None:
    """Return the JSON-RPC message of a frame: in an envelope, as an object or as JSON text, or without an envelope."""
    payload: Any = frame.get("payload") if frame.get("type") == "mcp" else frame
    if isinstance(payload, str):
        payload = parse(payload)
    if not isinstance(payload, dict):
        return None
    # Serialized again because the parser takes text; frames are small.
    (message, *_), _ = jsonrpc.parse(orjson.dumps(payload), lenient=True)
    return message


def content(result: Any) -> list[dict[str, Any]]:
    """Return a tool's result as MCP content blocks that strict clients accept."""
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
