"""Operations on boards: notifications, call log, labels, approval, revocation."""

from collections.abc import Callable
from dataclasses import field
from typing import Literal

from kho.devices import markdown, model, notifications, store
from kho.devices.calls import call_log, queue
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.contract import ADMIN, DEVICES, SOME
from kho.devices.directory import TIMEOUT, known_as, named, the_one
from kho.devices.errors import NotApproved, UnknownCode, UnknownDevice
from kho.devices.events import Event, Events
from kho.devices.pairing import rate_limits
from kho.devices.pairing.headers import normal
from kho.devices.pairing.registrations import approve_code
from kho.devices.store import Device
from kho.devices.tools import toolsets
from kho.kernel import Call, Command, Database, InvalidParams, Tx, paging
from kho.kernel.limits.quotas import QuotaReached, Quotas, no_quotas
from kho.lib.clock import Clock, iso
from kho.lib.dataclass import dataclass


@dataclass(slots=True, kw_only=True)
class Management:
    db: Database
    clock: Clock
    events: Events
    live: ConnectedBoards
    quotas: Quotas = field(default_factory=no_quotas)

    @DEVICES.read(
        "device_notifications",
        cli=Command("devices notifications", positional=("device",)),
        example={"limit": 20},
        text=markdown.notifications,
    )
    async def notifications(self, params: model.DeviceNotifications, call: Call) -> model.NotificationList:
        """What devices said of their own accord, the newest first.

        Use it to see what boards reported by themselves, such as a pressed button; the newest first.
        """
        before = paging.place(params.cursor, int, str, int)

        def work(tx: Tx) -> list[notifications.Notification]:
            return notifications.page(
                tx,
                call.tenant,
                devices=[one.id for one in named(tx, call.tenant, params.device)] if params.device else None,
                method=params.method,
                since=params.since,
                before=before,
                most=params.limit + 1,
            )

        rows = await self.db.read(work, timeout=call.remaining(TIMEOUT))
        page, more = paging.cut(rows, params.limit, lambda one: [one.at, one.device, one.place])
        return model.NotificationList.model_validate({"notifications": page, "next_cursor": more})

    @DEVICES.read(
        "device_log",
        cli=Command("devices log", positional=("device",)),
        example={"limit": 20},
        text=markdown.log,
    )
    async def log(self, params: model.DeviceLog, call: Call) -> model.CallLog:
        """Calls of devices' tools: by whom, and what came of them; the newest first.

        Use it to see what became of calls of boards' tools, queued ones too: who called, and the result; the newest
        first.
        """
        [before] = paging.place(params.cursor, int) or (None,)

        def work(tx: Tx) -> list[call_log.LoggedCall]:
            return call_log.page(
                tx,
                call.tenant,
                devices=_ever_named(tx, call.tenant, params.device) if params.device else None,
                tool=params.tool,
                since=params.since,
                before=before,
                most=params.limit + 1,
            )

        rows = await self.db.read(work, timeout=call.remaining(TIMEOUT))
        page, more = paging.cut(rows, params.limit, lambda one: [one.call])
        return model.CallLog.model_validate({"calls": page, "next_cursor": more})

    @DEVICES.write(
        "device_label",
        title="Label a device",
        cli=Command("devices label", positional=("device", "label"), sentence=True, reads=True),
        example={**SOME, "label": "living room"},
        text=markdown.changed,
    )
    async def label(self, params: model.LabelDevice, call: Call) -> model.DeviceChange:
        """Give a device a name, or a label that it shares with others.

        Use it when the user names a board or a group of boards: sets its label, which device_call then takes.
        """

        def work(tx: Tx) -> model.DeviceChange:
            device = the_one(tx, call.tenant, params.device)
            if _set_label(tx, device, params.label):
                call.audit(tx, device.id, at=self.clock(), label=params.label)
            return model.DeviceChange(device=device.id, status="labelled", label=params.label or None)

        return await call.commit(self.db, work)

    @ADMIN.write(
        "device_approve",
        cli=Command("devices approve", positional=("code",), reads=True),
        example={"code": "123456", "label": "kitchen"},
        text=markdown.changed,
    )
    async def approve(self, params: model.ApproveDevice, call: Call) -> model.DeviceChange:
        """Let a new board in by the code that it shows, or approve a device again."""
        code = params.code.strip()
        guess = rate_limits.is_code(code)
        if guess:
            await self.db.write(lambda tx: rate_limits.count(tx, call.tenant, self.clock()))

        def work(tx: Tx) -> model.DeviceChange:
            now = self.clock()
            device = approve_code(tx, call.tenant, code, call.principal.sub, now)
            if device is None:
                if not known_as(tx, call.tenant, code):
                    raise UnknownCode(field="code")
                device = the_one(tx, call.tenant, code, field="code")
                store.forget_pending(tx, device.id, device.client)  # its pending code is no longer needed
                tools = store.tools(tx, call.tenant, device.toolset)
                store.approve(tx, call.tenant, device.id, call.principal.sub, now)
                baseline, *_ = toolsets.compared(tools, {}, {}, iso(now))
                store.set_baseline(tx, call.tenant, device.id, baseline)
            self.quotas.need(
                tx, "boards", call.tenant, lambda: store.approved_count(tx, call.tenant), by_key=call.shared
            )
            if params.label is not None:
                _set_label(tx, device, params.label)
            if guess:
                rate_limits.was_right(tx, call.tenant)
            label = params.label if params.label is not None else device.label
            call.audit(tx, device.id, at=now, label=label)
            return model.DeviceChange(device=device.id, status="approved", label=label or None)

        try:
            return await call.commit(self.db, work)
        except (InvalidParams, QuotaReached):  # but the code was right: do not count it as a guess
            if guess:
                await self.db.write(lambda tx: rate_limits.was_right(tx, call.tenant))
            raise

    @ADMIN.destroy(
        "device_revoke",
        cli=Command(
            "devices revoke",
            positional=("device",),
            asks="The board is blocked until you approve it again, and waiting calls are dropped.",
            reads=True,
        ),
        example=SOME,
        text=markdown.changed,
    )
    async def revoke(self, params: model.ShutOutDevice, call: Call) -> model.DeviceChange:
        """Shut a device out: its connection ends and its credentials are void."""

        def work(tx: Tx) -> Device:
            device = the_one(tx, call.tenant, params.device)
            store.revoke(tx, call.tenant, device.id, self.clock())
            queue.forget(
                tx, call.tenant, device.id, NotApproved.code, "The device was revoked; the call was not executed."
            )
            return device

        return await self._shut_out(call, work, "revoked", params.reason)

    @ADMIN.destroy(
        "device_forget",
        cli=Command(
            "devices forget",
            positional=("device",),
            asks="The board's label, tools and notifications are deleted, and waiting calls are dropped.",
            reads=True,
        ),
        example=SOME,
        text=markdown.changed,
    )
    async def forget(self, params: model.ShutOutDevice, call: Call) -> model.DeviceChange:
        """Forget a device, or a board that waits to be approved. The log of its calls stays."""

        def work(tx: Tx) -> Device:
            waiting = store.waiting_for(tx, call.tenant, normal(params.device))
            if waiting is not None and not known_as(tx, call.tenant, params.device):
                store.forget_pending(tx, waiting.id)
                return waiting
            device = the_one(tx, call.tenant, params.device)
            store.forget(tx, device)
            store.forget_pending(tx, device.id)
            queue.forget(
                tx, call.tenant, device.id, UnknownDevice.code, "The device was forgotten; the call was not executed."
            )
            return device

        return await self._shut_out(call, work, "forgotten", params.reason)

    async def _shut_out(
        self, call: Call, work: Callable[[Tx], Device], how: Literal["revoked", "forgotten"], reason: str
    ) -> model.DeviceChange:
        """Commit `work`, then close the board's connection and notify listeners."""

        def audited(tx: Tx) -> tuple[model.DeviceChange, Device]:
            device = work(tx)
            if how == "forgotten" or device.revoked_at is None:
                call.audit(tx, device.id, at=self.clock(), reason=reason, label=device.label)
            return model.DeviceChange(device=device.id, status=how, label=device.label or None), device

        changed, device = await call.commit_with(self.db, audited)
        await self.live.drop(device, f"This device was {how}.")
        self.events.publish(call.tenant, Event("warning", device.id, self.clock(), {"message": how}))
        self.live.on_change()
        return changed


def _ever_named(tx: Tx, tenant: str, name: str) -> list[str]:
    """Return the ids that a name means, also of a forgotten device that is still in the log."""
    if not known_as(tx, tenant, name) and call_log.is_known(tx, tenant, normal(name)):
        return [normal(name)]
    return [one.id for one in named(tx, tenant, name)]


def _set_label(tx: Tx, device: Device, label: str) -> bool:
    if label and store.get(tx, device.tenant, normal(label)) is not None:
        raise InvalidParams(f"'{label}' is a device's id: choose another label.", field="label")
    return store.set_label(tx, device.tenant, device.id, label)
