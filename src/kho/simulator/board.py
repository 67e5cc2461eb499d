"""A virtual board: the MCP server of real firmware as a plain object, with faults on demand.

Used by the tests and by `kho devices simulate`. Its messages are those of firmware, oddities included: errors have no
code and unescaped messages, optional arguments of a wrong type become their default.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import InitVar, field
from typing import Any, cast

import orjson

from kho.lib import jsonrpc
from kho.lib.dataclass import dataclass
from kho.simulator import board_tools
from kho.simulator.faults import Fault

PAGE_BYTES = 8000
_SPARE = 30
"""Bytes that firmware reserves on a page for its end."""
_INT_32 = 2**31

Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    text: str
    after: float = 0.0
    """Seconds to wait before sending."""


@dataclass(frozen=True, slots=True)
class HangUp:
    """The board closes the connection."""


@dataclass(eq=False)
class Board:
    """The state and tools of one board. If `online`, its driver performs its `uploads`; otherwise a photo is returned
    as an image. Firmware before 2.0 does not list user tools. `extra` are a board's own tools, listed between the
    common ones and those."""

    id: str
    name: str = "kho-sim"
    seed: int = 0
    version: str = field(default="2.4.2", kw_only=True)
    online: bool = field(default=False, kw_only=True)
    lists_user_tools: bool = field(default=True, kw_only=True)
    extra: InitVar[Iterable[board_tools.FirmwareTool]] = field(default=(), kw_only=True)
    tools: tuple[board_tools.FirmwareTool, ...] = field(init=False)
    state: board_tools.State = field(init=False)
    mode: str = "idle"
    """idle, listening, speaking, …"""
    session_id: str = ""
    vision: tuple[str, str] | None = None
    uploads: deque[board_tools.Upload] = field(default_factory=deque[board_tools.Upload])
    restarts: int = 0
    delay: float = 1.0
    faults: deque[Fault] = field(default_factory=deque[Fault])

    def __post_init__(self, extra: Iterable[board_tools.FirmwareTool]) -> None:
        self.tools, self.state = (*board_tools.COMMON, *extra, *board_tools.USER_ONLY), board_tools.State(self.seed)

    # -- frames -------------------------------------------------------------------------------------------------------

    def hello(self, transport: str = "websocket") -> str:
        return _dump(
            {
                "type": "hello",
                "version": 3 if transport == "udp" else 1,
                "features": {"mcp": True},
                "transport": transport,
                "audio_params": {"format": "opus", "sample_rate": 16000, "channels": 1, "frame_duration": 60},
            }
        )

    def goodbye(self) -> str:
        return _dump({"type": "goodbye", "session_id": self.session_id})

    def fail(self, *faults: Fault) -> None:
        """Make the next answers faulty, one fault each."""
        self.faults.extend(faults)

    def hear(self, text: str) -> list[Say | HangUp]:
        """Handle a frame from the hub; return what the board does."""
        frame = parse(text)
        payload = frame.get("payload")
        if frame.get("type") == "hello" and isinstance(frame.get("session_id"), str):
            self.session_id = frame["session_id"]
        if frame.get("type") != "mcp" or not isinstance(payload, dict):
            return []
        before = self.restarts
        said = self.say(self.receive(cast(Payload, payload)))
        return [*said, HangUp()] if self.restarts > before else said

    def say(self, payloads: list[Payload]) -> list[Say | HangUp]:
        """Put messages into frames. A pending fault is applied to a message with an id, that is, to an answer."""
        said: list[Say | HangUp] = []
        for payload in payloads:
            spoilt = "id" in payload and bool(self.faults)
            said += self._spoilt(payload, self.faults.popleft()) if spoilt else [Say(self._written(payload))]
        return said

    def _spoilt(self, payload: Payload, fault: Fault) -> list[Say | HangUp]:
        text = self._written(payload)
        match fault:
            case "drop":
                return [HangUp()]
            case "delay":
                return [Say(text, self.delay)]
            case "malformed":
                return [Say(text[: len(text) // 2])]
            case "duplicate":
                return [Say(text), Say(text)]
            case "wrong id":
                return [Say(self._written({**payload, "id": payload["id"] + 1000}))]
            case "silence":
                return []

    def _written(self, payload: Payload) -> str:
        """Serialise a frame as firmware does, which does not escape an error's message."""
        match payload:
            case {"id": int() as id, "error": {"message": str() as message}}:
                inner = f'{{"jsonrpc":"2.0","id":{id},"error":{{"message":"{message}"}}}}'
            case _:
                inner = orjson.dumps(payload).decode()
        return f'{{"session_id":"{self.session_id}","type":"mcp","payload":{inner}}}'

    # -- messages -----------------------------------------------------------------------------------------------------

    def receive(self, payload: Payload) -> list[Payload]:
        """Handle a message: return the answer, if there is one, then notifications. Like firmware, silently drop
        invalid messages."""
        method, params, id = payload.get("method"), payload.get("params", {}), payload.get("id")
        unwanted = payload.get("jsonrpc") != "2.0" or not isinstance(method, str) or method.startswith("notifications")
        if unwanted or not isinstance(params, dict) or isinstance(id, bool) or not isinstance(id, int | float):
            return []
        number, given = _int_32(id), cast(Payload, params)
        before = self._visible()
        try:
            answer = self._answer(number, cast(str, method), given)
        except board_tools.ToolRefused as refusal:
            return [_error(number, str(refusal))]
        replies = [] if answer is None else [{"jsonrpc": "2.0", "id": number, "result": answer}]
        return replies + self._changes(before)

    def become(self, mode: str) -> list[Payload]:
        """Change the mode (listening, speaking, idle); return the notifications."""
        before, self.mode = self._visible(), mode
        return self._changes(before)

    def uploaded(self, upload: board_tools.Upload, status: int, body: str) -> list[Payload]:
        """Report the result of an upload; status 0 if the URL could not be reached."""
        if status != 200:
            return [
                _error(
                    upload.id, f"Unexpected status code: {status}" if status else f"Failed to open URL: {upload.url}"
                )
            ]
        text = "true" if upload.question is None else body
        return [{"jsonrpc": "2.0", "id": upload.id, "result": _result({"type": "text", "text": text})}]

    def _answer(self, id: int, method: str, params: Payload) -> Payload | None:
        match method:
            case "initialize":
                return self._initialize(params)
            case "tools/list":
                return self._page(params.get("cursor"), params.get("withUserTools") is True)
            case "tools/call":
                return self._call(id, params)
            case _:
                raise board_tools.ToolRefused(f"Method not implemented: {method}")

    def _initialize(self, params: Payload) -> Payload:
        match params:
            case {"capabilities": {"vision": {"url": str() as url, **rest}}}:
                token = cast(Payload, rest).get("token")
                self.vision = url, token if isinstance(token, str) else ""
            case _:
                pass
        server = {"name": self.name, "version": self.version}
        return {"protocolVersion": "2024-11-05", "capabilities": {"tools": {}}, "serverInfo": server}

    def _page(self, cursor: Any, with_user_tools: bool) -> Payload:
        names = [tool.name for tool in self.tools]
        begin = (
            names.index(cursor) if cursor in names else 0 if not isinstance(cursor, str) or not cursor else len(names)
        )
        page: list[Payload] = []
        size = len('{"tools":[')
        left = ""
        for tool in self.tools[begin:]:
            if tool.user_only and not (with_user_tools and self.lists_user_tools):
                continue
            length = len(orjson.dumps(tool.listed)) + 1
            if size + length + _SPARE > PAGE_BYTES:
                left = tool.name
                break
            size += length
            page.append(tool.listed)
        if not page:
            raise board_tools.ToolRefused(f"Failed to add tool {left} because of payload size limit")
        return {"tools": page, "nextCursor": left} if left else {"tools": page}

    def _call(self, id: int, params: Payload) -> Payload | None:
        name, given = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str):
            raise board_tools.ToolRefused("Missing name")
        if not isinstance(given, dict):
            raise board_tools.ToolRefused("Invalid arguments")
        tool = next((tool for tool in self.tools if tool.name == name), None)
        if tool is None:
            raise board_tools.ToolRefused(f"Unknown tool: {name}")
        arguments = {one.name: _argument(one, cast(Payload, given).get(one.name)) for one in tool.properties}
        context = board_tools.Context(id, self.state, self._system(), self.vision, self.online)
        answer = tool.run(context, arguments)
        if name in board_tools.RESTARTS:
            self._restart()
        if isinstance(answer, board_tools.Upload):
            self.uploads.append(answer)
            return None
        return _result(_block(answer))

    def _restart(self) -> None:
        self.state, self.mode, self.vision = board_tools.State(self.seed), "idle", None
        self.restarts += 1
        self.uploads.clear()

    def _system(self) -> Payload:
        application = {"name": "xiaozhi", "version": self.version}
        return {
            "mac_address": self.id,
            "chip_model_name": "esp32s3",
            "application": application,
            "board": {"name": self.name},
        }

    def _visible(self) -> dict[str, Any]:
        state = self.state
        parts = {"volume": state.volume, "brightness": state.brightness, "theme": state.theme}
        return {"device": self.mode, **parts}

    def _changes(self, before: dict[str, Any]) -> list[Payload]:
        return [
            {
                "jsonrpc": "2.0",
                "method": board_tools.STATE_CHANGED,
                "params": {"what": what, "newState": new, "oldState": before[what]},
            }
            for what, new in self._visible().items()
            if new != before[what]
        ]


