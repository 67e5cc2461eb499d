"""The pages of a database as bytes: those in its log before those in the file."""

import struct
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from kho.lib.dataclass import dataclass
from kho.storage.sqlite import wal
from kho.storage.sqlite.checksums import RESERVED

MAGIC = b"SQLite format 3\0"
_SAMPLE = 40


@dataclass(slots=True)
class PageFile:
    path: Path
    log: wal.Log = field(default_factory=wal.Log)
    header: bytes = b""
    sound: bool = False
    """True if it begins as a database does."""
    size: int = 4096
    """Bytes of a page."""
    usable: int = 4096
    count: int = 0
    free: set[int] = field(default_factory=set[int])
    """Pages that hold nothing: whatever is in them is not looked at."""
    main: BinaryIO | None = None
    logged: BinaryIO | None = None

    def open(self) -> None:
        log_path = self.path.with_name(f"{self.path.name}-wal")
        self.log = wal.read(log_path)
        self.main = self.path.open("rb") if self.path.is_file() else None
        try:
            self.logged = log_path.open("rb") if self.log.pages else None
        except FileNotFoundError:  # all of it is in the file by now
            self.log = wal.Log()
        self.header = self.main.read(100) if self.main else b""
        stated = _stated(self.header)
        self.size = self.log.page_size or stated or 4096
        length = self.path.stat().st_size if self.main else 0
        self.count = max(length // self.size, self.log.size, *self.log.pages, 0)
        if not stated and 1 in self.log.pages:
            self.header = self.page(1)[:100]
        self.sound = _stated(self.header) > 0
        self.usable = self.size - (self.header[20] if self.sound else self._reserved())
        self.free = free_pages(self.page, self.size) if self.sound else set()

    def close(self) -> None:
        for file in (self.main, self.logged):
            if file is not None:
                file.close()

    def page(self, number: int) -> bytes:
        """Return a page; empty if it is not there."""
        place = self.log.pages.get(number)
        file = self.main if place is None else self.logged
        if file is None or number < 1:
            return b""
        offset = (number - 1) * self.size
        file.seek(offset if place is None else wal.HEADER + place * (wal.FRAME + self.size) + wal.FRAME)
        content = file.read(self.size)
        return content if len(content) == self.size else b""

    def earlier(self, number: int) -> bytes:
        """Return a page as it was before what the log says of it."""
        if self.main is None:
            return b""
        self.main.seek((number - 1) * self.size)
        content = self.main.read(self.size)
        return content if len(content) == self.size else b""

    def _reserved(self) -> int:
        """Tell from the first pages whether pages have checksums, when the header does not."""
        sample = [content for number in range(2, min(self.count, _SAMPLE) + 1) if (content := self.page(number))]
        right = sum(not len(wrong(rows_of(content), sums=True)) for content in sample)
        return RESERVED if 2 * right > len(sample) else 0


def _stated(header: bytes) -> int:
    """Return the page size that a header states; 0 if it is none."""
    size = 65_536 if header[16:18] == b"\0\1" else int.from_bytes(header[16:18], "big")
    return size if header[:16] == MAGIC and size >= 512 and not size & (size - 1) else 0


def rows_of(content: bytes) -> Any:
    """Return one page as the only row of a matrix."""
    return np.frombuffer(content, "u1")[None, :]


def wrong(rows: Any, *, sums: bool) -> Any:
    """Return the places of pages that are not as they were written: `sums` says whether they have checksums. A page of
    zeros fits to its checksum, which is zero, and is none of a database's unless it is free."""
    words = np.ascontiguousarray(rows).view("<u4")
    empty = ~words.any(axis=1)
    if not sums:
        return np.flatnonzero(empty)
    return np.flatnonzero((wal.checksum(words[:, :-2]) != words[:, -2:]).any(axis=1) | empty)


def free_pages(page: Callable[[int], bytes], size: int) -> set[int]:
    free: set[int] = set()
    trunks: set[int] = set()
    trunk = int.from_bytes(page(1)[32:36], "big")
    while trunk and trunk not in trunks:
        trunks.add(trunk)
        content = page(trunk)
        if len(content) < size:
            break
        trunk, leaves = struct.unpack(">II", content[:8])
        if leaves > size // 4 - 2:
            break
        free.update(struct.unpack(f">{leaves}I", content[8 : 8 + 4 * leaves]))
    return free
