"""An operation: defined once, served at every door."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, cast

from pydantic import BaseModel, ValidationError
from typing_extensions import TypeVar

from kho.kernel import json_schema
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.errors import InvalidParams, KhoError, about
from kho.kernel.json_schema import JsonSchema
from kho.kernel.validation import Problem, found

P = TypeVar("P", bound=BaseModel, default=Any)
R = TypeVar("R", default=Any)
Effect = Literal["read", "write", "destructive"]

MAX_UNKNOWN = 20
"""Unknown parameters that a refusal names."""


def invalid_params(problems: Sequence[Problem]) -> KhoError:
    first = problems[0]
    subject = f"'{first.field}'" if first.field else ""
    return InvalidParams(
        f"Invalid parameters: {about(subject, first.message)}",
        problems=[problem.as_dict() for problem in problems],
    )


def plain(result: Any) -> Any:
    """The JSON form of a result: absent optional parts are left out."""
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
    scope: str
    effect: Effect = "read"
    result: type[BaseModel] | None = None
    description: str = ""
    """What a model needs to know to use it well; the summary when empty."""

    tool: str | None = None
    """Its name over MCP."""
    rpc: str | None = None
    """Its method at /jsonrpc, behind the name of the capability's server."""
    action: str | None = None
    """Its name at /actions."""
    cli: Sequence[Command] = ()
    """Its commands."""

    open_world: bool = False
    """Whether it reaches out of this machine."""
    example: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that work; shown in help, in OpenAPI and run by the tests."""
    shape: Callable[[R], Any] = plain
    """Result to JSON, when a contract has an envelope of its own."""
    shape_error: Callable[[KhoError], Any] | None = None
    """Error to JSON, when a contract answers failures inside its envelope."""
    protocol_errors: bool = False
    """Its contract answers failures as JSON-RPC errors with numbers of its own. MCP since 2026-07-28 has no room for
    them; there the same is said in a result."""
    invalid: Callable[[Sequence[Problem]], KhoError] = invalid_params
    """Which error wrong parameters are."""
    text: Callable[[R], str] | None = None
    """Result to Markdown, for people at the command line."""
    failed_in_part: Callable[[R], bool] | None = None
    """Whether a result tells of failures, too: a command then ends with status 1, as with an error."""
    markdown: bool = False
    """Its contract wants that Markdown as the text content over MCP, too; it is JSON otherwise."""
    literal_input: JsonSchema | None = None
    """A schema to send as it is, when a contract prints one."""
    envelope_schema: Callable[[JsonSchema], JsonSchema] | None = None
    """The schema of a result to that of the contract's envelope around it, failures included."""
    tenant: str = ""
    """Whose it is; everybody's when empty. For live ones: the tools of a tenant's boards are no other's."""

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

    @cached_property
    def audited_as(self) -> str:
        """`capability/name`, by the name that callers know."""
        capability, _, name = self.name.partition(".")
        return f"{capability}/{self.action or self.tool or name}"

    def failure(self, error: KhoError) -> Any:
        """What it answers instead of a result when it fails."""
        if self.shape_error:
            return self.shape_error(error)
        return error.contract_form() if self.protocol_errors else {"error": error.as_dict()}

    def without_unknown(self, arguments: Any) -> Any:
        """The arguments, those that it does not know without their values: they are refused by their names alone, and
        what they hold may be millions of things. Of very many only some are named."""
        if self.params.model_config.get("extra") != "forbid" or not isinstance(arguments, dict):
            return arguments
        given = cast(dict[str, Any], arguments)
        known = self.params.model_fields
        unknown = [name for name in given if name not in known]
        if not unknown:
            return given
        # Some models take null for "not given", whatever its name; so what is not null is named first.
        unknown.sort(key=lambda name: given[name] is None)
        kept = {name: value for name, value in given.items() if name in known}
        return kept | {name: None if given[name] is None else True for name in unknown[:MAX_UNKNOWN]}

    def parse(self, arguments: Any) -> P:
        try:
            return self.params.model_validate(arguments)
        except ValidationError as failure:
            problems = found(failure)
        raise self.invalid(problems)
