"""Turns what was typed into an operation's arguments: flags, a file of arguments, relative paths, text from a file or
stdin."""

import os
import sys
from collections.abc import Iterator, Mapping
from typing import IO, Any, cast

import click

from kho.doors.cli import parameters, schema_paths
from kho.doors.cli.context import fail
from kho.kernel import Command, Operation
from kho.lib import jsonrpc
from kho.lib.merge import merged

ELSEWHERE = ("/", "~", "\\\\")
"""Prefixes of paths that are not relative."""


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
    filed = _from_file(params_file)
    pairs: dict[str, Any] = {}
    if command.pairs:
        given, pairs = parameters.split_pairs(command, given)
    words = given if filed else parameters.from_the_left(operation, command, given)
    typed = parameters.typed(operation, command, words)
    if command.from_file and typed.get(command.from_file) == "-":
        typed[command.from_file] = _text(sys.stdin.buffer)
    if command.from_file and command.from_file not in typed and schema_paths.at(filed, command.from_file) is None:
        # Read stdin only if it is not a terminal, or the user would wait at a prompt they did not ask for.
        needed = schema_paths.is_required(operation.input_schema, command.from_file)
        if text_file is None and params_file is None and needed and not sys.stdin.isatty():
            text_file = sys.stdin.buffer
        if text_file is not None:
            typed[command.from_file] = _text(text_file)
    if command.masks and schema_paths.at(filed, command.masks[0]) is None:
        patch, mask = command.masks
        parts = [path.removeprefix(f"{patch}.") for path in typed if path.startswith(f"{patch}.")]
        typed = {**({mask: parts} if parts else {}), **typed}
    found = merged(filed, schema_paths.put_together(typed))
    if pairs:
        found[command.pairs] = {**(found.get(command.pairs) or {}), **pairs}
    for name in command.paths:
        path = found.get(name)
        if isinstance(path, str) and path and not path.startswith(ELSEWHERE) and "://" not in path:
            found[name] = os.path.join(_here(), path)  # noqa: PTH118 (as typed: what '..' means is judged elsewhere)
    for name in command.documents:
        if name in found:
            found[name] = _document(found[name])
    if command.here:
        found.setdefault(command.here, _here())
    return found


def _document(named: Any) -> Any:
    """Return the file's path with links resolved, as documents are stored; anything else as it was typed."""
    if isinstance(named, list):
        return [_document(one) for one in cast(list[Any], named)]
    if not isinstance(named, str) or "\0" in named:
        return named
    path = os.path.join(_here(), named)  # noqa: PTH118 (a plain text is wanted)
    return os.path.realpath(path) if os.path.isfile(path) else named  # noqa: PTH113 (the same)


def _here() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 (a plain text is wanted)
    except FileNotFoundError:
        raise fail("The working directory no longer exists.") from None


def _text(file: IO[bytes]) -> str:
    try:
        return file.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise click.BadParameter("The text is not UTF-8. 'kb add-document' reads files in other encodings.") from None


def _from_file(file: IO[bytes] | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        parsed = jsonrpc.loads(file.read())
    except jsonrpc.ParseError as problem:
        raise click.BadParameter(f"--params: {problem}") from None
    if not isinstance(parsed, dict):
        raise click.BadParameter("--params: the arguments are a JSON object.")
    return cast(dict[str, Any], parsed)
