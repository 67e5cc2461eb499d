"""Copies of the SQLite database, made beside it before a migration changes it.

`kho.db.before-documents-005_audit` is the database as it was before that migration and those that came with it. It is a
complete database; docs/storage.md says how to go back to it.
"""

import filecmp
import logging
import os
from itertools import count
from pathlib import Path

import apsw

from kho.kernel.errors import DatabaseError
from kho.storage.sqlite import checksums
from kho.storage.sqlite.connection import checked, connect

log = logging.getLogger(__name__)

KEPT = 2
"""Number of copies kept: from before the last migrations, and from before those."""
_BESIDE = (".part", "-wal", "-shm", "-journal")
"""Suffixes of files beside a copy: an unfinished copy, and what SQLite creates when somebody opens it."""


def keep(path: Path, before: str) -> None:
    """Copy the database at `path`, as it was last committed, and remove copies that are older than the last two.

    The caller holds the database's write lock: nobody changes what is being copied, and no other process copies it at
    the same time. A copy is never overwritten. If one of the same content exists, because the migration failed and is
    retried, no second one is kept.
    """
    copy = path.with_name(f"{path.name}.before-{before}")
    part = copy.with_name(f"{copy.name}.part")
    try:
        _write(path, part)
        copy = _named(part, copy)
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


def copies(path: Path) -> list[Path]:
    """Return the copies of the database at `path`, oldest first."""
    start = f"{path.name}.before-"
    named = [one for one in path.parent.iterdir() if one.name.startswith(start) and not one.name.endswith(_BESIDE)]
    return sorted(named, key=lambda one: (one.stat().st_mtime_ns, one.name))


def _write(path: Path, part: Path) -> None:
    part.unlink(missing_ok=True)  # left by a killed process
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    source, target = connect(str(path)), connect(str(part))
    try:
        target.execute("PRAGMA journal_mode = OFF")  # an unfinished copy is discarded as a whole
        if checked(source) and checksums.vfs():
            # The header comes first: it says that the pages that are written after it get checksums.
            target.reserve_bytes("main", checksums.RESERVED)
            target.execute("PRAGMA user_version = 1")
            source.execute("PRAGMA checksum_verification = OFF")
        with target.backup("main", source, "main") as backup:
            backup.step(-1)
    finally:
        target.close()
        source.close()


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
