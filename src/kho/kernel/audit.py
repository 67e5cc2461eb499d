"""The audit trail: one row for each call that changed something, written in the transaction of the change.

Writing is here, because slices and background work do it; `storage/audit.py` reads. Rows are only ever added: the
database itself refuses to change or delete one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from kho.kernel.ports import Tx
from kho.lib.clock import system_clock
from kho.lib.sql import insert_many, marks, to_json

Outcome = Literal["done", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    tenant: str
    operation: str
    """As callers know it, e.g. 'delete_document'; for work that nobody asked for just now, what it is called."""
    capability: str
    """The slice, e.g. 'documents'."""
    subject: str
    """The id of what was changed."""
    actor: str
    """Who did it; for background work, whoever set it off."""
    reason: str = ""
    outcome: Outcome = "done"
    request_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: int = field(default_factory=system_clock)


def record(tx: Tx, event: AuditEvent, also: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
    """Adds a row. `also` are further subjects of the same change, such as all documents below one that was deleted,
    each with details of its own: they can be asked for by their own ids."""
    row = {
        "tenant": event.tenant,
        "at": event.at,
        "capability": event.capability,
        "operation": event.operation,
        "subject": event.subject,
        "actor": event.actor,
        "reason": event.reason,
        "outcome": event.outcome,
        "request_id": event.request_id,
        "details": to_json(event.details),
    }
    columns = f"({', '.join(row)}) VALUES ({marks(len(row))})"
    added = tx.one(f"INSERT INTO audit {columns} RETURNING number", *row.values())
    number = added[0] if added else 0
    insert_many(
        tx,
        "audit_subjects",
        [
            {"tenant": event.tenant, "subject": subject, "number": number, "details": to_json(details)}
            for subject, details in also
        ],
    )
