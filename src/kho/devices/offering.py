"""The tools of connected boards as tools of the hub's own, in every process alike.

Which boards are connected is in the database, whichever process holds them, so that all workers offer the same.
Boards that have a tool of the same name share it; which board is meant is an argument.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Literal

import orjson

from kho.devices import store, toolsets
from kho.devices.exposed import SEVERAL, Exposed, each, grouped
from kho.devices.listed import BoardTool
from kho.devices.model import ToolArguments
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.errors import KhoError
from kho.kernel.operation import Operation
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock

log = logging.getLogger("kho.devices")

Mode = Literal["grouped", "each", "off"]
Run = Callable[[str, str, str | None, Mapping[str, Any], Call], Awaitable[Any]]
"""The tool by its name or alias, what its argument for the device is called, the one device that is meant or None,
arguments, caller."""
LOOK = 3.0
"""Seconds after which a look is taken without having been called: boards may have come to other processes."""
FRESH = 0.5
"""Seconds between two looks, at least."""
MOST = 512
"""Tools of boards that one tenant is offered."""
MOST_ALONE = 128
"""Boards of one tenant that are offered each by itself."""
MOST_KNOWN = 1000
"""Boards of one tenant that a tool is looked for on when none that is connected has it."""
CALL, ADMIN = "devices:call", "admin"
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
        offered = {
            _key(tenant, exposed): (tenant, exposed)
            for tenant, sets in found.items()
            for exposed in self._offered(sets)
        }
        if offered.keys() == self._operations.keys():
            return
        self._operations = {
            key: self._operations.get(key) or self._operation(tenant, exposed)
            for key, (tenant, exposed) in offered.items()
        }
        for changed in self._listeners:
            changed()

    async def absent(self, name: str, tenant: str) -> Operation | None:
        """A tool by its name that a board of the tenant's has, though none is connected: a call of it says so."""
        if self._mode == "off":
            return None
        boards = await self._db.read(lambda tx: _known(tx, tenant))
        return next((self._operation(tenant, one) for one in self._offered(boards) if one.alias == name), None)

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

    def _offered(self, boards: Mapping[str, tuple[BoardTool, ...]]) -> list[Exposed]:
        if self._mode == "each":
            return each(boards, user_tools=self._user_tools)[:MOST]
        return grouped(boards, user_tools=self._user_tools)[:MOST]

    def _operation(self, tenant: str, exposed: Exposed) -> Operation:
        schema, device = exposed.schema, exposed.devices[0] if exposed.alone else None
        properties = schema.get("properties", {})
        which = next(name for name in chain(("device", "device_id"), _further()) if name not in properties)
        if device is None:
            one_or_many = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
            schema = {**schema, "properties": {**properties, which: {"anyOf": one_or_many, "description": _WHICH}}}

        async def run(params: ToolArguments, call: Call) -> Any:
            return await self._run(exposed.name, which, device, params.model_extra or {}, call)

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


def _known(tx: Tx, tenant: str) -> dict[str, tuple[BoardTool, ...]]:
    """The tools of all boards, as they were last seen."""
    found = [one for one in store.page(tx, tenant, "", MOST_KNOWN) if one.approved and one.toolset]
    sets = {one.toolset: toolsets.unpacked(store.tools(tx, tenant, one.toolset)) for one in found}
    return {one.id: sets[one.toolset] for one in found}


def _further() -> Iterator[str]:
    """Names of an argument that boards hardly have."""
    return (f"kho_device{number or ''}" for number in count())


def _key(tenant: str, exposed: Exposed) -> str:
    return orjson.dumps([tenant, exposed.alias, exposed.description, exposed.schema, exposed.user_only]).decode()
