"""Receipts of idempotent writes."""

from collections.abc import Callable
from typing import Any

from kho.kernel.call import KeptAnswer
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import in_tenant


@dataclass(frozen=True, slots=True)
class _Receipt:
    tenant: str
    request_id: str
    digest: str
    render: Callable[[Any], bytes]
    clock: Clock

    def claim(self, tx: Tx) -> None:
        # Claimed before the work: a concurrent duplicate of the request waits here, or fails here, and does nothing.
        sql = "INSERT INTO receipts (tenant, request_id, digest, answer, created_at) VALUES ($1, $2, $3, $4, $5)"
        tx.run(sql, self.tenant, self.request_id, self.digest, "", self.clock())

    def keep(self, tx: Tx, result: Any) -> None:
        sql = "UPDATE receipts SET answer = $1 WHERE tenant = $2 AND request_id = $3"
        tx.run(sql, self.render(result).decode(), self.tenant, self.request_id)


class SqlReceipts:
    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    async def find(self, tenant: str, request_id: str) -> KeptAnswer | None:
        sql = "SELECT digest, answer FROM receipts WHERE tenant = $1 AND request_id = $2"
        with in_tenant(tenant):
            row = await self._db.read(lambda tx: tx.one(sql, tenant, request_id))
        return KeptAnswer(row[0], row[1].encode()) if row else None

    def issue(self, tenant: str, request_id: str, digest: str, render: Callable[[Any], bytes]) -> _Receipt:
        return _Receipt(tenant, request_id, digest, render, self._clock)
