"""Calls tools of boards: resolves the targets, checks the arguments, executes, logs. Nothing is sent to a board before
its checks pass."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any, cast

from cachetools import LRUCache

from kho.devices import errors, markdown, model, store
from kho.devices.calls import arguments, call_log, outcomes, queue
from kho.devices.calls.outcomes import CallOutcome
from kho.devices.calls.queue import Queue, Waiting, reason_of
from kho.devices.connections.boards import ConnectedBoards
from kho.devices.contract import CALL, DEVICES, SOME, is_admin
from kho.devices.directory import TIMEOUT, named
from kho.devices.events import Event, Events
from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.store import Device
from kho.devices.tools.aliases import find
from kho.kernel import Call, Command, Conflict, Database, Hint, InvalidParams, KhoError, Op, Tx, UniqueViolation
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass

log = logging.getLogger("kho.devices")

AT_ONCE = 32
"""Maximum boards of a call that are called concurrently."""
MAX_TOOLSETS = 256
"""Maximum cached toolsets."""


@dataclass(frozen=True, slots=True)
class _Target:
    """One target of a call: a board, or the problem with its name."""

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
    queue: Queue
    read_only_tools: frozenset[str] = frozenset()
    """Tools that change nothing: calls of them are not audited."""
    toolsets: LRUCache[tuple[str, str], tuple[BoardTool, ...]] = field(default_factory=lambda: LRUCache(MAX_TOOLSETS))
    """By tenant and content digest, so entries never become stale."""
    running: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """Requests in progress: tenant and request id."""

    @DEVICES.write(
        "device_call",
        title="Call a board's tool",
        toolset="default",
        explained=("device", "queue_for"),
        scope=CALL,
        cli=Command(
            "devices call",
            positional=("device", "tool"),
            pairs="arguments",
            without_hub=errors.DeviceOffline.code,
            reads=True,
        ),
        example={**SOME, "tool": "self.screen.set_theme", "arguments": {"theme": "dark"}},
        text=markdown.called,
        open_world=True,
        failed_in_part=model.Called.failed_somewhere,
    )
    async def call(self, params: model.DeviceCall, call: Call) -> model.Called:
        """Call a tool of one device or of several.

        Make a board do something: call one of its tools on one board, on several, or on all with a label. device_tools
        shows the tools.
        """
        # Refuse an identical request while the first one runs: a board cannot undo what it did.
        request = call.tenant, call.request_id
        if call.receipt is not None and request in self.running:
            raise Conflict("This request is already in progress.", guidance="Send it again to get its answer.")
        self.running.add(request)
        try:
            return await self._call(params, call)
        finally:
            self.running.discard(request)

    async def _call(self, params: model.DeviceCall, call: Call, *, as_tool: bool = False) -> Any:
        """Call the boards. `as_tool`: the call came through a board's tool that the hub offers as its own, so answer as
        the board did."""
        targets = await self.db.read(lambda tx: self._targets(tx, call.tenant, params.device), timeout=TIMEOUT)
        turns = asyncio.Semaphore(AT_ONCE)

        async def on_one(target: _Target) -> CallOutcome:
            async with turns:
                return await self._on_one(target, params, call)

        done: list[CallOutcome] = list(await asyncio.gather(*map(on_one, targets)))
        if as_tool:
            done = [replace(one, problem=errors.at_board_tool(one.problem)) if one.problem else one for one in done]
        several = isinstance(params.device, list) or len(done) > 1
        return outcomes.for_door(await self._told(done, several, params, call), done, call, structured=not as_tool)

    async def on_tool(self, tool: str, which: str, device: str | None, given: Mapping[str, Any], call: Call) -> Any:
        """Run a board's tool that the hub offers as its own; the argument named `which` selects the boards."""
        try:
            return await self._on_tool(tool, which, device, given, call)
        except KhoError as problem:
            raise errors.at_board_tool(problem) from None

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
        return await self._call(params, call, as_tool=True)

    def _targets(self, tx: Tx, tenant: str, chosen: str | list[str]) -> list[_Target]:
        """Return each board once, in the order named. An unknown name in a list is a problem of that entry; a single
        unknown name fails the call."""
        found: dict[str, _Target] = {}
        for name in [chosen] if isinstance(chosen, str) else chosen:
            try:
                boards = named(tx, tenant, name)
            except (errors.UnknownDevice, errors.NotApproved) as problem:
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
            found = store.tools(tx, tenant, digest)
            if found:
                self.toolsets[tenant, digest] = found
        return found

    async def _only(self, tool: str, which: str, call: Call) -> str:
        """Return the only connected board that has the tool."""

        def work(tx: Tx) -> list[str]:
            having: dict[str, bool] = {}
            found: list[str] = []
            for one in store.connected(tx, call.tenant, self.clock(), model.MOST_DEVICES):
                if one.toolset not in having:
                    its = find(tool, self._tools(tx, call.tenant, one.toolset), one.id)
                    having[one.toolset] = its is not None and (not its.user_only or is_admin(call))
                if having[one.toolset]:
                    found.append(one.id)
            return found

        found = await self.db.read(work, timeout=TIMEOUT)
        if not found:
            raise errors.DeviceOffline("No device that has this tool is connected.", tool=tool)
        if len(found) > 1:
            raise InvalidParams(
                f"Several devices have this tool: say which with '{which}'.", field=which, devices=found[:20]
            )
        return found[0]

    async def _on_one(self, target: _Target, params: model.DeviceCall, call: Call) -> CallOutcome:
        named, given, queue_for = params.tool, dict[str, Any](params.arguments or {}), params.queue_for
        timeout = call.remaining(params.timeout)
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
                raise errors.BoardRefused(reason_of(result) or None, guidance=errors.ANSWERED)
            done = replace(done, result=result)
        except KhoError as problem:
            # A call that may have been executed already is not queued.
            unheard = isinstance(problem, errors.DeviceOffline) and not isinstance(problem, errors.BoardGone)
            if unheard and queue_for is not None:
                done = replace(done, queued=True)
            else:
                done = replace(done, problem=problem if queue_for is None else errors.not_kept(problem))
        return replace(done, ms=None if done.queued else round((time.perf_counter() - started) * 1000))

    async def _told(
        self, done: Sequence[CallOutcome], several: bool, params: model.DeviceCall, call: Call
    ) -> model.Called:
        """Log and audit the outcomes and build the answer. With a single board, its failure is raised."""
        now = self.clock()
        until = now + (params.queue_for or 0)

        def work(tx: Tx) -> model.Called:
            told, heard = list[model.DeviceOutcome](), dict[str, dict[str, Any]]()
            for one in done:
                if one.queued and queue.count(tx, call.tenant, one.device) >= self.queue.most:
                    one = replace(one, queued=False, problem=self._full())
                number = call_log.add(tx, call.tenant, outcomes.line(one, call, now))
                if one.queued:
                    waiting = Waiting(call.tenant, number, one.device, one.tool, one.arguments, params.timeout)
                    queue.add(tx, waiting, until)
                told.append(outcomes.outcome(one, number, until))
                if one.heard and one.tool not in self.read_only_tools:
                    heard[one.device] = {"tool": one.tool, "outcome": one.outcome, "call": number}
            if heard:
                (first, details), *others = heard.items()
                call.audit(tx, first, at=now, also=others, **details)
            return outcomes.called(done[0].tool, told, several)

        if not several and (problem := done[0].problem) is not None:
            try:
                await self.db.write(work)
            except KhoError as unfiled:
                log.warning("a call of a board could not be logged: %s", unfiled.message)
            self._tell(done, call)
            raise problem
        try:
            called = await call.commit(self.db, work)
        except UniqueViolation:  # an identical request was faster; its answer is returned
            raise
        except KhoError as problem:
            if all(one.queued for one in done):
                raise
            # The boards have executed it: an error would wrongly say that nothing was changed.
            log.warning("calls of boards could not be logged: %s", problem.message)
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
                self.queue.deliver(call.tenant, one.device, self.live.carry)  # the board came back meanwhile

    def _full(self) -> errors.DeviceBusy:
        return errors.DeviceBusy(f"{self.queue.most} calls wait for this device already.")


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
        raise errors.UnknownDevice(device=target.device)
    if not board.approved:
        raise errors.NotApproved(
            "The device was revoked.", device=board.id, guidance=f"Approve it again: kho devices approve {board.id}"
        )
    if not target.tools and not board.toolset and not board.owner:
        raise errors.DeviceOffline(
            "The device has never been connected, so its tools are not known.",
            device=board.id,
            guidance=Hint("Wake the board up, and call again once ", Op("devices_list"), " says that it is connected."),
        )
    if not target.tools and not board.toolset:
        raise errors.DeviceBusy("The tools of the device are not known yet. Call again in a moment.", device=board.id)
    visible = [tool for tool in target.tools if not tool.user_only or is_admin(call)]
    meant = find(named, target.tools, board.id)
    if meant is None:
        raise errors.UnknownDeviceTool(named, errors.close(named, [tool.name for tool in visible]), device=board.id)
    if meant.user_only and not is_admin(call):
        raise errors.UserOnlyTool(tool=meant.name, device=board.id)
    return board, meant
