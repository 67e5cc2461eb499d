"""A hub's devices on a database, with virtual boards on wires of memory."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any, cast

from tests.timeouts import PATIENCE

from kho.devices.capability import assemble, described
from kho.devices.connections.connection import BoardConnection
from kho.devices.protocol.session import Session
from kho.devices.settings import Approval, DeviceSettings
from kho.kernel.background import Background
from kho.kernel.call import Call, Principal
from kho.kernel.limits.settings import LimitSettings
from kho.kernel.ports import Database
from kho.kernel.registry import Registry
from kho.lib.clock import SECOND, system_clock
from kho.search.core import Core
from kho.simulator.board import Board, HangUp, Say
from kho.storage.leases import SqlLeases

_tenants = count(1)


class Time:
    """The system's, moved on by hand."""

    def __init__(self) -> None:
        self.ahead = 0

    def __call__(self) -> int:
        return system_clock() + self.ahead

    def pass_(self, seconds: float) -> None:
        self.ahead += int(seconds * SECOND)


class Wire:
    """A board's end in memory: what the hub sends, the board hears at once, unless it is held back."""

    def __init__(self, board: Board, name: str = "websocket") -> None:
        self.name = name
        self.board = board
        self.link: BoardConnection | None = None
        self.heard: list[str] = []
        self.closed: tuple[int, str] | None = None
        self.over = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self.asked = asyncio.Event()

    async def send(self, text: str) -> None:
        self.heard.append(text)
        if '"tools/call"' in text:
            self.asked.set()
            await self.free.wait()
        await self._do(self.board.hear(text))

    async def say(self, *payloads: dict[str, Any]) -> None:
        await self._do(self.board.say(list(payloads)))

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self.closed = code, reason
        self.over.set()

    def calls(self) -> int:
        return sum('"tools/call"' in text for text in self.heard)

    async def _do(self, said: list[Say | HangUp]) -> None:
        assert self.link is not None
        for one in said:
            if isinstance(one, HangUp):
                raise ConnectionResetError
            await self.link.received(one.text)


async def approved_at_once() -> Approval:
    return "auto"


async def approved_by_code() -> Approval:
    return "code"


class HubWorker:
    """One process's share of a hub."""

    def __init__(
        self,
        db: Database,
        home: Path,
        url: str | None,
        *,
        tenant: str | None = None,
        by_code: bool = False,
        **chosen: Any,
    ) -> None:
        self.db = db
        self.tenant = tenant or f"tenant-{next(_tenants)}"
        self.clock = Time()
        self.background = Background()
        self.approval = approved_by_code if by_code else approved_at_once
        nothing = cast(Any, None)  # boards are not searched
        self.core = Core(db, nothing, nothing, self.background, None, SqlLeases(self.clock), clock=self.clock)
        self.parts = assemble(
            self.core,
            DeviceSettings(**chosen),
            sockets=home / "run",
            database_url=url,
            tenant=self.tenant,
            approval=self.approval,
            limits=LimitSettings(),
        )
        self.live, self.queue, self.events = self.parts.live, self.parts.queue, self.parts.events
        self.offering, self.registrations = self.parts.board_tools, self.parts.registrations
        offered = described(self.parts.directory, self.parts.calls, self.parts.management)
        self._operations = {one.name: one for one in offered.operations}
        self.registry = Registry((), self.background)

    def caller(self, *, admin: bool = False, scopes: frozenset[str] = frozenset({"*"}), door: str = "memory") -> Call:
        return Call(Principal("lan", self.tenant, scopes | {"admin"} if admin else scopes), door)

    async def ask(self, operation: str, arguments: dict[str, Any], call: Call | None = None) -> Any:
        """The operation's result. Raises its error."""
        outcome = await self.registry.call(
            self._operations[f"devices.{operation}"], arguments, call or self.caller(admin=True)
        )
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def join(self, board: Board, *, register: bool = True) -> Wire:
        """The board connects and says hello; ready when its tools are known."""
        if register:
            await self.registrations.register(board.id, "client", {})
        wire = Wire(board)
        link = self.live.attach(self.tenant, board.id, wire, Session())
        wire.link = link
        await self.live.connected(self.tenant, board.id, link)
        await link.received(board.hello())
        async with asyncio.timeout(PATIENCE):
            await link.settled()
        assert link.session.state == "ready"
        return wire

    async def leave(self, wire: Wire) -> None:
        assert wire.link is not None
        await wire.link.close("The board went away.")
        await wire.link.settled()

    async def settle(self) -> None:
        """Until nothing is left to do in the background."""
        async with asyncio.timeout(PATIENCE):
            while self.background._tasks:  # pyright: ignore[reportPrivateUsage]
                await asyncio.wait(set(self.background._tasks))  # pyright: ignore[reportPrivateUsage]

    async def close(self) -> None:
        await self.background.drain()
        await self.live.close()
