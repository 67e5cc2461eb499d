"""Access control for everything but calls: decides what each caller sees, reads and is notified of.

`Registry.call` checks calls. This checks the rest: lists of tools and prompts, resources with their templates and
completions, list-changed notifications, announcements, pages and streams. Doors get what is left after the check;
neither doors nor slices check a scope themselves.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from kho.kernel.access import ADMIN, Access, Open, Scope, names
from kho.kernel.call import Call, Principal, Rights
from kho.kernel.capability import (
    Announcements,
    Capability,
    Changes,
    Level,
    Prompt,
    Resource,
    ResourceContent,
    ResourceProvider,
)
from kho.kernel.errors import Forbidden, ReadOnly
from kho.kernel.limits.limiter import Limiter
from kho.kernel.operation import Operation
from kho.kernel.searchable import Searchable
from kho.kernel.vocabulary import Kind
from kho.kernel.web import Page, Served, Socket, WebReply, WebRequest
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_no_tenant, in_tenant


class Scoped(Protocol):
    @property
    def scope(self) -> Access: ...


class ChangeListener(Protocol):
    """Receives events at once. They are already filtered to what its principal may see."""

    def tools_changed(self, changed: Sequence[Operation]) -> None:
        """These came or went."""
        ...

    def resources_changed(self, uri: str | None) -> None:
        """The list of resources changed, or with `uri` the content of one."""
        ...

    def announced(self, level: Level, speaker: str, what: Any) -> None: ...


T = TypeVar("T", bound=Scoped)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Walls:
    """Between a caller and what a slice serves beside operations: it is done for the tenant of the call, in its turn
    and within its time."""

    limiter: Limiter | None

    async def inside(self, call: Call, work: Callable[[], Awaitable[R]]) -> R:
        with in_tenant(call.tenant):
            return await (work() if self.limiter is None else self.limiter.serve(call.principal, work))

    def around(self, prompt: Prompt) -> Prompt:
        async def render(arguments: dict[str, str], call: Call) -> Any:
            return await self.inside(call, lambda: prompt.render(arguments, call))

        return replace(prompt, render=render)


@dataclass(frozen=True, slots=True)
class _Walled:
    """Resources inside the walls (`ResourceProvider`)."""

    provider: ResourceProvider
    walls: _Walls

    @property
    def scope(self) -> Scope:
        return self.provider.scope

    @property
    def templates(self) -> Sequence[Resource]:
        return self.provider.templates

    async def page(self, call: Call, cursor: str | None) -> tuple[Sequence[Resource], str | None]:
        return await self.walls.inside(call, lambda: self.provider.page(call, cursor))

    async def read(self, call: Call, uri: str) -> ResourceContent | None:
        return await self.walls.inside(call, lambda: self.provider.read(call, uri))

    async def complete(self, call: Call, uri: str, argument: str, value: str) -> Sequence[str]:
        return await self.walls.inside(call, lambda: self.provider.complete(call, uri, argument, value))


class Checkpoint:
    def __init__(
        self, capabilities: Sequence[Capability], *, read_only: bool = False, limiter: Limiter | None = None
    ) -> None:
        """`read_only`: nobody may change anything in this hub."""
        self._walls = _Walls(limiter)
        self._capabilities = capabilities
        self._read_only = read_only
        self._listeners: dict[str, list[tuple[Principal, ChangeListener]]] = {}
        """By tenant."""
        self._owners = {served.path: one.name for one in capabilities for served in one.web}
        self._narrowed = lru_cache(maxsize=256)(self._narrow)  # many callers, few combinations of scopes
        for capability in capabilities:
            _need_scopes(capability)
            if capability.resource_changes is not None:
                capability.resource_changes.subscribe(
                    partial(self._resources_changed, capability.name, capability.resource_changes)
                )
            if capability.announcements is not None:
                announcements = capability.announcements
                announcements.subscribe(partial(self._announced, capability.name, announcements))
            for source in capability.sources:
                source.subscribe(self._tools_changed)
        self._offered = self._offers()

    def visible(self, principal: Principal) -> Sequence[Capability]:
        """Return every capability, without the parts that the caller may not use."""
        return self.visible_with(principal.rights)

    def visible_with(self, rights: Rights) -> Sequence[Capability]:
        return self._narrowed(rights)

    def need(self, call: Call, operation: Operation, command: str = "") -> None:
        """Raise Forbidden if the caller may not run the operation. `command` does the same on the hub's machine."""
        if self._read_only and operation.effect != "read" and not operation.hands_on:
            raise ReadOnly
        call.need_right(operation, command)

    def may_call(self, principal: Principal, operation: Operation) -> bool:
        if self._read_only and operation.effect != "read" and not operation.hands_on:
            return False
        return principal.may_call(operation)

    def live(self, principal: Principal) -> list[Operation]:
        """Return what live sources offer the caller now."""
        mine = (operation for operation in self._live() if operation.tenant in ("", principal.tenant))
        return [operation for operation in mine if self.may_call(principal, operation)]

    async def idle(self, tenant: str) -> frozenset[str]:
        """Return the capabilities whose tools have nothing to act on for the tenant."""
        with_presence = [(one.name, one.presence) for one in self._capabilities if one.presence is not None]
        for _, presence in with_presence:
            await presence.ready()
        return frozenset(name for name, presence in with_presence if tenant not in presence.tenants())

    def visit(self, served: Served, principal: Principal) -> Call:
        """Return the call for a request of a page or stream."""
        return Call(principal, "http", operation=f"{self._owners.get(served.path, '')}/{served.path}")

    def admit(self, served: Served, call: Call) -> None:
        """Raise Forbidden if the caller may not have the page or stream."""
        call.need_all_of(self._owners.get(served.path, ""), served.scope)

    def admit_method(self, served: Served, method: str) -> None:
        """Raise Forbidden for what would change something in a read-only hub, whatever credential it checks."""
        if self._read_only and (isinstance(served, Socket) or method not in ("GET", "HEAD")):
            raise ReadOnly

    def listen(self, principal: Principal, listener: ChangeListener) -> Callable[[], None]:
        """Register a listener; the returned function removes it."""
        entry = principal, listener
        self._listeners.setdefault(principal.tenant, []).append(entry)

        def end() -> None:
            others = self._listeners.get(principal.tenant, [])
            if entry in others:
                others.remove(entry)
            if not others:
                self._listeners.pop(principal.tenant, None)

        return end

    async def answer(self, page: Page, request: WebRequest) -> WebReply:
        """Answer with a page, as the tenant of its caller. One that checks a credential of its own says whose."""
        with in_tenant(request.principal.tenant) if request.principal else in_no_tenant():
            return await page.answer(request)

    def _narrow(self, rights: Rights) -> Sequence[Capability]:
        scopes, tools, read_only = rights
        anybody = Principal("", "", scopes, tools=tools, read_only=read_only)
        return [
            replace(
                one,
                operations=[operation for operation in one.operations if self.may_call(anybody, operation)],
                prompts=[
                    self._walls.around(prompt) for prompt in one.prompts if anybody.may_have(one.name, prompt.scope)
                ],
                resources=_Walled(one.resources, self._walls)
                if one.resources and anybody.may_have(one.name, one.resources.scope)
                else None,
                web=[served for served in one.web if anybody.may_have(one.name, served.scope)],
            )
            for one in self._capabilities
        ]

    def _live(self) -> Iterator[Operation]:
        return (
            one for capability in self._capabilities for source in capability.sources for one in source.operations()
        )

    def _offers(self) -> frozenset[tuple[str, Operation]]:
        """Return the tools that come and go, with their tenants: those of live sources, and those that are listed only
        for tenants that have something for them to act on."""
        live = ((operation.tenant, operation) for operation in self._live())
        present = (
            (tenant, operation)
            for one in self._capabilities
            if one.presence is not None
            for tenant in one.presence.tenants()
            for operation in one.operations
            if operation.toolset != "all"
        )
        return frozenset((*live, *present))

    def _tools_changed(self) -> None:
        """Notify only those who may use one of the tools that came or went: a board that connects concerns its
        tenant."""
        before, self._offered = self._offered, self._offers()
        changed = before ^ self._offered
        for tenant, listeners in list(self._listeners.items()):
            ours = [operation for owner, operation in changed if owner in ("", tenant)]
            for principal, listener in list(listeners):
                if seen := [operation for operation in ours if self.may_call(principal, operation)]:
                    listener.tools_changed(seen)

    def _resources_changed(self, capability: str, changes: Changes, tenant: str, uri: str | None) -> None:
        for listener in self._hearing(tenant, capability, changes):
            listener.resources_changed(uri)

    def _announced(
        self, capability: str, announcements: Announcements, tenant: str, level: Level, speaker: str, what: Any
    ) -> None:
        for listener in self._hearing(tenant, capability, announcements):
            listener.announced(level, speaker, what)

    def _hearing(self, tenant: str, capability: str, thing: Scoped) -> list[ChangeListener]:
        listeners = self._listeners.get(tenant, ())
        return [one for principal, one in listeners if principal.may_have(capability, thing.scope)]


