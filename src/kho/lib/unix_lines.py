"""Requests between processes of one machine: one line of JSON each way over a unix socket that only this user can
open."""

import asyncio
import contextlib
import logging
import os
import socket
import struct
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from kho.lib.folders import private_folder

log = logging.getLogger("kho.sockets")

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
LONGEST_PATH = 100
"""Bytes of a socket's path: the limit is 108 on Linux, 104 elsewhere."""
LONGEST_LINE = 8 * 1024 * 1024
AT_ONCE = 256
PATIENCE = 10.0
"""Timeout in seconds for what should be instant: connecting, transferring a message."""


class LineServer:
    """Server for such requests. `folder` is in KHO_HOME; if that makes the path too long, a private temporary folder is
    used instead. `busy` is the answer to too many concurrent requests."""

    def __init__(self, folder: Path, name: str, busy: dict[str, Any]) -> None:
        self._folder = folder
        self._name = f"{name}.sock"
        self._busy = busy
        self._server: asyncio.Server | None = None
        self._answer: Answer | None = None
        self._path: Path | None = None
        self._elsewhere: Path | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def open(self, answer: Answer) -> str:
        """Listen, or check that it still does, and return the socket's path."""
        if self._path is not None and self._path.is_socket():
            return str(self._path)
        if self._server is not None:  # the socket file was deleted; open connections continue
            self._server.close()
            self._clear()
        self._answer = answer
        self._path = self._place()
        self._server = await asyncio.start_unix_server(self._connected, self._path, limit=LONGEST_LINE)
        self._path.chmod(0o600)
        return str(self._path)

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
        if len(os.fsencode(self._folder / self._name)) <= LONGEST_PATH:
            private_folder(self._folder)
            self._folder.chmod(0o700)
            return self._folder / self._name
        self._elsewhere = Path(tempfile.mkdtemp(prefix="kho-"))
        return self._elsewhere / self._name

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, ValueError, TimeoutError) as problem:
            log.info("a process went away, or sent no message: %s", problem)
        except asyncio.CancelledError:
            pass  # the hub stops; asyncio streams would log it as an error
        finally:
            self._serving.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._answer is not None
        if not _same_user(writer.get_extra_info("socket")):
            log.warning("another user's process is turned away")
            return
        async with asyncio.timeout(PATIENCE):
            line = await reader.readline()
        if not line.endswith(b"\n"):
            return
        answer = self._busy if len(self._serving) > AT_ONCE else await self._answer(orjson.loads(line))
        writer.write(orjson.dumps(answer) + b"\n")
        async with asyncio.timeout(PATIENCE):
            await writer.drain()


def _same_user(connection: socket.socket) -> bool:
    """True if the peer has our user id. Where the system does not tell, the folder's permissions have to suffice."""
    asked = getattr(socket, "SO_PEERCRED", None)
    if asked is None:
        return True
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, asked, struct.calcsize("3i")))
    return user == os.geteuid()
