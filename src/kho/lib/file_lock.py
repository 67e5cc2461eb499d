"""Says that a file or folder is in use, as long as this process lives: what a killed one left can be told from what
another one works on."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held(path: Path) -> Generator[bool]:
    """Hold a file or folder. False if another process does, or if the system cannot say."""
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
