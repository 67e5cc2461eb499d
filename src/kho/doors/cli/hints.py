"""Calls as commands. What operations say names tools and their arguments, once and for all doors, because most of their
readers are models; somebody at the command line reads what to type instead."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, cast

from kho.doors.cli import parameters
from kho.kernel.command import Command
from kho.kernel.errors import KhoError
from kho.kernel.operation import Operation
from kho.kernel.registry import Registry

_ARGUMENT = re.compile(r"""(\w+)=("[^"]*"|'[^']*'|[^,\s]+)""")
_OPEN = ("", "…")
"""What stands for a value that the reader has to fill in."""
_OTHERS = re.compile(
    r"(?P<fenced>^(?P<fence>`{3,})[^`\n]*\n.*?^(?P=fence)[ \t]*$|^ *>[^\n]*$)"
    r"|(?P<span>(?P<ticks>`+)(?!`)[^\n]+?(?<!`)(?P=ticks)(?!`))"
    r"|\\[^\n]|`+",  # which open no span
    re.M | re.S,
)

Described = tuple[Operation, Command, Mapping[str, Any]]
"""A command, its operation, and the arguments of a tool by which it is known to be meant."""


class Spell:
    """For answers to a command: tools become commands, and its own arguments its flags."""

    def __init__(self, program: str, registry: Registry, operation: Operation, command: Command) -> None:
        self._program = program
        self._command = command
        self._known = _commands(registry)
        self._tools = re.compile(rf"\b({'|'.join(map(re.escape, self._known))})\b(?:\(([^()]*)\))?")
        self._flags = {name: parameters.flag(command, name) for name in parameters.flagged(operation, command)}
        if command.confirms:
            self._flags[parameters.CONFIRM] = "--yes"
        named = "|".join(map(re.escape, self._flags))
        self._own = re.compile(rf"`({named})=([^`\s]+)`|\b({named})=true\b")

    def __call__(self, text: str) -> str:
        text = self._tools.sub(self._call, text) if self._known else text
        return self._own.sub(self._flag, text) if self._flags else text

    def code(self, span: str) -> str:
        """What stands as code is others' words, unless it is one of the command's own arguments and nothing else."""
        own = self._own.fullmatch(span) if self._flags else None
        return span if own is None else self._flag(own)

    def about(self, error: KhoError, text: str) -> str:
        """A part of an error: the parameters that it is about become what is typed for them. Others that stand there
        in quotes may be somebody's own words."""
        for path in _fields(error):
            typed = self.parameter(path)
            text = text if typed == path else text.replace(f"'{path}'", typed)
        return self(text)

    def detail(self, name: str, value: Any) -> Any:
        """A detail of an error, likewise."""
        if name not in NAMING:
            return value
        if isinstance(value, str):
            return self.parameter(value)
        problem = cast(Mapping[str, str], value)
        return {**problem, "field": self.parameter(problem["field"])}

    def parameter(self, path: str) -> str:
        """What is typed for a parameter, or for a part of one; the path itself where nothing is."""
        if path in self._flags:
            return f"`{self._flags[path]}`"
        if path in self._command.positional:
            return parameters.metavar(self._command, path)
        parts = [f"`{flag}`" for name, flag in self._flags.items() if name.startswith(f"{path}.")]
        parts += ["`--from-file`"] if self._command.from_file.startswith(f"{path}.") else []
        if parts:
            return " or ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
        whole = path.rpartition(".")[0]
        return self.parameter(whole) if whole in self._flags or whole in self._command.positional else path

    def _call(self, found: re.Match[str]) -> str:
        return f"`{self._program} {_typed(self._known[found[1]], found[2])}`"

    def _flag(self, found: re.Match[str]) -> str:
        name, value = found[1] or found[3], found[2] or "true"
        return f"`{self._flags[name]}`" if value == "true" else f"`{self._flags[name]} {value}`"


NAMING = ("field", "parameter", "problems")
"""Details of errors that name parameters."""


def _fields(error: KhoError) -> set[str]:
    problems = cast(list[Mapping[str, str]], error.details.get("problems", []))
    named = [error.details.get("field"), error.details.get("parameter"), *(one["field"] for one in problems)]
    return {one for one in named if isinstance(one, str) and one}


def outside_fences(markdown: str, spell: Spell) -> str:
    """What stands in fences or as code, and what is quoted, was written by others: with a word of ours in its midst it
    could get out of there."""
    done: list[str] = []
    at = 0
    for others in _OTHERS.finditer(markdown):
        if others["fenced"] is None and others["span"] is None:
            continue
        done += spell(markdown[at : others.start()]), others["fenced"] or spell.code(others["span"])
        at = others.end()
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
