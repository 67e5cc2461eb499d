"""The worker's side: files come in on stdin, one after the other, and their text goes out.

Nothing of ours writes to stdout except answers, and what a library prints goes to stderr: the channel is moved away
from descriptor 1 before any parser is loaded.
"""

import json
import logging
import os
import signal
import sys
import traceback
import warnings
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from kho.research.reading.frames import ANSWER, REQUEST
from kho.research.reading.model import Limits, Unreadable
from kho.research.reading.reader import read
from kho.search.chunk import chunks

_GRACE = 30
"""Seconds past the limit after which the worker ends itself, should nobody be left to end it."""


def main() -> None:
    limits = Limits(**json.loads(sys.argv[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it closes stdin
    logging.disable()
    warnings.simplefilter("ignore")
    sys.excepthook = _one_line
    _confine(limits)
    _answer(answers, {})
    while request := _request(sys.stdin.buffer):
        _alarm(limits.seconds + _GRACE)
        answer = _read(*request, limits)
        del request
        if answer is None:  # what is left of the memory is in pieces
            os.write(answers.fileno(), _FULL)
            return
        _answer(answers, answer)
        _alarm(0)


def _read(name: str, data: bytes, cut: bool, limits: Limits) -> dict[str, object] | None:
    """None when there is not memory enough; the caller says so, when what was in use is free again."""
    try:
        found = read(data, name, limits=limits)
        if cut:
            chunks(found.text, kind=found.kind)
        return {"readable": asdict(found)}
    except Unreadable as error:
        return {"unreadable": [error.reason, error.advice]}
    except MemoryError:
        return None


def _one_line(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """What a parser did not foresee ends the process; the log gets a line, not a page."""
    last = traceback.extract_tb(trace)[-1:]
    place = f" at {last[0].filename}:{last[0].lineno}" if last else ""
    sys.stderr.write(f"The process that reads files ended: {kind.__name__}: {str(error)[:500]}{place}\n")


def _confine(limits: Limits) -> None:
    """No more memory than allowed on top of what Python has now, and no core dumped."""
    if sys.platform == "win32":
        return
    import resource

    for kind, value in (
        (resource.RLIMIT_AS, _in_use() + limits.memory),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(kind, (value, value))
        except (ValueError, OSError):  # macOS knows some of them by name only
            continue


def _in_use() -> int:
    status = Path("/proc/self/statm")
    return int(status.read_text().split()[0]) * 4096 if status.exists() else 2**30


def _alarm(seconds: float) -> None:
    """Its default is to end the process."""
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_REAL, seconds)


def _request(source: BinaryIO) -> tuple[str, bytes, bool] | None:
    head = source.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    name_length, data_length, cut = REQUEST.unpack(head)
    name = source.read(name_length).decode("utf-8", "surrogateescape")
    data = source.read(data_length)
    return (name, data, cut) if len(data) == data_length else None


def _answer(target: BinaryIO, answer: dict[str, object]) -> None:
    target.write(_frame(answer))
    target.flush()


def _frame(answer: dict[str, object]) -> bytes:
    words = json.dumps(answer).encode()
    return ANSWER.pack(len(words)) + words


_FULL = _frame({"memory": True})
"""Made early: later there may be no room for it."""


if __name__ == "__main__":
    main()
