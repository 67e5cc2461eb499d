"""The tools of connected boards as tools of the hub's own, in every process alike.

Which boards are connected is in the database, whichever process holds them, so that all workers offer the same.
Boards that have a tool of the same name share it; which board is meant is an argument.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any

import orjson

from kho.devices import store
from kho.devices.contract import ADMIN, CALL
from kho.devices.model import ToolArguments
from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.settings import DeviceSettings
from kho.devices.tools import toolsets
from kho.devices.tools.exposed_tool import ExposedTool, each, grouped
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.operation import Operation
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock

Tools = tuple[BoardTool, ...]
Run = Callable[[str, str, str | None, Mapping[str, Any], Call], Awaitable[Any]]
"""The tool by its name or alias, what its argument for the device is called, the one device that is meant or None,
arguments, caller."""
LOOK_EVERY = 3.0
"""Seconds after which a look is taken without having been called: boards may have come to other processes."""
REST = 0.5
"""Seconds between two looks, at least."""
MAX_TOOLS = 512
"""Tools of boards that one tenant is offered."""
MAX_BOARDS_ALONE = 128
"""Boards of one tenant that are offered each by itself."""
MAX_KNOWN = 1000
"""Boards of one tenant that a tool is looked for on when none that is connected has it."""
_WHICH = "Which device: its id, a list of ids, or a label. Needed only when several have this tool."


@dataclass(slots=True, kw_only=True)
class BoardTools:
    """A `Source`."""

    db: Database
    background: Background
    clock: Clock
    settings: DeviceSettings
    on_tool: Run
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    seen: Sequence[tuple[str, ...]] | None = None
    """What the last look found."""
    offered: dict[str, Operation] = field(default_factory=dict[str, Operation])
    """By what makes them what they are: those that stay stay the same objects."""

    def operations(self) -> Sequence[Operation]:
        return list(self.offered.values())

    def subscribe(self, changed: Callable[[], None]) -> None:
        self.listeners.append(changed)

    def nudge(self) -> None:
        self.nudged.set()

    async def run(self) -> None:
        """Works until the hub stops."""
        if self.settings.tools != "off":
            await self.background.every(LOOK_EVERY - REST, self._step, name="tools of boards", wake=self.nudged)

    async def _step(self) -> None:
        await self.look()
        await self.background.pause(REST)

    async def look(self) -> None:
        boards = await self.db.read(self._changed)
        if boards is None:
            return
        self.seen, found, counts = boards
        offered = {
            _key(tenant, exposed): (tenant, exposed)
            for tenant, sets in found.items()
            for exposed in self._exposed(sets, counts[tenant])
        }
        if offered.keys() == self.offered.keys():
            return
        self.offered = {
            key: self.offered.get(key) or self._operation(tenant, exposed) for key, (tenant, exposed) in offered.items()
        }
        for changed in self.listeners:
            changed()

    async def absent(self, name: str, tenant: str) -> Operation | None:
        """A tool by its name that a board of the tenant's has, though none is connected: a call of it says so."""
        if self.settings.tools == "off":
            return None
        boards = await self.db.read(lambda tx: _known(tx, tenant))
        return next((self._operation(tenant, one) for one in self._exposed(boards) if one.alias == name), None)

    def _changed(
        self, tx: Tx
    ) -> tuple[Sequence[tuple[str, ...]], dict[str, dict[str, Tools]], dict[str, dict[str, int]]] | None:
        """The tools of boards by tenant, and how many boards have them; or None if nothing else is offered than at the
        last look: how many several boards are is no difference."""
        now = self.clock()
        rows = store.offered(tx, now)
        # Boards with the same tools are one entry, under the digest of these tools.
        groups = [(tenant, digest, id if count == 1 else digest, count) for tenant, digest, count, id in rows]
        if self.settings.tools == "each":
            tenants = sorted({tenant for tenant, *_ in rows})
            groups = [
                (t, one.toolset, one.id, 1) for t in tenants for one in store.connected(tx, t, now, MAX_BOARDS_ALONE)
            ]
        seen = [group[:3] for group in groups]
        if seen == self.seen:
            return None
        found, counts = dict[str, dict[str, Tools]](), dict[str, dict[str, int]]()
        sets: dict[tuple[str, str], Tools] = {}
        for tenant, digest, name, boards in groups:
            key = tenant, digest
            if key not in sets:
                sets[key] = toolsets.unpacked(store.tools(tx, tenant, digest))
            found.setdefault(tenant, {})[name] = sets[key]
            counts.setdefault(tenant, {})[name] = boards
        return seen, found, counts

    def _exposed(self, boards: Mapping[str, Tools], counts: Mapping[str, int] | None = None) -> list[ExposedTool]:
        user_tools = self.settings.user_tools
        if self.settings.tools == "each":
            return each(boards, user_tools=user_tools)[:MAX_TOOLS]
        return grouped(boards, counts, user_tools=user_tools)[:MAX_TOOLS]

    def _operation(self, tenant: str, exposed: ExposedTool) -> Operation:
        schema, device = exposed.schema, exposed.devices[0] if exposed.alone else None
        properties = schema.get("properties", {})
        which = next(name for name in chain(("device", "device_id"), _further()) if name not in properties)
        if device is None:
            one_or_many = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            schema = {**schema, "properties": {**properties, which: {"anyOf": one_or_many, "description": _WHICH}}}

        async def run(params: ToolArguments, call: Call) -> Any:
            return await self.on_tool(exposed.name, which, device, params.model_extra or {}, call)

        return Operation(
            name=f"devices.{exposed.alias}",
            summary=f"The tool {exposed.name} of a connected board.",
            description=exposed.description,
            params=ToolArguments,
            run=run,
            scope=ADMIN if exposed.user_only else CALL,
            effect="write",
            tool=exposed.alias,
            open_world=True,
            literal_input=schema,
            tenant=tenant,
        )


def _known(tx: Tx, tenant: str) -> dict[str, Tools]:
    """The tools of all boards, as they were last seen."""
    found = [one for one in store.page(tx, tenant, "", MAX_KNOWN) if one.approved and one.toolset]
    sets = {one.toolset: toolsets.unpacked(store.tools(tx, tenant, one.toolset)) for one in found}
    return {one.id: sets[one.toolset] for one in found}


def _further() -> Iterator[str]:
    """Names of an argument that boards hardly have."""
    return (f"kho_device{number or ''}" for number in count())


def _key(tenant: str, exposed: ExposedTool) -> str:
    return orjson.dumps([tenant, exposed.alias, exposed.description, exposed.schema, exposed.user_only]).decode()
