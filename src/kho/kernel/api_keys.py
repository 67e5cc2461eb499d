"""API keys: their format, and the stored rows, which hold a digest and never the key itself.

Whoever changes a key writes the audit row itself, in the same transaction.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import Protocol

from kho.kernel.ports import Row, Tx
from kho.lib.dataclass import dataclass

PREFIX = "kho"
LOCAL = f"{PREFIX}_local_"


@dataclass(frozen=True, slots=True)
class ApiKey:
    id: str
    sub: str
    tenant: str
    scopes: tuple[str, ...]
    digest: str
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    tools: tuple[str, ...] = ()
    """Sets, capabilities and tools that it is limited to; empty: no limit."""
    read_only: bool = False
    last_used_at: int | None = None
    """To about a minute: uses are not written one by one."""
    successor: str = ""
    """Id of the key that replaces it."""

    def valid(self, now: int) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


@dataclass(frozen=True, slots=True)
class KeyState:
    """What every process asks all the time."""

    changes: int
    """Counts up with every change of a key."""
    in_use: bool
    """True if there is a key, valid or not. Revoking the last one must not open the hub again."""


class Keys(Protocol):
    """What doors ask of the stored keys."""

    async def find(self, id: str) -> ApiKey | None: ...

    async def all(self) -> Sequence[ApiKey]: ...

    async def state(self) -> KeyState: ...

    async def in_use(self) -> bool: ...

    def used(self, id: str, now: int) -> None:
        """Note a use. It is written later, with others."""
        ...

    async def add(self, key: ApiKey) -> None:
        """Store a key without an audit row, for programs that embed Kho; callers have an operation."""
        ...

    async def revoke(self, id: str, now: int) -> bool: ...


class LocalToken(Protocol):
    """The credential of programs of this machine's user: a file that only this user can read."""

    def create(self) -> str:
        """Return the token, after creating it if there is none."""
        ...

    def matches(self, text: str) -> bool: ...


def mint() -> tuple[str, str, str]:
    """Create a key; return its public id, the text to show once, and the digest to store. With 256 random bits a slow
    hash is not needed."""
    id = secrets.token_hex(4)
    text = f"{PREFIX}_{id}_{secrets.token_urlsafe(32)}"
    return id, text, digest(text)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def public_id(text: str) -> str | None:
    parts = text.split("_", 2)
    return parts[1] if len(parts) == 3 and parts[0] == PREFIX and len(parts[1]) == 8 else None


def mint_local() -> str:
    """Create a token for programs of this machine's user. Its second part is no id of a key."""
    return f"{LOCAL}{secrets.token_urlsafe(32)}"


def matches(text: str, key: ApiKey) -> bool:
    return hmac.compare_digest(digest(text), key.digest)


# -- rows --------------------------------------------------------------------------------------------------------------

_COLUMNS = (
    "id, sub, tenant, scopes, digest, created_at, expires_at, revoked_at, tools, read_only, last_used_at, successor"
)


def find(tx: Tx, id: str) -> ApiKey | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM api_keys WHERE id = $1", id)
    return _key(row) if row else None


def every(tx: Tx) -> list[ApiKey]:
    """Return the keys of all tenants, the oldest first."""
    return [_key(row) for row in tx.all(f"SELECT {_COLUMNS} FROM api_keys ORDER BY created_at, id")]


def state(tx: Tx) -> KeyState:
    row = tx.one("SELECT number, EXISTS (SELECT 1 FROM api_keys) FROM api_key_changes")
    assert row is not None
    return KeyState(row[0], bool(row[1]))


def insert(tx: Tx, key: ApiKey) -> None:
    tx.run(
        f"INSERT INTO api_keys ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        key.id,
        key.sub,
        key.tenant,
        " ".join(key.scopes),
        key.digest,
        key.created_at,
        key.expires_at,
        key.revoked_at,
        " ".join(key.tools),
        int(key.read_only),
        key.last_used_at,
        key.successor,
    )
    _changed(tx)


def revoke(tx: Tx, id: str, now: int) -> bool:
    """Of two at once, one has revoked it."""
    sql = "UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL"
    return bool(tx.run(sql, now, id)) and _changed(tx)


def replace(tx: Tx, id: str, successor: str, now: int, until: int) -> bool:
    """End a valid key at `until`, unless it ends before. Of two at once, one has replaced it."""
    sql = (
        "UPDATE api_keys SET successor = $1, expires_at = CASE WHEN expires_at < $2 THEN expires_at ELSE $2 END "
        "WHERE id = $3 AND successor = '' AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > $4)"
    )
    return bool(tx.run(sql, successor, until, id, now)) and _changed(tx)


def delete(tx: Tx, id: str) -> bool:
    return bool(tx.run("DELETE FROM api_keys WHERE id = $1", id)) and _changed(tx)


def write_uses(tx: Tx, uses: Mapping[str, int]) -> None:
    sql = "UPDATE api_keys SET last_used_at = $1 WHERE id = $2 AND (last_used_at IS NULL OR last_used_at < $1)"
    tx.many(sql, [(at, id) for id, at in uses.items()])


def tenants(tx: Tx) -> dict[str, int | None]:
    """Return every tenant that has keys or has ever changed anything, with the time of its last change."""
    # The next tenant is looked up in the index each time: a SELECT DISTINCT would read the whole trail.
    sql = (
        "WITH RECURSIVE known(name) AS (SELECT min(tenant) FROM audit UNION ALL "
        "SELECT (SELECT min(tenant) FROM audit WHERE tenant > known.name) FROM known WHERE known.name IS NOT NULL) "
        "SELECT known.name, (SELECT at FROM audit WHERE tenant = known.name ORDER BY number DESC LIMIT 1) FROM known "
        "WHERE known.name IS NOT NULL"
    )
    found: dict[str, int | None] = {name: None for (name,) in tx.all("SELECT DISTINCT tenant FROM api_keys")}
    return found | dict(tx.all(sql))


def _changed(tx: Tx) -> bool:
    return bool(tx.run("UPDATE api_key_changes SET number = number + 1"))


def _key(row: Row) -> ApiKey:
    scopes, tools, read_only = tuple(row[3].split()), tuple(row[8].split()), bool(row[9])
    limits = {"tools": tools, "read_only": read_only}
    return ApiKey(row[0], row[1], row[2], scopes, *row[4:8], **limits, last_used_at=row[10], successor=row[11])
