"""Reading documents: as they are, as they were, and who did what to them."""

from collections.abc import Callable, Iterator
from typing import TypeVar

from kho.documents import model, results, store, trail, tree, views
from kho.documents.deleting import Deleting
from kho.documents.errors import UnknownDocument, UnknownParent, UnknownRevision
from kho.documents.model import ROOT
from kho.documents.store import Document, Revision
from kho.documents.trail import Entry
from kho.kernel import paging
from kho.kernel.call import Call
from kho.kernel.ports import Tx, Value
from kho.lib.clock import iso

T = TypeVar("T")

NEWEST = 2**62


class Reading:
    def __init__(self, deleting: Deleting, timeout: float) -> None:
        self._deleting = deleting
        self._timeout = timeout

    async def get(self, params: model.GetDocument, call: Call) -> results.Document:
        def work(tx: Tx) -> results.Document:
            document = need(tx, call.tenant, params.document_id, params.include_deleted)
            if params.revision is not None:
                document = _as_of(document, _revision(tx, call.tenant, document.id, params.revision))
            return views.whole(tx, call.tenant, [document])[0]

        return await self._read(call, work)

    async def get_many(self, params: model.GetDocuments, call: Call) -> results.Documents:
        def work(tx: Tx) -> results.Documents:
            wanted = list(dict.fromkeys(params.document_ids))
            found = [one for one in store.get_all(tx, call.tenant, wanted) if params.include_deleted or not one.deleted]
            known = {one.id for one in found}
            return results.Documents(
                documents=views.whole(tx, call.tenant, found),
                missing=[id for id in wanted if id not in known],
            )

        return await self._read(call, work)

    async def list(self, params: model.ListDocuments, call: Call) -> results.Listed:
        def work(tx: Tx) -> results.Listed:
            if params.parent_id != ROOT:
                parent = store.get(tx, call.tenant, params.parent_id)
                if parent is None or (parent.deleted and not params.include_deleted):
                    raise UnknownParent(field="parent_id")
            return self._below(tx, params, call) if params.recursive else self._children(tx, params, call)

        return await self._read(call, work)

    async def history(self, params: model.DocumentHistory, call: Call) -> results.History:
        [before] = paging.place(params.cursor, int) or (NEWEST,)

        def work(tx: Tx) -> results.History:
            need(tx, call.tenant, params.document_id, deleted=True)
            found = store.history(tx, call.tenant, params.document_id, before, params.limit + 1)
            page = found[: params.limit]
            return results.History(
                document_id=params.document_id,
                revisions=[views.revision(one, before) for one, before in zip(page, [*found[1:], None], strict=False)],
                next_cursor=paging.encode([page[-1].revision]) if len(found) > params.limit else None,
            )

        return await self._read(call, work)

    async def diff(self, params: model.DiffRevisions, call: Call) -> results.Difference:
        def work(tx: Tx) -> tuple[Revision, Revision, str, str]:
            document = need(tx, call.tenant, params.document_id, deleted=True)
            old = _revision(tx, call.tenant, document.id, params.from_revision)
            new = _revision(tx, call.tenant, document.id, params.to_revision or document.revision)
            before, after = (store.body(tx, call.tenant, document.id, one.saying.body_of) for one in (old, new))
            return old, new, before, after

        return views.difference(params.document_id, *await self._read(call, work))

    async def audit(self, params: model.AuditLog, call: Call) -> results.Log:
        [before] = paging.place(params.cursor, int) or (NEWEST,)

        def work(tx: Tx) -> list[Entry]:
            return trail.entries(
                tx,
                call.tenant,
                document=params.document_id,
                action=params.action,
                actor=params.actor,
                since=params.since,
                until=params.until,
                before=before,
                most=params.limit + 1,
            )

        found = await self._read(call, work)
        page = found[: params.limit]
        return results.Log(
            entries=[_entry(one) for one in page],
            next_cursor=paging.encode([page[-1].number]) if len(found) > params.limit else None,
        )

    def _children(self, tx: Tx, params: model.ListDocuments, call: Call) -> results.Listed:
        after = _after(tx, call.tenant, params)
        found = tree.page(
            tx, call.tenant, params.parent_id, params.sort, params.include_deleted, after, params.limit + 1
        )
        page = found[: params.limit]
        more = None
        if len(found) > params.limit:
            last, by = page[-1]
            more = paging.encode([params.sort, by, last.id, last.updated_at])
        documents = [one for one, _ in page]
        return results.Listed(
            documents=views.summaries(tx, call.tenant, documents, {one.id: 1 for one in documents}), next_cursor=more
        )

    def _below(self, tx: Tx, params: model.ListDocuments, call: Call) -> results.Listed:
        order = list(_walk(tree.shape(tx, call.tenant, params.parent_id, params.include_deleted), params.parent_id))
        start = _place(params.cursor, [id for id, _ in order])
        page = order[start : start + params.limit]
        depths = dict(page)
        documents = store.get_all(tx, call.tenant, list(depths))
        more = paging.encode(["tree", start + len(page), page[-1][0]]) if start + len(page) < len(order) else None
        return results.Listed(documents=views.summaries(tx, call.tenant, documents, depths), next_cursor=more)

    async def _read(self, call: Call, work: Callable[[Tx], T]) -> T:
        return await self._deleting.read(call, work, self._timeout)


