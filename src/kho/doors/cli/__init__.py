"""The command line: every operation that declares `cli=`, and the commands that run and guard the hub."""

import sys

import click

from kho.doors.cli import doctor, evaluate, keys, operations, serve, transfer
from kho.doors.cli.program import Program

HELP = """Kho: a shared, lasting memory for agents, chatbots and small devices.

Start the hub with 'kho serve', or connect one MCP client with 'kho stdio'. Commands that answer take --json for
programs, and every --help shows an example.
"""


def main(program: Program) -> None:
    # The contract of research collections names the same program `research-agent`.
    build(program)(prog_name="research-agent" if "research-agent" in sys.argv[0] else "kho")


def build(program: Program) -> click.Group:
    group = click.Group(help=HELP, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
    click.version_option(program.version, prog_name="kho")(group)
    serve.register(group, program)
    keys.register(group, program)
    operations.register(group, program)
    transfer.register(group, program)
    evaluate.register(group, program)
    doctor.register(group, program)
    return group
