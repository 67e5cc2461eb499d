"""Storage of API keys: digests only."""

from collections.abc import Sequence

from kho.kernel.api_keys import ApiKey
from kho.kernel.ports import Database, Row

COLUMNS = "id, sub, tenant, scopes, digest, created_at, expires_at, revoked_at"


def _key(row: Row) -> ApiKey:
    return ApiKey(row[0], row[1], row[2], tuple(row[3].split()), *row[4:])


class SqlApiKeys:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, key: ApiKey) -> None:
        await self._db.write(
            lambda tx: tx.run(
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
        )

    async def find(self, id: str) -> ApiKey | None:
        row = await self._db.read(lambda tx: tx.one(f"SELECT {COLUMNS} FROM api_keys WHERE id = $1", id))
        return _key(row) if row else None

    async def all(self) -> Sequence[ApiKey]:
        return [
            _key(row)
            for row in await self._db.read(lambda tx: tx.all(f"SELECT {COLUMNS} FROM api_keys ORDER BY created_at, id"))
        ]

    async def revoke(self, id: str, now: int) -> bool:
        return bool(
            await self._db.write(
                lambda tx: tx.run("UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL", now, id)
            )
        )

    async def reset(self) -> int:
        return await self._db.write(lambda tx: tx.run("DELETE FROM api_keys"))

    async def in_use(self) -> bool:
        return await self._db.read(lambda tx: tx.one("SELECT 1 FROM api_keys LIMIT 1")) is not None
