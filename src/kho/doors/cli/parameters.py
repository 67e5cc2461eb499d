"""The parameters of a command, generated from the schema of its operation: flags, positional arguments, and the example
in its help.

Parameters are identified by path: `content.body` is the field `body` of `content`.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import click
import orjson

from kho.doors.cli import schema_paths
from kho.doors.cli.schema_paths import Spec
from kho.kernel import Command, Operation
from kho.lib import jsonrpc
from kho.lib.lazy_regex import pattern

_PAIR = pattern(r"([A-Za-z_][\w.-]*)=(.*)", re.DOTALL)
CONFIRM = "confirm"
"""Parameter that `--yes` sets."""


def specs(operation: Operation) -> dict[str, Spec]:
    return schema_paths.specs(operation.input_schema)


def parameters(operation: Operation, command: Command) -> Iterator[click.Parameter]:
    found = specs(operation)
    for field in command.positional:
        many = takes_list(found[field]) or (command.sentence and field == command.positional[-1])
        shown = metavar(command, field) + "..." * many
        needed = _is_needed(operation, command, field)
        if command.pairs and field == command.positional[-1]:
            shown += " [NAME=VALUE]..."
        # Not required here: it may come from --params, and the operation reports missing parameters in one way.
        yield click.Argument(
            [_key(field)], nargs=-1 if many else 1, required=False, metavar=shown if needed else f"[{shown}]"
        )
    for field in flagged(operation, command):
        yield _option(field, flag(command, field), found[field], _need(operation, command, field))
    if command.confirms:
        yield click.Option(["--yes", "-y", CONFIRM], is_flag=True, default=None, help="Do it without asking.")
    if command.warning:
        yield click.Option(["--yes", "-y"], is_flag=True, help="Do it without asking.")


def _is_needed(operation: Operation, command: Command, field: str) -> bool:
    """True if the parameter is required, as far as the schema says: for an operation with several actions it lists only
    what all of them need."""
    if field in (command.from_file, command.here):
        return False
    return bool(command.fixed) or schema_paths.is_required(operation.input_schema, field)


def _need(operation: Operation, command: Command, field: str) -> str:
    """Return what help says of a flag that has to be given; empty for others."""
    if field not in command.needs and not schema_paths.is_required(operation.input_schema, field):
        return ""
    return "required, unless --from-file or stdin gives it" if field == command.from_file else "required"


def flagged(operation: Operation, command: Command) -> list[str]:
    """Return the parameters that have a flag."""
    hidden = {*command.positional, *command.fixed, *([CONFIRM] if command.confirms else [])}
    return [field for field in command.shows or specs(operation) if field not in hidden]


def arguments(operation: Operation, command: Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed values as the operation's arguments. What was not typed is left to the operation's own
    default."""
    return schema_paths.put_together(typed(operation, command, given))


