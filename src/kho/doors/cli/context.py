"""`Program`: what the composition root passes to the command line; and reporting of failures."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar

import click

from kho.doors.cli import output
from kho.doors.cli.lazy_group import TYPED, help_text
from kho.doors.cli.terminal import echo
from kho.kernel import Call, Command, Hub, KhoError, Operation, Principal, Problem, Registry
from kho.kernel.call import Progress
from kho.kernel.operation import invalid_params
from kho.lib.dataclass import dataclass

T = TypeVar("T")


class HttpSettings(Protocol):
    """The part of the settings that `kho serve` reads."""

    host: str
    port: int
    workers: int
    allowed_hosts: list[str]
    public_url: str
    tls_cert: Path | None
    tls_key: Path | None
    other_accounts: bool

    @property
    def local_address(self) -> str: ...


Tls = tuple[str, str]
"""Files of a certificate and of its private key."""
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls a tool, given its name and arguments, and returns its answer."""
Report = Callable[[str, int, int], None]


class Evaluate(Protocol):
    """Measures search on files of questions; returns {"rows": […]}, one row for each task and configuration."""

    def __call__(
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
    ) -> Coroutine[Any, Any, dict[str, Any]]: ...


class Examine(Protocol):
    """Reports the health of the store and its indexes, after rebuilding them if `repair` is set."""

    def __call__(self, *, repair: bool, progress: Report) -> Coroutine[Any, Any, dict[str, Any]]: ...


class CheckedBackup(Protocol):
    """A backup that is whole, and not newer than this program."""

    @property
    def source(self) -> Any: ...
    @property
    def contents(self) -> dict[str, Any]: ...


class RestoreTarget(Protocol):
    """The store that a backup is restored into."""

    @property
    def where(self) -> str: ...
    async def held(self) -> list[str]: ...
    async def restore(self, source: Any, *, replace: bool, report: Report) -> dict[str, Any]: ...


class Backups(Protocol):
    """Writes the store to a file or pipe, and puts it back."""

    def file(self) -> Path: ...
    def save(self, path: Path, report: Callable[[int, int], None]) -> dict[str, Any]: ...
    def send(self, out: IO[bytes], report: Callable[[int, int], None]) -> None: ...
    def checked(self, file: Path | None, report: Report) -> AbstractContextManager[CheckedBackup]: ...
    def target(self, into: str | None) -> RestoreTarget: ...


class Verify(Protocol):
    """Reads the whole store and reports what is wrong with it, after making derived data anew if `repair` is set."""

    def __call__(self, *, repair: bool, progress: Report) -> Coroutine[Any, Any, dict[str, Any]]: ...


class Salvage(Protocol):
    """Reads what can be read of a damaged store into a new one in `folder`, and reports what is lost."""

    def __call__(self, folder: Path, *, progress: Report) -> Coroutine[Any, Any, dict[str, Any]]: ...


class Models(Protocol):
    """The embedding model that the settings choose, and the files of the built-in one."""

    @property
    def folder(self) -> Path: ...
    def lacks_file(self) -> bool: ...
    def report(self) -> dict[str, Any]: ...
    def files(self) -> list[dict[str, Any]]: ...
    def install(self, wheel: Path | None, report: Report) -> None: ...
    def check(self, wheel: Path) -> None: ...


class Attach(Protocol):
    """Serves MCP at an address that Kho dials, until cancelled. `tell` gets each event and a sentence about it."""

    def __call__(self, url: str, tools: list[str], tell: Callable[[str, str], None]) -> Coroutine[Any, Any, None]: ...


