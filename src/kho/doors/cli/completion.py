"""`kho completion`: prints Click's completion script for a shell."""

import click
from click.shell_completion import get_completion_class

from kho.doors.cli.context import Program
from kho.doors.cli.terminal import echo

HELP = """Print the script that completes commands in your shell.

For bash and zsh put 'eval "$({name} completion bash)"' (or zsh) into ~/.bashrc (or ~/.zshrc); for fish save it as
~/.config/fish/completions/{name}.fish.
"""


def register(group: click.Group, program: Program) -> None:
    @group.command(help=program.help(HELP.format(name=program.name), "completion bash"), no_args_is_help=True)
    @click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
    def completion(shell: str) -> None:  # pyright: ignore[reportUnusedFunction]
        kind = get_completion_class(shell)
        assert kind is not None
        # The environment variable by which the script calls the program, as Click names it.
        variable = f"_{program.name}_COMPLETE".replace("-", "_").upper()
        echo(kind(group, {}, program.name, variable).source())
