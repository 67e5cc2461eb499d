"""Events for webhooks, written in the transaction of the change that they report."""

import uuid
from typing import Any

import orjson

from kho.kernel import AuditEvent, Tx
from kho.lib.clock import iso
from kho.lib.sql import insert_many, to_json

EVENT_OF = {
    "create_document": "document.created",
    "update_document": "document.updated",
    "edit_document": "document.updated",
    "restore_revision": "document.updated",
    "move_document": "document.moved",
    "delete_document": "document.deleted",
    "restore_document": "document.restored",
}
"""Webhook event type of each operation."""
OPERATIONS = (*EVENT_OF, "schedule_deletion", "cancel_deletion", "purge_document")
"""All document operations in the audit trail."""
EVENTS = tuple(dict.fromkeys(EVENT_OF.values()))


def emit(tx: Tx, change: AuditEvent, **facts: Any) -> None:
    """Store an event and a delivery for each webhook that subscribes to its type; without such a webhook, nothing."""
    type = EVENT_OF[change.operation]
    wanted = [
        webhook
        for webhook, events in tx.all("SELECT id, events FROM document_webhooks WHERE tenant = $1", change.tenant)
        if type in orjson.loads(events)
    ]
    if not wanted:
        return
    id = str(uuid.uuid4())
    body = {
        "id": id,
        "type": type,
        "tenant_id": change.tenant,
        "document_id": change.subject,
        "actor": change.actor,
        "reason": change.reason,
        "request_id": change.request_id,
        "at": iso(change.at),
        **facts,
    }
    statement = "INSERT INTO document_events (tenant, id, type, body, at) VALUES ($1, $2, $3, $4, $5) RETURNING number"
    row = tx.one(statement, change.tenant, id, type, to_json(body), change.at)
    waiting = {"event": row[0] if row else 0, "attempts": 0, "due_at": change.at, "dead": 0, "problem": ""}
    insert_many(
        tx,
        "document_deliveries",
        [{"tenant": change.tenant, "webhook": webhook, **waiting} for webhook in wanted],
    )
