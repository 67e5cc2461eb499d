"""What is noted of every change, in its own transaction: a line in the audit log, and an event for webhooks."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kho.kernel.ports import Row, Tx, Value
from kho.lib.clock import iso

ACTIONS = {
    "create_document": "document.created",
    "update_document": "document.updated",
    "edit_document": "document.updated",
    "restore_revision": "document.updated",
    "move_document": "document.moved",
    "delete_document": "document.deleted",
    "restore_document": "document.restored",
}
"""What is done, and the event that it is."""
DEEDS = (*ACTIONS, "schedule_deletion", "cancel_deletion", "purge_document")
"""All that the log tells of."""
EVENTS = tuple(dict.fromkeys(ACTIONS.values()))
_ENTRY = "number, at, action, actor, document, reason, before_revision, after_revision, request_id, details"


@dataclass(frozen=True, slots=True)
class Deed:
    """One change, for the log."""

    action: str
    actor: str
    request_id: str
    at: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    number: int
    at: int
    action: str
    actor: str
    document: str
    reason: str
    before_revision: int | None
    after_revision: int | None
    request_id: str
    details: dict[str, Any]


def log(
    tx: Tx,
    tenant: str,
    deed: Deed,
    documents: Sequence[tuple[str, int | None, int | None]],
    details: dict[str, Any] | None = None,
) -> None:
    """A line for each document, with its revision before and after."""
    assert deed.action in DEEDS, deed.action  # or nobody could ask for it
    text = orjson.dumps(details or {}).decode()
    tx.many(
        "INSERT INTO document_audit (tenant, document, action, actor, reason, before_revision, after_revision, "
        "request_id, details, at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        [
            (tenant, id, deed.action, deed.actor, deed.reason, before, after, deed.request_id, text, deed.at)
            for id, before, after in documents
        ],
    )


def tell(tx: Tx, tenant: str, deed: Deed, document: str, facts: dict[str, Any]) -> None:
    """An event, and a delivery of it to every webhook that wants it. Nobody listens, nothing is kept."""
    type = ACTIONS[deed.action]
    wanted = [
        webhook
        for webhook, events in tx.all("SELECT id, events FROM document_webhooks WHERE tenant = $1", tenant)
        if type in orjson.loads(events)
    ]
    if not wanted:
        return
    id = str(uuid.uuid4())
    body = {
        "id": id,
        "type": type,
        "tenant_id": tenant,
        "document_id": document,
        "actor": deed.actor,
        "reason": deed.reason,
        "request_id": deed.request_id,
        "at": iso(deed.at),
        **facts,
    }
    row = tx.one(
        "INSERT INTO document_events (tenant, id, type, body, at) VALUES ($1, $2, $3, $4, $5) RETURNING number",
        tenant,
        id,
        type,
        orjson.dumps(body).decode(),
        deed.at,
    )
    number = row[0] if row else 0
    tx.many(
        "INSERT INTO document_deliveries (tenant, webhook, event, attempts, due_at, dead, problem) "
        "VALUES ($1, $2, $3, 0, $4, 0, '')",
        [(tenant, webhook, number, deed.at) for webhook in wanted],
    )


def entries(
    tx: Tx,
    tenant: str,
    *,
    document: str | None,
    action: str | None,
    actor: str | None,
    since: int | None,
    until: int | None,
    before: int,
    most: int,
) -> list[Entry]:
    """The newest first, of those before a number."""
    conditions = ["tenant = $1", "number < $2"]
    values: list[Value] = [tenant, before]
    for condition, value in (
        ("document =", document),
        ("action =", action),
        ("actor =", actor),
        ("at >=", since),
        ("at <", until),
    ):
        if value is not None:
            values.append(value)
            conditions.append(f"{condition} ${len(values)}")
    rows = tx.all(
        f"SELECT {_ENTRY} FROM document_audit WHERE {' AND '.join(conditions)} "
        f"ORDER BY number DESC LIMIT ${len(values) + 1}",
        *values,
        most,
    )
    return [_entry(row) for row in rows]


def _entry(row: Row) -> Entry:
    number, at, action, actor, document, reason, before, after, request_id, details = row
    return Entry(number, at, action, actor, document, reason, before, after, request_id, orjson.loads(details))
