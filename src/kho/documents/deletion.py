"""Soft deletion of a document with all below it, now or at a scheduled time. All of it can be restored.

Every read or change first carries out the deletions that are due in its tenant (`CurrentReads`), so that a document is
hidden from its time on, whether or not a hub was running then. A background task does it, too, so that events are sent
in time.
"""

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from kho.documents import indexing, store, tree
from kho.documents.events import emit
from kho.documents.store import StoredDocument
from kho.kernel import AuditEvent, Background, Call, Database, Tx
from kho.kernel.audit import record
from kho.kernel.call import within
from kho.lib.clock import SECOND, Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, among, delete, marks, replacing, where
from kho.search.indexing.index import Index

T = TypeVar("T")

MAX_PAUSE = 60.0
"""Maximum seconds between checks for due deletions: another process may have scheduled one."""
BATCH = 100


@dataclass(frozen=True, slots=True)
class ScheduledDeletion:
    tenant: str
    id: str
    due_at: int
    reason: str
    deleted_by: str
    """Who deletes it according to the caller, who may name somebody else."""
    scheduled_by: str
    """The caller who scheduled it."""


SCHEDULED = Table("document_deletions", ScheduledDeletion)


@dataclass(slots=True, kw_only=True)
class Deletions:
    db: Database
    index: Index
    background: Background
    clock: Clock

    def delete(self, tx: Tx, document: StoredDocument, change: AuditEvent, by: str, at: int) -> int:
        """Hide a document and all below it; return how many documents were hidden."""
        tenant = change.tenant
        ids = _mark_deleted(tx, tenant, document.id, at)
        gone = store.get_all(tx, tenant, ids)
        indexing.drop(tx, self.index, tenant, gone)
        details = {"deleted_by": by, "deleted_at": iso(at), "deleted_with": document.id}
        record(tx, replace(change, details={**same_revision(document), **details}), further(gone, document.id))
        emit(tx, change, revision=document.revision, deleted_by=by, deleted_at=iso(at), document_ids=ids)
        return len(gone)

    def schedule(self, tx: Tx, document: StoredDocument, call: Call, deletion: ScheduledDeletion, now: int) -> None:
        SCHEDULED.insert(
            tx, deletion, conflict=replacing("tenant, id", "due_at", "reason", "deleted_by", "scheduled_by")
        )
        call.audit(
            tx,
            document.id,
            at=now,
            operation="schedule_deletion",
            reason=deletion.reason,
            **same_revision(document),
            deleted_by=deletion.deleted_by,
            delete_at=iso(deletion.due_at),
        )

    def cancel(self, tx: Tx, document: StoredDocument, call: Call, reason: str, now: int) -> bool:
        """Cancel a scheduled deletion; return False if there is none."""
        if not delete(tx, "document_deletions", tenant=call.tenant, id=document.id):
            return False
        call.audit(tx, document.id, at=now, operation="cancel_deletion", reason=reason, **same_revision(document))
        return True

    def carry_out(self, tx: Tx, tenant: str | None = None) -> None:
        """Carry out all due deletions, in one tenant or in all."""
        now = self.clock()
        for one, document in _take_due(tx, now, tenant):
            self.delete(tx, document, _caused_by(one, now), one.deleted_by, one.due_at)

    def hide(self, tx: Tx, tenant: str) -> None:
        """Hide what is due in a tenant, in a transaction that is undone: nothing else is told of it."""
        for one, document in _take_due(tx, self.clock(), tenant):
            _mark_deleted(tx, tenant, document.id, one.due_at)

    async def run(self) -> None:
        await self.background.every(MAX_PAUSE, self._step, name="scheduled deletions")

    async def _step(self) -> float:
        """Carry out due deletions; return the seconds until the next one is due."""
        if await self.db.read(lambda tx: _due(tx, self.clock())):
            await self.db.write(self.carry_out)
        soonest = await self.db.read(lambda tx: tx.one("SELECT MIN(due_at) FROM document_deletions"))
        if soonest is None or soonest[0] is None:
            return MAX_PAUSE
        return max(0.01, (soonest[0] - self.clock()) / SECOND)


