"""Renders references in hints as commands, so that the reader of an answer at the command line sees what to type."""

import re
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast

from kho.doors.cli import parameters
from kho.kernel import Command, KhoError, Op, Operation, Registry
from kho.kernel.hints import OPEN, Reference, spelt
from kho.lib.markdown import code

NAMING = ("field", "parameter", "problems")
"""Error details that name parameters."""

Typed = tuple[Operation, Command, Mapping[str, Any]]
"""An operation, a command for it, and the arguments that identify that command."""


class Commands(Protocol):
    """The program's name, and the slices and registry that its commands are made from."""

    @property
    def name(self) -> str: ...
    @property
    def slices(self) -> Sequence[str]: ...
    @property
    def registry(self) -> Callable[[Collection[str]], Registry]: ...


class Spell:
    """Renders references in the answer to one command: operations as commands, its own parameters as options."""

    def __init__(self, program: Commands, operation: Operation, command: Command) -> None:
        self._program = program
        self._near = [operation.capability]
        self._command = command
        self._flags = {name: parameters.flag(command, name) for name in parameters.flagged(operation, command)}
        if command.confirms:
            self._flags[parameters.CONFIRM] = "--yes"

    def __call__(self, reference: Reference) -> str:
        if isinstance(reference, Op):
            typed = self._commands.get(reference.name) or self._all_commands.get(reference.name)
            return code(f"{self._program.name} {_typed(typed, reference.arguments)}") if typed else str(reference)
        flag = self._flags.get(reference.name)
        if flag is None:
            return str(reference)
        return code(flag if reference.value is True else f"{flag} {shlex.quote(str(reference.value))}")

    @cached_property
    def _commands(self) -> Mapping[str, list[Typed]]:
        """Commands of the operation's own slice. Built only when a hint is shown, which most answers do not have."""
        return _commands(self._program.registry(self._near))

    @cached_property
    def _all_commands(self) -> Mapping[str, list[Typed]]:
        return _commands(self._program.registry(self._program.slices))

    def about(self, error: KhoError, text: str) -> str:
        """Render part of an error: the parameters that it is about become their options or arguments. Other quoted
        words are left alone, as they may be the user's own text."""
        text = spelt(text, self)
        own = text == (type(error).__doc__ or "").strip()  # a fixed sentence quotes no user
        for path in _fields(error) | ({*self._flags, *self._command.positional} if own else set[str]()):
            typed = self.parameter(path)
            text = text if typed == path else text.replace(f"'{path}'", typed)
        for path in {
            problem["field"] for problem in problems_of(error)
        }:  # listed in a sentence of ours, without quotes
            text = re.sub(rf"(?<![\w`-]){re.escape(path)}(?![\w`-])", lambda _, path=path: self.parameter(path), text)
        return text

    def detail(self, name: str, value: Any) -> Any:
        """Render a detail of an error in the same way."""
        if name not in NAMING:
            return value
        if isinstance(value, str):
            return self.parameter(value)
        problem = cast(Mapping[str, str], value)
        return {**problem, "field": self.parameter(problem["field"])}

    def parameter(self, path: str) -> str:
        """Return what is typed for a parameter or for a part of one; the path itself if nothing is."""
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


def problems_of(error: KhoError) -> list[dict[str, str]]:
    """Return the invalid parameters that an error of contract 003 lists beside its details."""
    return cast(list[dict[str, str]], getattr(error, "problems", []))


def _fields(error: KhoError) -> set[str]:
    problems = cast(list[Mapping[str, str]], error.details.get("problems", []))
    named = [error.details.get("field"), error.details.get("parameter"), *(one["field"] for one in problems)]
    return {one for one in named if isinstance(one, str) and one}


def _commands(registry: Registry) -> Mapping[str, list[Typed]]:
    """Return the commands by the tool that they call."""
    found: dict[str, list[Typed]] = {}
    for operation in (one for capability in registry.capabilities for one in capability.operations):
        for command in operation.cli:
            if operation.tool:
                found.setdefault(operation.tool, []).append((operation, command, command.fixed))
            if command.stands_for:
                tool, arguments = command.stands_for
                found.setdefault(tool, []).append((operation, command, arguments))
    return found


def _typed(commands: list[Typed], arguments: Mapping[str, Any]) -> str:
    """Return the command that fits the arguments best, written out with them."""
    if not arguments:
        return _words([command for _, command, _ in commands])
    fitting = [one for one in commands if all(arguments.get(name, value) == value for name, value in one[2].items())]
    operation, command, _ = max(fitting or commands, key=lambda one: len(one[2].items() & arguments.items()))
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
    """Return the words to type for an operation without arguments: the group if each action has its own command,
    otherwise the first command."""
    groups = {command.words.rpartition(" ")[0] for command in commands}
    return groups.pop() if len(commands) > 1 and len(groups) == 1 and "" not in groups else commands[0].words


def _shown(value: Any, name: str) -> str:
    return name if value in (None, OPEN) else shlex.quote(str(value))
