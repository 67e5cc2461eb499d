"""What was typed, as an operation takes it: flags, a file of arguments, paths from here, a text from elsewhere."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import click

from kho.doors.cli import parameters
from kho.kernel import jsonrpc
from kho.kernel.operation import Command, Operation

ELSEWHERE = ("/", "~", "\\\\")
"""How a path begins that is not relative to anything."""


def options(command: Command) -> Iterator[click.Option]:
    if command.from_file:
        yield click.Option(
            ["--from-file", "from_file"], type=click.File("rb"), help="Take the text from a file; - is stdin."
        )
    yield click.Option(
        ["--params", "params_file"], type=click.File("rb"), help="Arguments from a JSON file; - is stdin."
    )


def arguments(
    operation: Operation,
    command: Command,
    given: Mapping[str, Any],
    params_file: IO[bytes] | None,
    text_file: IO[bytes] | None = None,
) -> dict[str, Any]:
    found = {**_from_file(params_file), **parameters.arguments(operation, command, given)}
    if command.from_file and command.from_file not in found:
        # Nobody at a terminal is left waiting for the end of a text they did not mean to type.
        if text_file is None and params_file is None and not sys.stdin.isatty():
            text_file = sys.stdin.buffer
        if text_file is not None:
            found[command.from_file] = _text(text_file)
    for name in command.paths:
        path = found.get(name)
        if isinstance(path, str) and path and not path.startswith(ELSEWHERE) and "://" not in path:
            found[name] = os.path.join(_here(), path)  # noqa: PTH118 (as typed: what '..' means is judged elsewhere)
    if command.here:
        found.setdefault(command.here, _here())
    return found


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (a plain text is wanted)
    except FileNotFoundError:
        raise click.UsageError("The folder that this was typed in is gone.") from None


def _text(file: IO[bytes]) -> str:
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.UsageError("The text is not UTF-8. 'kb add-document' reads files in other encodings.") from None


def _from_file(file: IO[bytes] | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        parsed = jsonrpc.loads(file.read())
    except jsonrpc.ParseError as problem:
        raise click.UsageError(f"--params: {problem}") from None
    if not isinstance(parsed, dict):
        raise click.UsageError("--params: the arguments are a JSON object.")
    return cast(dict[str, Any], parsed)