def beyond(principal: Principal, scopes: Iterable[str]) -> list[str]:
    """Return those of the scopes that the caller does not have, and so cannot give to others."""
    held = principal.scopes
    return [scope for scope in scopes if scope not in held and (scope == "*" or not principal.allows(scope))]


def trail_scopes(slices: Iterable[Capability]) -> dict[str, frozenset[str]]:
    """Return the scopes that give access to each slice's audit rows: those of its read operations, and admin."""
    return {
        one.name: frozenset({ADMIN}.union(*(names(known.scope) for known in one.operations if known.effect == "read")))
        for one in slices
    }


@dataclass(frozen=True, slots=True)
class TrailView:
    """The part of its tenant's audit trail that a caller may see."""

    slices: list[str] | None
    """None: all rows, including those that belong to no slice."""
    without_details: frozenset[str]
    """`slice/operation` of admin-only operations: others see that they ran, without details."""


def trail_view(call: Call, slices: Sequence[Capability], wanted: str | None) -> TrailView:
    """Return the slices whose read scope the caller has, or only the one it wants; for admins all of them."""
    principal = call.principal
    if principal.kind == "anonymous":
        raise Forbidden("The audit trail is shown only to callers with a credential.")
    scopes, is_admin = trail_scopes(slices), principal.allows(ADMIN)
    if wanted is not None:
        call.need(scopes.get(wanted, ADMIN))
    shown = [wanted] if wanted is not None else [name for name, any_of in scopes.items() if principal.allows(any_of)]
    guarded = (operation.audited_as for one in slices for operation in one.operations if operation.scope == ADMIN)
    return TrailView(None if is_admin and wanted is None else shown, frozenset(() if is_admin else guarded))


