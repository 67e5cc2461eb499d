"""One connected board: a session, the wire to it, and those who wait for it.

An idle board costs a timer and no task. Frames to the board are sent by one task that lives as long as there are some,
so they keep their order and a caller that gives up never cuts one in two; what is told to the hub likewise, so that
whoever is told may call the board at once.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, Protocol

from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, QueueFull
from kho.devices.protocol.session import Session
from kho.devices.protocol.session_events import (
    Act,
    Answered,
    BoardError,
    CallResult,
    Info,
    Notified,
    Ready,
    Send,
    Trouble,
)
from kho.devices.protocol.tool_listing import BoardTool
from kho.kernel.errors import KhoError

log = logging.getLogger("kho.devices.link")

SILENCE = 45.0
"""Seconds after which a board over WebSocket is sent something: it gives the channel up after 120."""
SEND_TIMEOUT = 10.0
MAX_TIMEOUT = 300.0
MAX_UNSENT = 64
"""Frames that wait for a board that does not read."""
MAX_UNTOLD = 256
"""Notifications that wait for the hub; further ones are dropped and counted."""


SLOW = "It does not read what it is sent."
REPLACED = "A newer connection of this device took its place."
SHUT_OUT = 1008
"""How a connection is closed whose board is not wanted here."""


class Wire(Protocol):
    """A transport's end. `send` raises OSError (a ConnectionError, say) when there is nobody any more."""

    name: str
    """websocket or mqtt."""

    async def send(self, text: str) -> None: ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...


