"""Watching commands: run once, and again whenever something in a folder changes.

The folder is polled every few seconds for names, sizes and times. That is cheap, and works on network drives and in
containers, where the system's own notifications do not.
"""

import asyncio
import os
import time
from collections.abc import Callable
from hashlib import blake2b
from typing import IO, Any

import click

from kho.doors.cli import embedding_progress, inputs, jobs, output
from kho.doors.cli.context import Program
from kho.doors.cli.hints import Spell
from kho.doors.cli.progress import following
from kho.doors.cli.terminal import echo
from kho.kernel import Command, Hub, Operation
from kho.kernel.registry import Outcome

interval_option = click.Option(
    ["--interval"],
    type=click.FloatRange(0.1, 3600),
    default=2.0,
    show_default=True,
    help="Seconds between two checks of the folder.",
)
REST = 10
"""Polling takes at most one part in this many of the time."""
MAX_RESTLESS = 30
"""Polls in a row that may differ."""
CHANGES = ("added", "changed", "removed", "failed")


def callback(server: str, operation: Operation, command: Command, program: Program) -> Callable[..., None]:
    def run(json: bool, params_file: IO[bytes] | None, interval: float, **given: Any) -> None:
        arguments = inputs.arguments(operation, command, given, params_file)
        folder = arguments.get(command.paths[0], "")
        spell = Spell(program, operation, command)

        async def once(hub: Hub) -> Outcome:
            found = next(o for o in hub.registry.operations(program.admin) if o.name == operation.name)
            with following(quiet=json) as progress:
                outcome = await hub.registry.call(found, arguments, program.call(progress))
                return await jobs.followed(hub, program, f"{server}/{command.follows}", outcome, progress)

        async def work(hub: Hub) -> int:
            seen, before, first, restless = "", "", True, 0
            task = asyncio.current_task()
            # Check for cancellation here, too: a round that is just ending when it is cancelled may not have noticed.
            while task is not None and not task.cancelling():
                began = time.monotonic()
                now = await asyncio.to_thread(_look, folder)
                took = time.monotonic() - began
                # Wait until two polls in a row agree, so that a file that is still being written can be finished; but
                # not for ever, or one file that never rests would keep all others out.
                restless = 0 if now == before else restless + 1
                quiet, before = first or not restless or restless >= MAX_RESTLESS, now
                if quiet and now != seen:
                    outcome = await once(hub)
                    if first or outcome.error is not None or any(map(jobs.job_of(outcome).get, CHANGES)):
                        if first and outcome.error is not None:  # it would not succeed by itself later
                            return output.outcome(outcome, json=json, spell=spell)
                        running = program.running_hub
                        left = await embedding_progress.for_vectors(hub, wait=True, running_hub=running)
                        output.outcome(embedding_progress.with_pending(outcome, left), json=json, spell=spell)
                    seen, first, restless = now, False, 0
                await asyncio.sleep(max(interval, REST * took))
            raise asyncio.CancelledError

        try:
            status = program.run(work, operation.capability)
        except KeyboardInterrupt:
            echo("Stopped watching.", err=True)
            status = 0
        raise SystemExit(status)

    return run


def _look(folder: str) -> str:
    """Return a digest of the folder and everything below it, which differs when a file was added, removed or
    changed."""
    digest = blake2b(digest_size=16)
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(place, name)  # noqa: PTH118 (there may be very many)
            try:
                status = os.lstat(path)
            except OSError:  # gone again, in a folder that may be listed but not entered, or with too long a path
                continue
            digest.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
