"""Child side of the worker: reads files from stdin, one after the other, and sends back their text.

Only answers are written to the original stdout; what a library prints goes to stderr: the pipe is moved away from
descriptor 1 before any parser is loaded.
"""

import json
import logging
import os
import signal
import stat
import sys
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from kho.lib.chunking.chunker import chunks
from kho.parsers import landlock
from kho.parsers.model import ANSWER, REQUEST, ParsedFile, ParserLimits, UnreadableFile
from kho.parsers.reader import read, read_text

_GRACE = 30
"""Seconds past the timeout after which the worker ends itself, in case its parent is gone."""
_OPEN_FILES = 64
"""More than the import of any parser opens at once."""
_LOG = 2**20
"""Bytes that may be added to a log, if stderr is a file."""


def main() -> None:
    limits = ParserLimits(**json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C by closing stdin
    logging.disable()
    warnings.simplefilter("ignore")
    sys.excepthook = _one_line
    _send(answers, _frame({"landlock": _confine(limits)}))
    while request := _request(sys.stdin.buffer):
        _alarm(limits.seconds + _GRACE, limits.processor)
        answer = _read(request, limits)
        del request
        if answer is None:  # the remaining memory is fragmented
            os.write(answers.fileno(), _FULL)
            return
        _send(answers, answer)
        del answer
        _alarm(0, 0)


class _Request(NamedTuple):
    name: str
    data: bytes
    is_text: bool
    cut: bool


def _read(request: _Request, limits: ParserLimits) -> list[bytes] | None:
    """Return the frame to send. None if memory ran out; the caller reports that after the memory in use has been
    freed."""
    try:
        if request.is_text:
            found = read_text(request.data.decode("utf-8", "surrogatepass"))
        else:
            found = read(request.data, request.name, limits=limits)
        frame = _found(found, limits, cut=request.cut)
        if sum(map(len, frame)) > limits.answer:
            return _unreadable("its text is far too long", "Split it into smaller files.")
        return frame
    except UnreadableFile as error:
        return _unreadable(error.reason, error.advice)
    except MemoryError:
        return None


def _found(found: ParsedFile, limits: ParserLimits, *, cut: bool) -> list[bytes]:
    told = {one.name: getattr(found, one.name) for one in fields(found) if one.name not in ("text", "chunks")}
    passages = b"\n".join(_passages(found, limits.passages)) if cut else b""
    return _frame({"readable": told}, found.text.encode("utf-8", "surrogatepass"), passages)


def _passages(found: ParsedFile, most: int) -> Iterator[bytes]:
    for one in chunks(found.text, kind=found.kind, most=most):
        row = json.dumps((one.text, one.heading, one.content), ensure_ascii=False)
        yield row.encode("utf-8", "surrogatepass")


def _unreadable(reason: str, advice: str) -> list[bytes]:
    return _frame({"unreadable": [reason, advice]})


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log an unexpected exception, which ends the process, in one line instead of a traceback."""
    last = traceback.extract_tb(trace)[-1:]
    place = f" at {last[0].filename}:{last[0].lineno}" if last else ""
    sys.stderr.write(f"The process that reads files ended: {kind.__name__}: {str(error)[:500]}{place}\n")


def _confine(limits: ParserLimits) -> int:
    """Give up what no parser needs, as far as the system can; return the version of Landlock, 0 if there is none.
    Memory is limited to the allowed amount on top of what Python uses now; no files are written, no processes
    started."""
    if sys.platform == "win32":
        return 0
    import resource

    log = os.fstat(2)
    for kind, value in (
        (resource.RLIMIT_AS, _in_use() + limits.memory),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, log.st_size + _LOG if stat.S_ISREG(log.st_mode) else 0),
    ):
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS does not implement some of them
            continue
    try:
        return landlock.confine()
    except OSError as error:  # of a kernel that has it, but not for us: too many layers of it, for one
        sys.stderr.write(f"The process that reads files goes on without Landlock: {error}\n")
        return 0


def _in_use() -> int:
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * 4096 if status.exists() else 2**30


def _alarm(seconds: float, processor: float) -> None:
    """Arm the timers; SIGALRM and SIGPROF end the process by default, whatever C code it is in."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)
        signal.setitimer(signal.ITIMER_PROF, processor)


def _request(source: BinaryIO) -> _Request | None:
    head = source.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    name_length, data_length, is_text, cut = REQUEST.unpack(head)
    name = source.read(name_length).decode("utf-8", "surrogateescape")
    data = source.read(data_length)
    return _Request(name, data, is_text, cut) if len(data) == data_length else None


def _send(target: BinaryIO, frame: list[bytes]) -> None:
    target.writelines(frame)
    target.flush()


def _frame(answer: dict[str, object], text: bytes = b"", passages: bytes = b"") -> list[bytes]:
    words = json.dumps(answer).encode()
    return [ANSWER.pack(len(words), len(text), len(passages)), words, text, passages]


_FULL = b"".join(_frame({"memory": True}))
"""Built early: later there may be no memory for it."""


if __name__ == "__main__":
    main()
