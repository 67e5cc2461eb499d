"""uvicorn's HTTP protocol with header and body timeouts.

uvicorn waits for ever for a request head or body, so a few thousand idle sockets exhaust the hub. Here a client must
finish its head within `header_timeout`, must not pause for `body_timeout` inside a body, and must keep up a small
average rate. Time that passes because of us (a slow or streaming response, an app that does not read) never counts
against the client.

Time is counted in ticks of one timer, which runs only while a request is arriving: the data path needs neither a clock
nor timers of its own. In return, a limit is enforced up to an eighth late, never early.
"""

import math
import re
import socket
from asyncio import TimerHandle, Transport
from functools import partial
from typing import Any, Literal, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kho.doors.http.uvicorn_websockets import GuardedSocket
from kho.lib.dataclass import dataclass

HEADER_TIMEOUT = 10.0
BODY_TIMEOUT = 30.0
MAX_HEAD = 64 * 1024
# Bytes per second: a body may take twice the body timeout, plus its size at this rate.
MIN_RATE = 10_000
# Seconds in which a rejected client may read our response. It may still be sending, and a socket closed with unread
# bytes is reset, which can lose the response.
LINGER = 1.0
# Key in the lifespan state of a function to call when the server begins to stop. The server waits for responses in
# progress, and a long-lived stream would never end.
STOP = "kho.stop"

TOO_SLOW = (
    408,
    b'{"error": {"code": "REQUEST_TIMEOUT", "message": "The request did not arrive in time. Send it again, faster."}}',
)
HEAD_TOO_LARGE = (
    431,
    b'{"error": {"code": "HEADERS_TOO_LARGE", "message": "Send at most 64 KiB of request line and headers."}}',
)


class HeadTooLarge(Exception):
    """Raised to stop the parser."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a client may take."""

    tick: float
    """Seconds."""
    head_ticks: int
    body_ticks: int

    @classmethod
    def of(cls, header_timeout: float, body_timeout: float) -> "Pace":
        tick = min(header_timeout, body_timeout) / 8
        return cls(tick, math.ceil(header_timeout / tick), math.ceil(body_timeout / tick))


USUAL = Pace.of(HEADER_TIMEOUT, BODY_TIMEOUT)


