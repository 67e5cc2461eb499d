"""A connected board: session, wire, and the callers that wait for it.

An idle board costs a timer and no task. Frames are sent by one task that lives as long as there are any, so they keep
their order, and a cancelled caller never cuts a frame in two. Callbacks to the hub run in a task of their own in the
same way, so a callback may call the board at once.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import field
from itertools import count
from typing import Any, Protocol

from kho.devices.connections.frame_pace import FramePace
from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, QueueFull
from kho.devices.protocol import session_events as events
from kho.devices.protocol.session import Session
from kho.devices.protocol.tool_listing import BoardTool
from kho.kernel.errors import KhoError
from kho.lib.dataclass import dataclass

log = logging.getLogger("kho.devices.link")

SILENCE = 45.0
"""Seconds of silence after which a WebSocket board is sent a keep-alive: firmware closes the channel after 120."""
SEND_TIMEOUT = 10.0
MAX_TIMEOUT = 300.0
MAX_UNSENT = 64
"""Maximum unsent frames of a board that does not read."""
MAX_UNTOLD = 256
"""Maximum callbacks waiting for the hub; further notifications are dropped and counted."""


SLOW = "It does not read its messages."
REPLACED = "A newer connection of this device took its place."
SHUT_OUT = 1008
"""WebSocket close code for a board that was revoked or forgotten."""


class Wire(Protocol):
    """A transport to a board. `send` raises OSError (e.g. ConnectionError) when the peer is gone."""

    name: str
    """websocket or mqtt."""

    async def send(self, text: str) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class BoardConnection:
    device: str
    wire: Wire
    session: Session
    on_ready: Callable[["BoardConnection"], Awaitable[None]]
    on_notified: Callable[["BoardConnection", events.Notified], Awaitable[None]]
    on_closed: Callable[["BoardConnection", str], Awaitable[None]]
    on_unanswered: Callable[[], None] = lambda: None
    """Called when a sent call timed out: the board may be gone."""
    max_calls: int = 32
    clock: Callable[[], float] = time.monotonic
    send_timeout: float = SEND_TIMEOUT
    pace: FramePace = field(default_factory=FramePace)
    """Whoever reads the wire awaits its turn before it passes on a frame."""
    closed: bool = False
    hung_up: bool = False
    announcing: bool = False
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    calls: dict[int, asyncio.Future[events.CallResult]] = field(
        default_factory=dict[int, asyncio.Future[events.CallResult]]
    )
    unsent: deque[str] = field(default_factory=deque[str])
    untold: deque[Callable[[], Awaitable[None]]] = field(default_factory=deque[Callable[[], Awaitable[None]]])
    sender: asyncio.Task[None] | None = None
    teller: asyncio.Task[None] | None = None
    timer: asyncio.TimerHandle | None = None
    due: float = 0.0
    last_sent: float = field(init=False)

    def __post_init__(self) -> None:
        self.last_sent = self.clock()

    @property
    def tools(self) -> tuple[BoardTool, ...]:
        return self.session.tools

    @property
    def info(self) -> events.Info | None:
        """None until the board answered `initialize`."""
        return self.session.info if self.session.info != events.Info() else None

    async def opened(self) -> None:
        """For transports whose boards may never say hello (MQTT): start the handshake."""
        self._do(self.session.opened(self.clock()))

    async def received(self, text: str) -> None:
        """Called by the transport for every text frame."""
        self._do(self.session.received(text, self.clock()))

    async def refresh(self) -> None:
        """List the tools again; on_ready follows."""
        self._do(self.session.refresh(self.clock()))

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float = 30.0) -> events.CallResult:
        """Call a tool. Raises BoardGone, CallTimedOut, QueueFull or BoardRefused."""
        if self.closed:
            raise BoardGone("The board is not connected.")
        if self.session.waiting >= self.max_calls:
            raise QueueFull(waiting=self.session.waiting)
        number = next(self.numbers)
        outcome = self.calls[number] = asyncio.get_running_loop().create_future()
        self._do(self.session.call(number, tool, arguments, min(max(timeout, 0.0), MAX_TIMEOUT), self.clock()))
        try:
            return await outcome
        finally:
            if self.calls.pop(number, None) is not None:
                self.session.withdraw(number)

    def tick(self) -> None:
        """Handle deadlines and the keep-alive. Called by a timer when due, or slightly early."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        now = self.clock()
        self._do(self.session.tick(now))
        if self._keeps_alive and now - self.last_sent >= SILENCE:
            self.last_sent = now
            self._do(self.session.keep_alive())

    async def close(self, reason: str, code: int = 1000) -> None:
        """Close the connection, also when the wire is already gone: waiting callers fail at once, and on_closed
        follows."""
        self._end(reason)
        if self.sender is not None:
            self.sender.cancel()
            await asyncio.wait({self.sender})
        await self._hang_up(code, reason)

    async def settled(self) -> None:
        """Wait until all frames are sent and all callbacks have run. Do not await it inside a callback: it would wait
        for itself."""
        while tasks := {task for task in (self.sender, self.teller) if task is not None}:
            await asyncio.wait(tasks)

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _keeps_alive(self) -> bool:
        """Only WebSocket: over MQTT the broker does this."""
        return self.wire.name == "websocket"

    def _do(self, acts: list[events.Act]) -> None:
        for act in acts:
            match act:
                case events.Send():
                    self._send(act.text)
                case events.CallAnswered():
                    self._answer(act)
                case events.Ready():
                    if not self.announcing:
                        self.announcing = True
                        self._tell(self._announce)
                case events.Notified():
                    if len(self.untold) < MAX_UNTOLD:
                        self._tell(lambda told=act: self.on_notified(self, told))
                    else:
                        self.session.troubles["notification dropped"] += 1
                case events.Trouble():
                    log.debug("%s: %s", self.device, act.what)
        self._wind()

    def _answer(self, act: events.CallAnswered) -> None:
        outcome = self.calls.pop(act.number, None)
        if outcome is None or outcome.done():
            return
        if act.result is not None:
            outcome.set_result(act.result)
        else:
            problem = _error(act.error)
            outcome.set_exception(problem)
            if isinstance(problem, CallTimedOut) and problem.details["sent"]:
                self.on_unanswered()

    def _wind(self) -> None:
        """Set the timer to the next deadline. A timer that fires earlier may stay: it sets the next one."""
        due = None if self.closed else self.session.next_tick()
        if self._keeps_alive and not self.closed:
            quiet = self.last_sent + SILENCE
            due = quiet if due is None else min(due, quiet)
        if self.timer is not None and (due is None or due < self.due):
            self.timer.cancel()
            self.timer = None
        if self.timer is None and due is not None:
            self.due = due
            self.timer = asyncio.get_running_loop().call_later(max(due - self.clock(), 0.0), self.tick)

    def _send(self, text: str) -> None:
        if self.closed:
            return
        self.unsent.append(text)
        self.last_sent = self.clock()
        if len(self.unsent) > MAX_UNSENT:
            self._give_up(SLOW)
        else:
            self._start_sending()

    def _start_sending(self) -> None:
        if self.sender is None and self.unsent:
            self.sender = asyncio.get_running_loop().create_task(self._send_all())
            self.sender.add_done_callback(self._sent)

    async def _send_all(self) -> None:
        try:
            while self.unsent:
                async with asyncio.timeout(self.send_timeout):
                    await self.wire.send(self.unsent[0])
                if self.unsent:  # empty if it was closed meanwhile
                    self.unsent.popleft()
        except TimeoutError:
            self._give_up(SLOW)
        except OSError:
            self._give_up("The connection ended.")

    def _sent(self, task: asyncio.Task[None]) -> None:
        self.sender = None
        if task.cancelled():
            return
        if (problem := task.exception()) is not None:
            log.error("%s: sending failed", self.device, exc_info=problem)
            self._give_up("Sending failed.")
        self._start_sending()  # frames that arrived between the task's last check and its end

    def _give_up(self, reason: str) -> None:
        """Close from inside; the wire is closed by the callback task."""
        if not self.closed:
            self._end(reason)
            self._tell(lambda: self._hang_up(1008, reason))

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        self.unsent.clear()
        self._do(self.session.dropped())
        self._tell(lambda: self.on_closed(self, reason))

    async def _hang_up(self, code: int, reason: str) -> None:
        if self.hung_up:
            return
        self.hung_up = True
        try:
            async with asyncio.timeout(self.send_timeout):
                await self.wire.close(code, reason)
        except OSError as problem:
            log.debug("%s: closing: %s", self.device, problem)

    async def _announce(self) -> None:
        """Call on_ready once, even if the board became ready several times meanwhile."""
        self.announcing = False
        await self.on_ready(self)

    def _tell(self, news: Callable[[], Awaitable[None]]) -> None:
        self.untold.append(news)
        self._start_telling()

    def _start_telling(self) -> None:
        if self.teller is None and self.untold:
            self.teller = asyncio.get_running_loop().create_task(self._tell_all())
            self.teller.add_done_callback(self._told)

    async def _tell_all(self) -> None:
        while self.untold:
            await self.untold.popleft()()

    def _told(self, task: asyncio.Task[None]) -> None:
        self.teller = None
        if task.cancelled():
            return  # the loop is ending
        if (problem := task.exception()) is not None:
            log.error("%s: the hub failed on what the board said", self.device, exc_info=problem)
        self._start_telling()


def _error(error: events.BoardError | None) -> KhoError:
    if error is None or error.kind == "refused":
        refused = BoardRefused(error.message if error else None)
        told = {"board_code": error.code, "board_data": error.data} if error else {}
        refused.details.update({name: value for name, value in told.items() if value is not None})
        return refused
    if error.kind == "gone":
        return BoardGone(error.message, sent=error.sent)
    return CallTimedOut(error.message, sent=error.sent)
