"""Calls of boards' tools: who is meant, what fits, what came of it. Nothing is sent before all of it is in order."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from cachetools import LRUCache

from kho.devices import markdown, model, results, store
from kho.devices.calls import arguments, call_log, outcomes, queue
from kho.devices.calls.outcomes import CallOutcome
from kho.devices.calls.queue import Queue, Waiting, reason_of
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.contract import ADMIN, CALL, DEVICES, SOME
from kho.devices.errors import (
    ANSWERED,
    BoardGone,
    BoardRefused,
    DeviceBusy,
    DeviceOffline,
    NotApproved,
    UnknownDevice,
    UnknownDeviceTool,
    UserOnlyTool,
    at_board_tool,
    close,
    not_kept,
)
from kho.devices.events import Event, Events
from kho.devices.management import TIMEOUT, named
from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.store import Device
from kho.devices.tools import toolsets
from kho.devices.tools.aliases import find
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import Conflict, InvalidParams, KhoError, UniqueViolation
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock

log = logging.getLogger("kho.devices")

AT_ONCE = 32
"""Boards of one call that are asked at a time."""
MAX_TOOLSETS = 256
"""Lists of tools that are kept at hand."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One board of a call, or why it is none."""

    device: str
    board: Device | None = None
    tools: tuple[BoardTool, ...] = ()
    problem: KhoError | None = None


