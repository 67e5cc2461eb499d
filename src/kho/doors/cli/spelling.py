"""Calls as commands. What operations say names tools and their arguments, once and for all doors, because most of their
readers are models; somebody at the command line reads what to type instead."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any

from kho.doors.cli import parameters
from kho.kernel.operation import Command, Operation
from kho.kernel.registry import Registry

Spell = Callable[[str], str]

_ARGUMENT = re.compile(r"""(\w+)=("[^"]*"|'[^']*'|[^,\s]+)""")
_OPEN = ("", "…")
"""What stands for a value that the reader has to fill in."""
_FENCED = re.compile(r"^(`{3,})[^`\n]*\n.*?^\1[ \t]*$|^ *>[^\n]*$", re.M | re.S)

Described = tuple[Operation, Command, Mapping[str, Any]]
"""A command, its operation, and the arguments of a tool by which it is known to be meant."""


def speller(program: str, registry: Registry, operation: Operation, command: Command) -> Spell:
    """For answers to a command: its own arguments become its flags."""
    known = _commands(registry)
    tools = re.compile(rf"\b({'|'.join(map(re.escape, known))})\b(?:\(([^()]*)\))?")
    flags = {**{name: parameters.flag(command, name) for name in parameters.flagged(operation, command)}}
    if command.confirms:
        flags[parameters.CONFIRM] = "--yes"
    own = re.compile(rf"`({'|'.join(map(re.escape, flags))})=([^`\s]+)`|\b({'|'.join(map(re.escape, flags))})=true\b")

    def call(found: re.Match[str]) -> str:
        return f"`{program} {_typed(known[found[1]], found[2])}`"

    def flag(found: re.Match[str]) -> str:
        name, value = found[1] or found[3], found[2] or "true"
        return f"`{flags[name]}`" if value == "true" else f"`{flags[name]} {value}`"

    def spelt(text: str) -> str:
        text = tools.sub(call, text) if known else text
        return own.sub(flag, text) if flags else text

    return spelt


def outside_fences(markdown: str, spell: Spell) -> str:
    """What stands in fences, and what is quoted, was written by others."""
    done: list[str] = []
    at = 0
    for fenced in _FENCED.finditer(markdown):
        done += spell(markdown[at : fenced.start()]), fenced[0]
        at = fenced.end()
    return "".join([*done, spell(markdown[at:])])


def _commands(registry: Registry) -> dict[str, list[Described]]:
    """By the tool that they are the commands for, or a method that nothing else could be meant by."""
    found: dict[str, list[Described]] = {}
    for operation in (one for capability in registry.capabilities for one in capability.operations):
        for command in operation.cli:
            names = {operation.tool, operation.rpc if operation.rpc and "/" in operation.rpc else None}
            for name in names - {None}:
                found.setdefault(str(name), []).append((operation, command, command.fixed))
            if command.stands_for:
                tool, arguments = command.stands_for
                found.setdefault(tool, []).append((operation, command, arguments))
    return found


def _typed(described: list[Described], given: str | None) -> str:
    if given is None:
        return _words([command for _, command, _ in described])
    arguments = {name: _value(text) for name, text in _ARGUMENT.findall(given)}
    fitting = [one for one in described if all(arguments.get(name, value) == value for name, value in one[2].items())]
    operation, command, _ = max(fitting or described, key=lambda one: len(one[2].items() & arguments.items()))
    words = [command.words]
    words += [_shown(arguments.get(name), parameters.metavar(command, name)) for name in command.positional]
    for name in parameters.flagged(operation, command):
        if arguments.get(name) is True:
            words.append(parameters.flag(command, name))
        elif name in arguments:
            words += [parameters.flag(command, name), _shown(arguments[name], parameters.metavar(command, name))]
    if command.confirms and arguments.get(parameters.CONFIRM):
        words.append("--yes")
    return " ".join(words)


def _words(commands: list[Command]) -> str:
    """Of a tool without arguments: the group, where each action has a command of its own; else the first command."""
    groups = {command.words.rpartition(" ")[0] for command in commands}
    return groups.pop() if len(commands) > 1 and len(groups) == 1 and "" not in groups else commands[0].words


def _value(text: str) -> Any:
    return {"true": True, "false": False}.get(text, text.strip("\"'"))


def _shown(value: Any, name: str) -> str:
    return name if value is None or value in _OPEN else shlex.quote(str(value))
