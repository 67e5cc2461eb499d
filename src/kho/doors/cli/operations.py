"""Commands generated from operations: `cli=(Command("experiences query"),)` becomes `kho experiences query`."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import IO, Any, cast

import click

from kho.doors.cli import confirmation, embedding_progress, inputs, jobs, output, parameters, watch
from kho.doors.cli.context import Answering, Program
from kho.doors.cli.hints import Spell
from kho.doors.cli.lazy_group import Group
from kho.doors.cli.progress import following
from kho.doors.cli.terminal import echo
from kho.kernel import Capability, Command, Hint, Hub, Operation, Registry
from kho.kernel.registry import Outcome


def register(group: Group, program: Program, registry: Registry) -> None:
    for capability in registry.capabilities:
        summaries = _summaries(capability)
        for operation in capability.operations:
            for command in operation.cli:
                *path, name = command.words.split()
                parent = group
                for depth, word in enumerate(path, 1):
                    summary = summaries.get(tuple(path[:depth]), capability.summary)
                    parent = subgroup(parent, word, program, summary, partial(parameters.example, operation, command))
                parent.add_later(name, partial(_command, name, capability, operation, command, program))


def subgroup(parent: Group, name: str, program: Program, summary: str, example: Callable[[], str]) -> Group:
    """Return the group of that name, creating it if needed. Its help ends in the example of its first command."""
    if name not in parent.commands:
        parent.add_command(Group(name, lambda: program.help(summary, example()), short_help=summary))
    return cast(Group, parent.commands[name])


def _summaries(capability: Capability) -> Mapping[tuple[str, ...], str]:
    found: dict[tuple[str, ...], str] = {}
    for command in (command for operation in capability.operations for command in operation.cli):
        if command.group:
            found.setdefault(tuple(command.words.split()[:-1]), command.group)
    return found


def _command(
    name: str, capability: Capability, operation: Operation, command: Command, program: Program
) -> click.Command:
    options: list[click.Parameter] = [*parameters.parameters(operation, command), *inputs.options(command)]
    if command.watches:
        options.append(watch.interval_option)
        callback = watch.callback(capability.server, operation, command, program)
    else:
        callback = _callback(capability.server, operation, command, program)
    options.append(click.Option(["--json"], is_flag=True, help="Answer in JSON."))
    if _writes(operation, command) and not command.watches:
        options.append(embedding_progress.no_wait_option)
    summary = command.summary or operation.summary
    needed = {*cast(list[str], operation.input_schema.get("required", []))} - {
        *command.fixed,
        command.from_file.partition(".")[0],
    }
    return Answering(
        operation,
        name,
        help=program.help(summary, parameters.example(operation, command)),
        short_help=summary,
        params=options,
        callback=callback,
        no_args_is_help=bool(needed),
    )


def _writes(operation: Operation, command: Command) -> bool:
    return operation.effect != "read" and not command.reads


def _callback(server: str, operation: Operation, command: Command, program: Program) -> Callable[..., None]:
    def run(
        json: bool,
        params_file: IO[bytes] | None,
        from_file: IO[bytes] | None = None,
        no_wait: bool = False,
        yes: bool = False,
        **given: Any,
    ) -> None:
        arguments = inputs.arguments(operation, command, given, params_file, from_file)
        spell = Spell(program, operation, command)
        if command.warning and not yes:
            instead = confirmation.first(server, operation, command, program, arguments, json=json)
            if instead is not None:
                raise SystemExit(output.outcome(instead, json=json, spell=spell))

        if program.ask_hub and operation.effect == "read" and not command.follows:
            answer = program.ask_hub(program.name, operation, command, arguments)
            if answer:
                output.as_json(answer["value"]) if json else output.show(answer["value"], answer["text"])
                raise SystemExit(1 if answer["failed"] else 0)

        async def work(hub: Hub) -> Outcome:
            # Also one that the registry does not list now, as on a read-only hub: it says itself why it does not run.
            known = (one for capability in hub.registry.capabilities for one in capability.operations)
            found = next(one for one in known if one.name == operation.name)
            with following(quiet=json) as progress:
                outcome = await hub.registry.call(found, arguments, program.call(progress))
                if command.follows and not no_wait:
                    outcome = await jobs.followed(hub, program, f"{server}/{command.follows}", outcome, progress)
            if _writes(operation, command) and outcome.error is None:
                running = program.running_hub
                left = await embedding_progress.for_vectors(hub, wait=not no_wait, running_hub=running)
                outcome = embedding_progress.with_pending(outcome, left)
            return outcome

        outcome = program.run(work, operation.capability)
        if outcome.error is not None and outcome.error.code == command.without_hub and not program.running_hub():
            start = f"No hub is running on this machine. Start one with '{program.name} serve' first. "
            outcome.error.guidance = Hint(start, outcome.error.guidance)
        if (
            command.confirms
            and outcome.error is not None
            and outcome.error.confirmable
            and (not json or command.unattended)
        ):
            asked = confirmation.somebody_is_there() and not json
            if not asked and not command.unattended:
                output.outcome(outcome, json=False, spell=spell)
                if "--yes" not in spell.about(outcome.error, outcome.error.guidance):
                    echo("  Add --yes to do it all the same.", err=True)
                raise SystemExit(1)
            if asked:
                echo(outcome.error.message, err=True)
                click.confirm("Go on?", abort=True, err=True)
            arguments[parameters.CONFIRM] = True
            outcome = program.run(work, operation.capability)
        status = output.outcome(outcome, json=json, spell=spell)
        program.answered(outcome.value)
        raise SystemExit(status)

    return run
