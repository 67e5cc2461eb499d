"""The audit trail: one row for each call that changed something, written in the transaction of the change.

Slices and background work write it; `entries` reads it, for every slice and all of them. Rows are only ever added: the
database itself refuses to change or delete one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson

from kho.kernel.ports import Tx, Value
from kho.lib.clock import system_clock
from kho.lib.sql import Table, insert_many, marks, to_json, where

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


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A row of the trail as one of its subjects sees it. A row with further subjects is as many entries."""

    number: int
    at: int
    capability: str
    operation: str
    subject: str
    actor: str
    reason: str
    outcome: Outcome
    request_id: str
    details: dict[str, Any]
    place: str = ""
    """Behind the further subjects of a row, in falling order of their ids, comes its first one: that has none."""

    @property
    def position(self) -> tuple[int, str]:
        """Where the next page begins."""
        return self.number, self.place


_ROWS = Table("audit", AuditEntry, json=("details",))
_COLUMNS = ", ".join(_ROWS.fields[:-1])
NEWEST = (2**62, "")


def entries(
    tx: Tx,
    tenant: str,
    *,
    limit: int,
    before: tuple[int, str] = NEWEST,
    capabilities: Sequence[str] = (),
    operations: Sequence[str] = (),
    subject: str | None = None,
    actor: str | None = None,
    since: int | None = None,
    until: int | None = None,
    outcome: Outcome | None = None,
) -> list[AuditEntry]:
    """The newest first, of those behind a position. No capabilities, or no operations, are all of them."""
    number, place = before
    behind = "number <=" if place else "number <"
    text, values = where(
        {"tenant =": tenant, behind: number, "actor =": actor, "at >=": since, "at <": until, "outcome =": outcome}
    )
    for column, names in (("capability", capabilities), ("operation", operations)):
        if names:
            text += f" AND {column} IN ({marks(len(names), len(values) + 1)})"
            values += names
    if subject is not None:
        own, values = f"tenant = $1 AND subject = ${len(values) + 1} AND number <= $2", [*values, subject]
        tables = ("audit", "audit_subjects")
        text += f" AND number IN ({' UNION '.join(f'SELECT number FROM {table} WHERE {own}' for table in tables)})"
    text += f" ORDER BY number DESC LIMIT ${len(values) + 1}"
    rows = _ROWS.read_all(tx.all(f"SELECT {_COLUMNS} FROM audit WHERE {text}", *values, limit))
    further = _further(tx, tenant, [row.number for row in rows], before, subject, limit)
    found = [
        one for row in rows for one in (*_each(row, further.get(row.number, ())), row) if subject in (None, one.subject)
    ]
    return found[:limit]


def _each(row: AuditEntry, further: Iterable[tuple[str, str]]) -> Iterable[AuditEntry]:
    for subject, details in further:
        yield replace(row, subject=subject, place=subject, details={**row.details, **orjson.loads(details)})


def _further(
    tx: Tx, tenant: str, numbers: Sequence[int], before: tuple[int, str], subject: str | None, limit: int
) -> dict[int, list[tuple[str, str]]]:
    """The further subjects of these rows, behind a position: no more than a page could show."""
    if not numbers:
        return {}
    values: list[Value] = [tenant, *before, *numbers]
    text = f"tenant = $1 AND (number < $2 OR subject < $3) AND number IN ({marks(len(numbers), 4)})"
    if subject is not None:
        values.append(subject)
        text += f" AND subject = ${len(values)}"
    rows = tx.all(
        f"SELECT number, subject, details FROM audit_subjects WHERE {text} "
        f"ORDER BY number DESC, subject DESC LIMIT ${len(values) + 1}",
        *values,
        limit,
    )
    found: dict[int, list[tuple[str, str]]] = {}
    for number, further, details in rows:
        found.setdefault(number, []).append((further, details))
    return found
