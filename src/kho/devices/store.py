"""SQL of boards: registration, toolsets, and which process holds their connection. Statements that answer a caller
filter by tenant; those about connections are internal to the processes."""

from collections.abc import Sequence
from typing import Any

import orjson

from kho.devices.protocol.tool_listing import BoardTool
from kho.kernel.ports import Tx
from kho.lib.clock import DAY
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, delete, insert, number, replacing, to_json, update, where

PENDING = ""
"""Tenant of boards that are not approved yet."""
KNOWN_TO = "known_to"
"""In the info of a pending board: the tenants that know it."""
MAX_PENDING = 1_000
"""Maximum pending boards."""
PENDING_LASTS = DAY
"""How long a pending board is kept after its code expired."""
_KEY_LOCK = 0x6B686F64  # "khod"; any number will do, as long as every process uses the same


@dataclass(frozen=True, slots=True)
class Device:
    tenant: str
    id: str
    client: str
    label: str
    info: dict[str, Any]
    approved_at: int | None
    revoked_at: int | None
    code: str | None
    code_until: int | None
    first_seen: int
    last_seen: int
    toolset: str
    warnings: dict[str, Any]
    """Tools that changed since approval: what changed, and since when."""
    owner: str
    connection: str
    connected_at: int | None
    first_connected_at: int | None

    @property
    def approved(self) -> bool:
        return self.approved_at is not None and self.revoked_at is None


@dataclass(frozen=True, slots=True)
class Owner:
    process: str
    address: str
    until: int


DEVICES = Table("devices", Device, json=("info", "warnings"))
OWNERS = Table("device_owners", Owner)


def get(tx: Tx, tenant: str, id: str) -> Device | None:
    return DEVICES.find(tx, tenant=tenant, id=id)


def by_id(tx: Tx, id: str) -> list[Device]:
    """Return the board's rows of all tenants: a board that requests its credentials does not know its tenant."""
    return DEVICES.all(tx, "id = $1 ORDER BY tenant", id)


def waiting(tx: Tx, id: str, client: str | None = None) -> Device | None:
    """Return the pending board of this id that was seen last; with `client` that of this client."""
    condition, values = where({"tenant =": PENDING, "id =": id, "client =": client})
    return DEVICES.first(tx, f"{condition} ORDER BY last_seen DESC", *values)


def waiting_for(tx: Tx, tenant: str, id: str) -> Device | None:
    """Return the pending board of this id that was seen last, of those that the tenant may be shown."""
    found = DEVICES.all(tx, "tenant = $1 AND id = $2 ORDER BY last_seen DESC", PENDING, id)
    return next((one for one in found if concerns(one, tenant)), None)


def by_label(tx: Tx, tenant: str, label: str) -> list[Device]:
    return DEVICES.all(tx, "tenant = $1 AND label = $2 ORDER BY id", tenant, label)


def page(tx: Tx, tenant: str, after: str, most: int, label: str | None = None) -> list[Device]:
    condition, values = where({"tenant =": tenant, "id >": after, "label =": label})
    return DEVICES.all(tx, f"{condition} ORDER BY id LIMIT ${len(values) + 1}", *values, most)


def last_over(tx: Tx, transport: str) -> list[Device]:
    """Return approved boards of all tenants that last used this transport and are not connected now."""
    away = "tenant <> '' AND owner = '' AND approved_at IS NOT NULL AND revoked_at IS NULL AND info LIKE $1"
    return DEVICES.all(tx, f"{away} ORDER BY last_seen DESC", f'%"transport":"{transport}"%')


def pending(tx: Tx, tenant: str, now: int, most: int) -> list[Device]:
    """Return boards with a valid code that the tenant does not know yet."""
    unknown = "NOT EXISTS (SELECT 1 FROM devices AS mine WHERE mine.tenant = $2 AND mine.id = devices.id)"
    waiting = f"tenant = '' AND code_until > $1 AND {unknown} ORDER BY last_seen DESC LIMIT $3"
    return [one for one in DEVICES.all(tx, waiting, now, tenant, most) if concerns(one, tenant)]


