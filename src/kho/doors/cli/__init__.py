"""The command line: every operation that declares `cli=`, and the commands that run and administer the hub.

`commands.json` lists all commands with a summary of each, so that help loads no slice and a command loads only its own.
`make commands` generates it from the operations; a test compares the two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from io import StringIO
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kho.doors.cli.lazy_group import TYPED, Group, Unloaded, help_text
from kho.doors.cli.terminal import echo
from kho.lib.lazy_module import lazy

if TYPE_CHECKING:
    from kho.doors.cli import (
        completion,
        connect,
        context,
        devices,
        evaluate,
        hook,
        models,
        operations,
        serve,
        transfer,
    )
    from kho.doors.cli.context import Program
    from kho.doors.cli.upkeep import backup, doctor, migrate, purge, verify
    from kho.kernel import vocabulary
else:
    (vocabulary,) = lazy("kho.kernel.vocabulary")
    completion, connect, context, devices, evaluate, hook, models, operations, serve, transfer = lazy(
        "kho.doors.cli.completion",
        "kho.doors.cli.connect",
        "kho.doors.cli.context",
        "kho.doors.cli.devices",
        "kho.doors.cli.evaluate",
        "kho.doors.cli.hook",
        "kho.doors.cli.models",
        "kho.doors.cli.operations",
        "kho.doors.cli.serve",
        "kho.doors.cli.transfer",
    )
    backup, doctor, migrate, purge, verify = lazy(
        "kho.doors.cli.upkeep.backup",
        "kho.doors.cli.upkeep.doctor",
        "kho.doors.cli.upkeep.migrate",
        "kho.doors.cli.upkeep.purge",
        "kho.doors.cli.upkeep.verify",
    )

HELP = """Kho: a shared, lasting memory for agents, chatbots and small devices.

