"""A contract: what its operations share. Operations are declared on the methods that implement them.

    EXPERIENCES = Contract("experiences", read_scope="exp:read", write_scope="exp:write")

    class Service:
        @EXPERIENCES.write("rate_experience", cli=Command("experiences rate", ("id",)), example={"helpful": True})
        async def rate(self, params: RateExperience, call: Call) -> Rated:
            '''Say whether a record helped; it affects the ranking.

            Anything else that a model should know: the description of the tool.
            '''

    operations = EXPERIENCES.bind(service)

Params and result come from the annotations, the summary from the docstring's first paragraph and the description from
the rest. `bind(Service)`, with the class instead of an instance, returns the same operations for help texts without
building a service.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypedDict, TypeVar, Unpack, cast

from pydantic import BaseModel

from kho.kernel.access import Scope
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import KhoError
from kho.kernel.json_schema import JsonSchema
from kho.kernel.operation import Effect, Operation, invalid_params, not_sanitized, plain
from kho.kernel.ports import Personal
from kho.kernel.toolset import Toolset
from kho.kernel.validation import Problem
from kho.lib.dataclass import dataclass

M = TypeVar("M", bound=Callable[[Any, Any, Call], Awaitable[Any]])
_DECLARED = "__operations__"


class Options(TypedDict, total=False):
    """Options of an operation, in addition to its wire name; the fields of `Operation` explain them."""

    name: str
    """Name for logs and metrics, if neither the method's name nor the wire name fits."""
    scope: Scope
    """Overrides the contract's read or write scope."""
    tool: bool | str
    """False: not offered over MCP. A string: a different name there."""
    title: str
    toolset: Toolset
    explained: Collection[str]
    rpc: bool | str
    action: bool | str
    cli: Command | Sequence[Command]
    example: Mapping[str, Any]
    text: Callable[[Any], str]
    invalid: Callable[[Sequence[Problem]], KhoError]
    open_world: bool
    remarks: Callable[[Any], str]
    failed_in_part: Callable[[Any], bool]
    literal_input: JsonSchema


class _Declare(Protocol):
    def __call__(self, method: M, /) -> M: ...


@dataclass(frozen=True, slots=True)
class Declared:
    """Declaration of an operation, kept on its method until a service is bound."""

    contract: "Contract"
    wire: str
    effect: Effect
    options: Options


@dataclass(frozen=True)
class Contract:
    capability: str
    read_scope: str = field(kw_only=True)
    write_scope: str = field(kw_only=True)
    named_by: Literal["method", "wire"] = field(default="method", kw_only=True)
    """What follows the capability in an operation's name, for logs and metrics."""
    tool: bool = field(default=True, kw_only=True)
    """False: operations are not offered over MCP unless one says otherwise."""
    action: bool = field(default=True, kw_only=True)
    rpc: Callable[[str], str] = field(default=str, kw_only=True)
    """Converts the wire name to the one at /jsonrpc, if that differs."""
    shape: Callable[[Any], Any] = field(default=plain, kw_only=True)
    shape_error: Callable[[KhoError], Any] | None = field(default=None, kw_only=True)
    envelope_schema: Callable[[JsonSchema], JsonSchema] | None = field(default=None, kw_only=True)
    protocol_errors: bool = field(default=False, kw_only=True)
    markdown: bool = field(default=False, kw_only=True)
    invalid: Callable[[Sequence[Problem]], KhoError] = field(default=invalid_params, kw_only=True)
    personal: Personal = field(default="kept", kw_only=True)
    not_sanitized: Callable[[Sequence[dict[str, Any]], Mapping[str, str]], KhoError] = field(
        default=not_sanitized, kw_only=True
    )

    def read(self, wire: str, **options: Unpack[Options]) -> _Declare:
        return self._declare(wire, "read", options)

    def write(self, wire: str, **options: Unpack[Options]) -> _Declare:
        return self._declare(wire, "write", options)

    def destroy(self, wire: str, **options: Unpack[Options]) -> _Declare:
        """Declare an operation that deletes or hides something: clients ask their user before they call it."""
        return self._declare(wire, "destructive", options)

    def bind(self, *services: object) -> tuple[Operation, ...]:
        """Return the operations that these services declare, in source order."""
        return tuple(
            self._operation(name, getattr(service, name), declared)
            for service in services
            for name, declared in _declared(service if isinstance(service, type) else type(service))
            if declared.contract is self
        )

    def _declare(self, wire: str, effect: Effect, options: Options) -> _Declare:
        def declare(method: M) -> M:
            declared: list[Declared] = method.__dict__.setdefault(_DECLARED, [])
            declared.append(Declared(self, wire, effect, options))
            return method

        return declare

    def _operation(self, method: str, run: Callable[..., Awaitable[Any]], declared: Declared) -> Operation:
        wire, options = declared.wire, declared.options
        annotations = run.__annotations__
        summary, _, description = inspect.cleandoc(run.__doc__ or "").partition("\n\n")
        cli = options.get("cli", ())
        name = options.get("name") or (wire if self.named_by == "wire" else method.rstrip("_"))
        return Operation(
            name=f"{self.capability}.{name}",
            summary=" ".join(summary.split()),
            description=" ".join(description.split()),
            params=annotations["params"],
            result=cast("type[BaseModel]", annotations["return"]),
            run=run,
            effect=declared.effect,
            scope=options.get("scope") or (self.read_scope if declared.effect == "read" else self.write_scope),
            tool=_named(options.get("tool", self.tool), wire),
            title=options.get("title", ""),
            toolset=options.get("toolset", "all"),
            explained=options.get("explained"),
            rpc=_named(options.get("rpc", True), self.rpc(wire)),
            action=_named(options.get("action", self.action), wire),
            cli=(cli,) if isinstance(cli, Command) else cli,
            example=options.get("example", {}),
            text=options.get("text"),
            invalid=options.get("invalid", self.invalid),
            personal=self.personal,
            not_sanitized=self.not_sanitized,
            open_world=options.get("open_world", False),
            remarks=options.get("remarks"),
            failed_in_part=options.get("failed_in_part"),
            literal_input=options.get("literal_input"),
            shape=self.shape,
            shape_error=self.shape_error,
            envelope_schema=self.envelope_schema,
            protocol_errors=self.protocol_errors,
            markdown=self.markdown,
        )


def _declared(service: type) -> Iterator[tuple[str, Declared]]:
    for owner in reversed(service.__mro__):
        for name, method in vars(owner).items():
            for declared in getattr(method, _DECLARED, ()) if inspect.isfunction(method) else ():
                yield name, declared


def _named(chosen: bool | str, usual: str) -> str | None:
    return usual if chosen is True else chosen or None
