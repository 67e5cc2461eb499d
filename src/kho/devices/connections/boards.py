"""Boards connected to this process, and the lease that tells other processes about them.

A board's row names the process that holds its connection, as long as that process renews its lease. The newest
connection of a board wins, whichever process it came to. A process whose lease expires is removed by the others; if it
comes back, it reclaims its boards, unless they have connected elsewhere.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from kho.devices import notifications, store
from kho.devices.calls.queue import Queue, waiting
from kho.devices.connections import forwarding_postgres
from kho.devices.connections.connection import REPLACED, SEND_TIMEOUT, SHUT_OUT, BoardConnection, Wire
from kho.devices.connections.forwarding import Forwarding, told
from kho.devices.connections.frame_pace import FramePace
from kho.devices.errors import DeviceOffline, NotApproved
from kho.devices.events import Event, Events, Kind
from kho.devices.notifications import CHANGED_TOOL, Notification, Notifications
from kho.devices.protocol.session import Session
from kho.devices.protocol.session_events import CallResult, Notified
from kho.devices.store import Device, Owner
from kho.devices.tools import toolsets
from kho.kernel import Background, Database, KhoError, Tx
from kho.lib.clock import SECOND, Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants, in_tenant

log = logging.getLogger("kho.devices")

LEASE = 20 * SECOND
BEAT = 5.0
SLACK = 5.0
"""Seconds allowed for the way between two processes."""


@dataclass(frozen=True, slots=True)
class _Held:
    link: BoardConnection
    connection: str


@dataclass(slots=True, kw_only=True)
class ConnectedBoards:
    db: Database
    background: Background
    clock: Clock
    events: Events
    notifications: Notifications
    queue: Queue
    forwarding: Forwarding
    process: str
    send_timeout: float = SEND_TIMEOUT
    frames: int = 0
    """Frames of a board that are read in a second; 0 for all that come."""
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    on_change: Callable[[], None] = lambda: None
    """Called when the boards' tools may have changed."""
    boards: dict[tuple[str, str], _Held] = field(default_factory=dict[tuple[str, str], _Held])
    address: str | None = None
    opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    closing: bool = False

    def attach(self, tenant: str, device: str, wire: Wire, session: Session) -> BoardConnection:
        """Create the connection object of a board. Call `connected` before passing it the first frame."""

        async def notified(link: BoardConnection, what: Notified) -> None:
            if self.find(tenant, device) is link:
                self.notifications.said(tenant, device, what.method, what.params)

        return BoardConnection(
            device=device,
            wire=wire,
            session=session,
            send_timeout=self.send_timeout,
            pace=FramePace(self.frames, pause=self.pause),
            on_ready=lambda link: self.ready(tenant, device, link),
            on_notified=notified,
            on_closed=lambda link, reason: self.disconnected(tenant, device, link, reason),
        )

    async def connected(self, tenant: str, device: str, link: BoardConnection) -> None:
        """Register the connection; replaces and closes an older one of the board. Raises NotApproved."""
        held, key = _Held(link, uuid.uuid4().hex), (tenant, device)
        await self.reachable()

        def work(tx: Tx) -> tuple[Device, Owner | None]:
            known = store.get(tx, tenant, device)
            if known is None or not known.approved:
                raise NotApproved(device=device)
            store.held(tx, tenant, device, self.process, held.connection, self.clock())
            elsewhere = known.owner not in ("", self.process)
            return known, store.owner(tx, known.owner, self.clock()) if elsewhere else None

        with in_tenant(tenant):
            known, owner = await self.db.write(work)
        before, self.boards[key] = self.boards.get(key), held
        if before is not None:
            log.info("%s is gone: %s", device, REPLACED)
            self._tell(tenant, device, "disconnected", {"reason": REPLACED})
            await before.link.close(REPLACED)
        if owner is not None:
            self.background.add(partial(self._drop_elsewhere, owner, known))
        self._tell(tenant, device, "connected", {"transport": link.wire.name})
        log.info("%s is connected over %s", device, link.wire.name)
        if link.closed:  # the connection ended before it was registered
            await self.disconnected(tenant, device, link)

    async def disconnected(self, tenant: str, device: str, link: BoardConnection, reason: str = "") -> None:
        key = tenant, device
        held = self.boards.get(key)
        if held is None or held.link is not link:
            return
        del self.boards[key]
        log.info("%s is gone: %s", device, reason or "its connection ended")
        self._tell(tenant, device, "disconnected", {"reason": reason} if reason else {})
        try:
            with in_tenant(tenant):
                await self.db.write(lambda tx: store.let_go(tx, tenant, device, held.connection, self.clock()))
        except KhoError as problem:  # the row expires with the lease
            log.warning("%s is gone, which could not be noted: %s", device, problem.message)
        self.on_change()

    async def ready(self, tenant: str, device: str, link: BoardConnection) -> None:
        """Store the tools that the board listed, and deliver queued calls. May be called repeatedly."""
        if self.find(tenant, device) is not link:
            return
        info = link.info
        about = {"transport": link.wire.name}
        if info is not None:
            about |= {"name": info.name, "version": info.version, "protocol": info.protocol}
        kept = toolsets.packed(link.tools)
        digest = toolsets.digest(kept)

        now = self.clock()

        def work(tx: Tx) -> tuple[bool, list[Notification]]:
            known = store.get(tx, tenant, device)
            if known is None:
                return False, []
            baseline, marked, fresh = toolsets.compared(
                link.tools, store.baseline(tx, tenant, device), known.warnings, iso(now)
            )
            known = replace(known, info={**known.info, **about})
            store.set_tools(tx, known, digest, kept, baseline, marked, now)
            warned = [_warning(name, marked[name]["changed"]) for name in fresh]
            warnings = [Notification(tenant, device, 0, CHANGED_TOOL, what, now) for what in warned]
            notifications.keep(tx, warnings, self.process)
            return known.toolset != digest, warnings

        with in_tenant(tenant):
            changed, warnings = await self.db.write(work)
        for one in warnings:
            self.notifications.tell(one)
            log.warning("%s: %s", device, (one.params or {})["message"])
        if changed:
            self._tell(tenant, device, "tools_changed", {"tools": len(kept)})
        self.on_change()
        self.queue.deliver(tenant, device, self.carry)

    def find(self, tenant: str, device: str) -> BoardConnection | None:
        held = self.boards.get((tenant, device))
        return None if held is None else held.link

    @property
    def count(self) -> int:
        return len(self.boards)

    # -- calls --------------------------------------------------------------------------------------------------------

    async def carry(self, tenant: str, device: str, tool: str, arguments: dict[str, Any], timeout: float) -> CallResult:
        """Call a tool on a board of this process."""
        link = self.find(tenant, device)
        if link is None:
            raise DeviceOffline(device=device)
        return await link.call(tool, arguments, timeout)

    async def call(self, device: Device, tool: str, arguments: dict[str, Any], timeout: float) -> CallResult:
        """Call a tool on a board, forwarding to the process that holds it. Never retried."""
        if self.find(device.tenant, device.id) is not None:
            return await self.carry(device.tenant, device.id, tool, arguments, timeout)
        owner = await self._owner(device)
        if owner is None:
            raise DeviceOffline(since=iso(device.last_seen), device=device.id)
        asked = {
            "do": "call",
            "tenant": device.tenant,
            "device": device.id,
            "tool": tool,
            "arguments": arguments,
            "timeout": timeout,
        }
        answer = await self.forwarding.ask(owner, asked, timeout + SLACK)
        return CallResult(answer["content"], answer["is_error"])

    async def drop(self, device: Device, reason: str) -> None:
        """Close the board's connection, whichever process holds it."""
        link = self.find(device.tenant, device.id)
        if link is not None:
            await link.close(reason, SHUT_OUT)
            await self.disconnected(device.tenant, device.id, link, reason)
        elif (owner := await self._owner(device)) is not None:
            await self._drop_elsewhere(owner, device, reason)

    async def answer(self, message: dict[str, Any]) -> dict[str, Any]:
        """Answer a forwarded request of another process."""
        match message:
            case {
                "do": "call",
                "tenant": str(tenant),
                "device": str(device),
                "tool": str(tool),
                "arguments": dict(),
                "timeout": float() | int() as timeout,
            }:
                try:
                    found = await self.carry(tenant, device, tool, cast(dict[str, Any], message["arguments"]), timeout)
                except KhoError as error:
                    return told(error)
                return {"result": {"content": found.content, "is_error": found.is_error}}
            case {"do": "drop", "tenant": str(tenant), "device": str(device), "connection": str(connection)}:
                held = self.boards.get((tenant, device))
                if held is not None and held.connection == connection:
                    reason = message.get("reason")
                    await held.link.close(*((reason, SHUT_OUT) if isinstance(reason, str) else (REPLACED, 1000)))
                return {"result": {}}
            case _:
                return told(KhoError("This process does not understand the other one: both must be of one version."))

    async def _owner(self, device: Device) -> Owner | None:
        if device.owner in ("", self.process):
            return None
        return await self.db.read(lambda tx: store.owner(tx, device.owner, self.clock()))

    async def _drop_elsewhere(self, owner: Owner, device: Device, reason: str | None = None) -> None:
        """Ask the process to close the connection. Without a reason, it was replaced by one here."""
        message = {"do": "drop", "tenant": device.tenant, "device": device.id, "connection": device.connection}
        if reason is not None:
            message["reason"] = reason
        with suppress(KhoError):  # the process is gone, or will notice at its next lease check
            await self.forwarding.ask(owner, message, SLACK)

    # -- the lease ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Renew this process's lease, and remove processes that are gone, until the hub stops."""
        await self.background.every(BEAT, self._step, name="boards")

    async def _step(self) -> None:
        await self.beat()
        await self.sweep()
        await self.queue.expire()
        await self._deliver_waiting()

    async def _deliver_waiting(self) -> None:
        """Deliver calls that were queued at the moment their board came back."""
        if self.boards:
            for tenant, device in await self.db.read(lambda tx: waiting(tx, self.process)):
                link = self.find(tenant, device)
                if link is not None and link.session.state == "ready":
                    self.queue.deliver(tenant, device, self.carry)

    async def beat(self) -> None:
        address = await self._reached()
        if address is None:
            return
        boards, now = dict(self.boards), self.clock()

        def work(tx: Tx) -> list[tuple[str, str]]:
            forwarding_postgres.sweep(tx, now)
            if store.beat(tx, self.process, address, now + LEASE):
                return []
            store.arrive(tx, self.process, address, now + LEASE)
            return [
                key
                for key, held in boards.items()
                if not store.held_again(tx, *key, self.process, held.connection, now)
            ]

        with in_all_tenants():
            replaced = await self.db.write(work)
        for key in replaced:
            await boards[key].link.close(REPLACED)

    async def _reached(self) -> str | None:
        """Return the address at which other processes reach this one, reopened if needed, as after a long sleep; None
        if it is not open."""
        async with self.opening:
            if self.address is None or self.closing:
                return None
            try:
                self.address = await self.forwarding.open(self.answer)
            except OSError as problem:
                log.warning("boards: other processes do not reach this one: %s", problem)
            return self.address

    async def sweep(self) -> None:
        """Remove processes whose lease expired, and those that certainly ended. A process that is only silent keeps its
        socket: it may have been asleep and come back. If this process was removed itself, it registers again."""
        now = self.clock()
        owners = await self.db.read(store.every_owner)
        if not any(one.process == self.process and one.until > now for one in owners):
            await self.beat()
        others = [one for one in owners if one.process != self.process]
        gone = [one for one in others if await self.forwarding.is_gone(one)]
        dead = {one.process for one in gone}
        if not dead and all(one.until > now for one in others):
            return

        def work(tx: Tx) -> None:
            for one in store.every_owner(tx):
                if one.process in dead or (one.until <= now and one.process != self.process):
                    store.leave(tx, one.process, now)

        with in_all_tenants():  # a process holds boards of all of them
            await self.db.write(work)
        _clear_away(gone)
        self.on_change()

    async def close(self) -> None:
        """Close every connection of this process."""
        self.closing = True
        boards = list(self.boards.values())
        self.boards.clear()  # released together by `store.leave` below
        await asyncio.gather(*(_ended(held.link) for held in boards))
        async with self.opening:
            await self.forwarding.close()
        if self.address is not None:
            self.address = None
            try:
                with in_all_tenants():
                    await self.db.write(lambda tx: store.leave(tx, self.process, self.clock()))
            except KhoError as problem:  # other processes notice when the lease expires
                log.warning("boards could not be released: %s", problem.message)

    async def reachable(self) -> None:
        """Make this process reachable for others and start its lease."""
        if self.closing:
            raise DeviceOffline("The hub stops.")
        if self.address is not None:
            return
        async with self.opening:
            if self.address is None:
                address = await self.forwarding.open(self.answer)
                until = self.clock() + LEASE
                await self.db.write(lambda tx: store.arrive(tx, self.process, address, until))
                self.address = address

    def _tell(self, tenant: str, device: str, kind: Kind, data: dict[str, Any]) -> None:
        self.events.publish(tenant, Event(kind, device, self.clock(), data))


def _warning(tool: str, changed: list[str]) -> dict[str, Any]:
    message = f"The tool {tool} is not what was approved: its {' and '.join(changed)} changed."
    return {"tool": tool, "changed": changed, "message": message}


async def _ended(link: BoardConnection) -> None:
    await link.close("The hub stops.", 1001)
    await link.settled()


def _clear_away(gone: list[Owner]) -> None:
    """Delete the sockets that killed processes left behind."""
    for owner in gone:
        if owner.address.endswith(".sock"):
            with suppress(OSError):
                Path(owner.address).unlink()
