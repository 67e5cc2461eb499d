"""Files of backups: written beside their place, and there only once they are whole."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from kho.lib import private_file
from kho.lib.clock import iso
from kho.lib.folders import held, sync_folder

SUFFIX = ".backup"
_PART = ".part"


def named(at: int, what: str = "kho") -> str:
    """Return the name of a backup: kho-2026-11-20-001530.backup. Names sort as their times do."""
    day, _, hour = iso(at)[:19].partition("T")
    return f"{what}-{day}-{hour.replace(':', '')}{SUFFIX}"


@contextmanager
def written(path: Path) -> Generator[IO[bytes]]:
    """Open a backup for writing. The file is there, in the place of one that was, when the block ends without an error
    and all of it is on the disk; otherwise nothing is."""
    _clear(path)
    part = path.with_name(f"{path.name}.{os.getpid()}{_PART}")
    part.unlink(missing_ok=True)
    try:
        with private_file.create(part) as file, held(part):
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        sync_folder(path.parent)
    finally:
        part.unlink(missing_ok=True)


def _clear(path: Path) -> None:
    """Remove what killed processes left of this backup."""
    for left in path.parent.glob(f"{path.name}.*{_PART}"):
        with held(left) as ours:
            if ours:
                left.unlink(missing_ok=True)


def kept(folder: Path, what: str = "kho") -> list[Path]:
    """Return the backups in a folder that are named by their time, oldest first."""
    return sorted(one for one in folder.glob(f"{what}-*{SUFFIX}") if one.is_file())


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest, and what killed processes left of others."""
    for old in kept(folder)[:-keep]:
        old.unlink(missing_ok=True)
    for left in folder.glob(f"kho-*{SUFFIX}.*{_PART}"):
        with held(left) as ours:
            if ours:
                left.unlink(missing_ok=True)