Start the hub with '{name} serve', or connect one MCP client with '{name} stdio'. Commands that answer take --json for
programs, and every --help shows an example."""
TABLE = Path(__file__).parent / "commands.json"
PURPOSES = {
    "Serve and connect": ("serve", "stdio", "connect", "disconnect", "hook", "keys"),
    "Remember and search": (
        "remember",
        "recall",
        "search",
        "fetch",
        "recent",
        "forget",
        "facts",
        "memory",
        "experiences",
    ),
    "Collections": ("query", "similar", "collections", "kb", "watch", "projects", "feedback", "history"),
    "Documents": ("docs",),
    "Boards and tools": ("devices", "tools"),
    "Upkeep": (
        *("doctor", "verify", "backup", "restore", "migrate", "models"),
        *("audit", "settings", "tenants", "admin", "eval", "completion"),
    ),
}
"""Sections of the help, and the order of their commands. Commands that are in none come last."""
OWN = {
    "serve": serve,
    "connect": connect,
    "hook": hook,
    "devices": devices,
    "evaluate": evaluate,
    "doctor": doctor,
    "backup": backup,
    "migrate": migrate,
    "verify": verify,
    "models": models,
    "purge": purge,
    "completion": completion,
}
"""Modules with commands that are not operations."""


class Top(Group):
    """The root group. A value that is missing or that the parser refuses exits with 1, as if the operation had refused
    it: exit status 2 is for a command line that is not understood at all."""

    def __init__(self, name: str, version: str, mask: Callable[[str], str]) -> None:
        self._mask = mask
        shown = help_text(name, HELP.format(name=name), "serve", "query --help")
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        super().__init__(None, lambda: shown, context_settings=settings)
        click.version_option(version, prog_name="kho")(self)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        grouped = {name for section in PURPOSES.values() for name in section}
        width = max(map(len, names), default=0)
        for title, section in {**PURPOSES, "More": [name for name in names if name not in grouped]}.items():
            found = [(name, self.get_command(ctx, name)) for name in section if name in names]
            rows = [(name.ljust(width), one.get_short_help_str(limit=200)) for name, one in found if one is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Also find a slice's commands by another word for the slice, such as `documents` for `docs`."""
        known = self.list_commands(ctx)
        return super().get_command(ctx, cmd_name if cmd_name in known else vocabulary.synonym(cmd_name, known))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as unknown:
            below = self._below(ctx, args[0])
            if "Did you mean" in unknown.format_message() or not below:
                raise
            meant = " or ".join(f"'{one}'" for one in below)
            raise click.UsageError(f"{unknown.message} Did you mean {meant}?", ctx) from None

    def _below(self, ctx: click.Context, word: str) -> list[str]:
        """Return the commands of groups that have a word in their name: `kb ingest-folder` for `ingest`."""
        groups = ((name, self.get_command(ctx, name)) for name in self.list_commands(ctx))
        below = ((name, one.list_commands(ctx)) for name, one in groups if isinstance(one, click.Group))
        return [f"{name} {command}" for name, commands in below for command in commands if word in command.split("-")]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[TYPED] = args[: args.index("--")] if "--" in args else [*args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.BadParameter as refused:
            if refused.ctx is not None and context.wants_json(refused.ctx):
                with refused.ctx.scope(cleanup=False):
                    said = self._mask(refused.format_message().removeprefix("Invalid value: "))
                    raise context.fail(said) from refused
            self._show(refused)
            if isinstance(refused, click.MissingParameter) and refused.ctx is not None:
                echo("".join((refused.ctx.command.help or "").rpartition("Example:\n")[1:]).strip(), err=True)
            raise click.exceptions.Exit(1) from refused
        except click.exceptions.NoArgsIsHelpError as nothing:
            if isinstance(nothing.ctx.command, click.Group):
                raise
            nothing.show()
            raise click.exceptions.Exit(1) from nothing
        except click.ClickException as refused:
            self._show(refused)
            raise click.exceptions.Exit(refused.exit_code) from refused

    def _show(self, refused: click.ClickException) -> None:
        """Print what click says: it may repeat what was typed, or what a script passed on."""
        said = StringIO()
        refused.show(said)
        echo(self._mask(said.getvalue().rstrip()), err=True)


def main(program: Callable[[str], Program], version: str) -> None:
    """Run the command line. `program` builds what the commands work with, once one of them needs it."""
    # The contract of research collections calls the same program `research-agent`.
    name = "research-agent" if "research-agent" in sys.argv[0] else "kho"
    built = cache(lambda: program(name))
    top = Top(name, version, lambda text: built().mask(text))
    _add(top, loads(TABLE.read_bytes()), name, built)
    top(prog_name=name)


def _add(group: Group, table: dict[str, Any], name: str, program: Callable[[], Program], *above: str) -> None:
    for word, entry in table.items():
        summary: str = entry["summary"]
        if "commands" in entry:
            shown = partial(help_text, name, summary, entry["example"])
            below = Group(word, shown, short_help=summary, hidden=entry.get("hidden", False))
            _add(below, entry["commands"], name, program, *above, word)
            group.add_command(below)
        else:
            group.add_command(Unloaded(word, summary, partial(_load, program, entry, (*above, word))))


def _load(program: Callable[[], Program], entry: dict[str, str], words: Sequence[str]) -> click.Command:
    slices, modules = ([entry["slice"]], []) if "slice" in entry else ([], [entry["module"]])
    found: click.Command | None = build(program(), slices, modules)
    for word in words:
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
    assert found is not None, f"{TABLE} is out of date: run `make commands`"
    return found


def build(program: Program, slices: Sequence[str] | None = None, modules: Collection[str] = OWN) -> Group:
    """Build all commands, or those of some slices and modules."""
    top = Top(program.name, program.version, program.mask)
    registry = program.registry(program.slices if slices is None else slices)
    operations.register(top, program, registry)
    transfer.register(top, program, registry)
    for module in modules:
        OWN[module].register(top, program)
    return top


def table(program: Program) -> dict[str, Any]:
    """Return the contents of `commands.json`."""
    found: dict[str, Any] = {}
    for name in program.slices:
        _list(build(program, [name], []), found, slice=name)
    for name in OWN:
        _list(build(program, [], [name]), found, module=name)
    return found


def _list(group: click.Group, into: dict[str, Any], **source: str) -> None:
    nothing = click.Context(group)
    for word in group.list_commands(nothing):
        command = group.get_command(nothing, word)
        assert command is not None
        summary = command.get_short_help_str(limit=200)
        if isinstance(command, click.Group):
            help = command.full_help() if isinstance(command, Group) else command.help or ""
            _, _, example = help.splitlines()[-1].strip().partition(" ")  # without the program's name
            below = into.setdefault(word, {"summary": summary, "example": example, "commands": {}})
            if command.hidden:
                below["hidden"] = True
            _list(command, below["commands"], **source)
        else:
            into[word] = {"summary": summary, **source}
