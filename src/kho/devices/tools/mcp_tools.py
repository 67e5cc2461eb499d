"""Offers tools of connected boards as tools of the hub, the same in every process.

The database knows which boards are connected to any process, so all workers offer the same. Boards that have a tool of
the same name share it; an argument selects the board. If their schemas differ, the tool is offered with a schema that
accepts any of them, and the arguments are checked against the chosen board's own schema before anything is sent.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain, count
from typing import Any, TypeVar, cast

import orjson

from kho.devices import store
from kho.devices.calls.arguments import honest
from kho.devices.contract import ADMIN, CALL
from kho.devices.model import ToolArguments
from kho.devices.protocol.tool_listing import BoardTool
from kho.devices.settings import DeviceSettings
from kho.devices.tools.aliases import aliases
from kho.kernel import Background, Call, Database, Hint, Op, Operation, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_all_tenants

T = TypeVar("T")
Tools = tuple[BoardTool, ...]
Groups = Sequence[tuple[str, ...]]
"""Tenant, digest of the tools and name of each board, or of several with the same tools."""
Run = Callable[[str, str, str | None, Mapping[str, Any], Call], Awaitable[Any]]
"""Runs a tool: its name or alias, the name of its device argument, the fixed device or None, arguments, call."""
LOOK_EVERY = 3.0
"""Seconds between polls without a nudge: boards may have connected to other processes."""
REST = 0.5
"""Minimum seconds between polls."""
MAX_TOOLS = 512
"""Maximum boards' tools offered to a tenant."""
MAX_BOARDS_ALONE = 128
"""Maximum boards of a tenant whose tools are offered per board."""
MAX_KNOWN = 1000
"""Maximum boards of a tenant searched for a tool that no connected board has."""
_WHICH = "Which device: its id, a list of ids, or a label. Needed only when several have this tool."


DIFFERS = Hint(" that differ in what it takes (", Op("device_tools"), " shows it of each)")
MAX_FORMS = 8
"""Maximum alternative schemas of an argument; with more, it is left undescribed."""


@dataclass(frozen=True, slots=True)
class ExposedTool:
    alias: str
    tools: tuple[BoardTool, ...]
    """The boards' tools behind it, without duplicates."""
    devices: tuple[str, ...]
    boards: int
    """Number of boards that have it. Several boards with the same tools may be one entry in `devices`."""
    alone: bool = False
    """It belongs to one board, whose id is part of the alias."""

    @property
    def name(self) -> str:
        """Name that the boards use; the alias if they differ."""
        names = {tool.name for tool in self.tools}
        return names.pop() if len(names) == 1 else self.alias

    @property
    def description(self) -> str:
        """The board's own description, marked as such: it is untrusted text and may contain instructions."""
        # The number of boards is left out: it would change the tool with every new board.
        who = self.devices[0] if self.boards == 1 else "several boards"
        form = "" if len(self._forms) == 1 else DIFFERS
        first = self.tools[0]
        return f"[Tool {self.name} of {who}{form}; described by the board itself] {first.description}".rstrip()

    @property
    def schema(self) -> dict[str, Any]:
        """Schema that accepts what any of the boards takes."""
        return self._forms[0] if len(self._forms) == 1 else _together(self._forms)

    @property
    def user_only(self) -> bool:
        """True if every board reserves it for people. Where only some do, those refuse the call themselves."""
        return all(tool.user_only for tool in self.tools)

    @property
    def _forms(self) -> list[dict[str, Any]]:
        return _once([honest(tool) for tool in self.tools], alike)


