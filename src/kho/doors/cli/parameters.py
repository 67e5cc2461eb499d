"""The parameters of a command, made from the schema of its operation: flags, words, and the example in its help."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, cast

import click

from kho.kernel.operation import Command, Operation

Spec = dict[str, Any]
CONFIRM = "confirm"
"""The parameter that `--yes` sets."""


def specs(operation: Operation) -> dict[str, Spec]:
    return cast(dict[str, Spec], operation.input_schema.get("properties", {}))


def parameters(operation: Operation, command: Command) -> Iterator[click.Parameter]:
    found = specs(operation)
    for field in command.positional:
        many = takes_list(found[field]) or (command.sentence and field == command.positional[-1])
        # Not required here: it may come from --params, and the operation has the one error for what is missing.
        yield click.Argument([field], nargs=-1 if many else 1, required=False, metavar=_metavar(command, field, many))
    for field in flagged(operation, command):
        yield _option(field, _flag(command, field), found[field])
    if command.confirms:
        yield click.Option(["--yes", "-y", CONFIRM], is_flag=True, default=None, help="Do not ask: do it.")
    if command.final:
        yield click.Option(["--yes", "-y"], is_flag=True, help="Do not ask: do it.")


def flagged(operation: Operation, command: Command) -> list[str]:
    """The parameters that the command has a flag for."""
    hidden = {*command.positional, *command.fixed, *([CONFIRM] if command.confirms else [])}
    return [field for field in command.shows or specs(operation) if field not in hidden]


def arguments(operation: Operation, command: Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """What was typed, as the operation takes it. What was not typed is left to the operation's own default."""
    found = specs(operation)
    typed: dict[str, Any] = {}
    for field, value in given.items():
        if value is None or value == ():
            continue
        if not isinstance(value, tuple):
            typed[field] = value
        elif command.sentence and field == command.positional[-1]:
            typed[field] = " ".join(cast(tuple[str, ...], value))
        else:
            typed[field] = _listed(found[field], cast(tuple[str, ...], value))
    return {**typed, **command.fixed}


def example(operation: Operation, command: Command) -> str:
    """The example arguments as one would type them, behind the command's words."""
    chosen = operation.example if command.example is None else command.example
    words = [command.words]
    for field in command.positional:
        value: Any = chosen.get(field, ())
        several = cast(list[Any], value) if isinstance(value, list | tuple) else [value]
        words += [shlex.quote(str(item)) for item in several]
    for field in flagged(operation, command):
        if field not in chosen:
            continue
        flag, value = _flag(command, field), chosen[field]
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, list):
            words += [f"{flag} {shlex.quote(str(item))}" for item in cast(list[Any], value)]
        else:
            words.append(f"{flag} {shlex.quote(str(value))}")
    if command.final or (command.confirms and chosen.get(CONFIRM)):
        words.append("--yes")
    return " ".join(words)


def takes_list(spec: Spec) -> bool:
    return "array" in _types(spec)


def _types(spec: Spec) -> list[str]:
    return [variant.get("type", "") for variant in cast(list[Spec], spec.get("anyOf", [spec]))]


def _listed(spec: Spec, given: tuple[str, ...]) -> Any:
    """`a,b`, a repeated flag and both together are the same list. Where the operation takes a text, too, a lone one
    stays as it is."""
    if len(given) == 1 and "string" in _types(spec):
        return given[0]
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _name(command: Command, field: str) -> str:
    return command.names.get(field, field).replace("_", "-")


def _flag(command: Command, field: str) -> str:
    return "--" + _name(command, field)


def _metavar(command: Command, field: str, many: bool) -> str:
    name = _name(command, field).upper()
    return f"{name}..." if many else name


def _option(field: str, flag: str, spec: Spec) -> click.Option:
    help = _help(spec)
    if takes_list(spec):
        return click.Option([flag, field], multiple=True, metavar="TEXT", help=help)
    match spec.get("type"):
        case "boolean":
            return click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=help)
        case "string" if "enum" in spec:
            return click.Option([flag, field], type=click.Choice(spec["enum"]), help=help)
        case kind:
            # Numbers, too, go to the operation as text: it has the one rule for them, and the one error.
            metavar = {"integer": "INTEGER", "number": "NUMBER"}.get(kind or "", "TEXT")
            return click.Option([flag, field], metavar=metavar, help=help)


def _help(spec: Spec) -> str:
    remarks: list[str] = []
    if "minimum" in spec and "maximum" in spec:
        remarks.append(f"{spec['minimum']} to {spec['maximum']}")
    if takes_list(spec):
        remarks.append("several: a,b or repeated")
    if spec.get("default") not in (None, False, []):
        remarks.append(f"default: {spec['default']}")
    return " ".join([spec.get("description", ""), f"[{'; '.join(remarks)}]" if remarks else ""]).strip()
