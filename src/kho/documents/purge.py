"""Purge: the only deletion that cannot be undone. For what must not be kept, such as personal data that someone asks to
have erased; everything else is deleted with `delete_document`, which can be undone.

The rows are deleted in one transaction, and the audit log records who erased what, and why. The database file still
holds the text in unused pages until `vacuum` rewrites it.
"""

import logging
from typing import Annotated

from pydantic import Field

from kho.documents import store, tree
from kho.documents.contract import ADMIN, ID
from kho.documents.deletion import Deletions
from kho.documents.errors import NotPurgeable
from kho.documents.model import DocumentId
from kho.kernel import Call, Command, Database, KhoError, Params, Reason, Result, Tx
from kho.kernel.upkeep.erasure import LEFT_IN_FILE, LEFT_IN_POSTGRES, Vacuum
from kho.lib.clock import Clock
from kho.lib.dataclass import dataclass
from kho.lib.markdown import code, line

logger = logging.getLogger("kho.documents")

_TABLES = ("document_bodies", "document_revisions", "document_deletions", "document_files", "documents")


class PurgeDocument(Params):
    document_id: Annotated[DocumentId, Field(description="A document that is deleted.")]
    reason: Reason = ""
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
    problem: str | None = Field(default=None, description="Why it was not rewritten, although requested.")
    left: str | None = Field(default=None, description="Where traces may remain, and how to remove them.")


def purged(answer: Purged) -> str:
    gone = ", ".join(code(id) for id in answer.purged)
    said = ["The database's file was rewritten."] if answer.wiped else []
    said += [line(answer.problem)] if answer.problem else []
    return " ".join([f"Erased: {gone}.", *said, *([answer.left] if answer.left else [])])


@dataclass(slots=True, kw_only=True)
class Purge:
    db: Database
    deletions: Deletions
    clock: Clock
    vacuum: Vacuum | None = None
    """Rewrites the database file; None if the database manages its files itself."""

    @ADMIN.destroy(
        "purge_document",
        tool=False,
        action=False,
        cli=Command(
            "admin purge",
            positional=("document_id",),
            final=True,
            looks=("get_document", {"include_deleted": True}),
            group="Operations for admins.",
        ),
        example={**ID, "reason": "the person asked for it"},
        text=purged,
    )
    async def purge(self, params: PurgeDocument, call: Call) -> Purged:
        """Erase a deleted document and all below it, with every revision. Nothing brings them back."""
        id, now = params.document_id, self.clock()

        def work(tx: Tx) -> Purged:
            tree.hold(tx, call.tenant)
            self.deletions.carry_out(tx, call.tenant)
            document = store.known(tx, call.tenant, id)
            if not document.deleted:
                raise NotPurgeable(document_id=id)
            # Everything below a deleted document is deleted, too, some of it perhaps earlier. It is purged as well:
            # it would be left without a parent.
            below = tree.shape(tx, call.tenant, id, deleted=True)
            ids = [id, *(child for children in below.values() for child in children)]
            gone = store.get_all(tx, call.tenant, ids)
            self.deletions.index.count(tx, store.REVISIONS, call.tenant, -store.size_of(tx, call.tenant, ids))
            for table in _TABLES:
                tx.many(f"DELETE FROM {table} WHERE tenant = $1 AND id = $2", [(call.tenant, one) for one in ids])
            call.audit(
                tx,
                id,
                at=now,
                operation="purge_document",
                reason=params.reason,
                also=[(one.id, {"before_revision": one.revision}) for one in gone if one.id != id],
                before_revision=document.revision,
                purged_with=id,
            )
            return Purged(document_id=id, purged=ids, wiped=False)

        purged = await call.commit(self.db, work)
        if self.vacuum is None:
            return purged.model_copy(update={"left": LEFT_IN_POSTGRES if self.db.engine == "postgres" else None})
        if not params.wipe:
            return purged.model_copy(update={"left": LEFT_IN_FILE})
        try:
            await self.vacuum()
        except KhoError as failure:
            logger.warning("the file was not rewritten after a purge: %s", failure.message)
            return purged.model_copy(update={"problem": failure.message, "left": LEFT_IN_FILE})
        return purged.model_copy(update={"wiped": True})
