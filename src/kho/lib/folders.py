"""Folders for this user alone, and changes to them that last through a power cut."""

import os
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
