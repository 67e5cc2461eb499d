"""Confirmation of destructive commands: a prompt at a terminal, elsewhere an error that names `--yes`."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from kho.doors.cli import parameters
from kho.doors.cli.context import Program
from kho.kernel import Command, Hub, Operation, Unconfirmed
from kho.kernel.registry import Outcome


def somebody_is_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def first(
    server: str, operation: Operation, command: Command, program: Program, arguments: Mapping[str, Any], *, json: bool
) -> Outcome | None:
    """Return None if the command may proceed, otherwise the outcome to show instead: there is nothing to destroy, or
    nobody to ask."""
    if command.looks:
        method, more = command.looks

        async def look(hub: Hub) -> Outcome:
            reader = hub.registry.methods[f"{server}/{method}"]
            taken = parameters.specs(reader)
            known = {name: value for name, value in arguments.items() if name in taken}
            return await hub.registry.call(reader, {**known, **more}, program.call())

        if (error := program.run(look, operation.capability).error) is not None:
            return Outcome(operation, None, error=error)
    if json or not somebody_is_there():
        refusal = Unconfirmed(f"{command.warning} Nothing was done yet.", guidance="Add --yes to do it.")
        return Outcome(operation, None, error=refusal)
    click.confirm(f"{command.warning} Go on?", abort=True, err=True)
    return None