class Happening(Protocol):
    """An event of a virtual board."""

    @property
    def device(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def more(self) -> Mapping[str, Any]: ...


class Simulate(Protocol):
    """Connects virtual boards to a hub, until cancelled."""

    def __call__(
        self, count: int, hub: str, *, first: int, mqtt: str, faults: Sequence[Any], tell: Callable[[Happening], None]
    ) -> Coroutine[Any, Any, None]: ...


@dataclass(frozen=True, slots=True)
class Program:
    version: str
    http: HttpSettings
    admin: Principal
    """The user at this machine's command line."""
    slices: Sequence[str]
    """Names of all slices."""
    registry: Callable[[Collection[str]], Registry]
    """Return the operations of the named slices, for help texts; opens nothing."""
    open_hub: Callable[[Collection[str]], AbstractAsyncContextManager[Hub]]
    """Open the hub with the named slices."""
    stdio: Callable[[list[str]], None]
    """Serve MCP on stdio, restricted to the tools of some capabilities."""
    serve: Callable[[str, int, int, bool, Tls | None], None]
    """Serve the hub over HTTP, or HTTPS with a certificate: host, port, number of workers, and whether to reload when
    source changes."""
    where: str
    """Description of the database, without its password."""
    home: Path
    """The folder of the hub's data."""
    environment: Mapping[str, str]
    """The variables of this process: they say where other programs keep their settings."""
    mask: Callable[[str], str]
    """A text with its secrets masked."""
    evaluate: Evaluate
    examine: Examine
    standing: Callable[[], Coroutine[Any, Any, dict[str, Any]]]
    """Compare the database with this version of the program; changes nothing."""
    migrate: Callable[[Report], Coroutine[Any, Any, dict[str, Any]]]
    """Bring the database up to date."""
    asks: bool
    """Nothing is copied before the database is brought up to date, so `kho migrate --apply` asks."""
    backups: Callable[[], Backups]
    verify: Verify
    salvage: Salvage
    models: Callable[[], Models]
    asking: Callable[[str, Hub], AbstractAsyncContextManager[Ask]]
    """Connect a client to a hub through one of its doors: memory, mcp or http."""
    attach: Attach
    simulate: Simulate
    faults: Sequence[str]
    """Faults that virtual boards can simulate."""
    listen_mqtt: Callable[[str], None]
    """Make the next hub that is opened listen at this address for boards that speak MQTT."""
    mqtt_broker: str = ""
    """Address at which the settings let the hub listen for such boards; empty if they do not."""
    name: str = "kho"
    """Name under which the program was called."""
    ask_hub: Callable[[str, Operation, Command, Mapping[str, Any]], dict[str, Any]] | None = None
    """Ask a running hub to run a read-only command, given the program's name; empty if no hub answers."""

    answered: Callable[[Any], None] = lambda answer: None
    """Log what an answer lacks and does not say."""
    running_hub: Callable[[], str] = lambda: ""
    """Return the address of a hub that is running on this machine, on the same store and with the same settings; empty
    if there is none."""

    def run(self, work: Callable[[Hub], Awaitable[T]], *slices: str) -> T:
        """Open the hub with these slices, run `work` with it, and close it."""

        async def session() -> T:
            async with self.open_hub(slices) as hub:
                return await work(hub)

        return self.finish(session())

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` to its end. Kho's own errors are printed as a sentence, not as a traceback."""
        try:
            return asyncio.run(work)
        except KhoError as error:
            raise fail(error) from None

    def call(self, progress: Progress | None = None) -> Call:
        return Call(self.admin, "cli") if progress is None else Call(self.admin, "cli", progress=progress)

    def help(self, text: str, *commands: str) -> str:
        return help_text(self.name, text, *commands)


def fail(problem: KhoError | str) -> click.exceptions.Exit:
    """Print what went wrong, as JSON if --json was given, and return the exit with status 1 for the caller to raise."""
    context = click.get_current_context(silent=True)
    if context is not None and wants_json(context):
        output.as_json(_failure(context.command, problem))
    else:
        message = problem if isinstance(problem, str) else problem.message
        echo(f"error: {message}", err=True, fg="red")  # click drops the colour if there is no terminal
    return click.exceptions.Exit(1)


def _failure(command: click.Command, problem: KhoError | str) -> Any:
    """Return the failure in the form of the command's operation, if it was made from one."""
    operation = command.operation if isinstance(command, Answering) else None
    if isinstance(problem, str):
        refuse = operation.invalid if operation else invalid_params
        problem = refuse([Problem("", "value_error", problem)])
    return operation.failure(problem) if operation else {"error": problem.as_dict()}


def wants_json(context: click.Context) -> bool:
    """True if --json was typed for a command that has it, or for one that could not be loaded. Reads the raw command
    line, because the parsed value is not available when the parser itself refuses something."""
    typed: Sequence[str] = context.meta.get(TYPED, ())
    command = context.command
    return "--json" in typed and (
        isinstance(command, click.Group) or any("--json" in one.opts for one in command.params)
    )


class Answering(click.Command):
    """A command made from an operation."""

    def __init__(self, operation: Operation, name: str, **more: Any) -> None:
        super().__init__(name, **more)
        self.operation = operation


json_option = click.option("--json", is_flag=True, help="Answer in JSON.")
