"""Outbox of changes for an index server: written in one transaction with the rows, delivered afterwards.

One process at a time delivers for a model, on a lease, in the order of writing: a passage that was indexed and then
dropped must not come back. An interrupted delivery is repeated; sending a change twice does no harm.
"""

import json
from collections.abc import Iterable, Sequence

from kho.kernel.ports import Lease, Tx
from kho.lib.dataclass import dataclass

LEASE_DURATION = 30_000_000
"""Microseconds. Longer than any request to a server may take (qdrant.REQUEST_TIMEOUT)."""
FIRST_BACKOFF = 1_000_000
MAX_BACKOFF = 60_000_000


@dataclass(frozen=True, slots=True)
class OutboxRow:
    number: int
    seq: int
    payload: str | None
    """None: delete the passage."""
    vector: bytes | None
    """None: only the payload changes."""


def add(tx: Tx, model: int, rows: Iterable[tuple[int, str, bytes | None]]) -> None:
    """Queue passages to be indexed: number, payload, vector."""
    sql = "INSERT INTO vector_outbox (model, seq, payload, vector) VALUES ($1, $2, $3, $4)"
    tx.many(sql, ((model, seq, payload, vector) for seq, payload, vector in rows))


def add_deleted(tx: Tx, model: int, seqs: Iterable[int]) -> None:
    tx.many("INSERT INTO vector_outbox (model, seq) VALUES ($1, $2)", ((model, seq) for seq in seqs))


def models_waiting(tx: Tx) -> list[int]:
    """Return the models that have something to deliver."""
    rows = tx.all(
        "SELECT number FROM vector_models WHERE EXISTS "
        "(SELECT 1 FROM vector_outbox WHERE vector_outbox.model = vector_models.number) ORDER BY number"
    )
    return [row[0] for row in rows]


def claim(tx: Tx, lease: Lease, model: int, now: int) -> bool:
    """Take the lease of a model's deliveries. False while another process holds it, or a failure is too recent."""
    tx.run("INSERT INTO vector_deliveries (model) VALUES ($1) ON CONFLICT DO NOTHING", model)
    due = tx.one("SELECT 1 FROM vector_deliveries WHERE model = $1 AND due_at <= $2", model, now)
    return due is not None and lease.take(tx, model)


def take(tx: Tx, model: int, limit: int) -> list[OutboxRow]:
    sql = "SELECT number, seq, payload, vector FROM vector_outbox WHERE model = $1 ORDER BY number LIMIT $2"
    return [OutboxRow(*row) for row in tx.all(sql, model, limit)]


def delivered(tx: Tx, lease: Lease, model: int, numbers: Sequence[int]) -> bool:
    """Delete what was delivered, and extend the lease. False if another process holds it by now."""
    held = lease.hold(tx, model)
    if held:
        tx.run("UPDATE vector_deliveries SET attempts = 0, due_at = 0 WHERE model = $1", model)
    values = "json_each($1)" if tx.engine == "sqlite" else "jsonb_array_elements_text($1::jsonb)"
    sql = f"DELETE FROM vector_outbox WHERE number IN (SELECT CAST(value AS BIGINT) FROM {values})"
    tx.run(sql, json.dumps(list(numbers)))
    return held


def failed(tx: Tx, lease: Lease, model: int, now: int) -> None:
    """Release the lease. Each consecutive failure doubles the pause before the next attempt by any process."""
    if not lease.hold(tx, model):
        return
    row = tx.one("SELECT attempts FROM vector_deliveries WHERE model = $1", model)
    pause = min(FIRST_BACKOFF * 2 ** min(row[0] if row else 0, 16), MAX_BACKOFF)
    tx.run("UPDATE vector_deliveries SET attempts = attempts + 1, due_at = $1 WHERE model = $2", now + pause, model)
    lease.release(tx, model)