def search_scope(slices: Iterable[Capability]) -> frozenset[str]:
    """Return the scopes that give access to `search`, each to its own kinds: those of everything searchable."""
    every = (one.scope for capability in slices for one in capability.searchable)
    return frozenset(name for scope in every for name in names(scope)) or frozenset({ADMIN})


def searchables(call: Call, slices: Iterable[Capability], wanted: Collection[Kind] | None = None) -> list[Searchable]:
    """Return what the caller may search; with `wanted`, these kinds, all of which it must be allowed to read."""
    every = [one for capability in slices for one in capability.searchable]
    if wanted is None:
        return _allowed(call.principal, every)
    chosen = [one for one in every if one.kind in wanted]
    for one in chosen:
        call.need(one.scope)
    return chosen


def _allowed(principal: Principal, things: Iterable[T]) -> list[T]:
    return [thing for thing in things if principal.allows(thing.scope)]


def _need_scopes(capability: Capability) -> None:
    """Refuse to start with anything declared with an empty scope, which '*' would allow."""
    told = (capability.resources, capability.resource_changes, capability.announcements)
    served: list[Scoped] = [*capability.operations, *capability.prompts, *capability.web, *capability.searchable]
    for thing in [*served, *(one for one in told if one is not None)]:
        if not isinstance(thing.scope, Open) and not all(names(thing.scope) or [""]):
            raise ValueError(f"{capability.name}: {thing} is served without a scope")
