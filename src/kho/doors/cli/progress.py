"""How far work has come: a bar on a terminal, a line at its beginning elsewhere. On stderr: stdout is the answer's."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

Report = Callable[[str, int, int], None]
"""What is going on, how much of it is done, of how much (0: nobody knows)."""


@contextmanager
def reporting() -> Generator[Report, None, None]:
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _lines()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[what] = bar.add_task(what, total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        yield report


def _lines() -> Report:
    begun: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in begun and (total == 0 or done < total):
            begun.add(what)
            click.echo(f"{what}: {total - done} to do" if total else f"{what} …", err=True)

    return report
