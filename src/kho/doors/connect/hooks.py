"""The hooks that Claude Code can be given: what was worked on recently at the start of a session, and its messages kept
at the end of each answer."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, cast

SESSION_START = "session-start"
STOP = "stop"
EVENTS = {"SessionStart": SESSION_START, "Stop": STOP}
"""Claude Code's events, and the subcommands of `kho hook` that answer them."""
FILES = {"user": "{claude}/settings.json", "project": "{project}/.claude/settings.local.json"}
"""Of a project the file that is not shared with others: the commands are those of this machine."""
TIMEOUT = 60
"""Seconds after which Claude Code goes on without the hook."""


def wanted(kho: Sequence[str], environment: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """An element for the list of each event. Claude Code gives commands to a POSIX shell, on Windows too."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    start = " ".join([*variables, *map(shlex.quote, kho)])
    return {
        event: {"hooks": [{"type": "command", "command": f"{start} hook {word}", "timeout": TIMEOUT}]}
        for event, word in EVENTS.items()
    }


def is_ours(event: str, element: Any) -> bool:
    """True if every command of the element is `kho hook …` of this event."""
    if not isinstance(element, dict):
        return False
    hooks = cast(dict[str, Any], element).get("hooks")
    commands = [one.get("command", "") for one in cast(list[dict[str, Any]], hooks)] if isinstance(hooks, list) else []
    return bool(commands) and all(
        isinstance(one, str) and one.endswith(f" hook {EVENTS[event]}") and "kho" in one for one in commands
    )
