"""A board's session as a state machine: messages and the time go in, actions come out.

No I/O and no clock, so that every order of events can be tested. Kho is the MCP client, the board the server. A board
does one thing at a time and silently drops what it does not accept, so only one request is in flight, and each has a
deadline.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable
from math import inf
from typing import Any, Literal, cast
from uuid import uuid4

from kho.devices.protocol import frames
from kho.devices.protocol import session_events as events
from kho.devices.protocol.tool_listing import BoardTool, Listing, clean
from kho.lib import jsonrpc
from kho.lib.dataclass import dataclass

PATIENCE = 10.0
"""Timeout in seconds of a handshake request; doubled at each retry."""
ATTEMPTS = 3
MAX_ID = 2**31 - 1
"""Firmware stores ids in 32 bits."""
REMEMBERED = 64
"""Maximum timed-out requests whose late answer is still recognised."""
AUDIO = {"format": "opus", "sample_rate": 24000, "channels": 1, "frame_duration": 60}
TRANSPORTS = ("websocket", "mqtt", "udp")
CONVERSING = ("mqtt", "udp")
"""Over these a hello starts a conversation with a board that is connected all the time; a hello during a call does not
interrupt it."""
SILENT = ("goodbye", "listen", "abort")
"""Frames about speech, which Kho ignores. `goodbye` ends a conversation, not the connection."""

PLAIN = {"jsonrpc", "method", "result", "error"}
"""Keys that identify a JSON-RPC message without an envelope."""

RENEW = 12 * 3600.0
"""Seconds after which a board gets a new token for photos before its next call: a connection may last for months, and
no token does."""
RELIST = 1.0
"""Seconds after a changed list was asked for in which further changes wait, and are listed together."""
Photos = tuple[str, str]
"""URL and token."""
State = Literal["hello", "initializing", "listing", "ready", "closed"]


@dataclass(slots=True)
class _Call:
    number: int
    tool: str
    arguments: dict[str, Any]
    deadline: float


@dataclass(slots=True)
class _Flight:
    id: int
    kind: Literal["initialize", "list", "call"]
    deadline: float
    call: _Call | None = None
    attempt: int = 1


class Session:
    def __init__(
        self,
        *,
        vision: Callable[[], Photos | None] | None = None,
        server_hello: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
        session_id: str | None = None,
    ) -> None:
        """`vision` returns the URL and a new token for photos. `server_hello` takes the board's hello and returns what
        the transport adds to ours, such as the `udp` block."""
        self.session_id = session_id or uuid4().hex
        self.state: State = "hello"
        self.info = events.Info()
        self.tools: tuple[BoardTool, ...] = ()
        self.troubles: Counter[str] = Counter()
        self._vision = vision
        self._server_hello = server_hello
        self._greeted = False
        self._mute = False
        self._last_id = 0
        self._flight: _Flight | None = None
        self._queue: OrderedDict[int, _Call] = OrderedDict()
        self._expired: OrderedDict[int, str] = OrderedDict()
        self._listing = Listing(with_user_tools=True)
        self._stale = False
        self._list_after = 0.0
        self._renew_at = inf

    @property
    def waiting(self) -> int:
        """Number of unfinished calls."""
        return len(self._queue) + (self._flight is not None and self._flight.kind == "call")

    # -- inputs ---------------------------------------------------------------------------------------------------

    def opened(self, now: float) -> list[events.Act]:
        """The transport is open. For boards that may never say hello (MQTT): starts the handshake at once."""
        return self._initialize(now) if self.state == "hello" else []

    def received(self, text: str, now: float) -> list[events.Act]:
        if self.state == "closed":
            return []
        frame = frames.parse(text)
        if frame is None:
            return self._odd("unreadable frame")
        kind = frame.get("type")
        if kind == "hello":
            return self._hello(frame, now)
        if kind == "ping":
            return [events.Send(frames.dump({"type": "pong", "session_id": self.session_id}))]
        if kind in SILENT:
            return []
        if kind == "mcp" or (kind is None and frame.keys() & PLAIN):
            return self._message(frames.unwrap(frame), now)
        return self._odd("unknown frame")

    def call(self, number: int, tool: str, arguments: dict[str, Any], timeout: float, now: float) -> list[events.Act]:
        """Queue a call. `number` is the caller's and is returned in exactly one CallAnswered."""
        if self.state == "closed":
            return [events.failed(number, "gone", "The board is not connected.")]
        if self._mute:
            return [events.failed(number, "refused", "The board does not speak MCP.")]
        self._queue[number] = _Call(number, tool, arguments, now + timeout)
        if self._flight is None and self.state in ("initializing", "listing"):
            return self._initialize(now)  # the handshake failed before; retry it now that there is a call
        return self._next(now)

    def withdraw(self, number: int) -> None:
        """Drop a call that nobody waits for any more. One that was already sent runs on: a board cannot be stopped."""
        self._queue.pop(number, None)

    def refresh(self, now: float) -> list[events.Act]:
        """List the tools again once no call is waiting."""
        self._stale, self._list_after = self.state == "ready", now
        return self._next(now)

    def keep_alive(self) -> list[events.Act]:
        """Return a frame that boards accept and ignore. Firmware closes a channel after 120 s without a frame, and does
        not count WebSocket pings."""
        if self.state in ("hello", "closed"):
            return []
        return [self._send({"jsonrpc": "2.0", "method": "notifications/ping"})]

    def next_tick(self) -> float | None:
        """Return when `tick` is next due; None if never."""
        deadlines = [call.deadline for call in self._queue.values()]
        if self._flight is not None:
            deadlines.append(self._flight.deadline)
        if self._stale and self._flight is None and self.state == "ready":
            deadlines.append(self._list_after)
        return min(deadlines, default=None)

    def tick(self, now: float) -> list[events.Act]:
        acts: list[events.Act] = []
        for call in [call for call in self._queue.values() if call.deadline <= now]:
            del self._queue[call.number]
            acts.append(events.failed(call.number, "timeout", "The board was not free in time."))
        if self._flight is not None and self._flight.deadline <= now:
            acts += self._unanswered(self._flight, now)
        return acts + self._next(now)

    def dropped(self) -> list[events.Act]:
        """The connection is gone: all waiting calls fail at once."""
        acts = self._fail_all("The connection to the board ended.")
        self.state = "closed"
        return acts

    # -- the handshake --------------------------------------------------------------------------------------------

    def _hello(self, frame: dict[str, Any], now: float) -> list[events.Act]:
        transport = frame.get("transport")
        ours: dict[str, Any] = {
            "type": "hello",
            "transport": transport if transport in TRANSPORTS else "websocket",
            "session_id": self.session_id,
            "audio_params": AUDIO,
        }
        answer = events.Send(frames.dump(ours | (self._server_hello(frame) if self._server_hello else {})))
        if transport in CONVERSING and self.state == "ready" and self._flight is not None:
            self._greeted = True
            return [answer]
        # Nothing can have been lost before the first hello, nor over MQTT during the handshake: no call was sent. Any
        # other board that says hello again has lost its state.
        waits = not self._greeted or transport in CONVERSING
        acts = [] if waits and self.state != "ready" else self._fail_all("The board restarted its session.")
        self._greeted = True
        acts.append(answer)
        features = frame.get("features")
        self._mute = not isinstance(features, dict) or cast(dict[str, Any], features).get("mcp") is not True
        if not self._mute:
            return acts + self._initialize(now)
        self.state, self._flight = "hello", None
        return acts + self._fail_all("The board does not speak MCP.") + self._odd("board without MCP")

    def _initialize(self, now: float, attempt: int = 1) -> list[events.Act]:
        self.state, self._mute, self._stale = "initializing", False, False
        photos = self._vision() if self._vision is not None else None
        self._renew_at = inf if photos is None else now + RENEW
        capabilities = {} if photos is None else {"vision": {"url": photos[0], "token": photos[1]}}
        return [self._ask("initialize", "initialize", {"capabilities": capabilities}, now, attempt)]

    def _list(self, now: float, attempt: int = 1) -> list[events.Act]:
        self.state = "listing"
        params: dict[str, Any] = {"cursor": self._listing.cursor}
        if self._listing.with_user_tools:
            params["withUserTools"] = True
        return [self._ask("list", "tools/list", params, now, attempt)]

    def _begin_list(self, now: float, with_user_tools: bool) -> list[events.Act]:
        self._listing, self._stale = Listing(with_user_tools), False
        return self._list(now)

    def _initialized(self, response: jsonrpc.RpcResponse, now: float) -> list[events.Act]:
        acts = self._odd("initialize refused") if response.error is not None else []
        match response.result:
            case {"serverInfo": {"name": name, **rest}, **more}:
                about = cast(dict[str, Any], {**more, **rest})
                self.info = events.Info(_word(name), _word(about.get("version")), _word(about.get("protocolVersion")))
            case _:
                self.info = events.Info()
        return acts + self._begin_list(now, with_user_tools=True)

    def _listed(self, response: jsonrpc.RpcResponse, now: float) -> list[events.Act]:
        listing = self._listing
        if response.error is not None:
            if listing.with_user_tools and not listing.cursor:
                return [*self._odd("page refused"), *self._begin_list(now, with_user_tools=False)]
            return self._odd("page refused") + self._finish_list(now)
        acts: list[events.Act] = [act for what in listing.take(response.result) for act in self._odd(what)]
        return acts + (self._list(now) if listing.more else self._finish_list(now))

    def _finish_list(self, now: float) -> list[events.Act]:
        self.state, self.tools = "ready", tuple(self._listing.tools.values())
        return [events.Ready(self.info, self.tools), *self._next(now)]

    # -- requests and answers -------------------------------------------------------------------------------------

    def _message(self, message: jsonrpc.Message | None, now: float) -> list[events.Act]:
        match message:
            case jsonrpc.RpcResponse():
                return self._response(message, now)
            case jsonrpc.RpcRequest(id=None):
                return self._notification(message, now)
            case jsonrpc.RpcRequest(method="ping"):
                return [self._send(jsonrpc.result(message.id, {}))]
            case jsonrpc.RpcRequest():
                return [self._send(jsonrpc.error(message.id, jsonrpc.METHOD_NOT_FOUND, "Method not found"))]
            case _:
                return self._odd("unreadable message")

    def _notification(self, message: jsonrpc.RpcRequest, now: float) -> list[events.Act]:
        if message.method == "notifications/tools/list_changed" and self.state in ("listing", "ready"):
            self._stale = True
        return [events.Notified(clean(message.method, 128), message.params), *self._next(now)]

    def _response(self, response: jsonrpc.RpcResponse, now: float) -> list[events.Act]:
        id, flight = _number(response.id), self._flight
        if flight is None or id != flight.id:
            kind = self._expired.pop(id, None) if id is not None else None
            if kind is None:
                return self._odd("answer to nothing")
            if kind != "initialize" or self.state != "initializing":
                return self._odd("late answer")
            kind, call = "initialize", None  # the board starts slowly: use the late answer instead of asking again
        else:
            kind, call = flight.kind, flight.call
        self._flight = None
        if kind == "initialize":
            return self._initialized(response, now)
        if call is None:
            return self._listed(response, now)
        return [events.outcome(call.number, response), *self._next(now)]

    def _unanswered(self, flight: _Flight, now: float) -> list[events.Act]:
        self._flight = None
        self._expired[flight.id] = flight.kind
        if len(self._expired) > REMEMBERED:
            self._expired.popitem(last=False)
        if flight.call is not None:
            return [events.failed(flight.call.number, "timeout", "The board did not answer in time.", sent=True)]
        if flight.attempt < ATTEMPTS:
            again = self._initialize if flight.kind == "initialize" else self._list
            return again(now, flight.attempt + 1)
        if self._listing.tools and flight.kind == "list":
            return self._odd("page unanswered") + self._finish_list(now)
        return self._odd("handshake unanswered")  # a hello, a late answer or a call resumes it

    def _next(self, now: float) -> list[events.Act]:
        """Send the next call, if the board is free."""
        acts: list[events.Act] = []
        free = self.state == "ready" and self._flight is None
        if free and self._queue and now >= self._renew_at:
            return self._initialize(now)
        while self.state == "ready" and self._flight is None and self._queue:
            _, call = self._queue.popitem(last=False)
            try:
                params = {"name": call.tool, "arguments": call.arguments}
                acts.append(self._ask("call", "tools/call", params, now, call=call))
            except TypeError as problem:
                acts.append(events.failed(call.number, "refused", f"The arguments are no JSON: {problem}."))
        if self._stale and self.state == "ready" and self._flight is None and now >= self._list_after:
            self._list_after = now + RELIST
            acts += self._begin_list(now, with_user_tools=True)
        return acts

    def _ask(
        self,
        kind: Literal["initialize", "list", "call"],
        method: str,
        params: dict[str, Any],
        now: float,
        attempt: int = 1,
        call: _Call | None = None,
    ) -> events.Send:
        self._last_id = self._last_id % MAX_ID + 1
        send = self._send(jsonrpc.request(self._last_id, method, params))
        deadline = call.deadline if call else now + PATIENCE * 2 ** (attempt - 1)
        self._flight = _Flight(self._last_id, kind, deadline, call, attempt)
        return send

    def _send(self, payload: dict[str, Any]) -> events.Send:
        return events.Send(frames.wrap(payload, self.session_id))

    def _fail_all(self, why: str) -> list[events.Act]:
        flight, self._flight = self._flight, None
        acts: list[events.Act] = (
            [events.failed(flight.call.number, "gone", why, sent=True)] if flight and flight.call else []
        )
        acts += [events.failed(call.number, "gone", why) for call in self._queue.values()]
        self._queue.clear()
        return acts

    def _odd(self, what: str) -> list[events.Act]:
        self.troubles[what] += 1
        return [events.Trouble(what)]


def _word(value: Any) -> str:
    return clean(value, 128) if isinstance(value, str) else ""


def _number(id: jsonrpc.Id) -> int | None:
    """Return an id as an integer. Some servers in between return it as text or with a decimal point."""
    if isinstance(id, float):
        return int(id) if id.is_integer() else None
    if isinstance(id, str):
        return int(id) if id.isascii() and id.isdigit() and len(id) <= 10 else None
    return id