def concerns(waiting: Device, tenant: str) -> bool:
    """True if a pending board may be shown to the tenant: it is nobody's so far, or was the tenant's before. That
    another tenant's board asks again, with new firmware or after it was revoked, is for that tenant to see."""
    owners: Sequence[str] = waiting.info.get(KNOWN_TO, ())
    return not owners or tenant in owners


def asking_again(tx: Tx, tenant: str, now: int) -> set[str]:
    """Return ids of the tenant's own boards that show a code again: revoked, or with freshly installed firmware."""
    sql = (
        "SELECT mine.id FROM devices AS asking JOIN devices AS mine ON mine.id = asking.id WHERE asking.tenant = '' "
        "AND asking.code_until > $1 AND mine.tenant = $2 AND (mine.client <> asking.client "
        "OR mine.approved_at IS NULL OR mine.revoked_at IS NOT NULL)"
    )
    return {row[0] for row in tx.all(sql, now, tenant)}


def by_code(tx: Tx, code: str, now: int) -> Device | None:
    return DEVICES.first(tx, "tenant = '' AND code = $1 AND code_until > $2", code, now)


def add(tx: Tx, tenant: str, id: str, client: str, info: dict[str, Any], now: int) -> None:
    row = {"tenant": tenant, "id": id, "client": client, "info": to_json(info), "first_seen": now, "last_seen": now}
    insert(tx, "devices", row)


def seen(tx: Tx, tenant: str, id: str, client: str, info: dict[str, Any], now: int) -> None:
    """Update client id, info and last_seen."""
    update(tx, "devices", {"client": client, "info": to_json(info), "last_seen": now}, tenant=tenant, id=id)


def still_waiting(tx: Tx, id: str, client: str, info: dict[str, Any], now: int) -> None:
    """Update info and last_seen of a pending board."""
    update(tx, "devices", {"info": to_json(info), "last_seen": now}, tenant=PENDING, id=id, client=client)


def set_code(tx: Tx, id: str, client: str, code: str, until: int) -> None:
    update(tx, "devices", {"code": code, "code_until": until}, tenant=PENDING, id=id, client=client)


def forget_pending(tx: Tx, id: str, client: str | None = None) -> None:
    """Delete a pending registration; with `client` only that of this client."""
    tx.run("DELETE FROM devices WHERE tenant = '' AND id = $1 AND client = COALESCE($2, client)", id, client)


def forget(tx: Tx, device: Device) -> None:
    """Delete the board's data except its call log, which documents what people did."""
    delete(tx, "devices", tenant=device.tenant, id=device.id)
    delete(tx, "device_notifications", tenant=device.tenant, device=device.id)
    _drop_unused(tx, device.tenant, device.toolset)


def has_room(tx: Tx, now: int, most: int = MAX_PENDING) -> bool:
    """Delete pending boards whose code expired long ago, and if that is not enough all whose code expired. False if as
    many as may wait show a valid code: anybody may request one, and nobody may push a waiting board aside."""
    return any(_is_room_without(tx, expired, most) for expired in (now - PENDING_LASTS, now))


def _is_room_without(tx: Tx, expired: int, most: int) -> bool:
    tx.run("DELETE FROM devices WHERE tenant = '' AND code_until <= $1", expired)
    row = tx.one("SELECT COUNT(*) FROM devices WHERE tenant = ''")
    return row is not None and row[0] < most


def approve(tx: Tx, tenant: str, id: str, by: str, now: int) -> None:
    """Approve a board and reset its baseline: its current tools become the approved ones."""
    changes = {"approved_at": now, "approved_by": by, "revoked_at": None, "code": None, "code_until": None}
    update(tx, "devices", {**changes, "baseline": "{}", "warnings": "{}"}, tenant=tenant, id=id)