@dataclass(slots=True, kw_only=True)
class DeviceCalls:
    db: Database
    clock: Clock
    events: Events
    live: ConnectedBoards
    waiting: Queue
    toolsets: LRUCache[tuple[str, str], tuple[BoardTool, ...]] = field(default_factory=lambda: LRUCache(MAX_TOOLSETS))
    """By tenant and digest, which says what is in them: they cannot become stale."""
    running: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Requests that are being carried out, by tenant."""

    @DEVICES.write(
        "device_call",
        scope=CALL,
        cli=Command("devices call", positional=("device", "tool"), reads=True),
        example={**SOME, "tool": "self.screen.set_theme", "arguments": {"theme": "dark"}},
        text=markdown.called,
        open_world=True,
        failed_in_part=results.Called.failed_somewhere,
    )
    async def call(self, params: model.DeviceCall, call: Call) -> results.Called:
        """Call a tool of one device or of several.

        Call a tool that device_tools shows, on one device, on a list of them, or on all with a label; then each has an
        entry in results. Arguments are checked before anything is sent. With queue_for a call waits for a device that
        is offline; device_log says what became of it.
        """
        # A board cannot take back what it did: an equal request that is sent while the first one runs is refused.
        request = call.tenant, call.request_id
        if call.receipt is not None and request in self.running:
            raise Conflict("This request is already in progress.", guidance="Send it again to get its answer.")
        self.running.add(request)
        try:
            return await self._call(params, call)
        finally:
            self.running.discard(request)

    async def _call(self, params: model.DeviceCall, call: Call) -> Any:
        targets = await self.db.read(lambda tx: self._targets(tx, call.tenant, params.device), timeout=TIMEOUT)
        done = await self._on_all(targets, params.tool, params.arguments or {}, params.timeout, params.queue_for, call)
        several = isinstance(params.device, list) or len(done) > 1
        return outcomes.for_door(await self._told(done, several, params, call), done, call, structured=True)

    async def on_tool(self, tool: str, which: str, device: str | None, given: Mapping[str, Any], call: Call) -> Any:
        """A board's tool that the hub offers as its own: one of the arguments says which boards are meant."""
        try:
            return await self._on_tool(tool, which, device, given, call)
        except KhoError as problem:
            raise at_board_tool(problem) from None

    async def _on_tool(self, tool: str, which: str, device: str | None, given: Mapping[str, Any], call: Call) -> Any:
        given = dict(given)
        chosen = device if device is not None else given.pop(which, None)
        if chosen is None:
            chosen = await self._only(tool, which, call)
        if not _names_devices(chosen):
            raise InvalidParams(
                f"'{which}' must be a device's id, a list of ids, or a label ({model.MOST_DEVICES} at most).",
                field=which,
            )
        params = model.DeviceCall.model_construct(device=chosen, tool=tool, arguments=given)
        targets = await self.db.read(lambda tx: self._targets(tx, call.tenant, params.device), timeout=TIMEOUT)
        done = await self._on_all(targets, tool, params.arguments or {}, params.timeout, None, call)
        done = [replace(one, problem=at_board_tool(one.problem)) if one.problem else one for one in done]
        several = isinstance(params.device, list) or len(done) > 1
        return outcomes.for_door(await self._told(done, several, params, call), done, call, structured=False)

    def _targets(self, tx: Tx, tenant: str, chosen: str | list[str]) -> list[_Target]:
        """Each board once, in the order in which they were named. In a list, a name that fits none is that entry's
        problem; alone, it is everybody's."""
        found: dict[str, _Target] = {}
        for name in [chosen] if isinstance(chosen, str) else chosen:
            try:
                boards = named(tx, tenant, name)
            except (UnknownDevice, NotApproved) as problem:
                if isinstance(chosen, str):
                    raise
                found[name] = _Target(name, problem=problem)
                continue
            found |= {board.id: _Target(board.id, board, self._tools(tx, tenant, board.toolset)) for board in boards}
        if len(found) > model.MOST_DEVICES:
            raise InvalidParams(f"These are {len(found)} devices; {model.MOST_DEVICES} at most.", field="device")
        return list(found.values())

    def _tools(self, tx: Tx, tenant: str, digest: str) -> tuple[BoardTool, ...]:
        found = self.toolsets.get((tenant, digest))
        if found is None:
            found = toolsets.unpacked(store.tools(tx, tenant, digest))
            if found:
                self.toolsets[tenant, digest] = found
        return found

    async def _only(self, tool: str, which: str, call: Call) -> str:
        """The one connected board that has the tool."""

        def work(tx: Tx) -> list[str]:
            having: dict[str, bool] = {}
            found: list[str] = []
            for one in store.connected(tx, call.tenant, self.clock(), model.MOST_DEVICES):
                if one.toolset not in having:
                    its = find(tool, self._tools(tx, call.tenant, one.toolset), one.id)
                    having[one.toolset] = its is not None and (not its.user_only or call.principal.allows(ADMIN))
                if having[one.toolset]:
                    found.append(one.id)
            return found

        found = await self.db.read(work, timeout=TIMEOUT)
        if not found:
            raise DeviceOffline("No device that has this tool is connected.", tool=tool)
        if len(found) > 1:
            raise InvalidParams(
                f"Several devices have this tool: say which with '{which}'.", field=which, devices=found[:20]
            )
        return found[0]

    async def _on_all(
        self,
        targets: Sequence[_Target],
        tool: str,
        given: dict[str, Any],
        timeout: float,
        queue_for: int | None,
        call: Call,
    ) -> list[CallOutcome]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def one(target: _Target) -> CallOutcome:
            async with turns:
                return await self._on_one(target, tool, given, call.remaining(timeout), queue_for, call)

        return list(await asyncio.gather(*(one(target) for target in targets)))

    async def _on_one(
        self,
        target: _Target,
        named: str,
        given: dict[str, Any],
        timeout: float,
        queue_for: int | None,
        call: Call,
    ) -> CallOutcome:
        try:
            board, tool = _allowed(target, named, call)
        except KhoError as problem:
            return CallOutcome(target.device, named, given, problem=problem)
        try:
            fitting = arguments.check(arguments.honest(tool), given)
        except KhoError as problem:
            return CallOutcome(board.id, tool.name, given, problem=problem)
        done = CallOutcome(board.id, tool.name, fitting)
        started = time.perf_counter()
        try:
            result = await self.live.call(board, tool.name, fitting, timeout)
            if result.is_error:
                raise BoardRefused(reason_of(result) or None, guidance=ANSWERED)
            done = replace(done, result=result)
        except KhoError as problem:
            # One that may have been carried out already is not kept for later.
            unheard = isinstance(problem, DeviceOffline) and not isinstance(problem, BoardGone)
            if unheard and queue_for is not None:
                done = replace(done, queued=True)
            else:
                done = replace(done, problem=problem if queue_for is None else not_kept(problem))
        return replace(done, ms=None if done.queued else round((time.perf_counter() - started) * 1000))

    async def _told(
        self, done: Sequence[CallOutcome], several: bool, params: model.DeviceCall, call: Call
    ) -> results.Called:
        """Files what was done, and says it. Of one board a failure is the answer's failure."""
        now = self.clock()
        until = now + (params.queue_for or 0)

        def work(tx: Tx) -> results.Called:
            told, heard = list[results.Outcome](), dict[str, dict[str, Any]]()
            for one in done:
                if one.queued and queue.count(tx, call.tenant, one.device) >= self.waiting.most:
                    one = replace(one, queued=False, problem=self._full())
                number = call_log.add(tx, call.tenant, outcomes.line(one, call, now))
                if one.queued:
                    waiting = Waiting(call.tenant, number, one.device, one.tool, one.arguments, params.timeout)
                    queue.add(tx, waiting, until)
                told.append(outcomes.outcome(one, number, until))
                if one.heard:
                    heard[one.device] = {"tool": one.tool, "outcome": one.outcome, "call": number}
            if heard:
                (first, details), *others = heard.items()
                call.audit(tx, first, at=now, also=others, **details)
            return outcomes.called(done[0].tool, told, several)

        if not several and (problem := done[0].problem) is not None:
            await self._file(work)
            self._tell(done, call)
            raise problem
        try:
            called = await call.commit(self.db, work)
        except UniqueViolation:  # an equal request was faster; its answer is the answer
            raise
        except KhoError as problem:
            if all(one.queued for one in done):
                raise
            # The boards have done it: to say that nothing was changed would be wrong.
            log.warning("calls of boards could not be filed: %s", problem.message)
            called = outcomes.called(done[0].tool, [outcomes.outcome(one, None, until) for one in done], several)
        self._tell(done, call)
        if not several and called.status == "failed":
            raise self._full()
        return called

    def _tell(self, done: Sequence[CallOutcome], call: Call) -> None:
        for one in done:
            data = {"tool": one.tool, "outcome": one.outcome, "caller": call.principal.sub, "ms": one.ms}
            self.events.publish(call.tenant, Event("call", one.device, self.clock(), data))
            if one.queued and self.live.find(call.tenant, one.device) is not None:
                self.waiting.deliver(call.tenant, one.device, self.live.carry)  # it came back meanwhile

    def _full(self) -> DeviceBusy:
        return DeviceBusy(f"{self.waiting.most} calls wait for this device already.")

    async def _file(self, work: Any) -> None:
        try:
            await self.db.write(work)
        except KhoError as problem:
            log.warning("a call of a board could not be filed: %s", problem.message)


