"""Erasing: the only deletion that cannot be undone. For what must not be kept, such as what a person asks to have
forgotten; everything else is deleted with `delete_document`, which can be undone.

The rows go in one transaction, and the audit log says who erased what, and why. A database file still holds the text in
parts that it no longer uses: `wipe` rewrites it.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from kho.documents import store, tree
from kho.documents.deleting import Deleting
from kho.documents.errors import NotPurgeable, UnknownDocument
from kho.documents.model import MAX_REASON, DocumentId
from kho.documents.trail import Deed, log
from kho.kernel.call import Call
from kho.kernel.errors import KhoError
from kho.kernel.model import Params, Result
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock

logger = logging.getLogger("kho.documents")

Wipe = Callable[[], Awaitable[None]]
OF_THE_SERVER = (
    "PostgreSQL's own VACUUM clears the rows' place; its log and archives, and any backup, are yours to look after."
)
OF_THE_FILE = (
    "The embedded database's file still holds the text in parts that it no longer uses, until it is rewritten."
)
_TABLES = ("document_bodies", "document_revisions", "document_deletions", "document_files", "documents")


class PurgeDocument(Params):
    document_id: Annotated[DocumentId, Field(description="A document that is deleted.")]
    reason: Annotated[str, Field(max_length=MAX_REASON, description="Why; kept in the audit log.")] = ""
    wipe: Annotated[
        bool,
        Field(
            description="Rewrite the embedded database's file, so that no trace is left in its unused parts. Others "
            "cannot write meanwhile; leave it out for all but the last of several. PostgreSQL looks after its own."
        ),
    ] = True


class Purged(Result):
    document_id: str
    purged: list[str] = Field(description="The ids that are gone, and free again.")
    wiped: bool = Field(description="Whether the embedded database's file was rewritten.")
    problem: str | None = Field(default=None, description="Why it was not, though it was to be.")
    left: str | None = Field(default=None, description="Where traces may be left, and what clears them.")


class Purging:
    def __init__(self, db: Database, deleting: Deleting, clock: Clock, wipe: Wipe | None = None) -> None:
        """`wipe` rewrites the database's file; None where the database looks after its files itself."""
        self._db = db
        self._deleting = deleting
        self._clock = clock
        self._wipe = wipe

    async def purge(self, params: PurgeDocument, call: Call) -> Purged:
        id, now = params.document_id, self._clock()
        deed = Deed("purge_document", call.principal.sub, call.request_id, now, params.reason)

        def work(tx: Tx) -> Purged:
            tree.hold(tx, call.tenant)
            self._deleting.carry_out(tx, call.tenant)
            document = store.get(tx, call.tenant, id)
            if document is None:
                raise UnknownDocument(document_id=id)
            if not document.deleted:
                raise NotPurgeable(document_id=id)
            # All that is below a deleted document is deleted, some of it perhaps earlier. Left behind, it would hang
            # from nothing.
            below = tree.shape(tx, call.tenant, id, deleted=True)
            ids = [id, *(child for children in below.values() for child in children)]
            gone = store.get_all(tx, call.tenant, ids)
            for table in _TABLES:
                tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND id = $2", [(call.tenant, one) for one in ids])
            log(tx, call.tenant, deed, [(one.id, one.revision, None) for one in gone], {"purged_with": id})
            return Purged(document_id=id, purged=ids, wiped=False)

        purged = await call.commit(self._db, work)
        if self._wipe is None:
            return purged.model_copy(update={"left": OF_THE_SERVER if self._db.engine == "postgres" else None})
        if not params.wipe:
            return purged.model_copy(update={"left": OF_THE_FILE})
        try:
            await self._wipe()
        except KhoError as failure:
            logger.warning("the file was not rewritten after a purge: %s", failure.message)
            return purged.model_copy(update={"problem": failure.message, "left": OF_THE_FILE})
        return purged.model_copy(update={"wiped": True})
