"""The command line: every operation that declares `cli=`, and the commands that run and guard the hub."""

import sys
from dataclasses import replace
from typing import Any

import click

from kho.doors.cli import completion, devices, doctor, evaluate, keys, operations, serve, transfer
from kho.doors.cli.context import TYPED, Program, fail, wants_json
from kho.doors.cli.lazy_group import Group

HELP = """Kho: a shared, lasting memory for agents, chatbots and small devices.

Start the hub with '{name} serve', or connect one MCP client with '{name} stdio'. Commands that answer take --json for
programs, and every --help shows an example."""


class Top(Group):
    """A value that the parser refuses or misses is a failure, as one that the operation refuses: 2 is for a command
    line that is not understood at all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = args[: args.index("--")] if "--" in args else [*args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.BadParameter as refused:
            if refused.ctx is not None and wants_json(refused.ctx):
                with refused.ctx.scope(cleanup=False):
                    raise fail(refused.format_message().removeprefix("Invalid value: ")) from refused
            refused.show()
            raise click.exceptions.Exit(1) from refused
        except click.exceptions.NoArgsIsHelpError as nothing:
            if isinstance(nothing.ctx.command, click.Group):
                raise
            nothing.show()
            raise click.exceptions.Exit(1) from nothing


def main(program: Program) -> None:
    # The contract of research collections names the same program `research-agent`.
    called = replace(program, name="research-agent" if "research-agent" in sys.argv[0] else "kho")
    build(called)(prog_name=called.name)


def build(program: Program) -> click.Group:
    settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    shown = program.help(HELP.format(name=program.name), "serve", "query --help")
    group = Top(None, lambda: shown, context_settings=settings)
    click.version_option(program.version, prog_name="kho")(group)
    serve.register(group, program)
    keys.register(group, program)
    operations.register(group, program)
    devices.register(group, program)
    transfer.register(group, program)
    evaluate.register(group, program)
    doctor.register(group, program)
    completion.register(group, program)
    return group
