"""Groups of commands."""

from collections.abc import Callable
from typing import Any

import click


class Group(click.Group):
    """Makes a command when it is asked for: its flags come from the operation's schema, and a run needs one of a
    hundred."""

    def __init__(self, name: str | None, help: Callable[[], str], **more: Any) -> None:
        super().__init__(name, **more)
        self._help = help
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
        self.help = self._help()
        super().format_help_text(ctx, formatter)
