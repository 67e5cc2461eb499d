"""The one place that decides what of all that slices serve a caller sees, reads and hears.

`Registry.call` does it for calls. This does it for the rest: lists of tools and prompts, resources with their templates
and completions, notices that a list changed, announcements, pages and streams. Doors get what is left after the check;
neither doors nor slices check a scope themselves.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Protocol, TypeVar

from kho.kernel.access import Access, Open, names
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Announcements, Capability, Changes, Level
from kho.kernel.operation import Operation
from kho.kernel.web import Served


class Scoped(Protocol):
    @property
    def scope(self) -> Access: ...


class Listener(Protocol):
    """Somebody who is told at once what happens. All of it is allowed to the principal it listens for."""

    def tools_changed(self) -> None: ...

    def resources_changed(self, uri: str | None) -> None:
        """Which resources there are, or with `uri` what one of them says."""
        ...

    def announced(self, level: Level, speaker: str, what: Any) -> None: ...


T = TypeVar("T", bound=Scoped)


class Checkpoint:
    def __init__(self, capabilities: Sequence[Capability]) -> None:
        self._capabilities = capabilities
        self._listeners: dict[str, list[tuple[Principal, Listener]]] = {}
        """By tenant."""
        self._narrowed = lru_cache(maxsize=256)(self._narrow)  # callers are many, combinations of scopes few
        for capability in capabilities:
            _need_scopes(capability)
            if capability.resource_changes is not None:
                capability.resource_changes.subscribe(partial(self._resources_changed, capability.resource_changes))
            if capability.announcements is not None:
                capability.announcements.subscribe(partial(self._announced, capability.announcements))
            for source in capability.sources:
                source.subscribe(self._tools_changed)
        self._offered = frozenset(self._live())

    def visible(self, principal: Principal) -> Sequence[Capability]:
        """Every capability, with nothing in it that the caller may not use."""
        return self._narrowed(principal.scopes)

    def live(self, principal: Principal) -> list[Operation]:
        """What live sources offer the caller now."""
        mine = (operation for operation in self._live() if operation.tenant in ("", principal.tenant))
        return _allowed(principal, mine)

    def admit(self, served: Served, principal: Principal) -> None:
        """Raises Forbidden if the caller may not have the page or stream."""
        Call(principal).need(served.scope)

    def listen(self, principal: Principal, listener: Listener) -> Callable[[], None]:
        """What it returns ends it."""
        entry = principal, listener
        self._listeners.setdefault(principal.tenant, []).append(entry)

        def end() -> None:
            others = self._listeners.get(principal.tenant, [])
            if entry in others:
                others.remove(entry)
            if not others:
                self._listeners.pop(principal.tenant, None)

        return end

    def _narrow(self, scopes: frozenset[str]) -> Sequence[Capability]:
        anybody = Principal("", "", scopes)
        return [
            replace(
                one,
                operations=_allowed(anybody, one.operations),
                prompts=_allowed(anybody, one.prompts),
                resources=one.resources if one.resources and anybody.allows(one.resources.scope) else None,
                web=_allowed(anybody, one.web),
            )
            for one in self._capabilities
        ]

    def _live(self) -> Iterator[Operation]:
        return (
            one for capability in self._capabilities for source in capability.sources for one in source.operations()
        )

    def _tools_changed(self) -> None:
        """Tells those who may use one of the tools that came or went, and nobody else: a board that connects is news
        of its tenant."""
        before, self._offered = self._offered, frozenset(self._live())
        changed = {(operation.tenant, operation.scope) for operation in before ^ self._offered}
        for tenant, listeners in list(self._listeners.items()):
            needed = {scope for owner, scope in changed if owner in ("", tenant)}
            for principal, listener in list(listeners):
                if any(principal.allows(scope) for scope in needed):
                    listener.tools_changed()

    def _resources_changed(self, changes: Changes, tenant: str, uri: str | None) -> None:
        for listener in self._hearing(tenant, changes):
            listener.resources_changed(uri)

    def _announced(self, announcements: Announcements, tenant: str, level: Level, speaker: str, what: Any) -> None:
        for listener in self._hearing(tenant, announcements):
            listener.announced(level, speaker, what)

    def _hearing(self, tenant: str, thing: Scoped) -> list[Listener]:
        return [one for principal, one in self._listeners.get(tenant, ()) if principal.allows(thing.scope)]


def _allowed(principal: Principal, things: Iterable[T]) -> list[T]:
    return [thing for thing in things if principal.allows(thing.scope)]


def _need_scopes(capability: Capability) -> None:
    """Refuses to start with a thing that was declared with an empty scope, which '*' would open."""
    told = (capability.resources, capability.resource_changes, capability.announcements)
    served: list[Scoped] = [*capability.operations, *capability.prompts, *capability.web]
    for thing in [*served, *(one for one in told if one is not None)]:
        if not isinstance(thing.scope, Open) and not all(names(thing.scope) or [""]):
            raise ValueError(f"{capability.name}: {thing} is served without a scope")
