"""How far work has come: a bar on a terminal, a line at its beginning elsewhere. On stderr: stdout is the answer's."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from kho.kernel import call

Report = Callable[[str, int, int], None]
"""What is going on, how much of it is done, of how much (0: nobody knows)."""


@contextmanager
def reporting(*, lines: bool = True) -> Generator[Report, None, None]:
    """For work that has parts: each has a bar of its own, and elsewhere a line, unless these are not wanted."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines() if lines else _unheard
        return
    with _bar(console) as bar:
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
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield _nothing
        return
    with _bar(console) as bar:
        task = bar.add_task("", total=None, visible=False)

        async def report(done: float, total: float | None, message: str | None) -> None:
            bar.update(task, visible=True, completed=done, total=total, description=message)

        yield report


def _bar(console: Console) -> Progress:
    text = TextColumn("{task.description}", markup=False, table_column=Column(max_width=40, no_wrap=True))
    return Progress(text, BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=console, transient=True)


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
