"""uvicorn's HTTP protocol, with an end to its patience.

uvicorn waits for ever for a request head or body, so a few thousand idle sockets use up the hub. Here a client
must finish its head within `header_timeout`, must not fall silent for `body_timeout` inside a body, and must keep
up a small average rate. Time that passes because of us (a slow or streaming response, an app that does not read)
never counts against the client.

Time is counted in the ticks of one timer, which runs only while a request is arriving: the data path needs neither
a clock nor timers of its own. In return a limit is met up to an eighth late, never early.
"""

import math
from asyncio import TimerHandle, Transport
from typing import Any, ClassVar, Literal

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kho.doors.http.uvicorn_websockets import GuardedSocket

HEADER_TIMEOUT = 10.0
BODY_TIMEOUT = 30.0
MAX_HEAD = 64 * 1024
# Bytes per second: a body may take twice the body timeout, plus its size at this rate.
MIN_RATE = 10_000
# Seconds in which a client that we gave up may read our answer. It may still be sending, and a socket closed with
# bytes unread is reset, which can take the answer with it.
LINGER = 1.0
# What the app is to be told with when the server begins to stop: a function in the state of its lifespan. The server
# waits for the responses under way, and a standing stream would never end.
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
    """Stops the parser."""


class GuardedProtocol(HttpToolsProtocol):
    """For `uvicorn.Config(http=...)`. It has a module-level name, so that workers can be given it."""

    tick: ClassVar[float] = HEADER_TIMEOUT / 8
    head_ticks: ClassVar[int] = 8
    body_ticks: ClassVar[int] = 24

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ws_protocol_class = GuardedSocket
        # idle: between requests, where uvicorn's keep-alive timeout rules; over: upgraded, or given up.
        self._phase: Literal["idle", "head", "body", "over"] = "idle"
        self._timer: TimerHandle | None = None
        self._ticks = 0  # of this phase, as far as it was the client's turn
        self._quiet = 0  # ticks in a row without a byte
        self._chunk = 0  # size of the piece of data in hand
        self._head_size = 0  # bytes of an unfinished head in earlier pieces
        self._received = 0  # bytes since the head
        self._seen = 0  # what _received was at the last tick
        self._framing = 0  # bytes since the last byte of body: trailers or chunk extensions
        self._unsent = 0  # bytes of response that the client had not taken at the last tick

    def connection_made(self, transport: Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
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
            # Not in on_message_begin: blank lines before a request stop uvicorn's keep-alive timer too.
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
        # RFC 9110: white space around a value is no part of it. The parser strips it before, not behind.
        super().on_header(name, value.rstrip(b" \t"))

    def on_message_begin(self) -> None:
        if self._phase == "idle":
            # Pipelined: it begins somewhere inside this piece, which data_received will count as a whole.
            self._begin_head(-self._chunk)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if max(self._head_size, 0) + self._chunk > MAX_HEAD:  # a piece may hold body as well, so look closer
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > MAX_HEAD:
                self._give_up(HEAD_TOO_LARGE)
                raise HeadTooLarge
        super().on_headers_complete()
        self._phase = "body"
        self._ticks = self._quiet = self._received = self._seen = self._framing = 0
        if self.parser is not None and not self.parser.should_upgrade():
            # Trailers would otherwise be added to the headers of a request that is already being served.
            self.headers = []

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._phase = "idle"

    def send_400_response(self, msg: str) -> None:
        if self._phase != "over":  # else HeadTooLarge came back as a parser error, and is answered
            super().send_400_response(msg)

    def _begin_head(self, size: int) -> None:
        self._phase = "head"
        self._head_size = size
        self._ticks = 0
        if self._timer is None:
            self._timer = self.loop.call_later(self.tick, self._on_tick)

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
        self._timer = self.loop.call_later(self.tick, self._on_tick)

    def _is_our_turn(self) -> bool:
        cycle = self.cycle
        if self._phase == "head":
            before, self._unsent = self._unsent, self.transport.get_write_buffer_size()
            return self._is_answering() or 0 < self._unsent != before
        return (
            self.flow.read_paused
            or cycle.waiting_for_100_continue
            or (cycle.response_started and not cycle.response_complete)
            or bool(self.pipeline)  # an earlier request is being answered
        )

    def _is_answering(self) -> bool:
        """Whether a response is due for the last request whose head is complete."""
        return bool(self.cycle) and not self.cycle.response_complete

    def _is_late(self) -> bool:
        # The first tick may come at any moment of a phase, so it does not count: hence "more than".
        if self._phase == "head":
            return self._ticks > self.head_ticks
        self._quiet = self._quiet + 1 if self._received == self._seen else 0
        self._seen = self._received
        excess = (self._ticks - 2 * self.body_ticks) * self.tick
        return self._quiet > self.body_ticks or excess > self._received / MIN_RATE

    def _give_up(self, answer: tuple[int, bytes]) -> None:
        """Answers if the client can still take it for the answer to this request, and closes."""
        if self._phase == "head":
            answerable = not self._is_answering()
        else:
            answerable = not self.cycle.response_started and not self.pipeline
        self._stop()
        if self._is_answering():
            # As in connection_lost, but at once: the app must not write behind our answer.
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
        # uvicorn stops its keep-alive timer at every byte and starts it when a response ends. When the response
        # ended before the body did, the rest of the body has stopped it for good.
        if self.cycle and self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    def _stop(self) -> None:
        self._phase = "over"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def guarded_protocol(
    header_timeout: float = HEADER_TIMEOUT, body_timeout: float = BODY_TIMEOUT
) -> type[HttpToolsProtocol]:
    """The protocol with other limits. Such a class cannot be pickled: a worker process must make its own."""
    shorter = min(header_timeout, body_timeout) / 8

    class Protocol(GuardedProtocol):
        tick = shorter
        head_ticks = math.ceil(header_timeout / shorter)
        body_ticks = math.ceil(body_timeout / shorter)

    return Protocol
