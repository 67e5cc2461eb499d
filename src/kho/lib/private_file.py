"""Files that only their owner can read: what Kho writes out is what somebody stored."""

import os
from pathlib import Path
from typing import IO


def create(path: Path) -> IO[bytes]:
    """Open a new file for writing. Raises FileExistsError."""
    return open(path, "xb", opener=_private)


def write(path: Path, content: bytes) -> None:
    """Write a file. One that exists keeps its mode: its owner may have opened it to others."""
    with open(path, "wb", opener=_private) as file:
        file.write(content)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