def revoke(tx: Tx, tenant: str, id: str, now: int) -> bool:
    """Revoke a board. False if it was already revoked; the earlier time stays."""
    sql = "UPDATE devices SET revoked_at = $1 WHERE tenant = $2 AND id = $3 AND revoked_at IS NULL"
    return tx.run(sql, now, tenant, id) == 1


def set_label(tx: Tx, tenant: str, id: str, label: str) -> bool:
    """Set the label. False if it is unchanged."""
    sql = "UPDATE devices SET label = $1 WHERE tenant = $2 AND id = $3 AND label <> $1"
    return tx.run(sql, label, tenant, id) == 1


def tools(tx: Tx, tenant: str, digest: str) -> tuple[BoardTool, ...]:
    row = tx.one("SELECT tools FROM device_toolsets WHERE tenant = $1 AND digest = $2", tenant, digest)
    return () if row is None else tuple(BoardTool(**tool) for tool in orjson.loads(row[0]))


def baseline(tx: Tx, tenant: str, id: str) -> dict[str, Any]:
    row = tx.one("SELECT baseline FROM devices WHERE tenant = $1 AND id = $2", tenant, id)
    return {} if row is None else orjson.loads(row[0])


def set_baseline(tx: Tx, tenant: str, id: str, baseline: dict[str, Any]) -> None:
    update(tx, "devices", {"baseline": to_json(baseline)}, tenant=tenant, id=id)


def set_tools(
    tx: Tx,
    device: Device,
    digest: str,
    tools: Sequence[dict[str, Any]],
    baseline: dict[str, Any],
    warnings: dict[str, Any],
    now: int,
) -> None:
    row = {"tenant": device.tenant, "digest": digest, "tools": to_json(tools), "seen_at": now}
    insert(tx, "device_toolsets", row, replacing("tenant, digest", "seen_at"))
    changes = {"toolset": digest, "baseline": to_json(baseline), "warnings": to_json(warnings)}
    about = {"info": to_json(device.info), "last_seen": now}
    update(tx, "devices", {**changes, **about}, tenant=device.tenant, id=device.id)
    if device.toolset not in ("", digest):
        _drop_unused(tx, device.tenant, device.toolset)


def _drop_unused(tx: Tx, tenant: str, digest: str) -> None:
    sql = (
        "DELETE FROM device_toolsets WHERE tenant = $1 AND digest = $2 AND NOT EXISTS "
        "(SELECT 1 FROM devices WHERE devices.tenant = device_toolsets.tenant AND toolset = digest)"
    )
    tx.run(sql, tenant, digest)


def held(tx: Tx, tenant: str, id: str, process: str, connection: str, now: int) -> None:
    """Record this process as the holder; the newest connection wins."""
    sql = (
        "UPDATE devices SET owner = $1, connection = $2, connected_at = $3, last_seen = $3, "
        "first_connected_at = COALESCE(first_connected_at, $3) WHERE tenant = $4 AND id = $5"
    )
    tx.run(sql, process, connection, now, tenant, id)


def held_again(tx: Tx, tenant: str, id: str, process: str, connection: str, now: int) -> bool:
    """Reclaim the board after other processes had removed this one. False if a newer connection replaced it."""
    sql = (
        "UPDATE devices SET owner = $1, connection = $2, connected_at = $3 "
        "WHERE tenant = $4 AND id = $5 AND connection IN ('', $2)"
    )
    return bool(tx.run(sql, process, connection, now, tenant, id))


def let_go(tx: Tx, tenant: str, id: str, connection: str, now: int) -> bool:
    """Clear the holder. False if a newer connection replaced it."""
    sql = (
        "UPDATE devices SET owner = '', connection = '', connected_at = NULL, last_seen = $1 "
        "WHERE tenant = $2 AND id = $3 AND connection = $4"
    )
    return bool(tx.run(sql, now, tenant, id, connection))


