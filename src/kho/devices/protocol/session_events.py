"""Actions that a session returns, and the ways a call can end."""

from typing import Any, Literal, cast

import orjson

from kho.devices.protocol import frames
from kho.devices.protocol.tool_listing import BoardTool, clean
from kho.lib import jsonrpc
from kho.lib.dataclass import dataclass

Ending = Literal["refused", "timeout", "gone"]
MAX_ERROR_DATA = 4_096
"""Maximum bytes of the data that a board adds to an error; more is left out."""


@dataclass(frozen=True, slots=True)
class Info:
    name: str = ""
    version: str = ""
    protocol: str = ""


@dataclass(frozen=True, slots=True)
class CallResult:
    content: list[dict[str, Any]]
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class BoardError:
    kind: Ending
    message: str
    code: int | None = None
    data: Any = None
    sent: bool = True
    """False if the call was not sent to the board, so it can safely be repeated."""


@dataclass(frozen=True, slots=True)
class Send:
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    info: Info
    tools: tuple[BoardTool, ...]


@dataclass(frozen=True, slots=True)
class CallAnswered:
    number: int
    result: CallResult | None = None
    error: BoardError | None = None


@dataclass(frozen=True, slots=True)
class Notified:
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Trouble:
    """An oddity that is counted and otherwise harmless. `what` is one of a few fixed texts."""

    what: str


Act = Send | Ready | CallAnswered | Notified | Trouble


def failed(number: int, kind: Ending, message: str, *, sent: bool = False) -> CallAnswered:
    rest = "Whether it did what it was asked is not known." if sent else "The call was not sent."
    return CallAnswered(number, error=BoardError(kind, f"{message} {rest}", sent=sent))


def outcome(number: int, response: jsonrpc.RpcResponse) -> CallAnswered:
    if response.error is None:
        result: Any = response.result
        content = frames.content(result)
        is_error = isinstance(result, dict) and cast(dict[str, Any], result).get("isError") is True
        return CallAnswered(number, CallResult(content, is_error or answer_of(content).get("success") is False))
    message, code = response.error.get("message"), response.error.get("code")
    said = clean(message) if isinstance(message, str) else ""
    data = response.error.get("data")
    return CallAnswered(
        number,
        error=BoardError(
            "refused",
            said or "The board gave no reason.",
            code if isinstance(code, int) else None,
            data if len(orjson.dumps(data)) <= MAX_ERROR_DATA else None,
        ),
    )


def answer_of(content: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the JSON object of a result that is a single text block, else an empty dict. Firmware never sets isError:
    a tool that relays a server's answer, as for a photo, reports success in there."""
    match content:
        case [{"type": "text", "text": str() as text}] if text.lstrip().startswith("{"):
            return frames.parse(text) or {}
        case _:
            return {}
