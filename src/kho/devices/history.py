"""The history of calls: who had which board do what, and what came of it. Secrets in arguments are masked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

from kho.kernel.ports import Row, Tx, Value

KEPT = 10_000
"""Of each tenant."""
MASK = "***"
SAID = 1_000
"""Characters of an outcome's message that are kept."""
LONG = 2_000
"""Characters of one argument that are kept."""
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|^pwd|secret|token|credential|authorization|api.?key|(^|[._-])key$|private.?key|^psk$"
    r"|^pin$|cookie|mật.?khẩu|密码|密钥",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(://)[^/@\s]+@|([?&](?:[\w.-]*(?:token|key|secret|password|sig|signature))=)[^&#\s]+", re.IGNORECASE
)
_COLUMNS = "number, device, tool, arguments, caller, door, request_id, outcome, message, ms, at"


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    device: str
    tool: str
    arguments: dict[str, Any]
    caller: str
    door: str
    request_id: str
    outcome: str
    """ok, queued, sent, or the code of what went wrong."""
    message: str
    ms: int | None
    at: int


def masked(value: Any) -> Any:
    """The same with what is secret hidden: by the name of an argument, and inside addresses."""
    if isinstance(value, dict):
        return {
            name: MASK if isinstance(name, str) and _SECRET.search(name) else masked(inner)
            for name, inner in cast(dict[Any, Any], value).items()
        }
    if isinstance(value, list):
        return [masked(inner) for inner in cast(list[Any], value)]
    if isinstance(value, str):
        plain = _ADDRESS.sub(lambda found: f"{found[1] or found[2]}{MASK}{'@' if found[1] else ''}", value)
        return plain if len(plain) <= LONG else plain[:LONG] + "…"
    return value


def add(tx: Tx, tenant: str, entry: Entry) -> int:
    """Files it under the tenant's next number, which it gives back. The oldest go when there are too many."""
    row = tx.one(
        "INSERT INTO device_counts (tenant, calls) VALUES ($1, 1) "
        "ON CONFLICT (tenant) DO UPDATE SET calls = device_counts.calls + 1 RETURNING calls",
        tenant,
    )
    number: int = row[0] if row else 1
    tx.run(
        f"INSERT INTO device_calls (tenant, {_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        tenant,
        number,
        entry.device,
        entry.tool,
        orjson.dumps(masked(entry.arguments)).decode(),
        entry.caller,
        entry.door,
        entry.request_id,
        entry.outcome,
        entry.message[:SAID],
        entry.ms,
        entry.at,
    )
    tx.run("DELETE FROM device_calls WHERE tenant = $1 AND number <= $2", tenant, number - KEPT)
    return number


def ended(tx: Tx, tenant: str, number: int, outcome: str, message: str, ms: int | None) -> None:
    tx.run(
        "UPDATE device_calls SET outcome = $1, message = $2, ms = $3 WHERE tenant = $4 AND number = $5",
        outcome,
        message[:SAID],
        ms,
        tenant,
        number,
    )


def page(
    tx: Tx,
    tenant: str,
    *,
    devices: Sequence[str] | None,
    tool: str | None,
    since: int | None,
    before: int | None,
    most: int,
) -> list[Entry]:
    """The newest first; of all devices when `devices` is None."""
    conditions, values = ["tenant = $1"], list[Value]([tenant])
    for condition, value in (("tool =", tool), ("at >=", since), ("number <", before)):
        if value is not None:
            values.append(value)
            conditions.append(f"{condition} ${len(values)}")
    if devices is not None:
        conditions.append(one_of("device", devices, values))
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM device_calls WHERE {' AND '.join(conditions)} "
        f"ORDER BY number DESC LIMIT ${len(values) + 1}",
        *values,
        most,
    )
    return [_entry(row) for row in rows]


def is_known(tx: Tx, tenant: str, device: str) -> bool:
    """Whether there is a call of it: the device itself may have been forgotten since."""
    return tx.one("SELECT 1 FROM device_calls WHERE tenant = $1 AND device = $2 LIMIT 1", tenant, device) is not None


def one_of(column: str, chosen: Sequence[str], values: list[Value]) -> str:
    """A condition, whose values join those of the others."""
    first = len(values) + 1
    values += chosen
    return f"{column} IN ({', '.join(f'${first + place}' for place in range(len(chosen)))})"


def _entry(row: Row) -> Entry:
    number, device, tool, arguments, *rest = row
    return Entry(number, device, tool, orjson.loads(arguments), *rest)
