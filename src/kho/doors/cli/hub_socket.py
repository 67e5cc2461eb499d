"""Read-only commands are answered by a hub that is running on the same store: it has everything loaded, above all the
model.

The hub listens in KHO_HOME on a socket that only this user can open, and answers with the rights of this machine's
user, which a command has anyway. It must have the same version and settings, so that its answer is the one the command
would compute. If no hub answers, or one declines, the command runs by itself.
"""

import os
import socket
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from kho.doors.cli import output
from kho.doors.cli.hints import Spell
from kho.kernel import Background, Call, Command, Hub, Operation, Principal, Registry
from kho.lib.dataclass import dataclass
from kho.lib.shown_time import zone
from kho.lib.unix_lines import LineServer

NAME = "hub-"
NO: dict[str, Any] = {}
"""Answer of a hub that declines, so that the command runs by itself."""
CONNECT_TIMEOUT = 1.0
ANSWER_TIMEOUT = 60.0
PING_TIMEOUT = 2.0


@dataclass(frozen=True, slots=True)
class _Commands:
    """The commands of a hub, which has all slices open."""

    name: str
    hub: Hub

    @property
    def slices(self) -> list[str]:
        return [one.name for one in self.hub.registry.capabilities]

    def registry(self, names: Collection[str]) -> Registry:
        return self.hub.registry


async def serve(
    hub: Hub, background: Background, folder: Path, settings: str, principal: Principal, address: str
) -> None:
    """Serve commands until the hub stops. `settings` is the fingerprint of the settings, including the version."""
    server = LineServer(folder, f"{NAME}{os.getpid()}", busy=NO)
    await server.open(partial(_answer, hub, settings, principal, address))
    try:
        await background.until_stopping()
    finally:
        await server.close()


async def _answer(hub: Hub, settings: str, principal: Principal, address: str, asked: dict[str, Any]) -> dict[str, Any]:
    if asked.get("settings") != settings:
        return NO  # also if the version differs: its request may have another form
    if asked.get("ping"):
        if hub.backlog is not None:  # a command asks after it has written
            hub.backlog.nudge()
        return {"address": address}
    if asked.get("zone") != zone():
        return NO  # the text of the answer shows local times
    found = next((one for one in hub.registry.operations(principal) if one.name == asked["operation"]), None)
    command = next((one for one in found.cli if one.words == asked["words"]), None) if found else None
    if found is None or command is None or found.effect != "read":
        return NO
    outcome = await hub.registry.call(found, asked["arguments"], Call(principal, "cli"))
    if outcome.error is not None:
        return NO  # a read can be repeated, and the command reports the error best itself
    spell = Spell(_Commands(asked["program"], hub), found, command)
    return {"value": outcome.value, "text": output.text(outcome, spell), "failed": output.failed_in_part(outcome)}


def ask(
    folder: Path, settings: str, program: str, operation: Operation, command: Command, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the answer of a running hub; empty if none answers."""
    asked = {
        "settings": settings,
        "program": program,
        "operation": operation.name,
        "words": command.words,
        "zone": zone(),
        "arguments": arguments,
    }
    return _sent(folder, asked)


def running(folder: Path, settings: str) -> str:
    """Return the address of a hub with these settings that is running on this machine; empty if there is none."""
    return _sent(folder, {"settings": settings, "ping": True}, PING_TIMEOUT).get("address", "")


def processes(folder: Path) -> list[int]:
    """Return the numbers of the processes that serve the store of this folder, whatever their settings."""
    found: list[int] = []
    for path in sorted(folder.glob(f"{NAME}*.sock")):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(CONNECT_TIMEOUT)
            if connection.connect_ex(str(path)) == 0:
                found.append(int(path.stem.removeprefix(NAME)))
    return found


def _sent(folder: Path, asked: Mapping[str, Any], timeout: float = ANSWER_TIMEOUT) -> dict[str, Any]:
    for path in sorted(folder.glob(f"{NAME}*.sock")):
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(CONNECT_TIMEOUT)
                connection.connect(str(path))
                connection.settimeout(timeout)
                connection.sendall(orjson.dumps(asked) + b"\n")
                line = connection.makefile("rb").readline()
        except ConnectionRefusedError:  # a killed hub leaves its socket behind
            path.unlink(missing_ok=True)
            continue
        except OSError:
            continue
        if line.endswith(b"\n") and (answer := orjson.loads(line)):
            return answer
    return NO
