"""An operation: defined once, served at every door."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Generic, Literal, cast

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from kho.kernel import json_schema
from kho.kernel.access import Scope
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import InvalidParams, KhoError, NotSanitized, about
from kho.kernel.json_schema import JsonSchema
from kho.kernel.ports import Personal
from kho.kernel.toolset import Toolset
from kho.kernel.validation import Problem, found
from kho.kernel.vocabulary import Kind
from kho.lib.dataclass import dataclass

P = TypeVar("P", bound=BaseModel, default=Any)
R = TypeVar("R", default=Any)
Effect = Literal["read", "write", "destructive"]

MAX_UNKNOWN = 20
"""Unknown parameters that an error names at most."""


def invalid_params(problems: Sequence[Problem]) -> KhoError:
    first = problems[0]
    subject = f"'{first.field}'" if first.field else ""
    return InvalidParams(
        f"Invalid parameters: {about(subject, first.message)}",
        problems=[problem.as_dict() for problem in problems],
    )


def not_sanitized(problems: Sequence[dict[str, Any]], masked: Mapping[str, str]) -> KhoError:
    found = list(problems)
    return NotSanitized(problems=found, sanitized=dict(masked)) if masked else NotSanitized(problems=found)


def plain(result: Any) -> Any:
    """Return the JSON form of a result, without absent optional fields."""
    if isinstance(result, BaseModel):
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return result


@dataclass(frozen=True, eq=False)
class Operation(Generic[P, R]):
    name: str
    """`capability.verb`, for logs and metrics."""
    summary: str
    """One line for lists and help."""
    params: type[P]
    run: Callable[[P, Call], Awaitable[R]]
    scope: Scope
    effect: Effect = "read"
    result: type[BaseModel] | None = None
    description: str = ""
    """What a model needs to know to use it well; the summary if empty."""

    tool: str | None = None
    """Name over MCP."""
    title: str = ""
    """Name of the tool for people; made of its name if empty."""
    toolset: Toolset = "all"
    """Smallest set of tools that lists it over MCP."""
    explained: Collection[str] | None = None
    """Parameters whose description is listed over MCP, because their name does not say enough; None: all of them."""
    rpc: str | None = None
    """Method at /jsonrpc, after the name of the capability's server."""
    action: str | None = None
    """Name at /actions."""
    cli: Sequence[Command] = ()

    open_world: bool = False
    """True if it accesses anything outside of this machine."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Working arguments, for help and OpenAPI; the tests run them."""
    shape: Callable[[R], Any] = plain
    """Converts the result to JSON, for contracts with their own envelope."""
    shape_error: Callable[[KhoError], Any] | None = None
    """Converts an error to JSON, for contracts that answer failures inside their envelope."""
    protocol_errors: bool = False
    """True if the contract answers failures as JSON-RPC errors with its own numbers. MCP since 2026-07-28 does not
    allow them; there the same is said in a result."""
    invalid: Callable[[Sequence[Problem]], KhoError] = invalid_params
    """Makes the error for invalid parameters."""
    personal: Personal = "kept"
    """What is done with personal data in the parameters of a write."""
    not_sanitized: Callable[[Sequence[dict[str, Any]], Mapping[str, str]], KhoError] = not_sanitized
    """Makes the error for texts that must not be stored, of what was found and, if the caller asked for it, the masked
    texts."""
    text: Callable[[R], str] | None = None
    """Renders the result as Markdown, for people at the command line."""
    remarks: Callable[[R], str] | None = None
    """What the command line says beside the answer, on stderr; empty for nothing."""
    failed_in_part: Callable[[R], bool] | None = None
    """True if a result includes failures: the command then exits with status 1, as for an error."""
    markdown: bool = False
    """True if the contract wants that Markdown as the text content over MCP, too; otherwise it is JSON."""
    literal_input: JsonSchema | None = None
    """Schema to send unchanged, when a contract prints one."""
    envelope_schema: Callable[[JsonSchema], JsonSchema] | None = None
    """Converts the schema of a result to that of the contract's envelope around it, failures included."""
    hands_on: bool = False
    """True if all it does is call other operations, each of which is checked by itself."""
    tenant: str = ""
    """Tenant that owns it; empty for all. Used by live operations: only a board's tenant sees its tools."""

    @cached_property
    def input_schema(self) -> JsonSchema:
        return self.literal_input or json_schema.of(self.params)

    @cached_property
    def output_schema(self) -> JsonSchema | None:
        if self.result is None:
            return None
        if self.envelope_schema:
            return self.envelope_schema(json_schema.of(self.result, "serialization"))
        error = json_schema.CONTRACT_ERROR if self.protocol_errors else json_schema.ERROR
        return json_schema.or_error(json_schema.of(self.result, "serialization"), error)

    @property
    def capability(self) -> str:
        """Name of its slice."""
        return self.name.partition(".")[0]

    @cached_property
    def audited_as(self) -> str:
        """`capability/name`, with the name that callers know."""
        return f"{self.capability}/{self.action or self.tool or self.name.partition('.')[2]}"

    def failure(self, error: KhoError) -> Any:
        """Return the answer to send instead of a result."""
        if self.shape_error:
            return self.shape_error(error)
        return error.contract_form() if self.protocol_errors else {"error": error.as_dict()}

    def without_unknown(self, arguments: Any) -> Any:
        """Return the arguments with the values of unknown ones removed. The error only needs their names, and the
        values may hold millions of items. At most MAX_UNKNOWN of them are kept."""
        if self.params.model_config.get("extra") != "forbid" or not isinstance(arguments, dict):
            return arguments
        given = cast(dict[str, Any], arguments)
        known = self.params.model_fields
        unknown = [name for name in given if name not in known]
        if not unknown:
            return given
        # Some models ignore any unknown name whose value is null, so unknown names with a value come first.
        unknown.sort(key=lambda name: given[name] is None)
        kept = {name: value for name, value in given.items() if name in known}
        return kept | {name: None if given[name] is None else True for name in unknown[:MAX_UNKNOWN]}

    def parse(self, arguments: Any, kinds: Mapping[str, Kind] | None = None) -> P:
        """Validate the arguments. `kinds` are those of global ids, by prefix."""
        try:
            return self.params.model_validate(arguments, context=kinds)
        except ValidationError as failure:
            problems = found(failure)
        raise self.invalid(problems)
