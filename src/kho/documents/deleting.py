"""Deleting and coming back. A document goes with all that is below it, now or at a set time; nothing is lost."""

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from kho.documents import filing, store, tree
from kho.documents.store import Document
from kho.documents.trail import Deed, log, tell
from kho.kernel.background import Background
from kho.kernel.call import Call
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Tx
from kho.lib.clock import SECOND, Clock, iso
from kho.search.indexing.index import Index

logger = logging.getLogger("kho.documents")

T = TypeVar("T")

LONGEST_PAUSE = 60.0
"""Seconds between two looks at what is due, when nothing is known to be: another process may have set a time."""
AT_ONCE = 100


class Deleting:
    """Deletion itself, and the times that were set for it.

    Whoever reads or changes anything first carries out what is due in its tenant, so that a document is
    hidden from its time on, whether or not a hub was there to see it. The background does it for the events' sake.
    """

    def __init__(self, db: Database, index: Index, background: Background, clock: Clock) -> None:
        self._db = db
        self._index = index
        self._background = background
        self._clock = clock

    def now(self, tx: Tx, tenant: str, document: Document, deed: Deed, by: str, at: int) -> int:
        """Takes a document and all below it out of sight. How many those are."""
        deletion = str(uuid.uuid4())
        gone = store.get_all(tx, tenant, [id for id, _ in tree.below(tx, tenant, document.id)])
        ids = [one.id for one in gone]
        tree.mark_deleted(tx, tenant, ids, deletion, at)
        tx.many("DELETE FROM document_deletions WHERE tenant = $1 AND id = $2", [(tenant, id) for id in ids])
        filing.drop(tx, self._index, tenant, gone)
        details = {"deleted_by": by, "deleted_at": iso(at), "deleted_with": document.id}
        log(tx, tenant, deed, [(one.id, one.revision, one.revision) for one in gone], details)
        told = {"revision": document.revision, "deleted_by": by, "deleted_at": iso(at), "document_ids": ids}
        tell(tx, tenant, deed, document.id, told)
        return len(gone)

    def later(self, tx: Tx, tenant: str, document: Document, deed: Deed, by: str, at: int) -> None:
        tx.run(
            "INSERT INTO document_deletions (tenant, id, due_at, reason, deleted_by) VALUES ($1, $2, $3, $4, $5) "
            "ON CONFLICT (tenant, id) DO UPDATE SET due_at = excluded.due_at, reason = excluded.reason, "
            "deleted_by = excluded.deleted_by",
            tenant,
            document.id,
            at,
            deed.reason,
            by,
        )
        details = {"deleted_by": by, "delete_at": iso(at)}
        log(
            tx,
            tenant,
            replace(deed, action="schedule_deletion"),
            [(document.id, document.revision, document.revision)],
            details,
        )

    def not_after_all(self, tx: Tx, tenant: str, document: Document, deed: Deed) -> bool:
        """Whether a time had been set."""
        if not tx.run("DELETE FROM document_deletions WHERE tenant = $1 AND id = $2", tenant, document.id):
            return False
        log(tx, tenant, replace(deed, action="cancel_deletion"), [(document.id, document.revision, document.revision)])
        return True

    async def read(self, call: Call, work: Callable[[Tx], T], timeout: float) -> T:
        """Reads what the caller sees now."""

        def unless_due(tx: Tx) -> tuple[T] | None:
            return None if _due(tx, self._clock(), call.tenant) else (work(tx),)

        while (found := await self._db.read(unless_due, timeout=call.remaining(timeout))) is None:
            await self._db.write(lambda tx: self.carry_out(tx, call.tenant))
        return found[0]

    async def run(self) -> None:
        while not self._background.stopping:
            soonest = None
            try:
                if await self._db.read(lambda tx: _due(tx, self._clock())):
                    await self._db.write(self.carry_out)
                soonest = await self._db.read(_soonest)
            except KhoError as problem:  # the database is away
                logger.warning("deletions wait: %s", problem.message)
            wait = LONGEST_PAUSE if soonest is None else (soonest - self._clock()) / SECOND
            await self._background.pause(min(LONGEST_PAUSE, max(0.01, wait)))

    def carry_out(self, tx: Tx, tenant: str | None = None) -> None:
        """Whatever is due, in one tenant or in all."""
        now = self._clock()
        while due := _due(tx, now, tenant):
            for owner, id, at, reason, by in due:
                tree.hold(tx, owner)
                # Struck out by whoever comes first; a process that comes second finds nothing left to do.
                if not tx.run("DELETE FROM document_deletions WHERE tenant = $1 AND id = $2", owner, id):
                    continue
                document = store.get(tx, owner, id)
                if document is not None and not document.deleted:
                    self.now(tx, owner, document, Deed("delete_document", by, "", now, reason), by, at)


def due_at(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    """When each will be deleted, of those for which a time is set, or for one above them."""
    if not ids or tx.one("SELECT 1 FROM document_deletions WHERE tenant = $1 LIMIT 1", tenant) is None:
        return {}
    marks = ", ".join(f"${number}" for number in range(2, len(ids) + 2))
    rows = tx.all(
        "WITH RECURSIVE up (id, above, level) AS ("
        f"SELECT id, id, 0 FROM documents WHERE tenant = $1 AND id IN ({marks}) UNION ALL "
        "SELECT up.id, d.parent, up.level + 1 FROM up CROSS JOIN documents AS d "
        "WHERE d.id = up.above AND d.tenant = $1 AND up.level < 1000) "
        "SELECT up.id, MIN(x.due_at) FROM up CROSS JOIN document_deletions AS x "
        "WHERE x.id = up.above AND x.tenant = $1 GROUP BY up.id",
        tenant,
        *ids,
    )
    return {row[0]: row[1] for row in rows}


def due_above(tx: Tx, tenant: str, id: str) -> tuple[str, int] | None:
    """The document above for which a time is set, the first if there are several, and that time."""
    above = tree.above(tx, tenant, id)
    if not above:
        return None
    marks = ", ".join(f"${number}" for number in range(2, len(above) + 2))
    row = tx.one(
        f"SELECT id, due_at FROM document_deletions WHERE tenant = $1 AND id IN ({marks}) ORDER BY due_at, id LIMIT 1",
        tenant,
        *above,
    )
    return None if row is None else (row[0], row[1])


def _due(tx: Tx, now: int, tenant: str | None = None) -> list[tuple[str, str, int, str, str]]:
    own, values = ("", ()) if tenant is None else (" AND tenant = $2", (tenant,))
    return [
        (row[0], row[1], row[2], row[3], row[4])
        for row in tx.all(
            f"SELECT tenant, id, due_at, reason, deleted_by FROM document_deletions WHERE due_at <= $1{own} "
            f"ORDER BY tenant, due_at LIMIT {AT_ONCE}",
            now,
            *values,
        )
    ]


def _soonest(tx: Tx) -> int | None:
    row = tx.one("SELECT MIN(due_at) FROM document_deletions")
    return None if row is None else row[0]
