"""`export` and `import` commands: JSON Lines, for every transfer that a capability offers."""

import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import click
import orjson

from kho.doors.cli import confirmation, embedding_progress, output, parameters
from kho.doors.cli.context import Program, fail
from kho.doors.cli.lazy_group import Group
from kho.doors.cli.operations import subgroup
from kho.doors.cli.terminal import echo
from kho.kernel import Capability, Command, Hub, KhoError, Operation, Registry, Transfer
from kho.kernel.registry import Outcome
from kho.lib import private_file
from kho.lib.markdown import counted

BATCH = 500
BATCH_BYTES = 8_000_000
"""Approximate maximum size of a batch, even if that is only a few lines."""
MAX_LINE = 32 * 1024 * 1024
"""Bytes of a line. The longest that an export writes, of a document of 4 MiB in escapes, has fewer."""
OURS = ("cursor", "limit")
"""Parameters of an export that the command sets itself."""
SHOWN = 20
"""Maximum number of refused lines that are named."""
PLACE = re.compile(r"^(Line|Record) \d+: ")
"""The place within a batch, which says nothing about the file."""

Numbered = tuple[int, Any]
"""A record and the number of its line."""
Answer = dict[str, Any]
"""Counts of what was done with a batch, and `notes` that its owner must see."""
Send = Callable[[Sequence[Numbered]], Awaitable[Answer | KhoError]]


class Refused(NamedTuple):
    """Lines that were not imported."""

    first: int
    last: int
    why: str

    def __str__(self) -> str:
        where = f"line {self.first}" if self.first == self.last else f"lines {self.first}-{self.last}"
        return f"{where}: {self.why}"


def register(group: Group, program: Program, registry: Registry) -> None:
    for capability in registry.capabilities:
        for transfer in capability.transfers:
            out, back = transfer.words
            example = f"{transfer.group} {out} {capability.name}.jsonl"
            parent = subgroup(group, transfer.group, program, capability.summary, lambda example=example: example)
            parent.add_later(out, partial(_export, capability, transfer, program))
            if transfer.import_:
                parent.add_later(back, partial(_import, capability, transfer, program))


def _operation(capability: Capability, method: str) -> Operation:
    return next(operation for operation in capability.operations if operation.rpc == method)


def _flags(operation: Operation, hidden: tuple[str, ...]) -> Command:
    return Command(operation.name, shows=[name for name in parameters.specs(operation) if name not in hidden])


def _export(capability: Capability, transfer: Transfer, program: Program) -> click.Command:
    described = _operation(capability, transfer.export)
    command = _flags(described, (*OURS, *transfer.complete))

    def run(file: str, force: bool, **given: Any) -> None:
        chosen = parameters.arguments(described, command, given)

        async def work(hub: Hub, file: IO[bytes]) -> Counter[str]:
            operation = hub.registry.methods[f"{capability.server}/{transfer.export}"]
            count, cursor = Counter[str](), None
            limit = min(BATCH, parameters.specs(operation)["limit"].get("maximum", BATCH))
            while True:
                arguments: dict[str, Any] = {**chosen, **transfer.complete, "limit": limit}
                if cursor:
                    arguments["cursor"] = cursor
                page = _data(await hub.registry.call(operation, arguments, program.call()))
                for item in page[transfer.items]:
                    file.write(f"{item}\n".encode() if isinstance(item, str) else orjson.dumps(item) + b"\n")
                count.update(_kind(item) for item in page[transfer.items])
                cursor = page.get("next_cursor")
                if cursor is None:
                    return count

        with _written(file, force=force) as target:
            count = program.run(partial(work, file=target), capability.name)
        kinds = [counted(number, kind) if kind else str(number) for kind, number in count.items()]
        echo(f"{', '.join(kinds) or 0} exported.", err=True)

    return click.Command(
        transfer.words[0],
        help=program.help(
            f"Write {transfer.what or f'all of {capability.name} as JSON Lines'} to FILE, or stdout.",
            f"{transfer.group} {transfer.words[0]} {capability.name}.jsonl",
        ),
        params=[
            click.Argument(["file"], default="-"),
            *parameters.parameters(described, command),
            click.Option(["--force"], is_flag=True, help="Overwrite the file if it exists."),
        ],
        callback=run,
    )


def _kind(item: Any) -> str:
    return cast(dict[str, Any], item).get("kind", "") if isinstance(item, dict) else ""


@contextmanager
def _written(name: str, *, force: bool) -> Generator[IO[bytes], None, None]:
    """Open the file to write. A file that exists is overwritten only if the user agrees, and only by a whole export: it
    is written beside it and then takes its place. Nobody but its owner can read it."""
    path = Path(name)
    if name == "-" or name.startswith("/dev/") or (path.exists() and not path.is_file()):  # a pipe or a device
        with click.open_file(name, "wb") as file:
            yield file
        return
    if path.exists() and not force:
        if not confirmation.somebody_is_there():
            raise fail(f"{name} exists. Add --force to overwrite it.")
        click.confirm(f"{name} exists. Overwrite it?", abort=True, err=True)
    target = path.resolve()
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with private_file.create(part) as file:
            yield file
        part.replace(target)
    except OSError as problem:
        raise fail(f"{name} cannot be written: {problem.strerror}.") from None
    finally:
        part.unlink(missing_ok=True)


