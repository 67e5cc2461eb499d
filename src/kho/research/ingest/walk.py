"""Lists the files below a folder in a stable order, with the skipped ones and the reason.

Folders are opened like files (see `allowed_paths`): one name at a time, without following links. So a walk cannot be
led out of its folder or go in circles. No descriptor stays open from one folder to the next, however deep the tree is.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kho.lib.dataclass import dataclass
from kho.research.errors import DocumentError, FileNotFound, PathRefused
from kho.research.ingest.allowed_paths import Located, Roots
from kho.research.ingest.globs import Patterns
from kho.research.ingest.safe_open import FOLDER, kind_of, opened, status_of

MAX_FILES = 100_000
EVERYTHING = Patterns()


@dataclass(frozen=True, slots=True)
class File:
    located: Located
    """For `Roots.open`. For a link, the location of its target."""
    relative: str
    """Path below the folder, with '/', spelt as on disk."""
    size: int
    modified: int
    """Modification time in microseconds since 1970."""

    @property
    def path(self) -> Path:
        return self.located.path


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file or folder that is not read, and why."""

    relative: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    relative: str
    status: os.stat_result


def walk(
    roots: Roots,
    folder: Located,
    *,
    recursive: bool,
    patterns: Patterns = EVERYTHING,
    most: int = MAX_FILES,
) -> Iterator[File | SkippedFile]:
    """Yield the files of each folder by name, then those of its subfolders by name. Yields at most `most` files; if
    there are more, the last item is a SkippedFile that says so."""
    count = 0
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        place = folder.path / inside
        try:
            entries = list(_entries(roots, Located(place, folder.root, True), inside))
        except DocumentError as problem:
            yield SkippedFile(inside, problem.message)
            continue
        deeper: list[str] = []
        for entry in entries:
            if isinstance(entry, SkippedFile):
                yield entry
                continue
            if patterns.leaves_out(entry.name) or patterns.excludes(entry.relative):
                continue
            if stat.S_ISDIR(entry.status.st_mode):
                deeper.append(entry.relative)
                continue
            found = _file(roots, folder, entry, patterns)
            if isinstance(found, File):
                if count == most:
                    why = f"There are more than {most} files; the others were left out. Name a subfolder or patterns."
                    yield SkippedFile(found.relative, why)
                    return
                count += 1
            if found is not None:
                yield found
        if recursive:
            waiting += reversed(deeper)


def _entries(roots: Roots, place: Located, inside: str) -> Iterator[_Entry | SkippedFile]:
    way = roots.open_folder(place.root, place.path)
    try:
        descriptor = opened(".", FOLDER, way, inside)
    finally:
        os.close(way)
    try:
        for name in sorted(os.listdir(descriptor)):  # noqa: PTH208 (a path has no descriptor)
            relative = f"{inside}/{name}" if inside else name
            try:
                yield _Entry(name, relative, status_of(name, descriptor, relative))
            except FileNotFound:
                continue  # deleted meanwhile
            except PathRefused as problem:
                yield SkippedFile(relative, problem.message)
    finally:
        os.close(descriptor)


def _file(roots: Roots, folder: Located, entry: _Entry, patterns: Patterns) -> File | SkippedFile | None:
    """Return the file, or why it is skipped; None if no pattern includes it, which is not reported."""
    relative, mode = entry.relative, entry.status.st_mode
    try:
        relative.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(relative).decode("utf-8", "replace")
        return SkippedFile(shown, "Its name is not UTF-8.")
    if not patterns.wants(relative):
        return None
    if stat.S_ISLNK(mode):
        return _linked(roots, folder, relative)
    if not stat.S_ISREG(mode):
        return SkippedFile(relative, f"It is {kind_of(mode)}, not a file.")
    return _described(Located(folder.path / relative, folder.root, False), relative, entry.status)


def _linked(roots: Roots, folder: Located, relative: str) -> File | SkippedFile:
    try:
        located = roots.locate(str(folder.path / relative))
        if located.folder:
            return SkippedFile(relative, "It is a symbolic link to a folder, which is not followed.")
        with roots.open(located) as file:
            return _described(located, relative, os.fstat(file.fileno()))
    except DocumentError as problem:
        return SkippedFile(relative, problem.message)


def _described(located: Located, relative: str, status: os.stat_result) -> File:
    return File(located, relative, status.st_size, status.st_mtime_ns // 1000)
