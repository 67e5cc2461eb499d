"""Reads large files and complex formats in a separate process with limits, so that they cannot harm the hub.

A process reads many files, one after the other. It is replaced when it crashes, runs out of memory or times out; the
file that caused it is refused with that reason, and the next one gets a new process. There are as many as AT_ONCE, of
which each tenant has one at a time: the slow files of one do not hold up the others.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.abc
import anyio.to_thread
from anyio.streams.buffered import BufferedByteReceiveStream

from kho.lib.dataclass import dataclass
from kho.lib.tenancy import reach
from kho.parsers.formats import ISOLATED, format_of
from kho.parsers.model import ANSWER, REQUEST, ParsedFile, ParserLimits, TextChunk, UnreadableFile
from kho.parsers.reader import read, read_text
from kho.parsers.turns import Turns

LARGE = 256 * 2**10
"""Bytes from which a file of any format is read in the process. What a smaller one takes is measured in
tests/parsers/test_worker.py."""
NESTED = 32 * 2**10
"""The same for formats that few signs can make much of: 256 KB of `[` are two seconds of JSON to read and to cut, 32 KB
a fifth of one."""
_NESTED = frozenset({"json", "jsonl", "notebook", "csv", "tsv", "rst"})
AT_ONCE = 2
"""Processes, each with memory of its own."""
_START = 60
"""Timeout in seconds for a process to start, on a busy machine."""
_END = 5
"""Timeout in seconds for it to end by itself."""
_DYING = 1
"""The same for one that has closed its pipe. It is not killed at once: asyncio looks before it kills whether a process
has ended, and with that takes from itself the signal by which it ended."""
_OUT_OF_TIME = getattr(signal, "SIGPROF", 0)
_ADVICE = "Split it into smaller files, or save it again."


class _ProcessEnded(Exception):
    """The process ended without an answer."""


@dataclass(frozen=True, slots=True)
class _Request:
    name: str
    data: bytes
    is_text: bool
    cut: bool


@dataclass(frozen=True, slots=True)
class _Answer:
    outcome: dict[str, Any]
    text: bytes
    passages: bytes

    def readable(self, *, cut: bool) -> ParsedFile:
        """Decode the answer. Slow for a long text: do not call it on the event loop."""
        if "unreadable" in self.outcome:
            raise UnreadableFile(*self.outcome["unreadable"])
        found: dict[str, Any] = self.outcome["readable"]
        found["notes"], found["tags"] = tuple(found["notes"]), tuple(found["tags"])
        chunks = None
        if cut:
            lines = self.passages.decode("utf-8", "surrogatepass").split("\n")
            rows = (json.loads(line) for line in lines if line)
            chunks = tuple(TextChunk(text, tuple(heading), content) for text, heading, content in rows)
        return ParsedFile(**found, text=self.text.decode("utf-8", "surrogatepass"), chunks=chunks)


class _Process:
    """A running process and the two pipes to it."""

    def __init__(self, process: anyio.abc.Process, limits: ParserLimits) -> None:
        assert process.stdin
        assert process.stdout
        self._process = process
        self._requests = process.stdin
        self._answers = BufferedByteReceiveStream(process.stdout)
        self._limits = limits
        self.pid = process.pid
        self.landlock = 0
        """The version that confines it."""
        self.used = False
        """True if it has read a file before: a failure may then be caused by that, not by the next file."""

    @classmethod
    async def start(cls, limits: ParserLimits) -> Self:
        """Start a process with nothing in its environment but the path to our modules: a compromised parser finds no
        keys there."""
        command = [sys.executable, "-B", "-m", "kho.parsers.worker_process", json.dumps(asdict(limits))]
        path = os.pathsep.join(filter(None, sys.path))
        process = await anyio.open_process(command, stdout=subprocess.PIPE, stderr=None, env={"PYTHONPATH": path})
        started = cls(process, limits)
        try:
            async with started.killed_on_failure():
                with anyio.fail_after(_START):
                    started.landlock = (await started.answer()).outcome["landlock"]
        except (_ProcessEnded, TimeoutError) as error:
            raise UnreadableFile("the program that reads it does not start", "The log of the hub says why.") from error
        return started

    @asynccontextmanager
    async def killed_on_failure(self) -> AsyncGenerator[None]:
        """Kill the process on any failure, also when the caller is cancelled: the rest of an answer must not be taken
        for the answer to the next request."""
        patience: float | None = 0.0
        try:
            yield
            patience = None
        except _ProcessEnded:
            patience = _DYING
            raise
        finally:
            if patience is not None:
                await self.end(patience)

    async def ask(self, request: _Request) -> _Answer:
        words = request.name.encode("utf-8", "surrogateescape")
        try:
            await self._requests.send(REQUEST.pack(len(words), len(request.data), request.is_text, request.cut) + words)
            await self._requests.send(request.data)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            raise _ProcessEnded from error
        return await self.answer()

    async def answer(self) -> _Answer:
        """Read an answer, no longer than the limit, even from a compromised parser."""
        try:
            lengths = ANSWER.unpack(await self._answers.receive_exactly(ANSWER.size))
            if sum(lengths) > self._limits.answer:
                raise _ProcessEnded
            outcome, text, passages = [await self._answers.receive_exactly(length) for length in lengths]
            return _Answer(json.loads(outcome), text, passages)
        except (anyio.IncompleteRead, anyio.BrokenResourceError) as error:
            raise _ProcessEnded from error

    @property
    def out_of_time(self) -> bool:
        """True if it ended because it had used up its time of a processor."""
        return self._process.returncode == -_OUT_OF_TIME

    async def end(self, patience: float = _END) -> None:
        with anyio.CancelScope(shield=True):
            await self._requests.aclose()
            with anyio.move_on_after(patience):
                await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
            await self._process.wait()
            await self._process.aclose()


def _is_large(data: bytes, name: str) -> bool:
    """True for a file that is not read in the hub's own process."""
    format, _ = format_of(data, name)
    return format in ISOLATED or len(data) > (NESTED if format in _NESTED else LARGE)


