"""After a write: keyword search finds the text at once, vectors take a moment. The command computes them and waits,
unless a hub is running, which does it; then it says so."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import click

from kho.doors.cli.progress import reporting
from kho.doors.cli.terminal import echo
from kho.kernel.hub import Backlog, Hub, Settled
from kho.kernel.registry import Outcome

LOADING = "Loading the model"
HUB_PATIENCE = 10.0
"""Seconds that a command waits for the running hub. The first passage takes the longest: it loads the model."""
no_wait_option = click.Option(["--no-wait"], is_flag=True, help="Do not wait for vectors; the next hub computes them.")


async def for_vectors(
    hub: Hub, *, wait: bool, running_hub: Callable[[], str] = lambda: "", patience: float = HUB_PATIENCE
) -> int:
    """Wait for the vectors of what was written, and return how many passages still have none."""
    if hub.backlog is None:
        return 0
    pending = await hub.backlog.pending()
    if not pending:
        return 0
    running = await asyncio.to_thread(running_hub)
    if running and wait:
        pending = await _left_by_the_hub(hub.backlog, patience)
        if not pending:
            return 0
    if running or not wait:
        which = "running" if running else "next"
        _say(f"{_passages(pending)} for vectors; the {which} hub computes them. Keyword search finds them now.")
        return pending
    try:
        with reporting(lines=False) as report:
            # The first batch takes seconds: it loads the model.
            settled = await hub.backlog.settle(lambda done, total: report("Vectors" if done else LOADING, done, total))
    except asyncio.CancelledError:
        _say("What was written is kept. The next hub computes its vectors.")
        raise
    _tell(settled)
    return settled.left


async def _left_by_the_hub(backlog: Backlog, patience: float) -> int:
    """Give the running hub a moment, so that what was written can be found by its meaning when the command ends; return
    how many passages it has not come to."""
    deadline = time.monotonic() + patience
    with reporting(lines=False) as report:
        first = left = await backlog.pending()
        while left and time.monotonic() < deadline:
            report("Vectors", max(0, first - left), max(first, left))
            await asyncio.sleep(0.1)
            left = await backlog.pending()
    return left


def with_pending(outcome: Outcome, left: int) -> Outcome:
    """Return the answer as of now, if it says how many passages wait for vectors: it was made before the wait."""
    if getattr(outcome.result, "vectors_pending", None) is None:
        return outcome
    result = outcome.result.model_copy(update={"vectors_pending": left})
    return replace(outcome, result=result, value=outcome.operation.shape(result))


def _tell(settled: Settled) -> None:
    if settled.elsewhere:
        _say(f"{_passages(settled.left)} for vectors; the running hub computes them.")
    elif settled.left:
        why = f": {settled.problem}" if settled.problem else "."
        _say(f"{_passages(settled.left)} for vectors{why}")
        _say("Keyword search finds them meanwhile; the next hub tries again.")
    elif settled.problem:  # computed, but not yet on the index server
        _say(f"The vectors have not reached the index server yet: {settled.problem}")
        _say("Keyword search finds the passages meanwhile; the next hub tries again.")


def _passages(count: int) -> str:
    return "1 passage waits" if count == 1 else f"{count} passages wait"


def _say(text: str) -> None:
    echo(text, err=True)
