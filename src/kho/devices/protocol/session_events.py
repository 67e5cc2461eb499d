"""What a session wants done, and how a call can end."""

from dataclasses import dataclass
from typing import Any, Literal, cast

from kho.devices.protocol import frames
from kho.devices.protocol.tool_listing import BoardTool, clean
from kho.lib import jsonrpc

Ending = Literal["refused", "timeout", "gone"]


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
    sent: bool = True
    """Whether the board can have heard of the call. One that was not sent can safely be made again."""


@dataclass(frozen=True, slots=True)
class Send:
    text: str


@dataclass(frozen=True, slots=True)
class Ready:
    info: Info
    tools: tuple[BoardTool, ...]


@dataclass(frozen=True, slots=True)
class Answered:
    number: int
    result: CallResult | None = None
    error: BoardError | None = None


@dataclass(frozen=True, slots=True)
class Notified:
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something odd that is counted and otherwise harmless. `what` is one of a few fixed words."""

    what: str


Act = Send | Ready | Answered | Notified | Trouble


def failed(number: int, kind: Ending, message: str, *, sent: bool = False) -> Answered:
    rest = "Whether it did what it was asked is not known." if sent else "The call was not sent."
    return Answered(number, error=BoardError(kind, f"{message} {rest}", sent=sent))


def outcome(number: int, response: jsonrpc.Response) -> Answered:
    if response.error is None:
        result: Any = response.result
        content = frames.content(result)
        is_error = isinstance(result, dict) and cast(dict[str, Any], result).get("isError") is True
        return Answered(number, CallResult(content, is_error or answer_of(content).get("success") is False))
    message, code = response.error.get("message"), response.error.get("code")
    said = clean(message) if isinstance(message, str) else ""
    return Answered(
        number,
        error=BoardError("refused", said or "The board gave no reason.", code if isinstance(code, int) else None),
    )


def answer_of(content: list[dict[str, Any]]) -> dict[str, Any]:
    """A result that is one JSON object in a text, else nothing. Firmware never sets isError: a tool that hands on what
    a server answered, as for a photo, says in there whether it was a success."""
    match content:
        case [{"type": "text", "text": str() as text}] if text.lstrip().startswith("{"):
            return frames.parse(text) or {}
        case _:
            return {}