def _import(capability: Capability, transfer: Transfer, program: Program) -> click.Command:
    described = _operation(capability, transfer.import_)
    command = _flags(described, (transfer.items,))

    def run(file: Path, json: bool, no_wait: bool, **given: Any) -> None:
        from rich.console import Console
        from rich.progress import Progress

        length = file.stat().st_size
        chosen = parameters.arguments(described, command, given)

        notes = list[str]()

        async def work(hub: Hub) -> tuple[dict[str, int], list[Refused]]:
            operation = hub.registry.methods[f"{capability.server}/{transfer.import_}"]

            async def send(lines: Sequence[Numbered]) -> Answer | KhoError:
                arguments = {**chosen, transfer.items: [record for _, record in lines]}
                outcome = await hub.registry.call(operation, arguments, program.call())
                return outcome.error or output.data(outcome.value)

            done, refused = dict.fromkeys(transfer.told, 0), list[Refused]()
            console = Console(stderr=True)
            with Progress(console=console, transient=True, disable=json or not console.is_terminal) as bar:
                task = bar.add_task("Importing", total=length)
                for size, batch in _batches(file, refused):
                    async for page in _sent(send, batch, refused):
                        done = {key: done[key] + page[key] for key in done}
                        notes.extend(page.get("notes", ()))
                    bar.advance(task, size)
            running = program.running_hub
            await embedding_progress.for_vectors(hub, wait=not no_wait, running_hub=running)
            return done, sorted(refused)

        done, refused = program.run(work, capability.name)
        if json:
            failed = [{"first_line": one.first, "last_line": one.last, "message": one.why} for one in refused]
            output.as_json({**done, **({"notes": notes} if notes else {}), **({"failed": failed} if failed else {})})
        else:
            for one in refused[:SHOWN]:
                echo(f"error: {one}", err=True, fg="red")
            if len(refused) > SHOWN:
                echo(f"… and {len(refused) - SHOWN} more (--json shows all)", err=True)
            left = sum(one.last - one.first + 1 for one in refused)
            not_imported = f", {counted(left, 'line')} not imported" if left else ""
            echo(", ".join(_told(done[key], words) for key, words in transfer.told.items()) + f"{not_imported}.")
            for note in notes:
                echo(note)
        if refused:
            raise SystemExit(1)

    return click.Command(
        transfer.words[1],
        help=program.help(
            f"Read {capability.name} from a file of JSON Lines. Importing twice is harmless; refused lines are named "
            "and the others imported.",
            f"{transfer.group} {transfer.words[1]} {capability.name}.jsonl",
        ),
        params=[
            click.Argument(["file"], type=click.Path(exists=True, dir_okay=False, path_type=Path)),
            *parameters.parameters(described, command),
            click.Option(["--json"], is_flag=True, help="Answer in JSON."),
            embedding_progress.no_wait_option,
        ],
        callback=run,
    )


def _batches(file: Path, refused: list[Refused]) -> Iterator[tuple[int, list[Numbered]]]:
    """Yield (its bytes, its numbered records) for each batch. Lines that are not JSON are added to `refused`."""
    size, batch = 0, list[Numbered]()
    with file.open("rb") as source:
        for number, line in enumerate(_lines(source), 1):
            size += len(line)
            if len(line) > MAX_LINE:
                refused.append(Refused(number, number, f"it is longer than {MAX_LINE // (1024 * 1024)} MiB"))
            elif line.strip():
                try:
                    batch.append((number, orjson.loads(line)))
                except orjson.JSONDecodeError as problem:
                    refused.append(Refused(number, number, f"it is not JSON: {problem}"))
            if len(batch) == BATCH or (batch and size >= BATCH_BYTES):
                yield size, batch
                size, batch = 0, []
    if batch:
        yield size, batch


def _lines(source: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines. One that is too long is cut, and its rest skipped: a file may be a single line of any length."""
    while line := source.readline(MAX_LINE + 1):
        rest = line
        while len(rest) > MAX_LINE and not rest.endswith(b"\n"):
            rest = source.readline(MAX_LINE + 1)
        yield line


async def _sent(send: Send, batch: Sequence[Numbered], refused: list[Refused]) -> AsyncIterator[Answer]:
    """Send a batch, and yield what was done. It is stored as a whole or not at all; one that is refused is halved until
    the lines are found that are wrong, so that the others are imported."""
    waiting = [batch]
    while waiting:
        lines = waiting.pop()
        answer = await send(lines)
        if not isinstance(answer, KhoError):
            yield answer
        elif len(lines) == 1 or answer.status >= 500:  # not for what is in it
            refused.append(Refused(lines[0][0], lines[-1][0], PLACE.sub("", answer.message)))
        else:
            middle = len(lines) // 2
            waiting += [lines[middle:], lines[:middle]]


def _told(count: int, words: str) -> str:
    one, _, several = words.partition("|")
    return f"{count} {one if count == 1 or not several else several}"


def _data(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        raise fail(outcome.error)
    return output.data(outcome.value)
