"""Queue of calls for offline boards: executed in order when the board is back, or expired.

A call is deleted from the queue before it is sent to the board, so that it is executed once, however many processes
look. If the process dies in between, the call stays in the log as 'sent': it may have been executed.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import field
from functools import partial
from typing import Any

from kho.devices.calls import call_log
from kho.devices.errors import DeviceFailed, DeviceOffline
from kho.devices.events import Event, Events
from kho.devices.protocol.session_events import CallResult, answer_of
from kho.devices.protocol.tool_listing import clean
from kho.kernel import Background, Database, KhoError, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, number
from kho.lib.tenancy import for_tenant

MAX_WAITING = 100
"""Maximum queued calls per board."""
EXPIRED = "EXPIRED"
TOO_LATE = "The device did not come back in time; the call was not executed."
SENT = "sent"
QUEUED = "queued"
Carry = Callable[[str, str, str, dict[str, Any], float], Awaitable[CallResult]]
"""Executes a call on a board of this process: tenant, device, tool, arguments, timeout in seconds."""


@dataclass(frozen=True, slots=True)
class Waiting:
    tenant: str
    number: int
    device: str
    tool: str
    arguments: dict[str, Any]
    timeout: float


CALLS = Table("device_queue", Waiting, json=("arguments",))


@dataclass(slots=True, kw_only=True)
class Queue:
    db: Database
    background: Background
    clock: Clock
    events: Events
    process: str
    most: int = MAX_WAITING
    delivering: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    again: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Boards that got a new queued call during delivery."""

    def deliver(self, tenant: str, device: str, carry: Carry) -> None:
        """Start delivering the board's queued calls, now that this process holds its connection."""
        board = tenant, device
        if board in self.delivering:
            self.again.add(board)
        else:
            self.delivering.add(board)
            self.background.add(for_tenant(tenant, partial(self._deliver, board, carry)))

    async def expire(self) -> int:
        """Expire calls that waited too long, of any process."""
        if not await self.db.read(lambda tx: any_expired(tx, self.clock())):
            return 0
        gone = await self.db.write(lambda tx: end_expired(tx, self.clock()))
        for one in gone:
            self._tell(one, EXPIRED, TOO_LATE)
        return len(gone)

    async def _deliver(self, board: tuple[str, str], carry: Carry) -> None:
        try:
            while not self.background.stopping:
                self.again.discard(board)
                one = await self.db.write(lambda tx: take(tx, *board, self.process, self.clock()))
                if one is not None:
                    if not await self._carry_out(one, carry):
                        return
                elif board not in self.again:
                    return
        finally:
            self.delivering.discard(board)

    async def _carry_out(self, one: Waiting, carry: Carry) -> bool:
        """Execute a call and log the outcome. False if the board is offline again."""
        started, outcome, message = time.perf_counter(), "ok", ""
        there = True
        try:
            work = carry(one.tenant, one.device, one.tool, one.arguments, one.timeout)
            result = await self.background.unless_stopping(work)
            if result is None:
                outcome, message = DeviceOffline.code, "The hub stopped before the device answered."
            elif result.is_error:
                outcome, message = DeviceFailed.code, reason_of(result)
            else:
                message = text_of(result)
        except KhoError as error:
            outcome, message = error.code, error.message
            there = not isinstance(error, DeviceOffline)
        ms = round((time.perf_counter() - started) * 1000)
        await self.db.write(lambda tx: call_log.ended(tx, one.tenant, one.number, outcome, message, ms))
        self._tell(one, outcome, message)
        return there

    def _tell(self, one: Waiting, outcome: str, message: str) -> None:
        data = {"call": one.number, "tool": one.tool, "outcome": outcome, "message": message[: call_log.MAX_MESSAGE]}
        self.events.publish(one.tenant, Event("call", one.device, self.clock(), {**data, "queued": True}))


def text_of(result: CallResult) -> str:
    return "\n".join(str(block["text"]) for block in result.content if block.get("type") == "text" and "text" in block)


def reason_of(result: CallResult) -> str:
    """Return the board's reason for a failure: the `message` of a JSON answer, else the text."""
    text = text_of(result)
    match answer_of(result.content):
        case {"message": str() as message} if message.strip():
            return clean(message)
        case _:
            return text


def add(tx: Tx, call: Waiting, until: int) -> None:
    CALLS.insert(tx, call, until=until)


def take(tx: Tx, tenant: str, device: str, process: str, now: int) -> Waiting | None:
    """Take the oldest call off the queue, if this process still holds the board."""
    sql = (
        "DELETE FROM device_queue WHERE tenant = $1 AND number = (SELECT MIN(number) FROM device_queue "
        "WHERE tenant = $1 AND device = $2 AND until > $3) AND EXISTS (SELECT 1 FROM devices WHERE "
        "devices.tenant = $1 AND devices.id = $2 AND owner = $4 AND revoked_at IS NULL) "
        f"RETURNING {CALLS.columns}"
    )
    row = tx.one(sql, tenant, device, now, process)
    if row is None:
        return None
    taken = CALLS.read(row)
    call_log.ended(tx, tenant, taken.number, SENT, "", None)
    return taken


def waiting(tx: Tx, process: str) -> list[tuple[str, str]]:
    """Return the boards of a process that have queued calls."""
    rows = tx.all(
        "SELECT DISTINCT device_queue.tenant, device FROM device_queue JOIN devices "
        "ON devices.tenant = device_queue.tenant AND devices.id = device WHERE owner = $1",
        process,
    )
    return [(tenant, device) for tenant, device in rows]


def any_expired(tx: Tx, now: int) -> bool:
    return tx.one("SELECT 1 FROM device_queue WHERE until <= $1 LIMIT 1", now) is not None


def end_expired(tx: Tx, now: int) -> list[Waiting]:
    rows = tx.all(f"DELETE FROM device_queue WHERE until <= $1 RETURNING {CALLS.columns}", now)
    gone = sorted(CALLS.read_all(rows), key=lambda one: one.number)
    for one in gone:
        call_log.ended(tx, one.tenant, one.number, EXPIRED, TOO_LATE, None)
    return gone


def count(tx: Tx, tenant: str, device: str) -> int:
    return number(tx, "SELECT COUNT(*) FROM device_queue WHERE tenant = $1 AND device = $2", tenant, device)


def counts(tx: Tx, tenant: str) -> dict[str, int]:
    """Return the number of queued calls by device."""
    rows = tx.all("SELECT device, COUNT(*) FROM device_queue WHERE tenant = $1 GROUP BY device", tenant)
    return {row[0]: row[1] for row in rows}


def forget(tx: Tx, tenant: str, device: str, outcome: str, message: str) -> None:
    """Delete the board's queued calls and log them with this outcome."""
    rows = tx.all("DELETE FROM device_queue WHERE tenant = $1 AND device = $2 RETURNING number", tenant, device)
    for (call,) in rows:
        call_log.ended(tx, tenant, call, outcome, message, None)
