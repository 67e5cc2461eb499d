"""`export` and `import`: JSON Lines, for whatever has operations `export_…` and `import_…`."""

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from kho.doors.cli import show, waiting
from kho.doors.cli.operations import subgroup
from kho.doors.cli.program import Program, fail
from kho.kernel.hub import Hub
from kho.kernel.registry import Outcome

BATCH = 500


def register(group: click.Group, program: Program) -> None:
    for capability in program.registry().capabilities:
        methods = {operation.rpc for operation in capability.operations}
        if {f"export_{capability.name}", f"import_{capability.name}"} <= methods:
            parent = subgroup(group, capability.name, capability.summary)
            parent.add_command(_export(capability.name, capability.server, program))
            parent.add_command(_import(capability.name, capability.server, program))


def _export(name: str, server: str, program: Program) -> click.Command:
    def run(file: IO[bytes], include_deleted: bool) -> None:
        async def work(hub: Hub) -> int:
            operation = hub.registry.methods[f"{server}/export_{name}"]
            count, cursor = 0, None
            while True:
                arguments: dict[str, Any] = {"limit": BATCH, "include_deleted": include_deleted}
                if cursor:
                    arguments["cursor"] = cursor
                page = _data(await hub.registry.call(operation, arguments, program.call()))
                for item in page[name]:
                    file.write(orjson.dumps(item, option=orjson.OPT_APPEND_NEWLINE))
                count += len(page[name])
                cursor = page.get("next_cursor")
                if cursor is None:
                    return count

        click.echo(f"{program.run(work)} exported.", err=True)

    return click.Command(
        "export",
        help=program.help(f"Write all {name} as JSON Lines to FILE, or stdout.", f"{name} export {name}.jsonl"),
        params=[
            click.Argument(["file"], type=click.File("wb"), default="-"),
            click.Option(["--include-deleted"], is_flag=True, help="Deleted ones too."),
        ],
        callback=run,
    )


def _import(name: str, server: str, program: Program) -> click.Command:
    def run(file: Path, json: bool, no_wait: bool) -> None:
        length = file.stat().st_size

        async def work(hub: Hub) -> dict[str, int]:
            operation = hub.registry.methods[f"{server}/import_{name}"]
            done = {"imported": 0, "unchanged": 0}
            console = Console(stderr=True)
            with Progress(console=console, transient=True, disable=json or not console.is_terminal) as bar:
                task = bar.add_task("Importing", total=length)
                for first, size, batch in _batches(file):
                    outcome = await hub.registry.call(operation, {name: batch}, program.call())
                    try:
                        page = _data(outcome)
                    except click.exceptions.Exit:
                        last = first + len(batch) - 1
                        click.echo(f"  in lines {first}-{last}; {done['imported']} before them are in", err=True)
                        raise
                    done = {key: done[key] + page[key] for key in done}
                    bar.advance(task, size)
            await waiting.for_vectors(hub, wait=not no_wait)
            return done

        done = program.run(work)
        if json:
            show.as_json(done)
        else:
            click.echo(f"{done['imported']} imported, {done['unchanged']} were here already.")

    return click.Command(
        "import",
        help=program.help(
            f"Read {name} from a file of JSON Lines. Importing twice is harmless.", f"{name} import {name}.jsonl"
        ),
        params=[
            click.Argument(["file"], type=click.Path(exists=True, dir_okay=False, path_type=Path)),
            click.Option(["--json"], is_flag=True, help="Answer in JSON."),
            waiting.no_wait_option,
        ],
        callback=run,
    )


def _batches(file: Path) -> Iterator[tuple[int, int, list[Any]]]:
    """(number of its first line, its bytes, the records) of each batch."""
    first, size, batch = 1, 0, list[Any]()
    with file.open("rb") as source:
        for number, line in enumerate(source, 1):
            size += len(line)
            if line.strip():
                try:
                    batch.append(orjson.loads(line))
                except orjson.JSONDecodeError as problem:
                    raise fail(f"line {number} is not JSON: {problem}") from None
            if len(batch) == BATCH:
                yield first, size, batch
                first, size, batch = number + 1, 0, []
    if batch:
        yield first, size, batch


def _data(outcome: Outcome) -> dict[str, Any]:
    if outcome.error is not None:
        raise fail(outcome.error.message)
    return show.data(outcome.value)
