"""Forwards calls to the process that holds a board's connection. On one machine: over a unix socket that only this user
can open, one line of JSON each way.

A request is executed at most once: nothing is sent twice. If the owner dies during a call, it is unknown whether the
board received it, and the caller gets an error that says so (BoardGone).
"""

import asyncio
import contextlib
import logging
from pathlib import Path
from typing import Any, Protocol, cast

import orjson

from kho.devices.errors import BoardGone, BoardRefused, CallTimedOut, DeviceOffline, QueueFull
from kho.devices.store import Owner
from kho.kernel.errors import KhoError
from kho.lib.unix_lines import LONGEST_LINE, PATIENCE, Answer, LineServer

log = logging.getLogger("kho.devices")

_RAISED = {kind.__name__: kind for kind in (BoardGone, CallTimedOut, QueueFull, BoardRefused, DeviceOffline)}


class Forwarding(Protocol):
    """Forwarding of requests between processes."""

    async def open(self, answer: Answer) -> str:
        """Make this process reachable and return its address. Called again, it checks that it still is and reopens it
        if needed; the address may then differ."""
        ...

    async def ask(self, owner: Owner, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request to the owner and return its answer. Raises DeviceOffline if the owner cannot have received it,
        BoardGone if it may have, and CallTimedOut."""
        ...

    async def is_gone(self, owner: Owner) -> bool:
        """True if that process has certainly ended, whatever its lease says. False if unknown."""
        ...

    async def close(self) -> None: ...


def told(error: KhoError) -> dict[str, Any]:
    """Serialize an error."""
    details = error.details if isinstance(error, BoardRefused) else {}
    return {"error": {"kind": type(error).__name__, "message": error.message, "code": error.code, "details": details}}


def result(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the result, or raise the error that the owner sent."""
    match answer:
        case {"result": dict()}:
            return cast(dict[str, Any], answer["result"])
        case {"error": {"kind": str(kind), "message": str(message), "details": dict()}}:
            error = _RAISED.get(kind, KhoError)(message)
            error.details.update(cast(dict[str, Any], answer["error"]["details"]))
            raise error
        case _:
            raise KhoError


class UnixForwarding:
    """Forwarding over a socket in `folder`, which is in KHO_HOME."""

    def __init__(self, folder: Path, process: str) -> None:
        self._server = LineServer(folder, process[-12:], busy=told(QueueFull()))

    async def open(self, answer: Answer) -> str:
        return await self._server.open(answer)

    async def close(self) -> None:
        await self._server.close()

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
        """A killed process leaves its socket behind, and connecting to it is refused. If the socket is missing, the
        process may have been asleep and removed by the others: it comes back."""
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
