"""A board's connection lives in one process. Every other process on this machine reaches it here: over a unix socket
that only this user can open, one line of JSON each way.

What is asked is done once or not at all: nothing is sent twice. When the owner dies over a call, whether the board was
asked is not known, and the caller is told so.
"""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol, cast

import orjson

from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, DeviceOffline, QueueFull
from kho.devices.store import Owner
from kho.kernel.errors import KhoError

log = logging.getLogger("kho.devices")

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
"""What the owner does with a message."""
LONGEST_PATH = 100
"""Bytes of a socket's address: 108 on Linux, 104 elsewhere."""
LONGEST_LINE = 8 * 1024 * 1024
AT_ONCE = 256
PATIENCE = 10.0
"""Seconds for what should take none: to connect, to hand over a message."""
_RAISED = {kind.__name__: kind for kind in (BoardGone, CallTimedOut, QueueFull, BoardRefused, DeviceOffline)}


class Forwarding(Protocol):
    """How processes reach each other."""

    async def open(self, answer: Answer) -> str:
        """From now on others reach this process, at the address that it gives back. Called again, it sees to it that
        this is still so; the address may be another one then."""
        ...

    async def ask(self, owner: Owner, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """What the owner answers. Raises DeviceOffline if it cannot have heard, BoardGone if it may have, and
        CallTimedOut."""
        ...

    async def is_gone(self, owner: Owner) -> bool:
        """Whether that process has certainly ended, whatever its lease says. False when that cannot be known."""
        ...

    async def close(self) -> None: ...


def told(error: KhoError) -> dict[str, Any]:
    """An error as it travels."""
    return {"error": {"kind": type(error).__name__, "message": error.message, "code": error.code}}


def result(answer: dict[str, Any]) -> dict[str, Any]:
    """What was answered; an error is raised here as it was there."""
    match answer:
        case {"result": dict()}:
            return cast(dict[str, Any], answer["result"])
        case {"error": {"kind": str(kind), "message": str(message)}}:
            raise _RAISED.get(kind, KhoError)(message)
        case _:
            raise KhoError


class UnixForwarding:
    """`folder` is in KHO_HOME; where that makes too long an address, a private folder elsewhere takes its place."""

    def __init__(self, folder: Path, process: str) -> None:
        self._folder = folder
        self._process = process
        self._server: asyncio.Server | None = None
        self._answer: Answer | None = None
        self._path: Path | None = None
        self._elsewhere: Path | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, answer: Answer) -> str:
        if self._path is not None and self._path.is_socket():
            return str(self._path)
        if self._server is not None:  # somebody cleared the socket away; what came in over it goes on
            self._server.close()
            self._clear()
        self._answer = answer
        self._path = self._place()
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=LONGEST_LINE)
        self._path.chmod(0o600)
        return str(self._path)

    async def ask(self, owner: Owner, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_unix_connection(owner.address, limit=LONGEST_LINE)
        except (OSError, TimeoutError):
            raise DeviceOffline("The process that held the device's connection has ended.") from None
        try:
            writer.write(orjson.dumps(message) + b"\n")
            async with asyncio.timeout(timeout):
                line = await reader.readline()
        except TimeoutError:
            raise CallTimedOut from None
        except (OSError, ValueError):
            raise BoardGone from None
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        if not line.endswith(b"\n"):
            raise BoardGone
        return result(orjson.loads(line))

    async def is_gone(self, owner: Owner) -> bool:
        """A process that was killed leaves its socket behind, and nobody listens there. Where there is no socket, one
        that was asleep may just have been given up: it comes back."""
        try:
            async with asyncio.timeout(PATIENCE):
                _, writer = await asyncio.open_unix_connection(owner.address)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
        return False

    async def close(self) -> None:
        if self._server is None or self._path is None:
            return
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await self._server.wait_closed()
        self._clear()

    def _clear(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        if self._elsewhere is not None:
            with contextlib.suppress(FileNotFoundError):
                self._elsewhere.rmdir()
        self._server = self._path = self._elsewhere = None

    def _place(self) -> Path:
        name = f"{self._process[-12:]}.sock"
        if len(os.fsencode(self._folder / name)) <= LONGEST_PATH:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._folder.chmod(0o700)
            return self._folder / name
        self._elsewhere = Path(tempfile.mkdtemp(prefix="kho-"))
        return self._elsewhere / name

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, TimeoutError) as problem:
            log.info("forwarding: a process went away, or sent no message: %s", problem)
        except asyncio.CancelledError:
            pass  # the hub stops; streams would log it as an error
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._answer is not None
        if not _same_user(writer.get_extra_info("socket")):
            log.warning("forwarding: another user's process is turned away")
            return
        async with asyncio.timeout(PATIENCE):
            line = await reader.readline()
        if not line.endswith(b"\n"):
            return
        if len(self._serving) > AT_ONCE:
            answer = told(QueueFull())
        else:
            answer = await self._answer(orjson.loads(line))
        writer.write(orjson.dumps(answer) + b"\n")
        async with asyncio.timeout(PATIENCE):
            await writer.drain()


def _same_user(connection: socket.socket) -> bool:
    """Where the system says who is at the other end; elsewhere the folder, which is this user's alone, has to do."""
    asked = getattr(socket, "SO_PEERCRED", None)
    if asked is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, asked, struct.calcsize("3i")))
    return user == os.geteuid()
