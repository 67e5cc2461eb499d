"""How a document is changed, whatever the change is: looked at first, then written in one transaction.

What is costly (cutting a body into passages and folding them) is done on a look at the document, before the transaction
that all writers wait for. If the document has changed until then, it is looked at again.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from kho.documents import store, tree
from kho.documents.deleting import Deleting
from kho.documents.errors import Deleted, Stale, TooDeep, UnknownDocument, UnknownParent
from kho.documents.model import ROOT
from kho.documents.results import Changed
from kho.documents.store import Document
from kho.documents.trail import Deed
from kho.kernel.call import Call
from kho.kernel.errors import Conflict
from kho.kernel.ports import Database, Tx
from kho.lib.clock import Clock, iso
from kho.search.indexing.index import Index

T = TypeVar("T")

LOOKS = 20
"""How often a document that keeps changing is looked at again."""


class Overtaken(Exception):
    """Somebody else changed it between the look and the write."""


class Changing:
    """What every change of a document goes through."""

    def __init__(
        self,
        db: Database,
        index: Index,
        clock: Clock,
        deleting: Deleting,
        timeout: float,
        on_event: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_event` is called when there may be something to tell a webhook."""
        self._db = db
        self._index = index
        self._clock = clock
        self._deleting = deleting
        self._timeout = timeout
        self._on_event = on_event

    async def _look(self, call: Call, id: str, work: Callable[[Tx, Document], T]) -> tuple[Document, T]:
        def look(tx: Tx) -> tuple[Document, T]:
            document = need(tx, call.tenant, id)
            return document, work(tx, document)

        return await self._deleting.read(call, look, self._timeout)

    async def _shape(self, call: Call, work: Callable[[Tx], Changed]) -> Changed:
        """A change of the tree's shape: one at a time in a tenant."""

        def alone(tx: Tx) -> Changed:
            tree.hold(tx, call.tenant)
            self._deleting.carry_out(tx, call.tenant)
            return work(tx)

        return await self._commit(call, alone)

    async def _commit(self, call: Call, work: Callable[[Tx], Changed]) -> Changed:
        done = await call.commit(self._db, work)
        self._on_event()
        return done


async def until_it_holds(attempt: Callable[[], Awaitable[Changed]]) -> Changed:
    for _ in range(LOOKS):
        try:
            return await attempt()
        except Overtaken:
            continue
    raise Conflict("Others keep changing this document. Nothing was changed; try again.")


def deed_of(action: str, call: Call, now: int) -> Deed:
    return Deed(action, call.principal.sub, call.request_id, now)


def known(tx: Tx, tenant: str, id: str) -> Document:
    document = store.get(tx, tenant, id)
    if document is None:
        raise UnknownDocument(document_id=id)
    return document


def need(tx: Tx, tenant: str, id: str) -> Document:
    document = known(tx, tenant, id)
    if document.deleted:
        raise Deleted(document_id=id)
    return document


def need_revision(document: Document, known: int | None) -> None:
    if known is not None and known != document.revision:
        raise Stale(
            expected=known,
            actual=document.revision,
            document_id=document.id,
            metadata=document.saying.metadata,
            updated_at=iso(document.updated_at),
        )


def need_parent(tx: Tx, tenant: str, id: str, levels: int, field: str) -> None:
    depth = 0
    if id != ROOT:
        parent = store.get(tx, tenant, id)
        if parent is None or parent.deleted:
            raise UnknownParent(field=field)
        depth = len(tree.above(tx, tenant, id)) + 1
    if depth + levels > tree.DEEPEST:
        raise TooDeep(f"A tree has at most {tree.DEEPEST} levels. Choose a parent nearer to the top.", field=field)


def body_of(tx: Tx, tenant: str, document: Document) -> str:
    return store.body(tx, tenant, document.id, document.saying.body_of)


def changed(
    document: Document,
    status: str,
    *,
    ordering: int | None = None,
    delete_at: str | None = None,
    affected: int | None = None,
) -> Changed:
    return Changed(
        document_id=document.id,
        status=status,
        revision=document.revision,
        parent_id=document.parent,
        ordering=ordering,
        updated_at=iso(document.updated_at),
        deleted=document.deleted or None,
        delete_at=delete_at,
        affected=affected,
    )
