"""What boards say of their own accord: told at once to whoever listens, kept for those who ask later, never answered.

A board may send faster than a database commits. So notifications wait in a bounded line and are stored many at a
time; what finds the line full is counted and dropped, as the oldest of each board are in the end. Other processes find
what was stored, and tell their own listeners.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import orjson

from kho.devices.calls.call_log import of_devices
from kho.devices.events import Event, Events
from kho.kernel.background import Background
from kho.kernel.capability import Announcements
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Row, Tx
from kho.lib.clock import SECOND, Clock, iso
from kho.lib.sql import Table, insert_many, marks, to_json

log = logging.getLogger("kho.devices")

MAX_KEPT = 1_000
"""Notifications of each board that are kept."""
MAX_WAITING = 5_000
"""Notifications that wait to be stored."""
BATCH = 500
MAX_METHOD = 200
"""Characters of a method's name that are kept."""
CHANGED_TOOL = "kho/tool_changed"
"""What Kho notes itself when a tool is not what was approved."""
SPEAKER = "kho.devices"
LOOK_EVERY = 2.0
"""Seconds between two looks at what other processes have stored."""
LATE = 10 * SECOND
MAX_PARAMS = 16 * 1024
"""Characters of parameters that are kept; longer ones are cut out."""


@dataclass(frozen=True, slots=True)
class Notification:
    device: str
    place: int
    method: str
    params: dict[str, Any] | None
    at: int


STORED = Table("device_notifications", Notification, json=("params",))


@dataclass(frozen=True, slots=True)
class _Waiting:
    tenant: str
    device: str
    method: str
    params: dict[str, Any] | None
    at: int


@dataclass(slots=True, kw_only=True)
class Notifications:
    db: Database
    background: Background
    clock: Clock
    events: Events
    announcements: Announcements
    process: str
    most_waiting: int = MAX_WAITING
    line: deque[_Waiting] = field(default_factory=deque[_Waiting])
    storing: bool = False
    heard: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    """What was told here of what other processes stored: when, by tenant, device and place."""
    since: int = 0
    dropped: int = 0

    def said(self, tenant: str, device: str, method: str, params: Any) -> None:
        """Called with whatever a board sends that is no answer."""
        params = _kept(params)
        method, at = _clean(method), self.clock()
        self.tell(tenant, device, method, params, at)
        if len(self.line) >= self.most_waiting:
            self.dropped += 1
            return
        self.line.append(_Waiting(tenant, device, method, params, at))
        if not self.storing:
            self.storing = True
            self.background.add(self._store)

    def tell(self, tenant: str, device: str, method: str, params: Any, at: int) -> None:
        """To those who listen in this process."""
        if method == CHANGED_TOOL:
            self.events.publish(tenant, Event("warning", device, at, params))
        else:
            self.events.publish(tenant, Event("notification", device, at, {"method": method, "params": params}))
        level = "warning" if method == CHANGED_TOOL else "info"
        what = {"device": device, "at": iso(at), "method": method, "params": params}
        self.announcements.tell(tenant, level, SPEAKER, what)

    async def run(self) -> None:
        """Works until the hub stops: tells here what boards of other processes say."""
        self.since = self.clock()
        await self.background.every(LOOK_EVERY, self.look, name="notifications of boards")

    async def look(self) -> None:
        now = self.clock()
        # Whoever commits last need not have begun last: a look goes a little further back than the one before.
        since = max(self.since, now - LATE)
        self.heard = {key: at for key, at in self.heard.items() if at >= since}
        for tenant, one in await self.db.read(lambda tx: elsewhere(tx, self.process, since, BATCH)):
            key = tenant, one.device, one.place
            if self.heard.get(key) != one.at:  # a board that was forgotten and came back counts from one again
                self.heard[key] = one.at
                self.tell(tenant, one.device, one.method, one.params, one.at)

    async def _store(self) -> None:
        try:
            while self.line:
                batch = [self.line.popleft() for _ in range(min(BATCH, len(self.line)))]
                try:
                    await self.db.write(lambda tx, batch=batch: _keep(tx, batch, self.process))
                except KhoError as problem:
                    self.dropped += len(batch)
                    log.warning("%d notifications of boards are lost: %s", len(batch), problem.message)
        finally:
            self.storing = False