def beat(tx: Tx, process: str, address: str, until: int) -> bool:
    """Renew the process's lease. False if other processes have removed it."""
    return update(tx, OWNERS.name, {"address": address, "until": until}, process=process) == 1


def arrive(tx: Tx, process: str, address: str, until: int) -> None:
    OWNERS.insert(tx, Owner(process, address, until), conflict=replacing("process", "address", "until"))


def owner(tx: Tx, process: str, now: int) -> Owner | None:
    return OWNERS.first(tx, "process = $1 AND until > $2", process, now)


def owners(tx: Tx, now: int) -> set[str]:
    return {row[0] for row in tx.all("SELECT process FROM device_owners WHERE until > $1", now)}


def every_owner(tx: Tx) -> list[Owner]:
    """Return all processes, also those whose lease expired."""
    return OWNERS.all(tx, "TRUE")


def leave(tx: Tx, process: str, now: int) -> None:
    """Remove the process and release its boards."""
    sql = "UPDATE devices SET owner = '', connection = '', connected_at = NULL, last_seen = $1 WHERE owner = $2"
    tx.run(sql, now, process)
    delete(tx, OWNERS.name, process=process)


def offered(tx: Tx, now: int) -> list[tuple[str, str, int, str]]:
    """Return tenant, toolset, number of connected approved boards with it (in any process), and the id of one of
    them."""
    rows = tx.all(
        "SELECT devices.tenant, toolset, COUNT(*), MIN(devices.id) FROM devices JOIN device_owners ON owner = process "
        "WHERE until > $1 AND approved_at IS NOT NULL AND revoked_at IS NULL AND toolset <> '' "
        "GROUP BY devices.tenant, toolset ORDER BY devices.tenant, toolset",
        now,
    )
    return [(tenant, toolset, count, id) for tenant, toolset, count, id in rows]


def tenants(tx: Tx) -> frozenset[str]:
    """Tenants that have an approved board, connected or not."""
    sql = "SELECT DISTINCT tenant FROM devices WHERE tenant <> '' AND approved_at IS NOT NULL AND revoked_at IS NULL"
    return frozenset(row[0] for row in tx.all(sql))


def approved_count(tx: Tx, tenant: str) -> int:
    sql = "SELECT count(*) FROM devices WHERE tenant = $1 AND approved_at IS NOT NULL AND revoked_at IS NULL"
    return number(tx, sql, tenant)


def known_count(tx: Tx) -> int:
    return number(tx, "SELECT count(*) FROM devices WHERE approved_at IS NOT NULL AND revoked_at IS NULL")


def connected_count(tx: Tx, now: int) -> int:
    """Approved boards of all tenants that a running process holds the connection of."""
    sql = (
        "SELECT count(*) FROM devices JOIN device_owners ON owner = process "
        "WHERE until > $1 AND approved_at IS NOT NULL AND revoked_at IS NULL"
    )
    return number(tx, sql, now)


def connected(tx: Tx, tenant: str, now: int, most: int) -> list[Device]:
    sql = (
        f"SELECT {DEVICES.select('devices')} FROM devices JOIN device_owners ON owner = process "
        "WHERE devices.tenant = $1 AND until > $2 AND approved_at IS NOT NULL AND revoked_at IS NULL "
        "ORDER BY devices.id LIMIT $3"
    )
    return DEVICES.read_all(tx.all(sql, tenant, now, most))


def signing_keys(tx: Tx) -> list[tuple[str, str]]:
    """Return ids and secrets of the signing keys, the newest first."""
    if tx.engine == "postgres":  # lock, or two processes that find no key would both create one
        tx.one("SELECT pg_advisory_xact_lock($1)", _KEY_LOCK)
    return [(id, secret) for id, secret in tx.all("SELECT id, secret FROM device_keys ORDER BY created_at DESC, id")]


def add_signing_key(tx: Tx, id: str, secret: str, now: int) -> None:
    insert(tx, "device_keys", {"id": id, "secret": secret, "created_at": now})