def _names_devices(chosen: Any) -> bool:
    if isinstance(chosen, list):
        names = cast(list[Any], chosen)
        return 1 <= len(names) <= model.MOST_DEVICES and all(isinstance(one, str) and one for one in names)
    return isinstance(chosen, str) and chosen != ""


def _allowed(target: _Target, named: str, call: Call) -> tuple[Device, BoardTool]:
    if target.problem is not None:
        raise target.problem
    board = target.board
    if board is None:
        raise UnknownDevice(device=target.device)
    if not board.approved:
        raise NotApproved(
            "The device was revoked.", device=board.id, guidance=f"Approve it again: kho devices approve {board.id}"
        )
    if not target.tools and not board.toolset and not board.owner:
        raise DeviceOffline(
            "The device has never been connected, so nobody knows what it can do.",
            device=board.id,
            guidance="Wake the board up, and call again once 'devices_list' says that it is connected.",
        )
    if not target.tools and not board.toolset:
        raise DeviceBusy("The device has not said yet what it can do. Call again in a moment.", device=board.id)
    visible = [tool for tool in target.tools if not tool.user_only or call.principal.allows(ADMIN)]
    meant = find(named, target.tools, board.id)
    if meant is None:
        raise UnknownDeviceTool(named, close(named, [tool.name for tool in visible]), device=board.id)
    if meant.user_only and not call.principal.allows(ADMIN):
        raise UserOnlyTool(tool=meant.name, device=board.id)
    return board, meant
