"""Finds and runs operations: every door calls through here."""

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kho.kernel import hints, validation, vocabulary
from kho.kernel.access import names
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.capability import Capability
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import InvalidParams, KhoError
from kho.kernel.limits.limiter import Limiter
from kho.kernel.operation import Operation
from kho.kernel.ports import Screen
from kho.kernel.toolset import Selection, select
from kho.kernel.validation import Problem, check_values
from kho.kernel.vocabulary import Kind
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import for_tenant, in_tenant

log = logging.getLogger("kho.registry")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of an operation, in its JSON form. Exactly one of `result` and `error` is meaningful."""

    operation: Operation
    value: Any
    """The shaped result; for a failure the contract's error envelope, or None if it has none."""
    result: Any = None
    error: KhoError | None = None
    warnings: Sequence[str] = ()
    """What the caller should know beside the result."""


Observer = Callable[[Operation, Call, Outcome, float], None]


class Registry:
    def __init__(
        self,
        capabilities: Sequence[Capability],
        background: Background,
        kinds: Iterable[Kind] = (),
        *,
        read_only: bool = False,
        limiter: Limiter | None = None,
        screen: Screen | None = None,
    ) -> None:
        """`kinds`: those of global ids whose slices may not be open, as in a command. `screen` looks at what writes
        bring; only a registry for help texts goes without."""
        self.capabilities = capabilities
        self.observers: list[Observer] = []
        self._background = background
        self._limiter = limiter
        self._screen = screen
        self._tools = _index(capabilities, lambda _, operation: operation.tool)
        self._actions = _index(capabilities, lambda _, operation: operation.action)
        self._methods = _index(capabilities, lambda c, operation: operation.rpc and f"{c.server}/{operation.rpc}")
        self.checkpoint = Checkpoint(capabilities, read_only=read_only, limiter=limiter)
        searched = (one.kind for capability in capabilities for one in capability.searchable)
        self._kinds = {kind.prefix: kind for kind in (*kinds, *searched)}

    def operations(self, principal: Principal) -> Iterator[Operation]:
        """Yield every operation that the caller may use, in a fixed order: the slices' own, then those of live
        sources."""
        for capability in self.checkpoint.visible(principal):
            yield from capability.operations
        yield from self.checkpoint.live(principal)

    def tool(self, name: str, principal: Principal | None = None) -> Operation | None:
        """Find an operation by tool name; with a principal, also among the live ones that it may use."""
        live = self.checkpoint.live(principal) if principal and name not in self._tools else ()
        return self._tools.get(name) or next((found for found in live if found.tool == name), None)

    async def absent_tool(self, name: str, principal: Principal) -> Operation | None:
        """Find a known tool that is currently not offered: calling it explains why."""
        for capability in self.capabilities:
            with in_tenant(principal.tenant):
                found = await capability.absent(name, principal.tenant) if capability.absent is not None else None
            if found is not None and self.checkpoint.may_call(principal, found):
                return found
        return None

    def action(self, name: str) -> Operation | None:
        return self._actions.get(name)

    def method(self, name: str) -> Operation | None:
        return self._methods.get(name) or self._methods.get(vocabulary.synonym(name, self._methods, "/"))

    def select(self, names: Iterable[str]) -> Selection:
        """Return what these sets, capabilities and tools choose. Raises InvalidParams for names of nothing."""
        return select(names, [one.name for one in self.capabilities], lambda: self._tools)

    async def redact(self, error: KhoError, arguments: Any = None) -> None:
        """Mask the secrets that an error repeats. Those of calls are masked; a door does it with its own."""
        if self._screen is not None:
            await self._screen.redact(error, arguments)

    def masked(self, text: str) -> str:
        """Return a short text that a caller sent, and that a door repeats, without its secrets."""
        return text if self._screen is None else self._screen.mask(text)

    @property
    def actions(self) -> Mapping[str, Operation]:
        return self._actions

    @property
    def methods(self) -> Mapping[str, Operation]:
        return self._methods

    @property
    def scopes(self) -> list[str]:
        """Every scope that an operation requires."""
        operations = (operation for capability in self.capabilities for operation in capability.operations)
        return sorted({scope for operation in operations for scope in names(operation.scope)})

    async def call(self, operation: Operation, arguments: Any, call: Call) -> Outcome:
        started = time.perf_counter()
        try:
            call.operation = operation.audited_as
            self.checkpoint.need(call, operation, operation.cli[0].words if operation.cli else "")
            with in_tenant(call.tenant):
                result = await self._run(operation, arguments, call)
            outcome = Outcome(operation, operation.shape(result), result, warnings=tuple(call.warnings))
        except KhoError as error:
            await self.redact(error, arguments)
            if (spell := hints.at_wire(call.door, self._tools.get)) is not None:
                error.guidance = hints.spelt(error.guidance, spell)
            outcome = _failure(operation, error)
        except Exception:  # boundary of every request: a bug must not take the door down or leak its text
            log.exception("%s failed", operation.name, extra={"fields": {"request_id": call.request_id}})
            outcome = _failure(operation, KhoError(request_id=call.request_id))
        for observer in self.observers:
            observer(operation, call, outcome, time.perf_counter() - started)
        for work in call.afterwards:
            self._background.add(for_tenant(call.tenant, work))
        return outcome

    async def _run(self, operation: Operation, arguments: Any, call: Call) -> Any:
        """Run the operation, within the limits of its caller if that is not this machine's user."""

        async def work() -> Any:
            return await operation.run(await self._ready(operation, arguments, call), call)

        if self._limiter is None:
            return await work()
        writes = operation.effect != "read" and not operation.hands_on
        return await self._limiter.run(call.principal, work, writes=writes)

    async def _ready(self, operation: Operation, arguments: Any, call: Call) -> Any:
        """Return the parameters, validated and, of a write, looked through for secrets."""
        params = await self._parse(operation, arguments)
        if self._screen is not None:
            await self._screen.screen(operation, params, call)
        return params

    async def _parse(self, operation: Operation, arguments: Any) -> Any:
        arguments = operation.without_unknown(arguments)
        size = validation.size_of(arguments)
        if size > validation.LARGE:
            operation.params.model_rebuild()  # a validator is built on first use, which two threads must not do at once
        return await validation.read_large(size, functools.partial(_parsed, operation, arguments, self._kinds))


def _parsed(operation: Operation, arguments: Any, kinds: Mapping[str, Kind]) -> Any:
    try:
        check_values(arguments)
    except InvalidParams as error:
        raise operation.invalid([Problem(error.details.get("field", ""), "value_error", error.message)]) from None
    return operation.parse(arguments, kinds)


def _failure(operation: Operation, error: KhoError) -> Outcome:
    value = operation.shape_error(error) if operation.shape_error else None
    return Outcome(operation, value, error=error)


def _index(
    capabilities: Sequence[Capability], name: Callable[[Capability, Operation], str | None]
) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for capability in capabilities:
        for operation in capability.operations:
            key = name(capability, operation)
            if key is None:
                continue
            if key in found:
                raise ValueError(f"two operations are called {key}: {found[key].name} and {operation.name}")
            found[key] = operation
    return found
