"""Storage of API keys: digests only."""

from collections.abc import Sequence

from kho.kernel.api_keys import ApiKey
from kho.kernel.audit import AuditEvent, record
from kho.kernel.ports import Database, Row, Tx

COLUMNS = "id, sub, tenant, scopes, digest, created_at, expires_at, revoked_at"


def _key(row: Row) -> ApiKey:
    return ApiKey(row[0], row[1], row[2], tuple(row[3].split()), *row[4:])


def _record(tx: Tx, key: ApiKey, operation: str, actor: str, now: int) -> None:
    """Keys belong to no slice, as their audit rows show."""
    event = AuditEvent(
        tenant=key.tenant,
        operation=operation,
        capability="",
        subject=key.id,
        actor=actor,
        details={"name": key.sub, "scopes": [*key.scopes]},
        at=now,
    )
    record(tx, event)


class SqlApiKeys:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, key: ApiKey, actor: str = "") -> None:
        def work(tx: Tx) -> None:
            tx.run(
                f"INSERT INTO api_keys ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                key.id,
                key.sub,
                key.tenant,
                " ".join(key.scopes),
                key.digest,
                key.created_at,
                key.expires_at,
                key.revoked_at,
            )
            _record(tx, key, "create_key", actor, key.created_at)

        await self._db.write(work)

    async def find(self, id: str) -> ApiKey | None:
        row = await self._db.read(lambda tx: tx.one(f"SELECT {COLUMNS} FROM api_keys WHERE id = $1", id))
        return _key(row) if row else None

    async def all(self) -> Sequence[ApiKey]:
        return [
            _key(row)
            for row in await self._db.read(lambda tx: tx.all(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id"))
        ]

    async def revoke(self, id: str, now: int, actor: str = "") -> bool:
        def work(tx: Tx) -> bool:
            if not tx.run("UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL", now, id):
                return False  # of two at once, one has revoked it
            row = tx.one(f"SELECT {COLUMNS} FROM api_keys WHERE id = $1", id)
            assert row is not None
            _record(tx, _key(row), "revoke_key", actor, now)
            return True

        return await self._db.write(work)

    async def reset(self, now: int, actor: str = "") -> int:
        def work(tx: Tx) -> int:
            rows = tx.all(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id")
            for row in rows:
                _record(tx, _key(row), "delete_key", actor, now)
            return tx.run("DELETE FROM api_keys")

        return await self._db.write(work)

    async def in_use(self) -> bool:
        return await self._db.read(lambda tx: tx.one("SELECT 1 FROM api_keys LIMIT 1")) is not None