class Worker:
    """Reads files; large ones and those of complex formats in processes. Bound to the event loop it is used in."""

    def __init__(self, limits: ParserLimits | None = None, *, cut: bool = False) -> None:
        """With `cut`, the process also cuts the text into passages, because that takes longer than reading it."""
        self.limits = limits or ParserLimits()
        self._cut = cut
        self._turns = Turns(AT_ONCE)
        self._idle: list[_Process] = []

    @property
    def pid(self) -> int | None:
        """Pid of the process that reads next; None if one will be started."""
        return self._idle[-1].pid if self._idle else None

    @property
    def landlock(self) -> int:
        """The version of Landlock that confines that process; 0 if none does, or there is no process."""
        return self._idle[-1].landlock if self._idle else 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        while self._idle:
            await self._idle.pop().end()

    async def read(self, data: bytes, name: str, *, suspect: bool = False) -> ParsedFile:
        """As `kho.parsers.read`: a small file of a simple format in a thread, any other in a process, and also one
        that is `suspect` of having crashed a hub. Cancelling the caller kills the process."""
        if len(data) > self.limits.size or not (suspect or _is_large(data, name)):
            return await _in_thread(partial(read, data, name, limits=self.limits))
        return await self._isolated(_Request(name, data, is_text=False, cut=self._cut))

    async def read_text(self, text: str) -> ParsedFile:
        """As `kho.parsers.read_text`; a long text is read in a process."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) <= LARGE:
            return await _in_thread(partial(read_text, text))
        return await self._isolated(_Request("", data, is_text=True, cut=self._cut))

    async def _isolated(self, request: _Request) -> ParsedFile:
        async with self._turns.turn(reach()):
            answer = await self._answer(request)
        return await _in_thread(partial(answer.readable, cut=request.cut))

    async def _answer(self, request: _Request) -> _Answer:
        """Ask a process. If one that has read before fails, the file is retried once with a new one."""
        idle = self._idle.pop() if self._idle else None
        while True:
            process, idle = idle or await _Process.start(self.limits), None
            fresh, process.used = not process.used, True
            try:
                async with process.killed_on_failure():
                    with anyio.fail_after(self.limits.seconds):
                        answer = await process.ask(request)
            except TimeoutError as error:
                raise UnreadableFile(f"reading it took longer than {self.limits.seconds:g} seconds", _ADVICE) from error
            except _ProcessEnded as error:
                if process.out_of_time:
                    most = f"{self.limits.processor:g} seconds of a processor"
                    raise UnreadableFile(f"reading it took more than {most}", _ADVICE) from error
                if fresh:
                    raise UnreadableFile("it crashes the program that reads it", _ADVICE) from error
                continue
            if "memory" not in answer.outcome:
                self._idle.append(process)
                return answer
            await process.end()
            if fresh:
                most = self.limits.memory // 2**20
                raise UnreadableFile(f"reading it takes more than {most} MB of memory", _ADVICE)


async def _in_thread(work: Callable[[], ParsedFile]) -> ParsedFile:
    """Run in a thread, which is abandoned when the caller is cancelled: it ends soon."""
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
