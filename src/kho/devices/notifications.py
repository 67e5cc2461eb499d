"""What boards say of their own accord: told at once to whoever listens, kept for those who ask later, never answered.

A board may send faster than a database commits. So notifications wait in a bounded line and are stored many at a
time; what finds the line full is counted and dropped, as the oldest of each board are in the end. Other processes find
what was stored, and tell their own listeners.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from kho.devices.events import Event, Events
from kho.devices.history import one_of
from kho.kernel.background import Background
from kho.kernel.capability import Announcements
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Row, Tx, Value
from kho.lib.clock import SECOND, Clock, iso

log = logging.getLogger("kho.devices")

KEPT = 1_000
"""Of each board."""
LINE = 5_000
"""That wait to be stored."""
BATCH = 500
METHOD = 200
"""Characters of a method's name that are kept."""
CHANGED_TOOL = "kho/tool_changed"
"""What Kho notes itself when a tool is not what was approved."""
SPEAKER = "kho.devices"
LOOK = 2.0
"""Seconds between two looks at what other processes have stored."""
LATE = 10 * SECOND
PARAMS = 16 * 1024
"""Bytes of parameters that are kept; longer ones are cut out."""
_COLUMNS = "device, place, method, params, at"


@dataclass(frozen=True, slots=True)
class Said:
    device: str
    place: int
    method: str
    params: dict[str, Any] | None
    at: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    tenant: str
    device: str
    method: str
    params: str
    at: int


class Notifications:
    def __init__(
        self,
        db: Database,
        background: Background,
        clock: Clock,
        events: Events,
        announcements: Announcements,
        process: str,
    ) -> None:
        self._db = db
        self._background = background
        self._clock = clock
        self._events = events
        self._announcements = announcements
        self._process = process
        self._line: deque[_Waiting] = deque()
        self._storing = False
        self._heard: dict[tuple[str, str, int], int] = {}
        self._since = 0
        self.dropped = 0

    def said(self, tenant: str, device: str, method: str, params: Any) -> None:
        """Called with whatever a board sends that is no answer."""
        params, text = _kept(params)
        method, at = _clean(method), self._clock()
        self.tell(tenant, device, method, params, at)
        if len(self._line) >= LINE:
            self.dropped += 1
            return
        self._line.append(_Waiting(tenant, device, method, text, at))
        if not self._storing:
            self._storing = True
            self._background.add(self._store)

    def tell(self, tenant: str, device: str, method: str, params: Any, at: int) -> None:
        """To those who listen in this process."""
        if method == CHANGED_TOOL:
            self._events.publish(tenant, Event("warning", device, at, params))
        else:
            self._events.publish(tenant, Event("notification", device, at, {"method": method, "params": params}))
        level = "warning" if method == CHANGED_TOOL else "info"
        what = {"device": device, "at": iso(at), "method": method, "params": params}
        self._announcements.tell(tenant, level, SPEAKER, what)

    async def run(self) -> None:
        """Works until the hub stops: tells here what boards of other processes say."""
        self._since = self._clock()
        while not self._background.stopping:
            await self._background.pause(LOOK)
            try:
                await self.look()
            except KhoError as problem:
                log.warning("notifications of boards: the database is away: %s", problem.message)

    async def look(self) -> None:
        now = self._clock()
        # Whoever commits last need not have begun last: a look goes a little further back than the one before.
        since = max(self._since, now - LATE)
        self._heard = {key: at for key, at in self._heard.items() if at >= since}
        for tenant, one in await self._db.read(lambda tx: elsewhere(tx, self._process, since, BATCH)):
            key = tenant, one.device, one.place
            if self._heard.get(key) != one.at:  # a board that was forgotten and came back counts from one again
                self._heard[key] = one.at
                self.tell(tenant, one.device, one.method, one.params, one.at)

    async def _store(self) -> None:
        try:
            while self._line:
                batch = [self._line.popleft() for _ in range(min(BATCH, len(self._line)))]
                try:
                    await self._db.write(lambda tx, batch=batch: _keep(tx, batch, self._process))
                except KhoError as problem:
                    self.dropped += len(batch)
                    log.warning("%d notifications of boards are lost: %s", len(batch), problem.message)
        finally:
            self._storing = False


def page(
    tx: Tx,
    tenant: str,
    *,
    devices: Sequence[str] | None,
    method: str | None,
    since: int | None,
    before: tuple[int, str, int] | None,
    most: int,
) -> list[Said]:
    """The newest first; of all devices when `devices` is None."""
    conditions, values = ["tenant = $1"], list[Value]([tenant])
    for condition, value in (("method =", method), ("at >=", since)):
        if value is not None:
            values.append(value)
            conditions.append(f"{condition} ${len(values)}")
    if devices is not None:
        conditions.append(one_of("device", devices, values))
    if before is not None:
        first = len(values) + 1
        conditions.append(f"(at, device, place) < (${first}, ${first + 1}, ${first + 2})")
        values += before
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM device_notifications WHERE {' AND '.join(conditions)} "
        f"ORDER BY at DESC, device DESC, place DESC LIMIT ${len(values) + 1}",
        *values,
        most,
    )
    return [_said(row) for row in rows]


def elsewhere(tx: Tx, process: str, after: int, most: int) -> list[tuple[str, Said]]:
    """What other processes have stored since, with its tenant; the oldest first."""
    rows = tx.all(
        f"SELECT tenant, {_COLUMNS} FROM device_notifications WHERE at > $1 AND process <> $2 "
        "ORDER BY at, tenant, device, place LIMIT $3",
        after,
        process,
        most,
    )
    return [(tenant, _said(tuple(row))) for tenant, *row in rows]


def note(tx: Tx, tenant: str, device: str, method: str, params: Any, at: int, process: str) -> None:
    """One of Kho's own, in the transaction of what it tells of."""
    _keep(tx, [_Waiting(tenant, device, method, orjson.dumps(params).decode(), at)], process)


def _keep(tx: Tx, batch: Sequence[_Waiting], process: str) -> None:
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
        tx.many(
            "INSERT INTO device_notifications (tenant, device, place, method, params, at, process) "
            "VALUES ($1, $2, $3, $4, $5, $6, $7)",
            [(tenant, device, first + i, one.method, one.params, one.at, process) for i, one in enumerate(said)],
        )
        tx.run(
            "DELETE FROM device_notifications WHERE tenant = $1 AND device = $2 AND place <= $3",
            tenant,
            device,
            last - KEPT,
        )


def _object(params: Any) -> dict[str, Any] | None:
    """Anything else that a board sends is in it as `value`."""
    return cast(dict[str, Any], params) if params is None or isinstance(params, dict) else {"value": params}


def _kept(params: Any) -> tuple[dict[str, Any] | None, str]:
    kept = _object(params)
    try:
        text = orjson.dumps(kept).decode()
    except orjson.JSONEncodeError:  # half a surrogate: firmware cuts texts wherever its buffer ends
        kept, text = {"unreadable": True}, '{"unreadable":true}'
    if len(text) > PARAMS:
        kept = {"cut": len(text)}
        text = orjson.dumps(kept).decode()
    return kept, text


def _clean(method: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in method[:METHOD])


def _said(row: Row) -> Said:
    device, place, method, params, at = row
    return Said(device, place, method, _object(orjson.loads(params)), at)  # as it is, in rows of earlier versions
