"""The SQL of boards: who they are, what they offer, which process holds their connection. Statements that answer a
caller name the tenant; those about connections are the processes' own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kho.kernel.ports import Tx
from kho.lib.clock import DAY
from kho.lib.sql import Table, delete, insert, replacing, to_json, update, where

PENDING = ""
"""The tenant of boards that nobody has approved yet."""
MAX_PENDING = 1_000
"""Boards without approval that are known at a time."""
PENDING_LASTS = DAY
"""After its code has run out, a board that nobody approved is known for so long."""
_KEY_LOCK = 0x6B686F64  # "khod"; any number does, as long as every process takes the same


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
    """By tool: since when it is something else than what was approved, and in what."""
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
_SELECT = f"SELECT {DEVICES.columns} FROM devices WHERE"


def get(tx: Tx, tenant: str, id: str) -> Device | None:
    row = tx.one(f"{_SELECT} tenant = $1 AND id = $2", tenant, id)
    return None if row is None else DEVICES.read(row)


def by_id(tx: Tx, id: str) -> list[Device]:
    """Everywhere: a board that asks for its credentials does not know its tenant."""
    return DEVICES.read_all(tx.all(f"{_SELECT} id = $1 ORDER BY tenant", id))


def by_label(tx: Tx, tenant: str, label: str) -> list[Device]:
    return DEVICES.read_all(tx.all(f"{_SELECT} tenant = $1 AND label = $2 ORDER BY id", tenant, label))


def page(tx: Tx, tenant: str, after: str, most: int, label: str | None = None) -> list[Device]:
    condition, values = where({"tenant =": tenant, "id >": after, "label =": label})
    return DEVICES.read_all(tx.all(f"{_SELECT} {condition} ORDER BY id LIMIT ${len(values) + 1}", *values, most))


def last_over(tx: Tx, transport: str) -> list[Device]:
    """Approved boards, everywhere, that last came over this transport and are not connected now."""
    rows = tx.all(
        f"{_SELECT} tenant <> '' AND owner = '' AND approved_at IS NOT NULL "
        "AND revoked_at IS NULL AND info LIKE $1 ORDER BY last_seen DESC",
        f'%"transport":"{transport}"%',
    )
    return DEVICES.read_all(rows)


def pending(tx: Tx, tenant: str, now: int, most: int) -> list[Device]:
    """Those that show a code which somebody may approve, and that the tenant does not know yet."""
    rows = tx.all(
        f"{_SELECT} tenant = '' AND code_until > $1 AND NOT EXISTS "
        "(SELECT 1 FROM devices AS mine WHERE mine.tenant = $2 AND mine.id = devices.id) "
        "ORDER BY last_seen DESC LIMIT $3",
        now,
        tenant,
        most,
    )
    return DEVICES.read_all(rows)


def asking_again(tx: Tx, tenant: str, now: int) -> set[str]:
    """The tenant's own that show a code: they were revoked, or their firmware was installed anew."""
    rows = tx.all(
        "SELECT mine.id FROM devices AS asking JOIN devices AS mine ON mine.id = asking.id WHERE asking.tenant = '' "
        "AND asking.code_until > $1 AND mine.tenant = $2 AND (mine.client <> asking.client "
        "OR mine.approved_at IS NULL OR mine.revoked_at IS NOT NULL)",
        now,
        tenant,
    )
    return {row[0] for row in rows}


def by_code(tx: Tx, code: str, now: int) -> Device | None:
    row = tx.one(f"{_SELECT} code = $1 AND code_until > $2", code, now)
    return None if row is None else DEVICES.read(row)


def add(tx: Tx, tenant: str, id: str, client: str, info: dict[str, Any], now: int) -> None:
    row = {"tenant": tenant, "id": id, "client": client, "info": to_json(info), "first_seen": now, "last_seen": now}
    insert(tx, "devices", row)


def seen(tx: Tx, tenant: str, id: str, client: str, info: dict[str, Any], now: int) -> None:
    """What it says of itself now."""
    update(tx, "devices", {"client": client, "info": to_json(info), "last_seen": now}, tenant=tenant, id=id)


def set_code(tx: Tx, id: str, code: str, until: int) -> None:
    update(tx, "devices", {"code": code, "code_until": until}, tenant=PENDING, id=id)


def forget_pending(tx: Tx, id: str, client: str | None = None) -> None:
    """With `client` only what this very client asks."""
    tx.run("DELETE FROM devices WHERE tenant = '' AND id = $1 AND client = COALESCE($2, client)", id, client)


def forget(tx: Tx, device: Device) -> None:
    """All but the history of its calls, which says what people did."""
    delete(tx, "devices", tenant=device.tenant, id=device.id)
    delete(tx, "device_notifications", tenant=device.tenant, device=device.id)
    _drop_unused(tx, device.tenant, device.toolset)


def make_room(tx: Tx, now: int, most: int = MAX_PENDING) -> None:
    """Anybody may ask for a code: only so many of them wait, none for long, and the oldest go first."""
    tx.run("DELETE FROM devices WHERE tenant = '' AND code_until <= $1", now - PENDING_LASTS)
    tx.run(
        "DELETE FROM devices WHERE tenant = '' AND id NOT IN "
        "(SELECT id FROM devices WHERE tenant = '' ORDER BY last_seen DESC LIMIT $1)",
        most - 1,
    )


def approve(tx: Tx, tenant: str, id: str, by: str, now: int) -> None:
    """From now on what its tools say is what was approved."""
    changes = {"approved_at": now, "approved_by": by, "revoked_at": None, "code": None, "code_until": None}
    update(tx, "devices", {**changes, "baseline": "{}", "warnings": "{}"}, tenant=tenant, id=id)


