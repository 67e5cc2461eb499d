"""stat and open without following links; OS errors become errors with guidance."""

import errno
import os
import stat
from pathlib import Path

from kho.research.errors import FileNotFound, PathRefused

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
WAY = FOLDER | getattr(os, "O_PATH", 0)
"""Flags for a folder on the path to something: where O_PATH exists, the right to traverse is enough."""
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""O_NONBLOCK: opening a pipe must not wait for a writer. O_NOCTTY: a terminal must not become the controlling one."""

Identity = tuple[int, int]
"""Device and inode: identifies a folder under any name."""


def identity(status: os.stat_result) -> Identity:
    return status.st_dev, status.st_ino


def identity_of(path: Path) -> Identity | None:
    try:
        return identity(path.stat())
    except OSError:  # what cannot be examined is compared by name only
        return None


def status_of(name: str, parent: int, shown: str) -> os.stat_result:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except OSError as problem:
        raise refusal(problem, shown) from None


def opened(name: str, flags: int, parent: int | None, shown: str) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as problem:
        raise refusal(problem, shown) from None


KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def kind_of(mode: int) -> str:
    return next((name for test, name in KINDS if test(mode)), "a special file")


def need_file(status: os.stat_result, shown: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PathRefused(
            f"It is {kind_of(status.st_mode)}, not a file.", guidance="Name a file that holds a text.", path=shown
        )


def need_single(status: os.stat_result, shown: str) -> None:
    if status.st_nlink > 1:
        raise PathRefused(
            "It has other names on this disk (hard links), which may lie outside of the folders that are open.",
            guidance="Copy the file instead of linking it.",
            path=shown,
        )


def refusal(problem: OSError, shown: str) -> PathRefused | FileNotFound:
    match problem.errno:
        case errno.ENOENT:
            return FileNotFound(path=shown)
        case errno.EACCES | errno.EPERM:
            why = "The system does not allow Kho to read it."
            return PathRefused(why, guidance="Give this user the right to read it.", path=shown)
        case errno.ELOOP | errno.ENOTDIR:
            why = "There is a symbolic link or a file where a folder should be."
            return PathRefused(why, guidance="Name the file by its own path.", path=shown)
        case _:
            why = f"It cannot be read: {problem.strerror}."
            return PathRefused(why, guidance="Check the path.", path=shown)