@dataclass(slots=True, kw_only=True)
class BoardTools:
    """Operation source (`Source`) for the boards' tools. Also knows which tenants have boards (`Presence`)."""

    db: Database
    background: Background
    clock: Clock
    settings: DeviceSettings
    on_tool: Run
    nudged: asyncio.Event = field(default_factory=asyncio.Event)
    listeners: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    seen: Groups | None = None
    """Result of the last poll."""
    offered: dict[str, Operation] = field(default_factory=dict[str, Operation])
    """Operations by content: unchanged ones stay the same objects."""
    owners: frozenset[str] | None = None
    """Tenants that have an approved board, connected or not; None before the first poll."""

    def operations(self) -> Sequence[Operation]:
        return list(self.offered.values())

    def subscribe(self, changed: Callable[[], None]) -> None:
        self.listeners.append(changed)

    def tenants(self) -> Collection[str]:
        return self.owners or ()

    async def ready(self) -> None:
        if self.owners is None:
            await self.look()

    def nudge(self) -> None:
        self.nudged.set()

    async def run(self) -> None:
        """Keep the offered tools up to date until the hub stops."""
        await self.background.every(LOOK_EVERY - REST, self._step, name="tools of boards", wake=self.nudged)

    async def _step(self) -> None:
        await self.look()
        await self.background.pause(REST)

    async def look(self) -> None:
        with in_all_tenants():
            boards, owners = await self.db.read(lambda tx: (self._changed(tx), store.tenants(tx)))
        changed = owners != self.owners
        self.owners = owners
        if (boards is not None and self._offer(*boards)) or changed:
            for notify in self.listeners:
                notify()

    def _offer(self, seen: Groups, found: Mapping[str, dict[str, Tools]], counts: Mapping[str, dict[str, int]]) -> bool:
        """Offer what a poll found. False if it is what was offered before."""
        self.seen = seen
        offered = {
            _key(tenant, exposed): (tenant, exposed)
            for tenant, sets in found.items()
            for exposed in self._exposed(sets, counts[tenant])
        }
        if offered.keys() == self.offered.keys():
            return False
        self.offered = {
            key: self.offered.get(key) or self._operation(tenant, exposed) for key, (tenant, exposed) in offered.items()
        }
        return True

    async def absent(self, name: str, tenant: str) -> Operation | None:
        """Return a tool that some board of the tenant has although none is connected, so that a call of it reports
        that."""
        if self.settings.tools == "off":
            return None
        boards = await self.db.read(lambda tx: _known(tx, tenant))
        return next((self._operation(tenant, one) for one in self._exposed(boards) if one.alias == name), None)

    def _changed(self, tx: Tx) -> tuple[Groups, dict[str, dict[str, Tools]], dict[str, dict[str, int]]] | None:
        """Return the boards' tools by tenant, and how many boards have them; None if nothing changed since the last
        poll. A different number of boards, beyond one, is no change."""
        now = self.clock()
        rows = store.offered(tx, now) if self.settings.tools != "off" else []
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
                sets[key] = store.tools(tx, tenant, digest)
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
            scope=ADMIN.write_scope if exposed.user_only else CALL,
            effect="write",
            tool=exposed.alias,
            open_world=True,
            literal_input=schema,
            tenant=tenant,
        )


def _known(tx: Tx, tenant: str) -> dict[str, Tools]:
    """Return the tools of all approved boards as last seen."""
    found = [one for one in store.page(tx, tenant, "", MAX_KNOWN) if one.approved and one.toolset]
    sets = {one.toolset: store.tools(tx, tenant, one.toolset) for one in found}
    return {one.id: sets[one.toolset] for one in found}


def _further() -> Iterator[str]:
    """Yield argument names that boards are unlikely to use."""
    return (f"kho_device{number or ''}" for number in count())


def _key(tenant: str, exposed: ExposedTool) -> str:
    return orjson.dumps([tenant, exposed.alias, exposed.description, exposed.schema, exposed.user_only]).decode()


def grouped(
    boards: Mapping[str, Iterable[BoardTool]], counts: Mapping[str, int] | None = None, *, user_tools: bool = True
) -> list[ExposedTool]:
    """Return one tool per alias. `counts` is the number of boards behind each key of `boards`. Without `user_tools`,
    tools for people are left out."""
    counted = counts or {}
    found: dict[str, dict[str, BoardTool]] = {}
    for device in sorted(boards):
        for alias, tool in aliases(boards[device]).items():
            if user_tools or not tool.user_only:
                found.setdefault(alias, {})[device] = tool
    return [
        ExposedTool(alias, tuple(_once(on.values(), _form)), tuple(on), sum(counted.get(name, 1) for name in on))
        for alias, on in sorted(found.items())
    ]


def each(boards: Mapping[str, Iterable[BoardTool]], *, user_tools: bool = True) -> list[ExposedTool]:
    """Return one tool for each tool of each board."""
    return [
        ExposedTool(alias, (tool,), (device,), 1, alone=True)
        for device in sorted(boards)
        for alias, tool in aliases(boards[device], device).items()
        if user_tools or not tool.user_only
    ]


def alike(schema: Any) -> str:
    """Return a key that is equal for equivalent schemas. Descriptions are ignored: boards of one kind may word them
    differently."""
    return orjson.dumps(_undescribed(schema), option=orjson.OPT_SORT_KEYS).decode()


def _form(tool: BoardTool) -> tuple[str, bool, str]:
    return tool.name, tool.user_only, alike(tool.schema)


def _once(many: Iterable[T], form: Callable[[T], Hashable]) -> list[T]:
    """Return the first item of each form."""
    found: dict[Hashable, T] = {}
    for one in many:
        found.setdefault(form(one), one)
    return list(found.values())


def _together(schemas: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if any("properties" not in schema for schema in schemas):  # one of them has an unusable schema
        return {"type": "object"}
    parts: dict[str, list[Any]] = {}
    for schema in schemas:
        for name, part in cast(dict[str, Any], schema["properties"]).items():
            parts.setdefault(name, []).append(part)
    required = [name for name in parts if all(name in schema.get("required", ()) for schema in schemas)]
    properties = {name: _either(_once(forms, alike)) for name, forms in parts.items()}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _either(forms: list[Any]) -> Any:
    if len(forms) == 1:
        return forms[0]
    return {"anyOf": forms} if len(forms) <= MAX_FORMS else {}


def _undescribed(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_undescribed(one) for one in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    found = cast(dict[str, Any], schema)
    return {
        name: {key: _undescribed(one) for key, one in cast(dict[str, Any], value).items()}
        if name == "properties" and isinstance(value, dict)  # an argument may be called "description"
        else _undescribed(value)
        for name, value in found.items()
        if name != "description"
    }