def revoke(tx: Tx, tenant: str, id: str, now: int) -> bool:
    """False if it was revoked before: that stays the time."""
    sql = "UPDATE devices SET revoked_at = $1 WHERE tenant = $2 AND id = $3 AND revoked_at IS NULL"
    return tx.run(sql, now, tenant, id) == 1


def set_label(tx: Tx, tenant: str, id: str, label: str) -> bool:
    """False if that is its label already."""
    sql = "UPDATE devices SET label = $1 WHERE tenant = $2 AND id = $3 AND label <> $1"
    return tx.run(sql, label, tenant, id) == 1


def tools(tx: Tx, tenant: str, digest: str) -> list[dict[str, Any]]:
    row = tx.one("SELECT tools FROM device_toolsets WHERE tenant = $1 AND digest = $2", tenant, digest)
    return [] if row is None else orjson.loads(row[0])


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
    tx.run(
        "DELETE FROM device_toolsets WHERE tenant = $1 AND digest = $2 AND NOT EXISTS "
        "(SELECT 1 FROM devices WHERE devices.tenant = device_toolsets.tenant AND toolset = digest)",
        tenant,
        digest,
    )


def held(tx: Tx, tenant: str, id: str, process: str, connection: str, now: int) -> None:
    """The newest connection is the one that counts."""
    tx.run(
        "UPDATE devices SET owner = $1, connection = $2, connected_at = $3, last_seen = $3, "
        "first_connected_at = COALESCE(first_connected_at, $3) WHERE tenant = $4 AND id = $5",
        process,
        connection,
        now,
        tenant,
        id,
    )


def held_again(tx: Tx, tenant: str, id: str, process: str, connection: str, now: int) -> bool:
    """After others gave the process up. False if a newer connection has taken its place."""
    return bool(
        tx.run(
            "UPDATE devices SET owner = $1, connection = $2, connected_at = $3 "
            "WHERE tenant = $4 AND id = $5 AND connection IN ('', $2)",
            process,
            connection,
            now,
            tenant,
            id,
        )
    )


def let_go(tx: Tx, tenant: str, id: str, connection: str, now: int) -> bool:
    """False if a newer connection has taken its place."""
    return bool(
        tx.run(
            "UPDATE devices SET owner = '', connection = '', connected_at = NULL, last_seen = $1 "
            "WHERE tenant = $2 AND id = $3 AND connection = $4",
            now,
            tenant,
            id,
            connection,
        )
    )


def beat(tx: Tx, process: str, address: str, until: int) -> bool:
    """False if the others have given this process up."""
    return update(tx, OWNERS.name, {"address": address, "until": until}, process=process) == 1


def arrive(tx: Tx, process: str, address: str, until: int) -> None:
    OWNERS.insert(tx, Owner(process, address, until), conflict=replacing("process", "address", "until"))


def owner(tx: Tx, process: str, now: int) -> Owner | None:
    row = tx.one(f"SELECT {OWNERS.columns} FROM device_owners WHERE process = $1 AND until > $2", process, now)
    return None if row is None else OWNERS.read(row)


def owners(tx: Tx, now: int) -> set[str]:
    return {row[0] for row in tx.all("SELECT process FROM device_owners WHERE until > $1", now)}


def every_owner(tx: Tx) -> list[Owner]:
    """Those whose lease has run out among them."""
    return OWNERS.read_all(tx.all(f"SELECT {OWNERS.columns} FROM device_owners"))


def leave(tx: Tx, process: str, now: int) -> None:
    """The process holds nothing any more."""
    tx.run(
        "UPDATE devices SET owner = '', connection = '', connected_at = NULL, last_seen = $1 WHERE owner = $2",
        now,
        process,
    )
    delete(tx, OWNERS.name, process=process)


def offered(tx: Tx, now: int) -> list[tuple[str, str, int, str]]:
    """Tenant, toolset, how many approved boards with it are connected to any process, and one of them."""
    rows = tx.all(
        "SELECT devices.tenant, toolset, COUNT(*), MIN(devices.id) FROM devices JOIN device_owners ON owner = process "
        "WHERE until > $1 AND approved_at IS NOT NULL AND revoked_at IS NULL AND toolset <> '' "
        "GROUP BY devices.tenant, toolset ORDER BY devices.tenant, toolset",
        now,
    )
    return [(tenant, toolset, count, id) for tenant, toolset, count, id in rows]


def connected(tx: Tx, tenant: str, now: int, most: int) -> list[Device]:
    rows = tx.all(
        f"SELECT {DEVICES.select('devices')} FROM devices JOIN device_owners ON owner = process "
        "WHERE devices.tenant = $1 AND until > $2 AND approved_at IS NOT NULL AND revoked_at IS NULL "
        "ORDER BY devices.id LIMIT $3",
        tenant,
        now,
        most,
    )
    return DEVICES.read_all(rows)


def signing_keys(tx: Tx) -> list[tuple[str, str]]:
    """Ids and secrets, the newest first."""
    if tx.engine == "postgres":  # two processes that both find none would both make one
        tx.one("SELECT pg_advisory_xact_lock($1)", _KEY_LOCK)
    rows = tx.all("SELECT id, secret FROM device_keys ORDER BY created_at DESC, id")
    return [(id, secret) for id, secret in rows]


def add_signing_key(tx: Tx, id: str, secret: str, now: int) -> None:
    insert(tx, "device_keys", {"id": id, "secret": secret, "created_at": now})