class BoardConnection:
    def __init__(
        self,
        device: str,
        wire: Wire,
        session: Session,
        *,
        on_ready: Callable[["BoardConnection"], Awaitable[None]],
        on_notified: Callable[["BoardConnection", Notified], Awaitable[None]],
        on_closed: Callable[["BoardConnection", str], Awaitable[None]],
        queue: int = 32,
        clock: Callable[[], float] = time.monotonic,
        send_timeout: float = SEND_TIMEOUT,
    ) -> None:
        self.device = device
        self.wire = wire
        self.session = session
        self.since = clock()
        self.on_unanswered: Callable[[], None] = lambda: None
        """Called when a call that was sent was not answered in time: the board may be gone."""
        self._on_ready, self._on_notified, self._on_closed = on_ready, on_notified, on_closed
        self._limit = queue
        self._clock = clock
        self._send_timeout = send_timeout
        self._numbers = count(1)
        self._calls: dict[int, asyncio.Future[CallResult]] = {}
        self._unsent: deque[str] = deque()
        self._untold: deque[Callable[[], Awaitable[None]]] = deque()
        self._sender: asyncio.Task[None] | None = None
        self._teller: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._announcing = False
        self._last_sent = self.since
        self._closed = False
        self._hung_up = False

    @property
    def tools(self) -> tuple[BoardTool, ...]:
        return self.session.tools

    @property
    def info(self) -> Info | None:
        """None until the board has introduced itself."""
        return self.session.info if self.session.info != Info() else None

    @property
    def closed(self) -> bool:
        return self._closed

    async def opened(self) -> None:
        """For a transport whose boards may never say hello."""
        self._do(self.session.opened(self._clock()))

    async def received(self, text: str) -> None:
        """The transport calls this for every text frame."""
        self._do(self.session.received(text, self._clock()))

    async def refresh(self) -> None:
        """Asks for the tools again; on_ready follows."""
        self._do(self.session.refresh(self._clock()))

    async def call(self, tool: str, arguments: dict[str, Any], timeout: float = 30.0) -> CallResult:
        """Raises BoardGone, CallTimedOut, QueueFull or BoardRefused."""
        if self._closed:
            raise BoardGone("The board is not connected.")
        if self.session.waiting >= self._limit:
            raise QueueFull(waiting=self.session.waiting)
        number = next(self._numbers)
        outcome = self._calls[number] = asyncio.get_running_loop().create_future()
        self._do(self.session.call(number, tool, arguments, min(max(timeout, 0.0), MAX_TIMEOUT), self._clock()))
        try:
            return await outcome
        finally:
            if self._calls.pop(number, None) is not None:
                self.session.withdraw(number)

    def tick(self) -> None:
        """What the clock brings. A timer calls this when it is due, or a little early."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock()
        self._do(self.session.tick(now))
        if self._keeps_alive and now - self._last_sent >= SILENCE:
            self._last_sent = now
            self._do(self.session.keep_alive())

    async def close(self, reason: str, code: int = 1000) -> None:
        """Ends it, also when the wire is gone already: everybody who waits is told at once, and on_closed follows."""
        self._end(reason)
        if self._sender is not None:
            self._sender.cancel()
            await asyncio.wait({self._sender})
        await self._hang_up(code, reason)

    async def settled(self) -> None:
        """Returns when everything is sent and told. Whoever is being told would wait for himself."""
        while tasks := {task for task in (self._sender, self._teller) if task is not None}:
            await asyncio.wait(tasks)

    # -- inside -------------------------------------------------------------------------------------------------------

    @property
    def _keeps_alive(self) -> bool:
        """Over MQTT the broker looks after that."""
        return self.wire.name == "websocket"

    def _do(self, acts: list[Act]) -> None:
        for act in acts:
            match act:
                case Send():
                    self._send(act.text)
                case Answered():
                    self._answer(act)
                case Ready():
                    if not self._announcing:
                        self._announcing = True
                        self._tell(self._announce)
                case Notified():
                    if len(self._untold) < MAX_UNTOLD:
                        self._tell(lambda told=act: self._on_notified(self, told))
                    else:
                        self.session.troubles["notification dropped"] += 1
                case Trouble():
                    log.debug("%s: %s", self.device, act.what)
        self._wind()

    def _answer(self, act: Answered) -> None:
        outcome = self._calls.pop(act.number, None)
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
        """Sets the timer to what comes first. One that goes off earlier may stay: it sets the next."""
        due = None if self._closed else self.session.next_tick()
        if self._keeps_alive and not self._closed:
            quiet = self._last_sent + SILENCE
            due = quiet if due is None else min(due, quiet)
        if self._timer is not None and (due is None or due < self._due):
            self._timer.cancel()
            self._timer = None
        if self._timer is None and due is not None:
            self._due = due
            self._timer = asyncio.get_running_loop().call_later(max(due - self._clock(), 0.0), self.tick)

    def _send(self, text: str) -> None:
        if self._closed:
            return
        self._unsent.append(text)
        self._last_sent = self._clock()
        if len(self._unsent) > MAX_UNSENT:
            self._give_up(SLOW)
        else:
            self._start_sending()

    def _start_sending(self) -> None:
        if self._sender is None and self._unsent:
            self._sender = asyncio.get_running_loop().create_task(self._send_all())
            self._sender.add_done_callback(self._sent)

    async def _send_all(self) -> None:
        try:
            while self._unsent:
                async with asyncio.timeout(self._send_timeout):
                    await self.wire.send(self._unsent[0])
                if self._unsent:  # not if it was closed meanwhile
                    self._unsent.popleft()
        except TimeoutError:
            self._give_up(SLOW)
        except OSError:
            self._give_up("The connection ended.")

    def _sent(self, task: asyncio.Task[None]) -> None:
        self._sender = None
        if task.cancelled():
            return
        if (problem := task.exception()) is not None:
            log.error("%s: sending failed", self.device, exc_info=problem)
            self._give_up("Sending failed.")
        self._start_sending()  # what came between its last look and its end

    def _give_up(self, reason: str) -> None:
        """Ends it from inside; the wire is closed by the task that tells."""
        if not self._closed:
            self._end(reason)
            self._tell(lambda: self._hang_up(1008, reason))

    def _end(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._unsent.clear()
        self._do(self.session.dropped())
        self._tell(lambda: self._on_closed(self, reason))

    async def _hang_up(self, code: int, reason: str) -> None:
        if self._hung_up:
            return
        self._hung_up = True
        try:
            async with asyncio.timeout(self._send_timeout):
                await self.wire.close(code, reason)
        except OSError as problem:
            log.debug("%s: closing: %s", self.device, problem)

    async def _announce(self) -> None:
        """Once for all times that the board became ready meanwhile."""
        self._announcing = False
        await self._on_ready(self)

    def _tell(self, news: Callable[[], Awaitable[None]]) -> None:
        self._untold.append(news)
        self._start_telling()

    def _start_telling(self) -> None:
        if self._teller is None and self._untold:
            self._teller = asyncio.get_running_loop().create_task(self._tell_all())
            self._teller.add_done_callback(self._told)

    async def _tell_all(self) -> None:
        while self._untold:
            await self._untold.popleft()()

    def _told(self, task: asyncio.Task[None]) -> None:
        self._teller = None
        if task.cancelled():
            return  # the loop is ending
        if (problem := task.exception()) is not None:
            log.error("%s: the hub failed on what the board said", self.device, exc_info=problem)
        self._start_telling()


def _error(error: BoardError | None) -> KhoError:
    if error is None or error.kind == "refused":
        return BoardRefused(error.message if error else None)
    if error.kind == "gone":
        return BoardGone(error.message, sent=error.sent)
    return CallTimedOut(error.message, sent=error.sent)