class GuardedProtocol(HttpToolsProtocol):
    """HTTP protocol class for `uvicorn.Config(http=...)`."""

    def __init__(self, *args: Any, pace: Pace = USUAL, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.pace = pace
        self.ws_protocol_class = GuardedSocket
        # idle: between requests, where uvicorn's keep-alive timeout applies; over: upgraded or rejected.
        self._phase: Literal["idle", "head", "body", "over"] = "idle"
        self._timer: TimerHandle | None = None
        self._ticks = 0  # ticks in this phase during which we waited for the client
        self._quiet = 0  # ticks in a row without a byte
        self._chunk = 0  # size of the chunk being parsed
        self._head_size = 0  # bytes of an unfinished head in earlier chunks
        self._received = 0  # bytes since the head
        self._seen = 0  # value of _received at the last tick
        self._framing = 0  # bytes since the last byte of body: trailers or chunk extensions
        self._unsent = 0  # bytes of response that the client had not read at the last tick

    def connection_made(self, transport: Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        _send_at_once(transport)
        self._begin_head(0)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if STOP in self.app_state:
            self.app_state[STOP]()
        super().shutdown()

    def handle_websocket_upgrade(self) -> None:
        self._stop()
        super().handle_websocket_upgrade()

    def data_received(self, data: bytes) -> None:
        if self._phase == "over":
            return
        size = self._chunk = len(data)
        if self._phase == "body":
            self._received += size
            self._framing += size
        elif self._phase == "idle":
            # Not in on_message_begin: blank lines before a request also stop uvicorn's keep-alive timer.
            self._begin_head(0)
        super().data_received(data)
        if self._phase == "head":
            self._head_size += size
            if self._head_size > MAX_HEAD:
                self._give_up(HEAD_TOO_LARGE)
        elif self._phase == "body":
            if self._framing > MAX_HEAD:
                self._give_up(HEAD_TOO_LARGE)
        elif self._phase == "idle":
            self._restore_keep_alive()

    def on_header(self, name: bytes, value: bytes) -> None:
        # RFC 9110: white space around a value is not part of it. The parser strips leading, not trailing, white space.
        super().on_header(name, value.rstrip(b" \t"))

    def on_message_begin(self) -> None:
        if self._phase == "idle":
            # Pipelined: the request begins somewhere inside this chunk, which data_received will count as a whole.
            self._begin_head(-self._chunk)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if max(self._head_size, 0) + self._chunk > MAX_HEAD:  # the chunk may also hold body, so measure the head itself
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD:
                self._give_up(HEAD_TOO_LARGE)
                raise HeadTooLarge
        if not self.url.startswith(b"/"):
            self._take_host_from_target()
        super().on_headers_complete()
        self._phase = "body"
        self._ticks = self._quiet = self._received = self._seen = self._framing = 0
        if self.parser is not None and not self.parser.should_upgrade():
            # Trailers would otherwise be added to the headers of a request that is already being served.
            self.headers = []

    def _take_host_from_target(self) -> None:
        """A request line may name a whole address, which then counts instead of the Host header (RFC 9112, 3.2.2). The
        guard must check the one that counts."""
        _, found, rest = self.url.partition(b"://")
        if found:
            authority = re.split(rb"[/?#]", rest, maxsplit=1)[0]
            self.headers[:] = [(name, authority if name == b"host" else value) for name, value in self.headers]

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._phase = "idle"

    def send_400_response(self, msg: str) -> None:
        if self._phase != "over":  # otherwise HeadTooLarge came back as a parser error and is already answered
            super().send_400_response(msg)

    def _begin_head(self, size: int) -> None:
        self._phase = "head"
        self._head_size = size
        self._ticks = 0
        if self._timer is None:
            self._timer = self.loop.call_later(self.pace.tick, self._on_tick)

    def _on_tick(self) -> None:
        self._timer = None
        if self._phase in ("idle", "over") or self.transport.is_closing():
            return
        if self._is_our_turn():
            self._quiet = 0
            if self._phase == "head":
                self._ticks = 0
        else:
            self._ticks += 1
            if self._is_late():
                self._give_up(TOO_SLOW)
                return
        self._timer = self.loop.call_later(self.pace.tick, self._on_tick)

    def _is_our_turn(self) -> bool:
        cycle = self.cycle
        if self._phase == "head":
            before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
            return self._is_answering() or 0 < self._unsent != before
        return (
            self.flow.read_paused
            or cycle.waiting_for_100_continue
            or (cycle.response_started and not cycle.response_complete)
            or bool(self.pipeline)  # an earlier request is still being answered
        )

    def _is_answering(self) -> bool:
        """True if a response is due for the last request whose head is complete."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _is_late(self) -> bool:
        # The first tick may come at any time within a phase, so it does not count: hence "more than".
        if self._phase == "head":
            return self._ticks > self.pace.head_ticks
        self._quiet = self._quiet + 1 if self._received == self._seen else 0
        self._seen = self._received
        excess = (self._ticks - 2 * self.pace.body_ticks) * self.pace.tick
        return self._quiet > self.pace.body_ticks or excess > self._received / MIN_RATE

    def _give_up(self, answer: tuple[int, bytes]) -> None:
        """Send the response if the client can still take it as the response to this request, and close the
        connection."""
        if self._phase == "head":
            answerable = not self._is_answering()
        else:
            answerable = not self.cycle.response_started and not self.pipeline
        self._stop()
        if self._is_answering():
            # As in connection_lost, but immediately: the app must not write after our response.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if answerable:
            self.transport.write(self._head_and_body(*answer))
        if answerable and self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()
        self._timer = self.loop.call_later(LINGER, self.transport.abort)

    def _head_and_body(self, status: int, body: bytes) -> bytes:
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        lines = [b"%s: %s\r\n" % header for header in headers]
        return b"".join([STATUS_LINE[status], *lines, b"\r\n", body])

    def _restore_keep_alive(self) -> None:
        # uvicorn stops its keep-alive timer at every byte and starts it when a response ends. If the response ended
        # before the body did, the rest of the body has stopped it for good.
        if self.cycle and self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _stop(self) -> None:
        self._phase = "over"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _send_at_once(transport: Transport) -> None:
    """Send each part of an answer when it is written. Head and body are two writes, and the system would keep back the
    second until the client has confirmed the first, which takes 40 ms. uvloop sees to it by itself; asyncio does only
    for sockets that it opened."""
    connection = transport.get_extra_info("socket")
    if connection and connection.family in (socket.AF_INET, socket.AF_INET6):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def guarded_protocol(
    header_timeout: float = HEADER_TIMEOUT, body_timeout: float = BODY_TIMEOUT
) -> type[HttpToolsProtocol]:
    """Return the protocol class with other limits. It can be pickled, so that worker processes have them, too."""
    return cast(type[HttpToolsProtocol], partial(GuardedProtocol, pace=Pace.of(header_timeout, body_timeout)))
