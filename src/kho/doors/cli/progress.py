"""Progress display: a bar on a terminal, elsewhere one line at the start. On stderr: stdout is for the answer."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kho.doors.cli.terminal import echo
from kho.kernel import call
from kho.lib.visible import visible

if TYPE_CHECKING:
    from rich.progress import Progress, Task, TaskID
    from rich.text import Text

Report = Callable[[str, int, int], None]
"""Reports a task's name, how much is done, and the total (0: unknown)."""


@contextmanager
def reporting(*, lines: bool = True, in_bytes: bool = False) -> Generator[Report, None, None]:
    """Report progress of work that has parts: each part has its own bar on a terminal, elsewhere a line if `lines` is
    set. What is counted may be bytes."""
    bar = _bar(in_bytes=in_bytes)
    if bar is None:
        yield _lines(in_bytes) if lines else _unheard
        return
    with bar:
        tasks: dict[str, TaskID] = {}

        def report(what: str, done: int, total: int) -> None:
            if what not in tasks:
                for earlier in tasks.values():
                    bar.update(earlier, visible=False)
                tasks[what] = bar.add_task(visible(what), total=total or None)
            bar.update(tasks[what], completed=done, total=total or None)

        yield report


@contextmanager
def following(*, quiet: bool) -> Generator[call.Progress, None, None]:
    """Report progress of an operation: one bar, whose text is the last message. It shows only on a terminal, and only
    once there is something to report: most operations report nothing."""
    bar = None if quiet else _bar()
    if bar is None:
        yield _nothing
        return
    with bar:
        task = bar.add_task("", total=None, visible=False)

        async def report(done: float, total: float | None, message: str | None) -> None:
            shown = None if message is None else visible(message)
            bar.update(task, visible=True, completed=done, total=total, description=shown)

        yield report


def _bar(*, in_bytes: bool = False) -> "Progress | None":
    """Return a progress bar; None if stderr is not a terminal."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console  # slow to import, and not needed when stderr is not a terminal
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
    from rich.table import Column

    class Remaining(TextColumn):
        """Time left, from the first part that is done. Rich's own needs two, which may be all there are."""

        def render(self, task: "Task") -> "Text":
            self.text_format = time_left(task.completed, task.total, task.elapsed)
            return super().render(task)

    text = TextColumn("{task.description}", markup=False, table_column=Column(max_width=40, no_wrap=True))
    counted = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (SpinnerColumn(), text, BarColumn(), counted, Remaining(""))
    return Progress(*columns, console=Console(stderr=True), transient=True)


def size(count: int) -> str:
    """12.3 MB."""
    return f"{count / 1_000_000:,.1f} MB" if count >= 100_000 else f"{count:,} bytes"


def time_left(done: float, total: float | None, elapsed: float | None) -> str:
    """1:05 left; empty while it cannot be known."""
    if not done or not total or elapsed is None or done >= total:
        return ""
    seconds = round(elapsed / done * (total - done))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"


async def _nothing(done: float, total: float | None, message: str | None) -> None:
    return None


def _unheard(what: str, done: int, total: int) -> None:
    return None


def _lines(in_bytes: bool) -> Report:
    begun: set[str] = set()

    def report(what: str, done: int, total: int) -> None:
        if what not in begun and (total == 0 or done < total):
            begun.add(what)
            left = size(total - done) if in_bytes else str(total - done)
            echo(f"{what}: {left} to do" if total else f"{what} …", err=True)

    return report
