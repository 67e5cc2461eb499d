"""Looks into the write-ahead log (-wal) as a file: what was committed there, and what of that is damaged.

SQLite itself says nothing of a damaged log: it reads as far as the checksums are right and forgets the rest, with
everything that was acknowledged in it. So the log is looked at before SQLite opens it.
"""

import time
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kho.lib.dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Words = NDArray[np.uint32]

HEADER, FRAME = 32, 24
_MAGIC = 0x377F0682
_AT_ONCE = 256
"""Frames read at once: a megabyte."""
_ATTEMPTS, _PAUSE = 8, 0.02


@dataclass(slots=True)
class Log:
    """The frames of the log that belong together; what an earlier use of the file left behind them is not counted."""

    header: bytes = b""
    page_size: int = 0
    header_damaged: bool = False
    pages: dict[int, int] = field(default_factory=dict[int, int])
    """The last committed frame of each page: its place in the file."""
    broken: set[int] = field(default_factory=set[int])
    """Those of them whose last frame is damaged."""
    size: int = 0
    """Pages of the database after the last commit; 0 if nothing was committed."""
    frames: int = 0
    damaged: int = 0
    """Committed frames whose checksum is wrong."""


def read(path: Path) -> Log:
    """Read the log. Others may write it, begin it anew or remove it meanwhile: damage is what is there twice."""
    before, found = None, Log()
    for attempt in range(_ATTEMPTS):
        try:
            found = _read_once(path)
        except FileNotFoundError:  # the last process that had the file open has closed it
            return Log()
        told = (found.header, found.frames, found.damaged)
        if not found.header_damaged and not found.damaged:
            return found
        if told == before:
            return found
        before = told
        time.sleep(_PAUSE * (attempt + 1))
    return found


def _read_once(path: Path) -> Log:
    with path.open("rb") as file:
        header = file.read(HEADER)
    if path.stat().st_size <= HEADER + FRAME:
        return Log()
    found = _read(path, header)
    with path.open("rb") as file:
        found.header = header + file.read(HEADER)  # not the same again if it was begun anew
    return found


def _read(path: Path, header: bytes) -> Log:
    import numpy as np

    log = Log()
    fields = np.frombuffer(header, ">u4")
    order = ">u4" if int(fields[0]) & 1 else "<u4"
    summed = checksum(np.frombuffer(header[:24], order).astype("u4")[None, :])[0]
    log.header_damaged = int(fields[0]) & ~1 != _MAGIC or not np.array_equal(summed, fields[6:8])
    salts: Any = fields[4:6]
    log.page_size = int(fields[2])
    if log.header_damaged:
        log.page_size, salts = _guess(path)
        if not log.page_size:
            return log
    expected: Any = fields[6:8].astype("u4")
    place, follows, waiting = 0, True, list[tuple[int, int, bool]]()
    for chunk in _chunks(path, log.page_size):
        heads = np.ascontiguousarray(chunk[:, :FRAME]).view(">u4")
        words = np.concatenate([chunk[:, :8], chunk[:, FRAME:]], axis=1).view(order).astype("u4")
        stored = heads[:, 4:6].astype("u4")
        right = (checksum(words, np.concatenate([expected[None, :], stored[:-1]])) == stored).all(axis=1)
        salted = (heads[:, 2:4] == salts).all(axis=1)
        # The salts are not in the checksum: a frame whose salts were damaged still follows from the one before it.
        ours = salted | (right & np.concatenate([[follows], salted[:-1]]))
        right &= salted
        for number, (page, size) in enumerate(heads[:, :2].tolist()):
            waiting.append((page, place + number, bool(right[number])))
            if ours[number] and size:
                _commit(log, waiting, size if right[number] else max(log.size, *(one for one, _, _ in waiting)))
                waiting = []
        expected, follows, place = stored[-1], salted[-1], place + len(heads)
    return log


def _commit(log: Log, frames: list[tuple[int, int, bool]], size: int) -> None:
    """Take the frames up to a commit. Damaged ones, too: what is wrong in them may be a single bit."""
    log.frames += len(frames)
    log.damaged += sum(not right for _, _, right in frames)
    log.size = size
    for page, _, right in frames:
        (log.broken.discard if right else log.broken.add)(page)
    log.pages |= {page: place for page, place, _ in frames if 0 < page <= size}


def _chunks(path: Path, page_size: int) -> "Iterator[Any]":
    import numpy as np

    length = FRAME + page_size
    with path.open("rb") as file:
        file.seek(HEADER)
        while content := file.read(_AT_ONCE * length):
            whole = len(content) // length
            if not whole:
                return
            yield np.frombuffer(content[: whole * length], "u1").reshape(whole, length)


def _guess(path: Path) -> tuple[int, Any]:
    """Return the page size and the salts of a log whose header is damaged, from its first two frames."""
    import numpy as np

    with path.open("rb") as file:
        content = file.read(HEADER + 2 * (FRAME + 65_536))
    for size in (4096, 1024, 2048, 8192, 16_384, 32_768, 65_536, 512):
        first, second = HEADER + 8, HEADER + FRAME + size + 8
        if len(content) >= second + 8 and content[first : first + 8] == content[second : second + 8] != bytes(8):
            return size, np.frombuffer(content[first : first + 8], ">u4")
    return 0, None


@cache
def _factors(pairs: int) -> "tuple[Words, Words]":
    """How much each word of a text counts in the two sums of its checksum, and what the sums before it count: SQLite
    adds them up in a loop, which takes Python minutes for what a product of matrices takes a second."""
    import numpy as np

    factors = np.zeros((2 * pairs, 2), np.uint32)
    a, b, c, d = 1, 0, 0, 1  # the step, to the power of how many words follow
    for pair in range(pairs - 1, -1, -1):
        factors[2 * pair] = (a + b) & 0xFFFFFFFF, (c + d) & 0xFFFFFFFF
        factors[2 * pair + 1] = b, d
        a, b, c, d = (one & 0xFFFFFFFF for one in (a + b, a + 2 * b, c + d, c + 2 * d))
    return factors, np.array([[a, c], [b, d]], np.uint32)


def checksum(words: "Words", before: "Words | None" = None) -> "Words":
    """Return the checksums of rows of words, as SQLite computes them in its log and in pages."""
    factors, start = _factors(words.shape[1] // 2)
    summed: Words = words @ factors
    return summed if before is None else summed + before @ start
