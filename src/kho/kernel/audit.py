"""The audit trail: one row for each call that changed something, written in the transaction of the change.

Slices and background work write it; `log_page` reads it, for one slice or all of them, always in the same form. Rows
are only ever added, and chained afterwards by the slice `audit`: the database itself refuses to change or delete one,
but for the erasure of its personal text, and for old rows that leave when the chain has a later beginning.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from kho.kernel import paging
from kho.kernel.params import Cursor, Moment, Params, Result, Time, Whole
from kho.kernel.ports import Tx, Value
from kho.lib.clock import system_clock
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, insert_many, marks, to_json, where

Outcome = Literal["done", "refused"]
PURGE = "purge"
"""The operation that says what was purged: later purges leave its rows alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    tenant: str
    operation: str
    """Name that callers know, e.g. 'delete_document'; for background work, the name of that work."""
    capability: str
    """The slice, e.g. 'documents'."""
    subject: str
    """Id of what was changed."""
    actor: str
    """Who did it; for background work, who caused it."""
    reason: str = ""
    outcome: Outcome = "done"
    request_id: str = ""
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
    at: int = field(default_factory=system_clock)


def record(tx: Tx, event: AuditEvent, also: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> int:
    """Add a row and return its number. `also` are further subjects of the same change, such as all documents below a
    deleted one, each with its own details: they can be queried by their own ids."""
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
    return number


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A row of the trail for one of its subjects. A row with further subjects yields one entry for each."""

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
    erased_at: int | None = None
    """When its personal text was erased; what, when and where stays."""
    place: str = ""
    """Id of a further subject; empty for the main one. Further subjects come first, in descending order of their ids,
    and the main one last."""


_ROWS = Table("audit", AuditEntry, json=("details",))
_COLUMNS = ", ".join(_ROWS.fields[:-1])
NEWEST = (2**62, "")


def entries(
    tx: Tx,
    tenant: str,
    *,
    limit: int,
    before: tuple[int, str] = NEWEST,
    capabilities: Sequence[str] | None = None,
    operations: Sequence[str] | None = None,
    subject: str | None = None,
    actor: str | None = None,
    since: int | None = None,
    until: int | None = None,
    outcome: Outcome | None = None,
) -> list[AuditEntry]:
    """Return entries after a position, newest first."""
    number, place = before
    behind = "number <=" if place else "number <"
    text, values = where(
        {"tenant =": tenant, behind: number, "actor =": actor, "at >=": since, "at <": until, "outcome =": outcome}
    )
    for column, names in (("capability", capabilities), ("operation", operations)):
        if names is not None:
            text += f" AND {column} IN ({marks(len(names), len(values) + 1) or 'NULL'})"  # IN (NULL) matches nothing
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
    """Return the further subjects of these rows after a position, at most as many as fit on a page."""
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


class AuditFilters(Params):
    """What every reader of the trail can ask for."""

    action: Annotated[str | None, Field(max_length=128, description="Only this operation, e.g. delete_document.")] = (
        None
    )
    actor: Annotated[str | None, Field(max_length=256, description="Only what this caller did.")] = None
    since: Moment | None = None
    until: Moment | None = None
    limit: Annotated[int, Field(ge=1, le=200, description="How many."), Whole] = 50
    cursor: Cursor | None = None


class AuditLogEntry(Result):
    """An entry of the trail, as every reader shows it."""

    at: Time
    slice: str
    action: str
    actor: str
    subject: str
    document_id: str | None = Field(default=None, description="For documents: the subject.")
    reason: str
    outcome: Outcome
    before_revision: int | None = None
    after_revision: int | None = None
    request_id: str
    details: dict[str, Any]
    erased_at: Time | None = Field(default=None, description="When names, ids, reason and details were erased.")


class AuditLogPage(Result):
    entries: list[AuditLogEntry]
    next_cursor: str | None = None


def log_page(
    tx: Tx,
    tenant: str,
    filters: AuditFilters,
    *,
    subject: str | None = None,
    capabilities: Sequence[str] | None = None,
    operations: Sequence[str] | None = None,
    outcome: Outcome | None = None,
) -> AuditLogPage:
    """Return a page of the trail for display. `operations` restricts it to some operations."""
    found = entries(
        tx,
        tenant,
        limit=filters.limit + 1,
        before=_position(tx, tenant, paging.place(filters.cursor, int, int, str)),
        capabilities=capabilities,
        operations=operations if filters.action is None else [filters.action],
        subject=subject,
        actor=filters.actor,
        since=filters.since,
        until=filters.until,
        outcome=outcome,
    )
    page, cursor = paging.cut(found, filters.limit, lambda one: _place(tx, tenant, one))
    return AuditLogPage(entries=[_logged(one) for one in page], next_cursor=cursor)


def _place(tx: Tx, tenant: str, entry: AuditEntry) -> tuple[int, int, str]:
    """Return a position for a cursor: a time, and how many rows of the tenant have that time from there on. The number
    itself, which all tenants share, would tell each how much the others write."""
    sql = "SELECT count(*) FROM audit WHERE tenant = $1 AND number >= $2 AND at = $3"
    [same] = tx.one(sql, tenant, entry.number, entry.at) or (1,)
    return entry.at, same, entry.place


def _position(tx: Tx, tenant: str, place: tuple[Any, ...] | None) -> tuple[int, str]:
    if place is None:
        return NEWEST
    at, same, further = place
    if not (0 <= at < NEWEST[0] and 0 < same < NEWEST[0]):
        raise paging.foreign()
    sql = "SELECT number FROM audit WHERE tenant = $1 AND at = $2 ORDER BY number DESC LIMIT 1 OFFSET $3"
    found = tx.one(sql, tenant, at, same - 1)
    return (found[0], further) if found else (0, "")


def _logged(entry: AuditEntry) -> AuditLogEntry:
    details = dict(entry.details)
    return AuditLogEntry.of(
        entry,
        slice=entry.capability,
        action=entry.operation,
        document_id=entry.subject if entry.capability == "documents" else None,
        before_revision=details.pop("before_revision", None),
        after_revision=details.pop("after_revision", None),
        details=details,
    )
