"""`kho backup` and `kho restore`: a whole store to a file or pipe, and back."""

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import click

from kho.doors.cli import confirmation, output
from kho.doors.cli.context import Program, fail, json_option
from kho.doors.cli.progress import Report, reporting, size
from kho.doors.cli.terminal import echo
from kho.kernel import KhoError

PIPE = "-"
Found = dict[str, Any]
_check = click.option("--check", is_flag=True, help="Only read FILE to its end, and say whether it is whole.")


def register(group: click.Group, program: Program) -> None:
    _backup(group, program)
    _restore(group, program)


def _backup(group: click.Group, program: Program) -> None:
    @group.command(
        help=program.help(
            "Write everything that the store holds to FILE, as it is at this moment; others go on writing. Without "
            "FILE, to one that is named by the time, in the folder 'backups' of the data folder.",
            "backup kho.backup",
            "backup --to -",
            "backup --check kho.backup",
        )
    )
    @click.argument("file", required=False)
    @click.option("--to", "to", metavar="FILE", help="The same as FILE; - writes to stdout.")
    @click.option("--force", is_flag=True, help="Take the place of a file that exists.")
    @_check
    @json_option
    def backup(  # pyright: ignore[reportUnusedFunction]
        file: str | None, to: str | None, force: bool, check: bool, json: bool
    ) -> None:
        if file is not None and to is not None:
            raise fail("give FILE or --to FILE, not both.")
        name = file or to
        if check:
            _checked(program, name, json=json)
        elif name == PIPE:
            if sys.stdout.isatty():
                raise fail("a backup is not for a terminal: send it on with | or >.")
            _run(lambda report: program.backups().send(sys.stdout.buffer, partial(report, "Backup")))
        else:
            _save(program, name, force=force, json=json)


def _save(program: Program, name: str | None, *, force: bool, json: bool) -> None:
    if name is not None and Path(name).exists() and not force:
        if json or not confirmation.somebody_is_there():
            raise fail(f"{name} exists. Add --force to put the backup in its place.")
        click.confirm(f"{name} exists. Put the backup in its place?", abort=True, err=True)
    backups = program.backups()
    path = Path(name) if name else backups.file()
    found = _run(lambda report: backups.save(path, partial(report, "Backup")))
    if json:
        output.as_json(found)
    else:
        echo(f"{found['file']}: {_counted(found)}.")


def _restore(group: click.Group, program: Program) -> None:
    @group.command(
        help=program.help(
            "Put back everything that a backup holds, into an empty store, also of the other database. FILE may be -, "
            "for stdin. Nothing is changed before the whole backup is found sound.",
            "restore kho.backup",
            "restore kho.backup --into postgresql://kho@db.example.org/kho",
            "restore kho.backup --replace",
        )
    )
    @click.argument("file")
    @click.option("--into", metavar="URL|FOLDER", help="Another store: a PostgreSQL address, or a data folder.")
    @click.option("--replace", is_flag=True, help="Take the place of what the store holds; a copy of that is kept.")
    @click.option("--yes", is_flag=True, help="Do not ask.")
    @_check
    @json_option
    def restore(  # pyright: ignore[reportUnusedFunction]
        file: str, into: str | None, replace: bool, yes: bool, check: bool, json: bool
    ) -> None:
        if check:
            _checked(program, file, json=json)
            return

        done = _restored(program, file, into, replace=replace, ask=not yes, json=json)
        if json:
            output.as_json(done)
            return
        echo(f"Restored into {done['store']}: {_counted(done['backup'])}.")
        if done["before"]:
            echo(f"What was there before is kept in {done['before']}.")
        if done["vectors_wait"]:
            echo(f"Vectors are made again by the next '{program.name} serve'; search by words works now.")


def _restored(program: Program, file: str, into: str | None, *, replace: bool, ask: bool, json: bool) -> Found:
    shown: list[Report] = []  # the display is put away while a question is asked

    def report(what: str, done: int, total: int) -> None:
        shown[-1](what, done, total)

    try:
        backups = program.backups()
        target = backups.target(into)
        with ExitStack() as open_backup:
            with reporting(in_bytes=True) as now:
                shown.append(now)
                found = open_backup.enter_context(backups.checked(_path(file), report))
            held = program.finish(target.held())
            if held and replace and ask:
                warning = (
                    f"{target.where} is not empty ({', '.join(held[:5])}). The backup of {found.contents['made_at']} "
                    "takes its place; a copy of what is there is kept."
                )
                if json or not confirmation.somebody_is_there() or file == PIPE:
                    raise fail(f"{warning} Nothing was done yet. Add --yes to do it.")
                click.confirm(f"{warning} Go on?", abort=True, err=True)
            with reporting(in_bytes=True) as now:
                shown.append(now)
                restored = program.finish(target.restore(found.source, replace=replace, report=report))
            return {**restored, "backup": found.contents}
    except KhoError as problem:
        raise fail(problem) from None


def _checked(program: Program, name: str | None, *, json: bool) -> None:
    if name is None:
        raise fail("name the backup to check.")

    def work(report: Report) -> Found:
        with program.backups().checked(_path(name), report) as found:
            return found.contents

    found = _run(work)
    if json:
        output.as_json(found)
        return
    origin = f"made at {found['made_at']} by Kho {found['kho']} ({found['database']})"
    echo(f"The backup is whole: {_counted(found)}, {origin}.")
    for table, one in found["tables"].items():
        if one["rows"]:
            echo(f"  {table}: {one['rows']}")


def _counted(found: Found) -> str:
    vectors = f" and {found['vectors']:,} vectors" if found["vectors"] else ""
    return f"{found['rows']:,} rows{vectors} in {size(found['bytes'])}"


def _path(name: str) -> Path | None:
    return None if name == PIPE else Path(name)


def _run(work: Callable[[Report], Any]) -> Any:
    try:
        with reporting(in_bytes=True) as report:
            return work(report)
    except KhoError as problem:
        raise fail(problem) from None
