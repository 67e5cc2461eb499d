"""Looks at the database as a file, page by page, before SQLite opens it: is all of it there, and what Kho wrote?

Reading it is safe while other processes use it, but not while this one does: SQLite's locks of this process would end
with the first descriptor that is closed.
"""

import time
from collections.abc import Iterator
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from kho.kernel.upkeep.defect import Finding, Progress
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.storage.sqlite.checksums import RESERVED
from kho.storage.sqlite.page_file import PageFile, rows_of, wrong

_AT_ONCE = 1024
"""Pages read at once."""
_AGAIN, _PAUSE = 20, 0.05
"""A page that another process writes at this moment is looked at again."""
_LOCKED = 1 << 30
"""Where the page begins that SQLite uses for locks only."""
MOST = 100_000
"""Numbers of bad pages that are kept; more are only counted."""


@dataclass(slots=True)
class Looked:
    """What the file looks like."""

    findings: list[Finding] = field(default_factory=list[Finding])
    bad: list[int] = field(default_factory=list[int])
    """Pages that are not as they were written."""
    checksums: bool = False
    """True if its pages have checksums."""
    size: int = 0
    readable: bool = False
    """True if SQLite may open it: it begins as a database does, and nothing that was committed would be forgotten."""


def look(path: Path, progress: Progress) -> Looked:
    """Check a database file with its log. A store that does not exist yet is whole."""
    looked = Looked()
    log_path = path.with_name(f"{path.name}-wal")
    if not path.is_file() or not path.stat().st_size:
        if log_path.is_file() and log_path.stat().st_size:
            looked.findings.append(Finding(f"{path.name} is gone or empty, and its log {log_path.name} is there."))
        return looked
    if _lacks_log(path, log_path):
        said = f"The log {log_path.name} is gone: what was committed last is lost, if it was not in {path.name} yet."
        looked.findings.append(Finding(said))
    looked.size = path.stat().st_size
    file = PageFile(path)
    file.open()
    try:
        _check(file, looked, progress)
    finally:
        file.close()
    return looked


def _check(file: PageFile, looked: Looked, progress: Progress) -> None:
    path, log, size = file.path, file.log, file.size
    log_path = path.with_name(f"{path.name}-wal")
    if not file.sound:
        looked.findings.append(Finding(f"{path.name} does not begin as a SQLite database does."))
        return
    if log.header_damaged:
        said = f"The log {log_path.name} cannot be read: SQLite would forget what was committed there."
        looked.findings.append(Finding(said, count=max(1, log.frames)))
    elif log.damaged:
        said = f"{counted(log.damaged, 'page')} of the log {log_path.name} {_are(log.damaged)} damaged: SQLite would "
        looked.findings.append(Finding(f"{said}forget what was committed there since.", count=log.damaged))
    there = -(-looked.size // size)
    header = file.header
    wanted = log.size or (int.from_bytes(header[28:32], "big") if header[24:28] == header[92:96] else there)
    if missing := _missing_pages(file, wanted, looked.size // size):
        said = f"{path.name} was cut off: {counted(missing, 'page')} of {wanted:,} {_are(missing)} missing."
        looked.findings.append(Finding(said, count=missing))
    looked.checksums = header[20] == RESERVED
    looked.readable = not looked.findings
    _look_at_pages(file, looked, progress)


def _missing_pages(file: PageFile, wanted: int, there: int) -> int:
    """Return how many pages are neither in the file nor in its log. What another process writes may have come into the
    file since it was looked at."""
    missing = max(0, wanted - there - sum(page > there for page in file.log.pages))
    for _ in range(_AGAIN if missing else 0):
        there = file.path.stat().st_size // file.size
        missing = max(0, wanted - there - sum(page > there for page in file.log.pages))
        if not missing:
            break
        time.sleep(_PAUSE)
    return missing


def _lacks_log(path: Path, log_path: Path) -> bool:
    """True if the log is gone, and not only because somebody closes the file at this moment."""
    for _ in range(_AGAIN):
        if log_path.is_file() or not path.with_name(f"{path.name}-shm").is_file():
            return False
        time.sleep(_PAUSE)
    return True


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _look_at_pages(file: PageFile, looked: Looked, progress: Progress) -> None:
    """Compare every page with its checksum."""
    path, log, size = file.path, file.log, file.size
    bad, total = 0, looked.size // size
    for first, rows in _read(path, size):
        places = wrong(rows, sums=looked.checksums)
        for place in places.tolist():
            number = first + place
            if number in log.pages or number in file.free or (number - 1) * size == _LOCKED or number > total:
                continue
            if _still_wrong(path, number, size, sums=looked.checksums):
                bad += 1
                if len(looked.bad) < MOST:
                    looked.bad.append(number)
        progress("Pages of the file", min(first + len(rows) - 1, total), total)
    if bad:
        said = f"{counted(bad, 'page')} of {path.name} {_are(bad)} not as Kho wrote {'it' if bad == 1 else 'them'}."
        looked.findings.append(Finding(said, count=bad))


def _still_wrong(path: Path, number: int, size: int, *, sums: bool) -> bool:
    before = b""
    for _ in range(_AGAIN):
        with path.open("rb") as file:
            file.seek((number - 1) * size)
            content = file.read(size)
        if len(content) == size and not len(wrong(rows_of(content), sums=sums)):
            return False
        if content == before:  # nobody is writing it
            return True
        before = content
        time.sleep(_PAUSE)
    return True


def _read(path: Path, size: int) -> Iterator[tuple[int, Any]]:
    """Yield the number of the first page and the pages, many at once."""
    number = 1
    with path.open("rb") as file:
        while content := file.read(_AT_ONCE * size):
            whole = len(content) // size
            if whole:
                yield number, np.frombuffer(content[: whole * size], "u1").reshape(whole, size)
            number += whole
