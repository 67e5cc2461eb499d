"""The tools of connected boards as tools of the hub's own, in every process alike.

Which boards are connected is in the database, whichever process holds them, so that all workers offer the same.
Boards with the same tools are one set of tools; which board is meant is an argument.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import orjson

from kho.devices import store, toolsets
from kho.devices.aliases import Exposed, Table
from kho.devices.arguments import honest
from kho.devices.listed import BoardTool
from kho.devices.model import ToolArguments
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.clock import Clock
from kho.kernel.errors import KhoError
from kho.kernel.operation import Operation
from kho.kernel.ports import Database, Tx

log = logging.getLogger("kho.devices")

Mode = Literal["grouped", "each", "off"]
Run = Callable[[BoardTool, str, str | None, Mapping[str, Any], Call], Awaitable[Any]]
"""The tool, what its argument for the device is called, the one device that is meant or None, arguments, caller."""
LOOK = 3.0
"""Seconds after which a look is taken without having been called: boards may have come to other processes."""
FRESH = 0.5
"""Seconds between two looks, at least."""
MOST = 512
"""Tools of boards that one tenant is offered."""
MOST_ALONE = 128
"""Boards of one tenant that are offered each by itself."""
CALL, ADMIN = "devices:call", "admin"
SEVERAL = "several boards"
_WHICH = "Which device: its id, a list of ids, or a label. Needed only when several have this tool."


class Offering:
    """A `Source`. `user_tools` offers admins, too, what boards keep for people."""

    def __init__(
        self, db: Database, background: Background, clock: Clock, mode: Mode, run: Run, *, user_tools: bool = False
    ) -> None:
        self._db = db
        self._background = background
        self._clock = clock
        self._mode: Mode = mode
        self._run = run
        self._user_tools = user_tools
        self._nudged = asyncio.Event()
        self._listeners: list[Callable[[], None]] = []
        self._seen: Any = None
        self._operations: dict[str, Operation] = {}
        """By what makes them what they are: those that stay stay the same objects."""

    def operations(self) -> Sequence[Operation]:
        return list(self._operations.values())

    def subscribe(self, changed: Callable[[], None]) -> None:
        self._listeners.append(changed)

    def nudge(self) -> None:
        self._nudged.set()

    async def run(self) -> None:
        """Works until the hub stops."""
        while self._mode != "off" and not self._background.stopping:
            self._nudged.clear()
            try:
                await self.look()
            except KhoError as problem:
                log.warning("tools of boards: the database is away: %s", problem.message)
            await self._background.pause(FRESH)
            await self._background.pause_until(self._nudged, LOOK - FRESH)

    async def look(self) -> None:
        boards = await self._db.read(self._changed)
        if boards is None:
            return
        self._seen, found = boards
        operations = {one[0]: one for tenant, sets in found.items() for one in self._offered(tenant, sets)}
        if operations.keys() == self._operations.keys():
            return
        self._operations = {
            key: self._operations.get(key) or self._operation(tenant, exposed, device)
            for key, tenant, exposed, device in operations.values()
        }
        for changed in self._listeners:
            changed()

    def _changed(self, tx: Tx) -> tuple[Any, dict[str, dict[str, tuple[BoardTool, ...]]]] | None:
        """The tools of each board by tenant, or None if they are those of the last look."""
        now = self._clock()
        rows = store.offered(tx, now)
        seen = [(tenant, digest, id if count == 1 else SEVERAL) for tenant, digest, count, id in rows]
        if self._mode == "each":
            tenants = {tenant for tenant, *_ in rows}
            seen = [
                (t, one.toolset, one.id) for t in sorted(tenants) for one in store.connected(tx, t, now, MOST_ALONE)
            ]
        if seen == self._seen:
            return None
        found: dict[str, dict[str, tuple[BoardTool, ...]]] = {}
        sets: dict[tuple[str, str], tuple[BoardTool, ...]] = {}
        for tenant, digest, who in seen:
            key = tenant, digest
            if key not in sets:
                sets[key] = toolsets.unpacked(store.tools(tx, tenant, digest))
            # Two sets of several boards each are two entries that share some of their tools.
            name = f"{who} {digest}" if who == SEVERAL else who
            found.setdefault(tenant, {})[name] = sets[key]
        return seen, found

    def _offered(
        self, tenant: str, boards: Mapping[str, tuple[BoardTool, ...]]
    ) -> list[tuple[str, str, Exposed, str | None]]:
        shown = {
            who: [tool for tool in tools if self._user_tools or not tool.user_only] for who, tools in boards.items()
        }
        return [
            (_key(tenant, exposed), tenant, exposed, device)
            for exposed, device in (self._each(shown) if self._mode == "each" else _grouped(shown))
        ][:MOST]

    def _each(self, boards: Mapping[str, Sequence[BoardTool]]) -> list[tuple[Exposed, str | None]]:
        """Every board by itself: the device is a part of the name."""
        real = {(who, f"{who}.{tool.name}"): tool for who, tools in boards.items() for tool in tools}
        table = Table(
            {who: [replace(tool, name=f"{who}.{tool.name}") for tool in tools] for who, tools in boards.items()}
        )
        return [
            (replace(exposed, tool=real[exposed.devices[0], exposed.tool.name]), exposed.devices[0])
            for exposed in table.exposed
        ]

    def _operation(self, tenant: str, exposed: Exposed, device: str | None) -> Operation:
        tool, schema = exposed.tool, honest(exposed.tool.schema)
        properties = schema.get("properties", {})
        which = next(name for name in ("device", "device_id", "kho_device") if name not in properties)
        if device is None:
            one_or_many = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            schema = {**schema, "properties": {**properties, which: {"anyOf": one_or_many, "description": _WHICH}}}

        async def run(params: ToolArguments, call: Call) -> Any:
            return await self._run(tool, which, device, params.model_extra or {}, call)

        return Operation(
            name=f"devices.{exposed.alias}",
            summary=f"The tool {tool.name} of a connected board.",
            description=exposed.description,
            params=ToolArguments,
            run=run,
            scope=ADMIN if tool.user_only else CALL,
            effect="write",
            tool=exposed.alias,
            open_world=True,
            literal_input=schema,
            tenant=tenant,
        )


def _grouped(boards: Mapping[str, Sequence[BoardTool]]) -> list[tuple[Exposed, str | None]]:
    found: list[tuple[Exposed, str | None]] = []
    for exposed in Table(boards).exposed:
        alone = len(exposed.devices) == 1 and not exposed.devices[0].startswith(SEVERAL)
        found.append((exposed if alone else replace(exposed, devices=(SEVERAL,)), None))
    return found


def _key(tenant: str, exposed: Exposed) -> str:
    return orjson.dumps([tenant, exposed.alias, exposed.description, exposed.tool.schema]).decode()
