"""What the command line is given by the composition root."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click

from kho.doors.cli import output
from kho.kernel.call import Call, Principal, Progress
from kho.kernel.errors import KhoError
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation, invalid_params
from kho.kernel.registry import Registry
from kho.kernel.validation import Problem

T = TypeVar("T")


class HttpSettings(Protocol):
    """The part of the settings that `kho serve` reads."""

    host: str
    port: int
    workers: int
    allowed_hosts: list[str]


Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""A tool's name and its arguments, to its answer."""
Report = Callable[[str, int, int], None]


class Evaluate(Protocol):
    """Measures search on files of questions; gives {"rows": […]}, one for each task and configuration."""

    async def __call__(
        self,
        files: Sequence[Path],
        *,
        queries: Path | None,
        strip_marks: bool,
        together: bool,
        limit: int | None,
        configurations: Sequence[str],
        cache: Path | None,
        each: bool,
        asking: Callable[[Hub], AbstractAsyncContextManager[Ask]],
        progress: Report,
    ) -> dict[str, Any]: ...


class Examine(Protocol):
    """How the store and its indexes are; made anew before, if that is asked for."""

    async def __call__(self, *, repair: bool, progress: Report) -> dict[str, Any]: ...


class Attach(Protocol):
    """Serves MCP at an address that Kho dials, until it is cancelled; tells what happens, and a sentence about it."""

    def __call__(self, url: str, tools: list[str], tell: Callable[[str, str], None]) -> Coroutine[Any, Any, None]: ...


class Happening(Protocol):
    """What a virtual board did or met."""

    @property
    def device(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def more(self) -> Mapping[str, Any]: ...


class Simulate(Protocol):
    """Virtual boards that connect to a hub, until it is cancelled."""

    def __call__(
        self, count: int, hub: str, *, first: int, mqtt: str, faults: Sequence[Any], tell: Callable[[Happening], None]
    ) -> Coroutine[Any, Any, None]: ...


@dataclass(frozen=True, slots=True)
class Program:
    version: str
    home: Path
    http: HttpSettings
    admin: Principal
    """The user at this machine's command line."""
    registry: Callable[[], Registry]
    """The operations, for help texts; nothing is opened."""
    open_hub: Callable[[], AbstractAsyncContextManager[Hub]]
    stdio: Callable[[list[str]], None]
    """Serves MCP on stdio, narrowed to some capabilities' tools."""
    serve: Callable[[str, int, int, bool], None]
    """Serves the hub over HTTP: the host and the port, how many workers, and whether changed source starts it again."""
    where: str
    """The database, in words, without its password."""
    evaluate: Evaluate
    examine: Examine
    asking: Callable[[str, Hub], AbstractAsyncContextManager[Ask]]
    """A client of a hub through one of its doors: memory, mcp or http."""
    attach: Attach
    simulate: Simulate
    faults: Sequence[str]
    """What virtual boards can be told to do wrong."""
    listen_mqtt: Callable[[str], None]
    """Has the hub that is opened next listen there for boards that speak MQTT."""
    name: str = "kho"
    """How it was called."""

    def run(self, work: Callable[[Hub], Awaitable[T]]) -> T:
        """Opens the hub, does `work` with it, and closes it again."""

        async def session() -> T:
            async with self.open_hub() as hub:
                return await work(hub)

        return self.finish(session())

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs `work` to its end. What Kho itself complains about is a sentence, not a traceback."""
        try:
            return asyncio.run(work)
        except KhoError as error:
            raise fail(error) from None

    def call(self, progress: Progress | None = None) -> Call:
        return Call(self.admin, "cli") if progress is None else Call(self.admin, "cli", progress=progress)

    def help(self, text: str, *commands: str) -> str:
        """A help text that ends in commands one can type; they are given without the program's name."""
        return f"{text}\n\n\b\nExample:\n" + "\n".join(f"  {self.name} {command}" for command in commands)


def fail(problem: KhoError | str) -> click.exceptions.Exit:
    """To be raised: says what went wrong and ends with status 1. Whoever asked for JSON gets that instead of a line."""
    context = click.get_current_context(silent=True)
    if context is not None and wants_json(context):
        output.as_json(_failure(context.command, problem))
    else:
        message = problem if isinstance(problem, str) else problem.message
        click.secho(f"error: {message}", err=True, fg="red")  # click drops the colour where there is no terminal
    return click.exceptions.Exit(1)


def _failure(command: click.Command, problem: KhoError | str) -> Any:
    """In the form of the operation that the command is made from, if it is."""
    operation = command.operation if isinstance(command, Answering) else None
    if isinstance(problem, str):
        refuse = operation.invalid if operation else invalid_params
        problem = refuse([Problem("", "value_error", problem)])
    return operation.failure(problem) if operation else {"error": problem.as_dict()}


def wants_json(context: click.Context) -> bool:
    """Whether --json was typed for a command that has it. What the parser makes of it is not known yet when the parser
    itself refuses something."""
    typed: Sequence[str] = context.meta.get(TYPED, ())
    return "--json" in typed and any("--json" in one.opts for one in context.command.params)


class Answering(click.Command):
    """A command made from an operation."""

    def __init__(self, operation: Operation, name: str, **more: Any) -> None:
        super().__init__(name, **more)
        self.operation = operation


TYPED = "kho.typed"
"""Where a context keeps the whole command line, up to a lone `--`."""
json_option = click.option("--json", is_flag=True, help="Answer in JSON.")
