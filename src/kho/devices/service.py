"""The rules of boards: who is meant, whether it may, and what is told of it."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from kho.devices import history, model, notifications, queue, results, store, toolsets
from kho.devices.aliases import Table
from kho.devices.arguments import honest
from kho.devices.errors import NotApproved, UnknownCode, UnknownDevice
from kho.devices.events import Event, Events
from kho.devices.live import Live
from kho.devices.registrations import approve_code
from kho.devices.stated import normal
from kho.devices.store import Device
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.clock import Clock, iso
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Database, Tx

T = TypeVar("T")

ADMIN = "admin"
MOST_PENDING = 50
"""Boards without approval that a list shows."""
TIMEOUT = 10.0
"""Seconds for the database."""


class Service:
    def __init__(self, db: Database, clock: Clock, events: Events, live: Live) -> None:
        self._db = db
        self._clock = clock
        self._events = events
        self._live = live

    async def devices(self, params: model.ListDevices, call: Call) -> results.Devices:
        after = _after(params.cursor)

        def work(tx: Tx) -> tuple[list[results.Device], list[Device]]:
            owners, counts = store.owners(tx, self._clock()), dict[str, int]()
            found, waiting = (
                store.page(tx, call.tenant, after, params.limit + 1, params.label),
                queue.counts(tx, call.tenant),
            )
            listed: list[results.Device] = []
            for one in found:
                if one.toolset and one.toolset not in counts:
                    counts[one.toolset] = len(store.tools(tx, call.tenant, one.toolset))
                listed.append(shown(one, owners, counts.get(one.toolset), waiting.get(one.id, 0)))
            seen = call.principal.allows(ADMIN) and params.cursor is None
            return listed, store.pending(tx, self._clock(), MOST_PENDING) if seen else []

        listed, pending = await self._read(call, work)
        page = listed[: params.limit]
        more = paging.encode(page[-1].device) if len(listed) > params.limit else None
        waiting = [shown(one, set(), None, 0) for one in pending]
        return results.Devices(devices=page, pending=waiting or None, next_cursor=more)

    async def tools(self, params: model.DeviceTools, call: Call) -> results.Tools:
        def work(tx: Tx) -> tuple[Device, set[str], Sequence[dict[str, object]]]:
            device = the_one(tx, call.tenant, params.device)
            return device, store.owners(tx, self._clock()), store.tools(tx, call.tenant, device.toolset)

        device, owners, kept = await self._read(call, work)
        visible = [one for one in toolsets.unpacked(kept) if not one.user_only or call.principal.allows(ADMIN)]
        listed = [
            results.Tool(
                name=exposed.tool.name,
                alias=exposed.alias,
                description=exposed.tool.description,
                input_schema=honest(exposed.tool.schema),
                user_only=exposed.tool.user_only,
                warning=_warning(device, exposed.tool.name),
            )
            for exposed in Table({device.id: visible}).exposed
        ]
        about = shown(device, owners, None, 0)
        return results.Tools(
            device=device.id, label=about.label, status=about.status, as_of=about.last_seen, tools=listed
        )

    async def notifications(self, params: model.DeviceNotifications, call: Call) -> results.Notifications:
        before = _before(params.cursor)

        def work(tx: Tx) -> list[notifications.Said]:
            device = the_one(tx, call.tenant, params.device).id if params.device else None
            return notifications.page(
                tx,
                call.tenant,
                device=device,
                method=params.method,
                since=params.since,
                before=before,
                most=params.limit + 1,
            )

        rows = await self._read(call, work)
        page = rows[: params.limit]
        more = paging.encode([page[-1].at, page[-1].device, page[-1].place]) if len(rows) > params.limit else None
        return results.Notifications(
            notifications=[
                results.Notification(device=one.device, at=iso(one.at), method=one.method, params=one.params)
                for one in page
            ],
            next_cursor=more,
        )

    async def log(self, params: model.DeviceLog, call: Call) -> results.Log:
        before = _number(params.cursor)

        def work(tx: Tx) -> list[history.Entry]:
            device = the_one(tx, call.tenant, params.device).id if params.device else None
            return history.page(
                tx,
                call.tenant,
                device=device,
                tool=params.tool,
                since=params.since,
                before=before,
                most=params.limit + 1,
            )

        rows = await self._read(call, work)
        page = rows[: params.limit]
        return results.Log(
            calls=[_entry(one) for one in page],
            next_cursor=paging.encode(page[-1].number) if len(rows) > params.limit else None,
        )

    async def approve(self, params: model.ApproveDevice, call: Call) -> results.Changed:
        """By the code that a board shows; or anew, with its tools as they are now, by its id."""

        def work(tx: Tx) -> results.Changed:
            now, code = self._clock(), params.code.strip()
            device = approve_code(tx, call.tenant, code, call.principal.sub, now)
            if device is None:
                device = store.get(tx, call.tenant, normal(code))
                if device is None:
                    raise UnknownCode(field="code")
                tools = toolsets.unpacked(store.tools(tx, call.tenant, device.toolset))
                store.approve(tx, call.tenant, device.id, call.principal.sub, now)
                baseline, *_ = toolsets.compared(tools, {}, {}, iso(now))
                store.set_baseline(tx, call.tenant, device.id, baseline)
            if params.label is not None:
                store.set_label(tx, call.tenant, device.id, params.label)
            label = params.label if params.label is not None else device.label
            return results.Changed(device=device.id, status="approved", label=label or None)

        return await call.commit(self._db, work)

    async def revoke(self, params: model.OfDevice, call: Call) -> results.Changed:
        """Its tokens are refused from now on, its connection ends, and what waits for it is not carried out."""
        found: list[Device] = []

        def work(tx: Tx) -> results.Changed:
            found.clear()
            device = the_one(tx, call.tenant, params.device)
            found.append(device)
            store.revoke(tx, call.tenant, device.id, self._clock())
            queue.forget(tx, call.tenant, device.id, NotApproved.code, "The device was revoked; it was not asked.")
            return results.Changed(device=device.id, status="revoked", label=device.label or None)

        done = await call.commit(self._db, work)
        for device in found:
            await self._live.drop(device, "This device was revoked.")
            self._events.publish(call.tenant, Event("warning", device.id, self._clock(), {"message": "revoked"}))
        self._live.on_change()
        return done

    async def label(self, params: model.LabelDevice, call: Call) -> results.Changed:
        def work(tx: Tx) -> results.Changed:
            device = the_one(tx, call.tenant, params.device)
            store.set_label(tx, call.tenant, device.id, params.label)
            return results.Changed(device=device.id, status="labelled", label=params.label or None)

        return await call.commit(self._db, work)

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self._db.read(work, timeout=call.remaining(TIMEOUT))


def named(tx: Tx, tenant: str, name: str) -> list[Device]:
    """The devices that a name stands for: an id, or else a label. None of them pending."""
    device = store.get(tx, tenant, normal(name))
    found = [device] if device is not None else store.by_label(tx, tenant, model.plain_label(name))
    if not found:
        raise UnknownDevice(f"There is no device '{name}', by id or by label.", device=name)
    return found


def the_one(tx: Tx, tenant: str, name: str) -> Device:
    found = named(tx, tenant, name)
    if len(found) > 1:
        ids = [one.id for one in found[:20]]
        raise InvalidParams(f"Several devices are labelled '{name}': name one of them.", field="device", devices=ids)
    return found[0]


def shown(device: Device, owners: set[str], tools: int | None, waiting: int) -> results.Device:
    status: results.Status = "connected" if device.owner in owners else "offline"
    if device.tenant == store.PENDING:
        status = "pending"
    elif not device.approved:
        status = "revoked"
    about = {name: str(value) for name, value in device.info.items() if isinstance(value, str) and value}
    connected = device.connected_at if status == "connected" else None
    return results.Device(
        device=device.id,
        label=device.label or None,
        status=status,
        name=about.get("name") or about.get("board"),
        version=about.get("version") or about.get("firmware"),
        transport=about.get("transport") if status == "connected" else None,
        connected_since=None if connected is None else iso(connected),
        last_seen=iso(device.last_seen),
        approved_at=None if device.approved_at is None else iso(device.approved_at),
        tools=tools,
        changed_tools=sorted(device.warnings) or None,
        queued_calls=waiting or None,
    )


def _warning(device: Device, tool: str) -> results.Change | None:
    found = device.warnings.get(tool)
    return None if found is None else results.Change(changed=found["changed"], since=found["since"])


def _entry(one: history.Entry) -> results.Entry:
    return results.Entry(
        call=one.number,
        at=iso(one.at),
        device=one.device,
        tool=one.tool,
        arguments=one.arguments,
        caller=one.caller,
        door=one.door,
        outcome=one.outcome,
        message=one.message,
        ms=one.ms,
        request_id=one.request_id,
    )


def _after(cursor: str | None) -> str:
    if cursor is None:
        return ""
    match paging.decode(cursor):
        case str(id):
            return id
        case _:
            raise paging.foreign()


def _before(cursor: str | None) -> tuple[int, str, int] | None:
    if cursor is None:
        return None
    match paging.decode(cursor):
        case [int(at), str(device), int(place)]:
            return at, device, place
        case _:
            raise paging.foreign()


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    match paging.decode(cursor):
        case int(number):
            return number
        case _:
            raise paging.foreign()
