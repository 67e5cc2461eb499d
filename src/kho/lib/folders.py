"""Folders for this user alone, changes to them that last through a power cut, and which are in use."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Write the folder itself to the disk, after a file in it was renamed."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def private_folder(folder: Path) -> None:
    """Make the folder in the data folder, and that one if it is not there yet: `parents=True` alone would open it to
    others."""
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def held(path: Path) -> Generator[bool]:
    """Hold a file or folder, as long as this process lives: what a killed one left can be told from what another one
    works on. False if another process holds it, or if the system cannot say."""
    if os.name == "nt":
        yield False
        return
    import fcntl  # not on every system

    handle = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)
