"""Export and import of boards as JSON lines: label, approval, what they said of themselves, and the tools that were
approved. Their tokens are valid only where they were signed, so a board asks for a new one; nobody has to approve it
again."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue

from kho.devices import store
from kho.devices.contract import ADMIN
from kho.devices.model import checked_label
from kho.kernel import (
    Call,
    Cursor,
    Database,
    ExportedLines,
    InvalidParams,
    Line,
    Moment,
    Params,
    Result,
    Tx,
    Whole,
    transfer,
)
from kho.kernel.limits.quotas import Quotas
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table

_Name = Annotated[str, Field(min_length=1, max_length=256)]
_Json = dict[str, JsonValue]


class ToolsetLine(Line):
    """Tools of a kind of board; boards name them by their digest."""

    kind: Literal["toolset"] = "toolset"
    digest: _Name
    tools: list[_Json]
    seen_at: Moment


class DeviceLine(Line):
    kind: Literal["device"] = "device"
    id: _Name
    client: Annotated[str, Field(max_length=256)]
    label: Annotated[str, Field(max_length=128), AfterValidator(checked_label)] = ""
    info: _Json = Field(default_factory=dict[str, JsonValue])
    approved_at: Moment | None = None
    approved_by: Annotated[str, Field(max_length=256)] = ""
    revoked_at: Moment | None = None
    first_seen: Moment
    last_seen: Moment
    first_connected_at: Moment | None = None
    toolset: Annotated[str, Field(max_length=256)] = ""
    baseline: _Json = Field(default_factory=dict[str, JsonValue])
    warnings: _Json = Field(default_factory=dict[str, JsonValue])
    notified: Annotated[int, Field(ge=0, lt=2**62), Whole] = 0


KINDS = {"toolset": ToolsetLine, "device": DeviceLine}
_SOME = {
    "kind": "device",
    "id": "aa:bb:cc:dd:ee:ff",
    "client": "",
    "first_seen": "2026-11-20T08:00:00Z",
    "last_seen": "2026-11-20T08:00:00Z",
}


@dataclass(frozen=True, slots=True)
class Toolset:
    digest: str
    tools: list[Any]
    seen_at: int


@dataclass(frozen=True, slots=True)
class Board:
    id: str
    client: str
    label: str
    info: dict[str, Any]
    approved_at: int | None
    approved_by: str
    revoked_at: int | None
    first_seen: int
    last_seen: int
    first_connected_at: int | None
    toolset: str
    baseline: dict[str, Any]
    warnings: dict[str, Any]
    notified: int


TOOLSETS = Table("device_toolsets", Toolset, json=("tools",))
BOARDS = Table("devices", Board, json=("info", "baseline", "warnings"))
PARTS = (
    transfer.part("toolset", TOOLSETS, {"digest": str}, ToolsetLine.of),
    transfer.part("device", BOARDS, {"id": str}, DeviceLine.of),
)


class ExportDevices(Params):
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000), Whole] = 500


class ImportDevices(Params):
    lines: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=1000)]


class ImportedDevices(Result):
    imported: int
    unchanged: int


@dataclass(slots=True, kw_only=True)
class DeviceTransfer:
    db: Database
    clock: Clock
    quotas: Quotas
    timeout: float
    on_change: Callable[[], None]

    @ADMIN.read("export_devices", example={"limit": 100})
    async def export(self, params: ExportDevices, call: Call) -> ExportedLines:
        """All devices with their tools, a page at a time, in the form that import takes."""
        return await self.db.read(
            lambda tx: transfer.page(tx, call.tenant, PARTS, params.cursor, params.limit),
            timeout=call.remaining(self.timeout),
        )

    @ADMIN.write("import_devices", example={"lines": [_SOME]})
    async def import_(self, params: ImportDevices, call: Call) -> ImportedDevices:
        """Take what export gave; devices that are here already stay as they are."""
        lines, now = transfer.parsed(params.lines, KINDS, _refused), self.clock()

        def work(tx: Tx) -> ImportedDevices:
            count = sum(self._taken(tx, call, line) for line in lines)
            if count:
                call.audit(tx, "", at=now, imported=count)
            return ImportedDevices(imported=count, unchanged=len(lines) - count)

        done = await call.commit(self.db, work)
        self.on_change()
        return done

    def _taken(self, tx: Tx, call: Call, line: Line) -> bool:
        tenant = call.tenant
        if isinstance(line, ToolsetLine):
            return bool(TOOLSETS.insert(tx, Toolset(**line.values("kind")), conflict=NOTHING, tenant=tenant))
        assert isinstance(line, DeviceLine)
        if store.get(tx, tenant, line.id) is not None:
            return False
        BOARDS.insert(tx, Board(**line.values("kind")), tenant=tenant)
        if line.approved_at is not None and line.revoked_at is None:
            store.forget_pending(tx, line.id, line.client)  # it no longer has to wait
            self.quotas.need(tx, "boards", tenant, lambda: store.approved_count(tx, tenant), by_key=call.shared)
        return True


def _refused(message: str, field: str) -> InvalidParams:
    return InvalidParams(message, field=f"lines.{field}")
