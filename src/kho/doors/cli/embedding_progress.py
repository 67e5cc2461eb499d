"""After a write: words find it at once, vectors take a moment. A command makes them and waits, unless a running hub is
at it; then it says so."""

import asyncio

import click

from kho.doors.cli.progress import reporting
from kho.kernel.hub import Hub, Settled

no_wait_option = click.Option(
    ["--no-wait"], is_flag=True, help="Do not wait for vectors; the next hub goes on with them."
)


async def for_vectors(hub: Hub, *, wait: bool) -> None:
    if hub.backlog is None:
        return
    pending = await hub.backlog.pending()
    if not pending:
        return
    if not wait:
        _say(f"{_passages(pending)} for vectors; the next hub goes on with them. Words find them now.")
        return
    try:
        with reporting(lines=False) as report:
            settled = await hub.backlog.settle(lambda done, total: report("Vectors", done, total))
    except asyncio.CancelledError:
        _say("What was written is kept. The next hub goes on with its vectors.")
        raise
    _tell(settled)


def _tell(settled: Settled) -> None:
    if settled.elsewhere:
        _say(f"{_passages(settled.left)} for vectors; the hub that is running goes on with them.")
    elif settled.left:
        why = f": {settled.problem}" if settled.problem else "."
        _say(f"{_passages(settled.left)} for vectors{why}")
        _say("Words find them meanwhile; the next hub tries again.")
    elif settled.problem:  # they are made, but an index server does not have them yet
        _say(f"The vectors are not where they are searched yet: {settled.problem}")
        _say("Words find the passages meanwhile; the next hub tries again.")


def _passages(count: int) -> str:
    return "1 passage waits" if count == 1 else f"{count} passages wait"


def _say(text: str) -> None:
    click.echo(text, err=True)