def parse(text: str) -> Payload:
    """Parse a frame from the hub; empty if it is not one."""
    try:
        frame: Any = jsonrpc.loads(text)
    except jsonrpc.ParseError:
        return {}
    return cast(Payload, frame) if isinstance(frame, dict) else {}


def _dump(frame: Payload) -> str:
    return orjson.dumps(frame).decode()


def _argument(wanted: board_tools.Property, value: Any) -> Any:
    kinds: dict[str, tuple[type[Any], ...]] = {"boolean": (bool,), "integer": (int, float), "string": (str,)}
    fits = isinstance(value, kinds[wanted.kind]) and (wanted.kind == "boolean" or not isinstance(value, bool))
    if not fits:
        if wanted.default is None:
            raise board_tools.ToolRefused(f"Missing valid argument: {wanted.name}")
        return wanted.default
    if wanted.kind != "integer":
        return value
    number = _int_32(value)
    if wanted.low is not None and number < wanted.low:
        raise board_tools.ToolRefused(f"Value is below minimum allowed: {wanted.low}")
    if wanted.high is not None and number > wanted.high:
        raise board_tools.ToolRefused(f"Value exceeds maximum allowed: {wanted.high}")
    return number


def _int_32(value: float) -> int:
    """Truncate to an integer and clamp to 32 bits."""
    return int(max(-_INT_32, min(_INT_32 - 1, value)))


def _block(answer: board_tools.Answer) -> Payload:
    match answer:
        case board_tools.Picture():
            return dict(answer.block)
        case bool():
            return {"type": "text", "text": "true" if answer else "false"}
        case str():
            return {"type": "text", "text": answer}
        case _:
            return {"type": "text", "text": orjson.dumps(answer).decode()}


def _result(block: Payload) -> Payload:
    return {"content": [block], "isError": False}


def _error(id: int, message: str) -> Payload:
    return {"jsonrpc": "2.0", "id": id, "error": {"message": message}}
