"""An operation: defined once, served at every door."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from kho.kernel import schema
from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams, KhoError, about
from kho.kernel.problems import Problem, found
from kho.kernel.schema import JsonSchema

Effect = Literal["read", "write", "destructive"]


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


@dataclass(frozen=True, slots=True)
class Command:
    """One way to ask for an operation on the command line. It may have several, such as one for each of its actions."""

    words: str
    """What is typed, e.g. 'collections create'. All words but the last are groups."""
    positional: Sequence[str] = ()
    """Parameters that are given without a flag, in this order. Here and below a part of an object is named by its path,
    e.g. 'content.body'."""
    sentence: bool = False
    """The last of them may be typed as several words, without quotes."""
    fixed: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Arguments that the words stand for, e.g. {'action': 'create'}."""
    names: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other names for parameters, e.g. {'collection_type': 'type'} for --type. A part of an object is called after the
    end of its path; where two paths end alike, this tells them apart."""
    shows: Sequence[str] | None = None
    """Parameters that have a flag; when None, all that are neither positional nor fixed."""
    paths: Sequence[str] = ()
    """Parameters that are paths: a relative one begins where the command was typed."""
    documents: Sequence[str] = ()
    """Parameters that name documents: where there is such a file, seen from here, its path is meant."""
    here: str = ""
    """A parameter that is the working directory unless it is given."""
    from_file: str = ""
    """A text parameter that may also come from a file (`--from-file`); from stdin by itself if it is required."""
    masks: tuple[str, str] | None = None
    """(patch, mask): the list `mask` names what was typed of the object `patch`, unless it is typed itself."""
    follows: str = ""
    """The method that tells how far a job is: when the answer is one that still runs, the command waits for it."""
    watches: bool = False
    """It goes on, and is done again whenever something in the folder changes (the first of `paths`)."""
    reads: bool = False
    """It changes nothing that is searched, though its operation may: there is nothing to wait for afterwards."""
    confirms: bool = False
    """`--yes` sets the parameter `confirm`. Without it, somebody at a terminal is asked when it is needed."""
    final: bool = False
    """What it does cannot be undone: it needs `--yes`, or somebody at a terminal who is asked first."""
    asks: str = ""
    """The same for what can be undone in part: what is told before the question, in a sentence."""
    looks: tuple[str, Mapping[str, Any]] | None = None
    """The method of the same capability that reads what would be destroyed, and arguments besides those that both take:
    nobody is asked about what is not there."""
    summary: str = ""
    """The operation's when empty."""
    example: Mapping[str, Any] | None = None
    """Arguments that work, without the fixed ones; the operation's when None."""
    stands_for: tuple[str, Mapping[str, Any]] | None = None
    """A tool of another operation, and the arguments of it that this is the command for: what an answer says to call
    is said to type here."""
    group: str = ""
    """One line about the group that it is in. The first command of a group that has one says it for all."""

    @property
    def warning(self) -> str:
        """What somebody has to agree to before it is done; empty where nobody is asked."""
        return self.asks or ("This cannot be undone." if self.final else "")


@dataclass(frozen=True, eq=False)
class Operation:
    name: str
    """`capability.verb`, for logs and metrics."""
    summary: str
    """One line for lists and help."""
    params: type[BaseModel]
    run: Callable[[Any, Call], Awaitable[Any]]
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
    shape: Callable[[Any], Any] = plain
    """Result to JSON, when a contract has an envelope of its own."""
    shape_error: Callable[[KhoError], Any] | None = None
    """Error to JSON, when a contract answers failures inside its envelope."""
    protocol_errors: bool = False
    """Its contract answers failures as JSON-RPC errors with numbers of its own. MCP since 2026-07-28 has no room for
    them; there the same is said in a result."""
    invalid: Callable[[Sequence[Problem]], KhoError] = invalid_params
    """Which error wrong parameters are."""
    text: Callable[[Any], str] | None = None
    """Result to Markdown, for people at the command line."""
    failed_in_part: Callable[[Any], bool] | None = None
    """Whether a result tells of failures, too: a command then ends with status 1, as with an error."""
    markdown: bool = False
    """Its contract wants that Markdown as the text content over MCP, too; it is JSON otherwise."""
    literal_input: JsonSchema | None = None
    """A schema to send as it is, when a contract prints one."""
    literal_output: JsonSchema | None = None
    tenant: str = ""
    """Whose it is; everybody's when empty. For live ones: the tools of a tenant's boards are no other's."""

    @cached_property
    def input_schema(self) -> JsonSchema:
        return self.literal_input or schema.of(self.params)

    @cached_property
    def output_schema(self) -> JsonSchema | None:
        if self.literal_output:
            return self.literal_output
        if self.result is None:
            return None
        error = schema.CONTRACT_ERROR if self.protocol_errors else schema.ERROR
        return schema.or_error(schema.of(self.result, "serialization"), error)

    def failure(self, error: KhoError) -> Any:
        """What it answers instead of a result when it fails."""
        if self.shape_error:
            return self.shape_error(error)
        return error.contract_form() if self.protocol_errors else {"error": error.as_dict()}

    def parse(self, arguments: Any) -> Any:
        try:
            return self.params.model_validate(arguments)
        except ValidationError as failure:
            problems = found(failure)
        raise self.invalid(problems)


def everywhere(
    of: str,
    name: str,
    run: Callable[[Any, Call], Awaitable[Any]],
    params: type[BaseModel],
    result: type[BaseModel],
    summary: str,
    cli: Command,
    example: Mapping[str, Any],
    text: Callable[[Any], str] | None = None,
    *,
    tool: bool = True,
    action: bool = True,
    **rest: Any,
) -> Operation:
    """An operation of a slice with one name on every wire, but for those that it is not served on."""
    return Operation(
        name=f"{of}.{name}",
        summary=summary,
        params=params,
        run=run,
        result=result,
        tool=name if tool else None,
        rpc=name,
        action=name if action else None,
        cli=(cli,),
        example=example,
        text=text,
        **rest,
    )
