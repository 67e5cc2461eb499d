"""Log of calls: caller, board, tool, arguments, outcome. Secrets in what was said are masked."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from kho.kernel.ports import Tx, Value
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, marks, update, where
from kho.sanitizer.policy import mask_secrets

MAX_CALLS = 10_000
"""Maximum calls kept per tenant."""
MASK = "***"
MAX_MESSAGE = 1_000
"""Maximum characters kept of an outcome's message."""
MAX_ARGUMENT = 2_000
"""Maximum characters kept of an argument."""
_SECRET = re.compile(
    r"pass(word|wd|phrase|code)?$|^pwd|secret|token|credential|authorization|api.?key|(^|[._-])key$|private.?key|^psk$"
    r"|^pin$|cookie|mật.?khẩu|密码|密钥",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(://)[^/@\s]+@|([?&](?:[\w.-]*(?:token|key|secret|password|sig|signature))=)[^&#\s]+", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class LoggedCall:
    call: int
    """Sequence number within the tenant."""
    device: str
    tool: str
    arguments: dict[str, Any]
    caller: str
    door: str
    request_id: str
    outcome: str
    """ok, queued, sent, or an error code."""
    message: str
    ms: int | None
    at: int


CALLS = Table("device_calls", LoggedCall, json=("arguments",), names={"call": "number"})


def masked(value: Any) -> Any:
    """Return the value with secrets masked: by the name of an argument, inside URLs, and by their form."""
    if isinstance(value, dict):
        return {
            name: MASK if isinstance(name, str) and _SECRET.search(name) else masked(inner)
            for name, inner in cast(dict[Any, Any], value).items()
        }
    if isinstance(value, list):
        return [masked(inner) for inner in cast(list[Any], value)]
    if isinstance(value, str):
        plain = _ADDRESS.sub(lambda found: f"{found[1] or found[2]}{MASK}{'@' if found[1] else ''}", value)
        # Not all of a long one: what is kept is cut anyway.
        plain = mask_secrets(plain[: 2 * MAX_ARGUMENT])
        return plain if len(plain) <= MAX_ARGUMENT else plain[:MAX_ARGUMENT] + "…"
    return value


def add(tx: Tx, tenant: str, entry: LoggedCall, most: int = MAX_CALLS) -> int:
    """Insert an entry under the tenant's next number and return that number. Deletes the oldest beyond `most`."""
    row = tx.one(
        "INSERT INTO device_counts (tenant, calls) VALUES ($1, 1) "
        "ON CONFLICT (tenant) DO UPDATE SET calls = device_counts.calls + 1 RETURNING calls",
        tenant,
    )
    number: int = row[0] if row else 1
    shown = {"tool": masked(entry.tool), "arguments": masked(entry.arguments), "message": _message(entry.message)}
    CALLS.insert(tx, replace(entry, call=number, **shown), tenant=tenant)
    tx.run("DELETE FROM device_calls WHERE tenant = $1 AND number <= $2", tenant, number - most)
    return number


def ended(tx: Tx, tenant: str, number: int, outcome: str, message: str, ms: int | None) -> None:
    changes = {"outcome": outcome, "message": _message(message), "ms": ms}
    update(tx, CALLS.name, changes, tenant=tenant, number=number)


def _message(message: str) -> str:
    """What a board says of a call may repeat an argument."""
    return masked(message)[:MAX_MESSAGE]


def page(
    tx: Tx,
    tenant: str,
    *,
    devices: Sequence[str] | None,
    tool: str | None,
    since: int | None,
    before: int | None,
    most: int,
) -> list[LoggedCall]:
    """Return a page, the newest first. `devices` None means all devices."""
    wanted = {"tenant =": tenant, "tool =": tool, "at >=": since, "number <": before}
    condition, values = of_devices(devices, wanted)
    return CALLS.all(tx, f"{condition} ORDER BY number DESC LIMIT ${len(values) + 1}", *values, most)


def is_known(tx: Tx, tenant: str, device: str) -> bool:
    """True if the log has a call of this device; the device itself may have been forgotten since."""
    return tx.one("SELECT 1 FROM device_calls WHERE tenant = $1 AND device = $2 LIMIT 1", tenant, device) is not None


def of_devices(devices: Sequence[str] | None, conditions: Mapping[str, Value | None]) -> tuple[str, list[Value]]:
    """Return the SQL condition, limited to `devices` unless None, and its values."""
    condition, values = where(conditions)
    if devices is not None:
        condition += f" AND device IN ({marks(len(devices), len(values) + 1)})"
        values += devices
    return condition, values