def page(
    tx: Tx,
    tenant: str,
    *,
    devices: Sequence[str] | None,
    method: str | None,
    since: int | None,
    before: tuple[int, str, int] | None,
    most: int,
) -> list[Notification]:
    """The newest first; of all devices when `devices` is None."""
    condition, values = of_devices(devices, {"tenant =": tenant, "method =": method, "at >=": since})
    if before is not None:
        condition += f" AND (at, device, place) < ({marks(3, len(values) + 1)})"
        values += before
    rows = tx.all(
        f"SELECT {STORED.columns} FROM device_notifications WHERE {condition} "
        f"ORDER BY at DESC, device DESC, place DESC LIMIT ${len(values) + 1}",
        *values,
        most,
    )
    return [_read(row) for row in rows]


def elsewhere(tx: Tx, process: str, after: int, most: int) -> list[tuple[str, Notification]]:
    """What other processes have stored since, with its tenant; the oldest first."""
    rows = tx.all(
        f"SELECT tenant, {STORED.columns} FROM device_notifications WHERE at > $1 AND process <> $2 "
        "ORDER BY at, tenant, device, place LIMIT $3",
        after,
        process,
        most,
    )
    return [(tenant, _read(tuple(row))) for tenant, *row in rows]


def note(
    tx: Tx, tenant: str, device: str, method: str, params: Any, at: int, process: str, most: int = MAX_KEPT
) -> None:
    """One of Kho's own, in the transaction of what it tells of."""
    _keep(tx, [_Waiting(tenant, device, method, params, at)], process, most)


def _keep(tx: Tx, batch: Sequence[_Waiting], process: str, most: int = MAX_KEPT) -> None:
    by_device: dict[tuple[str, str], list[_Waiting]] = {}
    for one in batch:
        by_device.setdefault((one.tenant, one.device), []).append(one)
    for (tenant, device), said in sorted(by_device.items()):  # in one order everywhere: two processes cannot block
        row = tx.one(
            "UPDATE devices SET notified = notified + $1, last_seen = $2 WHERE tenant = $3 AND id = $4 "
            "RETURNING notified",
            len(said),
            said[-1].at,
            tenant,
            device,
        )
        if row is None:
            continue
        last = row[0]
        first = last - len(said) + 1
        rows = [
            {
                "tenant": tenant,
                "device": device,
                "place": place,
                "method": one.method,
                "params": to_json(one.params),
                "at": one.at,
                "process": process,
            }
            for place, one in enumerate(said, first)
        ]
        insert_many(tx, STORED.name, rows)
        tx.run(
            "DELETE FROM device_notifications WHERE tenant = $1 AND device = $2 AND place <= $3",
            tenant,
            device,
            last - most,
        )


def _object(params: Any) -> dict[str, Any] | None:
    """Anything else that a board sends is in it as `value`."""
    return cast(dict[str, Any], params) if params is None or isinstance(params, dict) else {"value": params}


def _kept(params: Any) -> dict[str, Any] | None:
    kept = _object(params)
    try:
        length = len(orjson.dumps(kept).decode())
    except orjson.JSONEncodeError:  # half a surrogate: firmware cuts texts wherever its buffer ends
        return {"unreadable": True}
    return kept if length <= MAX_PARAMS else {"cut": length}


def _clean(method: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in method[:MAX_METHOD])


def _read(row: Row) -> Notification:
    said = STORED.read(row)
    return replace(said, params=_object(said.params))  # as it is, in rows of earlier versions
