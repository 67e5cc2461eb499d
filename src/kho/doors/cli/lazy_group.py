"""Groups of commands, and commands that are built when they are used."""

from collections.abc import Callable
from typing import Any

import click

TYPED = "kho.typed"
"""Key in a context's `meta` of the whole command line, up to a lone `--`."""


def help_text(name: str, text: str, *commands: str) -> str:
    """Return a help text that ends in example commands; these are given without the program's name."""
    return f"{text}\n\n\b\nExample:\n" + "\n".join(f"  {name} {command}" for command in commands)


class Group(click.Group):
    """Builds a command when it is first used: its flags come from the operation's schema, and a run needs one of a
    hundred."""

    def __init__(self, name: str | None, help: Callable[[], str], **more: Any) -> None:
        super().__init__(name, **more)
        self.full_help = help
        self._waiting: dict[str, Callable[[], click.Command]] = {}

    def add_later(self, name: str, make: Callable[[], click.Command]) -> None:
        self._waiting[name] = make

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._waiting})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        make = self._waiting.pop(cmd_name, None)
        if make is not None:
            self.add_command(make(), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.help = self.full_help()
        super().format_help_text(ctx, formatter)


class Unloaded(click.Command):
    """A command of which only the summary is known. The command itself is loaded when it is typed."""

    def __init__(self, name: str, summary: str, load: Callable[[], click.Command]) -> None:
        super().__init__(name, short_help=summary)
        self._load = load

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        return self._load().make_context(info_name, args, parent, **extra)