@dataclass(slots=True, kw_only=True)
class CurrentReads:
    """Runs reads after carrying out the tenant's due deletions, so that no document is seen after its deletion time. A
    hub that is read-only leaves them to be carried out by others, and only hides them."""

    db: Database
    deletions: Deletions
    timeout: float
    read_only: bool = False

    async def read(self, call: Call, work: Callable[[Tx], T], timeout: float | None = None) -> T:
        def unless_due(tx: Tx) -> tuple[T] | None:
            return None if _due(tx, self.deletions.clock(), call.tenant) else (work(tx),)

        seconds = self.timeout if timeout is None else timeout
        while (found := await self.db.read(unless_due, timeout=call.remaining(seconds))) is None:
            if self.read_only:
                return await within(call.remaining(seconds), self._read_without_due(call.tenant, work))
            await self.db.write(lambda tx: self.deletions.carry_out(tx, call.tenant))
        return found[0]

    async def _read_without_due(self, tenant: str, work: Callable[[Tx], T]) -> T:
        """Read as if the due deletions had been carried out, in a transaction that is undone: so every statement sees
        them, and nothing is changed."""
        found: list[T] = []

        def look(tx: Tx) -> None:
            self.deletions.hide(tx, tenant)
            found[:] = [work(tx)]
            raise _Undone

        with suppress(_Undone):
            await self.db.write(look)
        return found[0]


class _Undone(Exception):
    """Undoes the transaction that it leaves."""


def same_revision(document: StoredDocument) -> dict[str, Any]:
    """Audit details of a change that creates no new revision."""
    return {"before_revision": document.revision, "after_revision": document.revision}


def further(documents: Iterable[StoredDocument], first: str) -> list[tuple[str, dict[str, Any]]]:
    """Audit entries of the documents that were deleted or restored together with `first`."""
    return [(one.id, same_revision(one)) for one in documents if one.id != first]


def due_at(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    """Return when documents will be deleted, by id: those that are scheduled or below a scheduled one."""
    if not ids or tx.one("SELECT 1 FROM document_deletions WHERE tenant = $1 LIMIT 1", tenant) is None:
        return {}
    statement = (
        "WITH RECURSIVE up (id, above, level) AS ("
        f"SELECT id, id, 0 FROM documents WHERE tenant = $1 AND id IN ({marks(len(ids), 2)}) UNION ALL "
        "SELECT up.id, d.parent, up.level + 1 FROM up CROSS JOIN documents AS d "
        "WHERE d.id = up.above AND d.tenant = $1 AND up.level < 1000) "
        "SELECT up.id, MIN(x.due_at) FROM up CROSS JOIN document_deletions AS x "
        "WHERE x.id = up.above AND x.tenant = $1 GROUP BY up.id"
    )
    return dict(tx.all(statement, tenant, *ids))


def due_above(tx: Tx, tenant: str, id: str) -> tuple[str, int] | None:
    """Return the ancestor whose scheduled deletion comes first, and its time; None if none is scheduled."""
    above = tree.above(tx, tenant, id)
    rows = among(tx, "SELECT due_at, id FROM document_deletions WHERE tenant = $1 AND id", above, tenant)
    if not rows:
        return None
    at, first = min(rows)
    return first, at


def _caused_by(deletion: ScheduledDeletion, now: int) -> AuditEvent:
    return AuditEvent(
        tenant=deletion.tenant,
        operation="delete_document",
        capability="documents",
        subject=deletion.id,
        actor=deletion.scheduled_by,
        reason=deletion.reason,
        at=now,
    )


def _take_due(tx: Tx, now: int, tenant: str | None) -> Iterator[tuple[ScheduledDeletion, StoredDocument]]:
    """Yield what is due, with its document, until nothing is."""
    while due := _due(tx, now, tenant):
        for one in due:
            tree.hold(tx, one.tenant)
            # The process that deletes the row carries out the deletion; another one finds nothing left to do.
            if not delete(tx, "document_deletions", tenant=one.tenant, id=one.id):
                continue
            document = store.get(tx, one.tenant, one.id)
            if document is not None and not document.deleted:
                yield one, document


def _mark_deleted(tx: Tx, tenant: str, id: str, at: int) -> list[str]:
    """Mark a document and all below it as deleted together; return their ids."""
    ids = [below for below, _ in tree.below(tx, tenant, id)]
    tree.mark_deleted(tx, tenant, ids, str(uuid.uuid4()), at)
    tx.many("DELETE FROM document_deletions WHERE tenant = $1 AND id = $2", [(tenant, id) for id in ids])
    return ids


def _due(tx: Tx, now: int, tenant: str | None = None) -> list[ScheduledDeletion]:
    text, values = where({"due_at <=": now, "tenant =": tenant})
    return SCHEDULED.all(tx, f"{text} ORDER BY tenant, due_at LIMIT {BATCH}", *values)
