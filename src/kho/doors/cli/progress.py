"""How far work has come: a bar on a terminal, a line at its beginning elsewhere. On stderr: stdout is the answer's."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from kho.kernel import call

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Report = Callable[[str, int, int], None]
"""What is going on, how much of it is done, of how much (0: nobody knows)."""


@contextmanager
def reporting(*, lines: bool = True) -> Generator[Report, None, None]:
    """For work that has parts: each has a bar of its own, and elsewhere a line, unless these are not wanted."""
    bar = _bar()
    if bar is None:
        yield _lines() if lines else _unheard
        return
    with bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        yield report


@contextmanager
def following(*, quiet: bool) -> Generator[call.Progress, None, None]:
    """For what an operation reports: one bar, whose text is the last message. It shows only on a terminal, and not
    before there is something to report: most operations report nothing."""
    bar = None if quiet else _bar()
    if bar is None:
        yield _nothing
        return
    with bar:
        task = bar.add_task("", total=None, visible=False)

        async def report(done: float, total: float | None, message: str | None) -> None:
            bar.update(task, visible=True, completed=done, total=total, description=message)

        yield report


def _bar() -> "Progress | None":
    """None where there is no terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # which takes a while, and whoever pipes needs none of it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(max_width=40, no_wrap=True))
    columns = (text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


async def _nothing(done: float, total: float | None, message: str | None) -> None:
    return None


def _unheard(what: str, done: int, total: int) -> None:
    return None


def _lines() -> Report:
    begun: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in begun and (total == 0 or done < total):
            begun.add(what)
            click.echo(f"{what}: {total - done} to do" if total else f"{what} …", err=True)

    return report
