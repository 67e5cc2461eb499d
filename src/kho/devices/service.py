"""The rules of boards: who is meant, whether it may, and what is told of it."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from kho.devices import codes, history, model, notifications, queue, results, store, toolsets
from kho.devices.aliases import aliases
from kho.devices.arguments import honest
from kho.devices.errors import NotApproved, UnknownCode, UnknownDevice
from kho.devices.events import Event, Events
from kho.devices.live import Live
from kho.devices.registrations import approve_code
from kho.devices.stated import normal
from kho.devices.store import Device
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock, iso

T = TypeVar("T")

ADMIN = "admin"
MOST_PENDING = 50
"""Boards without approval that a list shows."""
TIMEOUT = 10.0
"""Seconds for the database."""


class Service:
    def __init__(self, db: Database, clock: Clock, events: Events, live: Live, *, each: bool = False) -> None:
        """With `each`, models are offered every board's tools by themselves, under names that hold its id."""
        self._db = db
        self._clock = clock
        self._events = events
        self._live = live
        self._each = each

    async def devices(self, params: model.ListDevices, call: Call) -> results.Devices:
        [after] = paging.place(params.cursor, str) or ("",)

        admin = call.principal.allows(ADMIN)
        await self._live.sweep()

        def work(tx: Tx) -> tuple[list[results.Device], list[Device]]:
            now = self._clock()
            owners, counts = store.owners(tx, now), dict[str, int]()
            found, waiting = (
                store.page(tx, call.tenant, after, params.limit + 1, params.label),
                queue.counts(tx, call.tenant),
            )
            asking = store.asking_again(tx, call.tenant, now) if admin else set[str]()
            listed: list[results.Device] = []
            for one in found:
                if one.toolset and one.toolset not in counts:
                    counts[one.toolset] = len(store.tools(tx, call.tenant, one.toolset))
                shows_code = one.id in asking
                listed.append(shown(one, owners, counts.get(one.toolset), waiting.get(one.id, 0), shows_code))
            seen = admin and params.cursor is None and params.label is None
            return listed, store.pending(tx, call.tenant, now, MOST_PENDING) if seen else []

        listed, pending = await self._read(call, work)
        page = listed[: params.limit]
        more = paging.encode([page[-1].device]) if len(listed) > params.limit else None
        waiting = [shown(one, set(), None, 0) for one in pending]
        return results.Devices(devices=page, pending=waiting or None, next_cursor=more)

    async def tools(self, params: model.OfDevice, call: Call) -> results.Tools:
        await self._live.sweep()

        def work(tx: Tx) -> tuple[Device, set[str], Sequence[dict[str, object]]]:
            device = the_one(tx, call.tenant, params.device)
            return device, store.owners(tx, self._clock()), store.tools(tx, call.tenant, device.toolset)

        device, owners, kept = await self._read(call, work)
        listed = [
            results.Tool(
                name=tool.name,
                alias=alias,
                description=tool.description,
                input_schema=honest(tool),
                user_only=tool.user_only,
                warning=_warning(device, tool.name),
            )
            for alias, tool in aliases(toolsets.unpacked(kept), device.id if self._each else None).items()
            if not tool.user_only or call.principal.allows(ADMIN)
        ]
        about = shown(device, owners, None, 0)
        return results.Tools(
            device=device.id, label=about.label, status=about.status, as_of=about.last_seen, tools=listed
        )

    async def notifications(self, params: model.DeviceNotifications, call: Call) -> results.Notifications:
        before = paging.place(params.cursor, int, str, int)

        def work(tx: Tx) -> list[notifications.Said]:
            chosen = [one.id for one in named(tx, call.tenant, params.device)] if params.device else None
            return notifications.page(
                tx,
                call.tenant,
                devices=chosen,
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
        [before] = paging.place(params.cursor, int) or (None,)

        def work(tx: Tx) -> list[history.Entry]:
            return history.page(
                tx,
                call.tenant,
                devices=_ever_named(tx, call.tenant, params.device) if params.device else None,
                tool=params.tool,
                since=params.since,
                before=before,
                most=params.limit + 1,
            )

        rows = await self._read(call, work)
        page = rows[: params.limit]
        return results.Log(
            calls=[_entry(one) for one in page],
            next_cursor=paging.encode([page[-1].number]) if len(rows) > params.limit else None,
        )

    async def approve(self, params: model.ApproveDevice, call: Call) -> results.Changed:
        """By the code that a board shows; or anew, with its tools as they are now, by its id or label."""
        code = params.code.strip()
        guess = codes.is_code(code)
        if guess:
            await self._db.write(lambda tx: codes.count(tx, call.tenant, self._clock()))

        def work(tx: Tx) -> results.Changed:
            now = self._clock()
            device = approve_code(tx, call.tenant, code, call.principal.sub, now)
            if device is None:
                if not _known_as(tx, call.tenant, code):
                    raise UnknownCode(field="code")
                device = the_one(tx, call.tenant, code, field="code")
                store.forget_pending(tx, device.id, device.client)  # it need not show its code any more
                tools = toolsets.unpacked(store.tools(tx, call.tenant, device.toolset))
                store.approve(tx, call.tenant, device.id, call.principal.sub, now)
                baseline, *_ = toolsets.compared(tools, {}, {}, iso(now))
                store.set_baseline(tx, call.tenant, device.id, baseline)
            if params.label is not None:
                _set_label(tx, device, params.label)
            if guess:
                codes.was_right(tx, call.tenant)
            label = params.label if params.label is not None else device.label
            return results.Changed(device=device.id, status="approved", label=label or None)

        try:
            return await call.commit(self._db, work)
        except InvalidParams:  # what is wrong is the label: the code was right
            if guess:
                await self._db.write(lambda tx: codes.was_right(tx, call.tenant))
            raise

    async def revoke(self, params: model.OfDevice, call: Call) -> results.Changed:
        """Its tokens are refused from now on, its connection ends, and what waits for it is not carried out."""

        def work(tx: Tx) -> Device:
            device = the_one(tx, call.tenant, params.device)
            store.revoke(tx, call.tenant, device.id, self._clock())
            queue.forget(tx, call.tenant, device.id, NotApproved.code, "The device was revoked; it was not asked.")
            return device

        return await self._shut_out(call, work, "revoked")

    async def forget(self, params: model.OfDevice, call: Call) -> results.Changed:
        """As if it had never been there, but for the history of its calls. One that comes again is a new one."""

        def work(tx: Tx) -> Device:
            waiting = store.get(tx, store.PENDING, normal(params.device))
            if waiting is not None and not _known_as(tx, call.tenant, params.device):
                store.forget_pending(tx, waiting.id)
                return waiting
            device = the_one(tx, call.tenant, params.device)
            store.forget(tx, device)
            store.forget_pending(tx, device.id)
            queue.forget(tx, call.tenant, device.id, UnknownDevice.code, "The device was forgotten; it was not asked.")
            return device

        return await self._shut_out(call, work, "forgotten")

    async def _shut_out(
        self, call: Call, work: Callable[[Tx], Device], how: Literal["revoked", "forgotten"]
    ) -> results.Changed:
        found: list[Device] = []

        def noted(tx: Tx) -> results.Changed:
            found[:] = [work(tx)]
            return results.Changed(device=found[0].id, status=how, label=found[0].label or None)

        done = await call.commit(self._db, noted)
        for device in found:
            await self._live.drop(device, f"This device was {how}.")
            self._events.publish(call.tenant, Event("warning", device.id, self._clock(), {"message": how}))
        self._live.on_change()
        return done

    async def label(self, params: model.LabelDevice, call: Call) -> results.Changed:
        def work(tx: Tx) -> results.Changed:
            device = the_one(tx, call.tenant, params.device)
            _set_label(tx, device, params.label)
            return results.Changed(device=device.id, status="labelled", label=params.label or None)

        return await call.commit(self._db, work)

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self._db.read(work, timeout=call.remaining(TIMEOUT))


def named(tx: Tx, tenant: str, name: str) -> list[Device]:
    """The devices that a name stands for: an id, or else a label. Raises NotApproved for one that is pending."""
    found = _known_as(tx, tenant, name)
    if not found and store.get(tx, store.PENDING, normal(name)) is not None:
        raise NotApproved(f"The device '{name}' waits to be approved.", device=name)
    if not found:
        raise UnknownDevice(f"There is no device '{name}', by id or by label.", device=name)
    return found


def the_one(tx: Tx, tenant: str, name: str, field: str = "device") -> Device:
    found = named(tx, tenant, name)
    if len(found) > 1:
        ids = [one.id for one in found[:20]]
        raise InvalidParams(f"Several devices are labelled '{name}': name one of them.", field=field, devices=ids)
    return found[0]


def _known_as(tx: Tx, tenant: str, name: str) -> list[Device]:
    device, label = store.get(tx, tenant, normal(name)), model.plain_label(name)
    return [device] if device is not None else store.by_label(tx, tenant, label) if label else []


def _ever_named(tx: Tx, tenant: str, name: str) -> list[str]:
    """The ids that a name stands for. What a device did is known after it was forgotten, too."""
    if not _known_as(tx, tenant, name) and history.is_known(tx, tenant, normal(name)):
        return [normal(name)]
    return [one.id for one in named(tx, tenant, name)]


def _set_label(tx: Tx, device: Device, label: str) -> None:
    if label and store.get(tx, device.tenant, normal(label)) is not None:
        raise InvalidParams(f"'{label}' is a device's id: choose another label.", field="label")
    store.set_label(tx, device.tenant, device.id, label)


def shown(
    device: Device, owners: set[str], tools: int | None, waiting: int, shows_code: bool = False
) -> results.Device:
    status: results.Status = "connected" if device.owner in owners else "offline"
    if device.tenant == store.PENDING:
        status = "pending"
    elif not device.approved:
        status = "revoked"
    elif device.first_connected_at is None:
        status = "never_connected"
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
        shows_code=shows_code or None,
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