def typed(operation: Operation, command: Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the typed values and the command's fixed ones, by path."""
    found = specs(operation)
    fields = {_key(field): field for field in found}
    typed: dict[str, Any] = {}
    for key, value in given.items():
        field = fields.get(key, key)
        if value is None or value == ():
            continue
        if schema_paths.is_open(found.get(field, {})):
            typed[field] = _object(command, field, value)
        elif not isinstance(value, tuple):
            typed[field] = value
        elif command.sentence and field == command.positional[-1]:
            typed[field] = " ".join(cast(tuple[str, ...], value))
        else:
            typed[field] = _listed(found[field], cast(tuple[str, ...], value))
    return {**typed, **command.fixed}


def split_pairs(command: Command, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the trailing NAME=VALUE words from the positional ones, which Click has assigned together. A value is
    JSON if it can be (`10`, `true`), otherwise text."""
    keys = [_key(field) for field in command.positional]
    words = [word for key in keys for word in (given[key] if isinstance(given[key], tuple) else (given[key],)) if word]
    pairs: dict[str, Any] = {}
    while words and (match := _PAIR.fullmatch(words[-1])):
        pairs = {match[1]: _value(match[2]), **pairs}
        words.pop()
    if not pairs:
        return dict(given), {}
    *rest, last = words or [None]
    return {**given, keys[0]: tuple(rest) or (), keys[-1]: last}, pairs


def _value(text: str) -> Any:
    try:
        return jsonrpc.loads(text.encode())
    except jsonrpc.ParseError:
        return text


def from_the_left(operation: Operation, command: Command, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Assign positional words from the left, so that if there are too few, the last ones are missing. Click fills the
    arguments after a list before the list itself: `devices call BOARD` would lack the board, not the tool."""
    keys = [_key(field) for field in command.positional]
    words = [given[key] for key in keys if given.get(key) not in (None, ())]
    if not words or given[keys[0]] != () or not schema_paths.is_required(operation.input_schema, command.positional[0]):
        return given
    first, *rest = words
    filled = dict.fromkeys(keys) | dict(zip(keys[1:], rest, strict=False))
    return {**given, **filled, keys[0]: (first,)}


def example(operation: Operation, command: Command) -> str:
    """Return the example arguments as one would type them, after the command's words."""
    chosen = operation.example if command.example is None else command.example
    words = [command.words]
    for field in command.positional:
        value: Any = schema_paths.at(chosen, field) or ()
        several = cast(list[Any], value) if isinstance(value, list | tuple) else [value]
        words += [shlex.quote(str(item)) for item in several]
    fields = flagged(operation, command)
    for field in fields:
        name, value = flag(command, field), _of_example(chosen, field, fields)
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(name if value else f"--no-{name[2:]}")
        elif isinstance(value, dict):
            words.append(f"{name} {shlex.quote(orjson.dumps(value).decode())}")
        elif isinstance(value, list):
            words += [f"{name} {shlex.quote(str(item))}" for item in cast(list[Any], value)]
        else:
            words.append(f"{name} {shlex.quote(str(value))}")
    if command.warning or (command.confirms and chosen.get(CONFIRM)):
        words.append("--yes")
    return " ".join(words)


def _of_example(chosen: Mapping[str, Any], field: str, fields: Sequence[str]) -> Any:
    """Return the example value of a field. An object is shown without the parts that have flags of their own; None if
    nothing is left."""
    value = schema_paths.at(chosen, field)
    if not isinstance(value, dict):
        return value
    for part in fields:
        if part.startswith(f"{field}."):
            value = schema_paths.without(cast(Spec, value), part.removeprefix(f"{field}."))
    return cast(Spec, value) or None


def takes_list(spec: Spec) -> bool:
    return "array" in _types(spec)


def _types(spec: Spec) -> list[str]:
    return [variant.get("type", "") for variant in cast(list[Spec], spec.get("anyOf", [spec]))]


def _listed(spec: Spec, given: tuple[str, ...]) -> Any:
    """Split into a list: `a,b`, a repeated flag and both together give the same. If the operation also accepts a
    string, a single value stays as it is."""
    if len(given) == 1 and "string" in _types(spec):
        return given[0]
    return [part.strip() for text in given for part in text.split(",") if part.strip()]


def _object(command: Command, field: str, text: str) -> dict[str, Any]:
    try:
        value = jsonrpc.loads(text.encode())
    except jsonrpc.ParseError as problem:
        raise click.BadParameter(f"{flag(command, field)}: {problem}") from None
    if not isinstance(value, dict):
        raise click.BadParameter(f"{flag(command, field)}: takes a JSON object.")
    return cast(dict[str, Any], value)


def _key(field: str) -> str:
    """Identifier that Click uses for the parameter."""
    return field.replace(".", "__")


def _name(command: Command, field: str) -> str:
    """Last part of the path, unless the command gives it another name."""
    return command.names.get(field, field.rpartition(".")[2]).replace("_", "-")


def flag(command: Command, field: str) -> str:
    return "--" + _name(command, field)


def metavar(command: Command, field: str) -> str:
    return _name(command, field).upper()


class OneOf(click.Choice[str]):
    """Shown and completed as a choice, but not enforced: the operation reports invalid values in one way."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return value


def _option(field: str, flag: str, spec: Spec, need: str) -> click.Option:
    help = _help(spec, need)
    if takes_list(spec):
        return click.Option([flag, _key(field)], multiple=True, metavar="TEXT", help=help)
    match spec.get("type"):
        case "boolean":
            return click.Option([f"{flag}/--no-{flag[2:]}", _key(field)], default=None, help=help)
        case "string" if "enum" in spec:
            return click.Option([flag, _key(field)], type=OneOf(spec["enum"]), help=help)
        case kind:
            # Numbers, too, go to the operation as text: it validates them and reports errors in one way.
            metavar = {"integer": "INTEGER", "number": "NUMBER", "object": "JSON"}.get(kind or "", "TEXT")
            return click.Option([flag, _key(field)], metavar=metavar, help=help)


def _help(spec: Spec, need: str) -> str:
    remarks = [need] if need else []
    if "minimum" in spec and "maximum" in spec:
        remarks.append(f"{spec['minimum']} to {spec['maximum']}")
    if takes_list(spec):
        remarks.append("several: a,b or repeated")
    if spec.get("default") not in (None, False, []):
        remarks.append(f"default: {spec['default']}")
    return " ".join([spec.get("description", ""), f"[{'; '.join(remarks)}]" if remarks else ""]).strip()
