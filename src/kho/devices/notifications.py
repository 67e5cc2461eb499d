"""Notifications from boards: published to listeners at once, stored for later reads, never answered.

A board may send faster than a database commits. So notifications wait in a bounded queue and are stored in batches;
when the queue is full they are counted and dropped. Of each board only the newest are kept. Other processes poll for
what was stored and notify their own listeners.
"""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, cast

import orjson

from kho.devices.calls.call_log import of_devices
from kho.devices.events import Event, Events
from kho.kernel import Announcements, Background, Database, KhoError, Tx
from kho.lib.clock import SECOND, Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, insert_many, marks, to_json
from kho.lib.tenancy import for_all_tenants

log = logging.getLogger("kho.devices")

MAX_KEPT = 1_000
"""Maximum notifications kept per board."""
MAX_WAITING = 5_000
"""Maximum notifications waiting to be stored."""
BATCH = 500
MAX_METHOD = 200
"""Maximum characters kept of a method's name."""
CHANGED_TOOL = "kho/tool_changed"
"""Method of Kho's own notification that a tool changed since it was approved."""
SPEAKER = "kho.devices"
LOOK_EVERY = 2.0
"""Seconds between polls for notifications that other processes stored."""
LATE = 10 * SECOND
MAX_PARAMS = 16 * 1024
"""Maximum characters of params; longer ones are replaced by their length."""


@dataclass(frozen=True, slots=True)
class Notification:
    tenant: str
    device: str
    place: int
    """Number among the board's notifications; 0 until it is stored."""
    method: str
    params: dict[str, Any] | None
    at: int


STORED = Table("device_notifications", Notification, json=("params",))


@dataclass(slots=True, kw_only=True)
class Notifications:
    db: Database
    background: Background
    clock: Clock
    events: Events
    announcements: Announcements
    process: str
    most_waiting: int = MAX_WAITING
    line: deque[Notification] = field(default_factory=deque[Notification])
    storing: bool = False
    heard: dict[tuple[str, str, int], int] = field(default_factory=dict[tuple[str, str, int], int])
    """Notifications of other processes that were already published here: time by tenant, device and place."""
    since: int = 0
    dropped: int = 0

    def said(self, tenant: str, device: str, method: str, params: Any) -> None:
        """Publish and queue a notification of a board."""
        said = Notification(tenant, device, 0, _clean(method), _kept(params), self.clock())
        self.tell(said)
        if len(self.line) >= self.most_waiting:
            self.dropped += 1
            return
        self.line.append(said)
        if not self.storing:
            self.storing = True
            self.background.add(for_all_tenants(self._store))

    def tell(self, said: Notification) -> None:
        """Notify listeners in this process."""
        what = {"method": said.method, "params": said.params}
        if said.method == CHANGED_TOOL:
            event, level = Event("warning", said.device, said.at, said.params or {}), "warning"
        else:
            event, level = Event("notification", said.device, said.at, what), "info"
        self.events.publish(said.tenant, event)
        self.announcements.tell(said.tenant, level, SPEAKER, {"device": said.device, "at": iso(said.at), **what})

    async def run(self) -> None:
        """Publish notifications of other processes' boards until the hub stops."""
        self.since = self.clock()
        await self.background.every(LOOK_EVERY, self.look, name="notifications of boards")

    async def look(self) -> None:
        now = self.clock()
        # Commits may be out of order, so each poll looks back further (LATE) than the previous poll.
        since = max(self.since, now - LATE)
        self.heard = {key: at for key, at in self.heard.items() if at >= since}
        for one in await self.db.read(lambda tx: elsewhere(tx, self.process, since, BATCH)):
            key = one.tenant, one.device, one.place
            if self.heard.get(key) != one.at:  # a board that was forgotten and came back counts from one again
                self.heard[key] = one.at
                self.tell(one)

    async def _store(self) -> None:
        try:
            while self.line:
                batch = [self.line.popleft() for _ in range(min(BATCH, len(self.line)))]
                try:
                    await self.db.write(lambda tx, batch=batch: keep(tx, batch, self.process))
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
    """Return a page, the newest first. `devices` None means all devices."""
    condition, values = of_devices(devices, {"tenant =": tenant, "method =": method, "at >=": since})
    if before is not None:
        condition += f" AND (at, device, place) < ({marks(3, len(values) + 1)})"
        values += before
    newest_first = f"{condition} ORDER BY at DESC, device DESC, place DESC LIMIT ${len(values) + 1}"
    return [_as_object(said) for said in STORED.all(tx, newest_first, *values, most)]


def elsewhere(tx: Tx, process: str, after: int, most: int) -> list[Notification]:
    """Return what other processes stored since `after`, the oldest first."""
    oldest_first = "at > $1 AND process <> $2 ORDER BY at, tenant, device, place LIMIT $3"
    return [_as_object(said) for said in STORED.all(tx, oldest_first, after, process, most)]


def keep(tx: Tx, batch: Sequence[Notification], process: str, most: int = MAX_KEPT) -> None:
    """Store notifications of known boards under the next numbers of each, and delete its oldest beyond `most`."""
    by_device: dict[tuple[str, str], list[Notification]] = {}
    for one in batch:
        by_device.setdefault((one.tenant, one.device), []).append(one)
    for (tenant, device), said in sorted(by_device.items()):  # in a fixed order, so that two processes cannot deadlock
        sql = (
            "UPDATE devices SET notified = notified + $1, last_seen = $2 WHERE tenant = $3 AND id = $4 "
            "RETURNING notified"
        )
        row = tx.one(sql, len(said), said[-1].at, tenant, device)
        if row is None:
            continue
        last = row[0]
        rows = [
            {**STORED.write(replace(one, place=place)), "params": to_json(one.params), "process": process}
            for place, one in enumerate(said, last - len(said) + 1)
        ]
        insert_many(tx, STORED.name, rows)
        sql = "DELETE FROM device_notifications WHERE tenant = $1 AND device = $2 AND place <= $3"
        tx.run(sql, tenant, device, last - most)


def _object(params: Any) -> dict[str, Any] | None:
    """Wrap params that are not an object as {"value": …}."""
    return cast(dict[str, Any], params) if params is None or isinstance(params, dict) else {"value": params}


def _kept(params: Any) -> dict[str, Any] | None:
    kept = _object(params)
    try:
        length = len(orjson.dumps(kept).decode())
    except orjson.JSONEncodeError:  # half a surrogate pair: firmware cuts texts where its buffer ends
        return {"unreadable": True}
    return kept if length <= MAX_PARAMS else {"cut": length}


def _clean(method: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in method[:MAX_METHOD])


def _as_object(said: Notification) -> Notification:
    return replace(said, params=_object(said.params))  # rows of earlier versions may hold other values
