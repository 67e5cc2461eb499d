"""Copies of the SQLite database, made beside it before a migration changes it or a backup takes its place.

`kho.db.before-documents-005_audit` is the database as it was before that migration and those that came with it. It is a
complete database; docs/storage.md says how to go back to it.
"""

import filecmp
import logging
import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import apsw

from kho.kernel.errors import DatabaseError
from kho.lib import private_file
from kho.storage.sqlite import checksums
from kho.storage.sqlite.connection import Connection, checked, connect

log = logging.getLogger(__name__)

KEPT = 2
"""Number of copies kept: from before the last migrations, and from before those."""
PAGES = 5_000
"""Pages that are copied between two reports of progress."""
Report = Callable[[str, int, int], None]
_BESIDE = (".part", "-wal", "-shm", "-journal")
"""Suffixes of files beside a copy: an unfinished copy, and what SQLite creates when somebody opens it."""


def keep(path: Path, before: str, progress: Report) -> None:
    """Copy the database at `path`, as it was last committed, and remove copies that are older than the last two.

    The caller holds the database's write lock: nobody changes what is being copied, and no other process copies it at
    the same time. A copy is never overwritten. If one of the same content exists, because the migration failed and is
    retried, no second one is kept.
    """
    part = _part(path, before)
    try:
        source = connect(str(path))
        try:
            copy = set_aside(path, before, source, progress)
        finally:
            source.close()
        for old in copies(path)[:-KEPT]:
            old.unlink()
    except (apsw.Error, OSError) as error:
        log.warning("sqlite: the copy before a migration: %s", error)
        part.unlink(missing_ok=True)
        megabytes = path.stat().st_size // 1_000_000 + 1
        raise DatabaseError(
            "Before the database is brought up to date it is copied, and the copy could not be written. "
            f"Nothing was changed. Free {megabytes} MB in the data folder (KHO_HOME), then start again."
        ) from error
    log.warning("The database is brought up to date. As it was before, it is kept in %s", copy)


def set_aside(
    path: Path, before: str, source: Connection | None = None, progress: Report = lambda what, done, total: None
) -> Path:
    """Copy the database at `path` and return the copy. `source` is open on it, if nobody else may open it now; without
    one, the file is damaged and copied as it is, with its log."""
    part = _part(path, before)
    copy = part.with_name(part.name.removesuffix(".part"))
    if source is not None:
        _copy(source, part, progress)
        return _named(part, copy)
    for beside in ("", "-wal"):
        if (file := path.with_name(path.name + beside)).exists():
            with private_file.create(copy.with_name(copy.name + beside)) as target, file.open("rb") as damaged:
                shutil.copyfileobj(damaged, target)
    return copy


def _part(path: Path, before: str) -> Path:
    return path.with_name(f"{path.name}.before-{before}.part")


def copies(path: Path) -> list[Path]:
    """Return the copies of the database at `path`, oldest first."""
    start = f"{path.name}.before-"
    named = [one for one in path.parent.iterdir() if one.name.startswith(start) and not one.name.endswith(_BESIDE)]
    return sorted(named, key=lambda one: (one.stat().st_mtime_ns, one.name))


def _copy(source: Connection, part: Path, progress: Report) -> None:
    part.unlink(missing_ok=True)  # left by a killed process
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    target = connect(str(part))
    try:
        target.execute("PRAGMA journal_mode = OFF")  # an unfinished copy is discarded as a whole
        if checked(source) and checksums.vfs():
            # The header comes first: it says that the pages that are written after it get checksums.
            target.reserve_bytes("main", checksums.RESERVED)
            target.execute("PRAGMA user_version = 1")
            source.execute("PRAGMA checksum_verification = OFF")
        with target.backup("main", source, "main") as backup:
            while not backup.step(PAGES):
                progress("Copying pages of the database", backup.page_count - backup.remaining, backup.page_count)
    finally:
        target.close()


def _named(part: Path, copy: Path) -> Path:
    """Rename a finished copy to its name, or to the next free one if a copy with other content has that name."""
    for number in count(2):
        if not copy.exists():
            part.rename(copy)
            return copy
        if filecmp.cmp(part, copy, shallow=False):
            part.unlink()
            return copy
        copy = copy.with_name(f"{part.name.removesuffix('.part')}.{number}")
    raise AssertionError  # there is always a next number
