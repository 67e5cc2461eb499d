"""Commands made from operations: `cli="experiences query"` becomes `kho experiences query`."""

import shlex
from collections.abc import Callable
from typing import IO, Any, cast

import click

from kho.doors.cli import show, waiting
from kho.doors.cli.program import Program, with_example
from kho.kernel import jsonrpc
from kho.kernel.hub import Hub
from kho.kernel.operation import Operation
from kho.kernel.registry import Outcome


def register(group: click.Group, program: Program) -> None:
    for capability in program.registry().capabilities:
        for operation in capability.operations:
            if operation.cli:
                *path, name = operation.cli.split()
                parent = group
                for word in path:
                    parent = subgroup(parent, word, capability.summary)
                parent.add_command(_command(name, operation, program))


def subgroup(parent: click.Group, name: str, help: str) -> click.Group:
    if name not in parent.commands:
        parent.add_command(click.Group(name, help=help))
    return cast(click.Group, parent.commands[name])


def _command(name: str, operation: Operation, program: Program) -> click.Command:
    properties = cast(dict[str, dict[str, Any]], operation.input_schema.get("properties", {}))
    parameters: list[click.Parameter] = [
        _argument(field, spec) if field in operation.positional else _option(field, spec)
        for field, spec in sorted(properties.items(), key=lambda item: item[0] not in operation.positional)
    ]
    parameters += [
        click.Option(
            ["--params", "params_file"], type=click.File("rb"), help="Arguments from a JSON file; - is stdin."
        ),
        click.Option(["--json"], is_flag=True, help="Answer in JSON."),
    ]
    if operation.effect != "read":
        parameters.append(waiting.no_wait_option)
    return click.Command(
        name,
        help=with_example(operation.summary, example(operation)),
        short_help=operation.summary,
        params=parameters,
        callback=_callback(operation, program),
        no_args_is_help=bool(operation.input_schema.get("required")),
    )


def _callback(operation: Operation, program: Program) -> Callable[..., None]:
    def run(params_file: IO[bytes] | None, json: bool, no_wait: bool = False, **given: Any) -> None:
        arguments: dict[str, Any] = {}
        if params_file is not None:
            try:
                parsed = jsonrpc.loads(params_file.read())
            except jsonrpc.ParseError as problem:
                raise click.UsageError(f"--params: {problem}") from None
            if not isinstance(parsed, dict):
                raise click.UsageError("--params: the arguments are a JSON object.")
            arguments = cast(dict[str, Any], parsed)
        for field, value in given.items():
            if value is None or value == ():
                continue  # not given: the operation's own default holds
            words = field in operation.positional and isinstance(value, tuple)
            arguments[field] = " ".join(cast(tuple[str, ...], value)) if words else _listed(value)

        async def work(hub: Hub) -> Outcome:
            found = next(o for o in hub.registry.operations(program.admin) if o.name == operation.name)
            outcome = await hub.registry.call(found, arguments, program.call())
            if operation.effect != "read" and outcome.error is None:
                await waiting.for_vectors(hub, wait=not no_wait)
            return outcome

        raise SystemExit(show.outcome(program.run(work), json=json))

    return run


def _listed(value: Any) -> Any:
    return list(cast(tuple[Any, ...], value)) if isinstance(value, tuple) else value


def _argument(field: str, spec: dict[str, Any]) -> click.Parameter:
    # Ids have a pattern and are one word; anything else may be typed as several, without quotes.
    return click.Argument([field], nargs=1 if "pattern" in spec else -1, required=False)


def _option(field: str, spec: dict[str, Any]) -> click.Parameter:
    flag = "--" + field.replace("_", "-")
    help = _help(spec)
    match spec.get("type"):
        case "boolean":
            return click.Option([f"{flag}/--no-{flag[2:]}", field], default=None, help=help)
        case "array":
            return click.Option([flag, field], multiple=True, help=help)
        case "string" if "enum" in spec:
            return click.Option([flag, field], type=click.Choice(spec["enum"]), help=help)
        case kind:
            # Numbers, too, go to the operation as text: it has the one rule for them, and the one error.
            return click.Option([flag, field], metavar="INTEGER" if kind == "integer" else "TEXT", help=help)


def _help(spec: dict[str, Any]) -> str:
    remarks: list[str] = []
    if "minimum" in spec and "maximum" in spec:
        remarks.append(f"{spec['minimum']} to {spec['maximum']}")
    if spec.get("type") == "array":
        remarks.append("repeatable")
    if spec.get("default") not in (None, False):
        remarks.append(f"default: {spec['default']}")
    return " ".join([spec.get("description", ""), f"[{'; '.join(remarks)}]" if remarks else ""]).strip()


def example(operation: Operation) -> str:
    """The example arguments as one would type them."""
    words: list[str] = []
    for field, value in operation.example.items():
        flag = "--" + field.replace("_", "-")
        if field in operation.positional:
            words.insert(0, shlex.quote(str(value)))
        elif isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        elif isinstance(value, list):
            words += [f"{flag} {shlex.quote(str(item))}" for item in cast(list[Any], value)]
        else:
            words.append(f"{flag} {shlex.quote(str(value))}")
    return " ".join(["kho", operation.cli or "", *words])