def need(tx: Tx, tenant: str, id: str, deleted: bool = False) -> Document:
    document = store.get(tx, tenant, id)
    if document is None or (document.deleted and not deleted):
        raise UnknownDocument(document_id=id)
    return document


def _revision(tx: Tx, tenant: str, id: str, number: int) -> Revision:
    found = store.revision(tx, tenant, id, number)
    if found is None:
        raise UnknownRevision(document_id=id, revision=number)
    return found


def _as_of(document: Document, old: Revision) -> Document:
    """What it said then, where it stands now."""
    return Document(
        document.id,
        document.parent,
        document.place,
        old.revision,
        document.created_at,
        old.made_at,
        document.deleted_at,
        document.deletion,
        old.saying,
    )


def _walk(shape: dict[str, list[str]], top: str) -> Iterator[tuple[str, int]]:
    """All below, each parent before its children, with their depth."""
    waiting = [(id, 1) for id in reversed(shape.get(top, ()))]
    while waiting:
        id, depth = waiting.pop()
        yield id, depth
        waiting += [(child, depth + 1) for child in reversed(shape.get(id, ()))]


def _entry(one: Entry) -> results.Entry:
    return results.Entry(
        at=iso(one.at),
        action=one.action,
        actor=one.actor,
        document_id=one.document,
        reason=one.reason,
        before_revision=one.before_revision,
        after_revision=one.after_revision,
        request_id=one.request_id,
        details=one.details,
    )


def _after(tx: Tx, tenant: str, params: model.ListDocuments) -> tuple[Value, str] | None:
    """What the last page ended with: by what it was ordered, and its id."""
    found = paging.place(params.cursor, str, str if params.sort == "title" else int, str, int)
    if found is None:
        return None
    sort, by, id, changed = found
    if sort != params.sort:
        raise paging.foreign()
    if sort == "order":
        # Siblings that are spread out get other places, in the same order. One that was moved has changed.
        last = store.get(tx, tenant, id)
        if last is not None and (last.parent, last.updated_at) == (params.parent_id, changed):
            return last.place, id
    return by, id


def _place(cursor: str | None, order: list[str]) -> int:
    """Behind the document that the last page ended with; where that has gone, as many further on."""
    found = paging.place(cursor, str, int, str)
    if found is None:
        return 0
    sort, count, id = found
    if sort != "tree":
        raise paging.foreign()
    return order.index(id) + 1 if id in order else max(0, min(count, len(order)))
