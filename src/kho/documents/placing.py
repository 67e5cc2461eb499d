"""The rules of the tree: no circle in it, no deletion that cannot be undone."""

from dataclasses import replace

from kho.documents import filing, model, store, tree
from kho.documents.changing import (
    Changing,
    Overtaken,
    body_of,
    changed,
    deed_of,
    known,
    need,
    need_parent,
    until_it_holds,
)
from kho.documents.deleting import due_above
from kho.documents.errors import BelowDeleted, Cycle, NotDeleted
from kho.documents.results import Changed
from kho.documents.store import Document
from kho.documents.trail import log, tell
from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Tx
from kho.lib.clock import iso


class Placing(Changing):
    """Moving, deleting and bringing back."""

    async def move(self, params: model.MoveDocument, call: Call) -> Changed:
        id, parent, now = params.document_id, params.new_parent_id, self._clock()
        position = params.position or model.Position()
        deed = deed_of("move_document", call, now)

        async def attempt() -> Changed:
            seen, body = await self._look(call, id, lambda tx, document: body_of(tx, call.tenant, document))
            entry = await filing.prepared(call.tenant, id, parent, seen.created_at, seen.saying, body)

            def work(tx: Tx) -> Changed:
                store.lock(tx, call.tenant, id)
                before = need(tx, call.tenant, id)
                if id == parent or id in tree.above(tx, call.tenant, parent):
                    raise Cycle(document_id=id, new_parent_id=parent)
                levels = tree.below(tx, call.tenant, id)[-1][1] + 1
                need_parent(tx, call.tenant, parent, levels, "new_parent_id")
                place = _place(tx, call.tenant, parent, position, id)
                tree.put(tx, call.tenant, id, parent, place, now)
                if parent != before.parent:
                    if before.revision != seen.revision:
                        raise Overtaken
                    self._index.put(tx, [entry], moved_from=before.parent)
                details = {"from_parent_id": before.parent, "to_parent_id": parent}
                log(tx, call.tenant, deed, [(id, before.revision, before.revision)], details)
                tell(tx, call.tenant, deed, id, {"revision": before.revision, **details})
                after = replace(before, parent=parent, place=place, updated_at=now)
                return changed(after, "moved", ordering=tree.ordering(tx, call.tenant, after))

            return await self._shape(call, work)

        return await until_it_holds(attempt)

    async def delete(self, params: model.DeleteDocument, call: Call) -> Changed:
        id, now = params.document_id, self._clock()
        at = now if params.delete_at is None else params.delete_at
        deed = replace(deed_of("delete_document", call, now), reason=params.reason)
        by = params.deleted_by or call.principal.sub

        def work(tx: Tx) -> Changed:
            store.lock(tx, call.tenant, id)
            document = need(tx, call.tenant, id)
            if at > now:
                self._deleting.later(tx, call.tenant, document, deed, by, at)
                return changed(document, "scheduled", delete_at=iso(at))
            gone = self._deleting.now(tx, call.tenant, document, deed, by, at)
            return changed(replace(document, deleted_at=at), "deleted", affected=gone)

        return await self._shape(call, work)

    async def restore(self, params: model.RestoreDocument, call: Call) -> Changed:
        id = params.document_id
        deed = replace(deed_of("restore_document", call, self._clock()), reason=params.reason)

        async def attempt() -> Changed:
            lost = await self._deleting.read(call, lambda tx: _went_together(tx, call.tenant, id), self._timeout)
            entries = [
                await filing.prepared(call.tenant, one.id, one.parent, one.created_at, one.saying, body)
                for one, body in lost
            ]
            ids = [one.id for one, _ in lost]
            deletion = lost[0][0].deletion if lost else None

            def work(tx: Tx) -> Changed:
                document = known(tx, call.tenant, id)
                if not document.deleted:
                    if not self._deleting.not_after_all(tx, call.tenant, document, deed):
                        raise _not_deleted(tx, call.tenant, id)
                    return changed(document, "restored", affected=0)
                _need_parent_back(tx, call.tenant, document)
                if document.deletion != deletion:
                    raise Overtaken
                tree.mark_restored(tx, call.tenant, ids)
                self._index.put(tx, entries)
                back = [(one.id, one.revision, one.revision) for one, _ in lost]
                log(tx, call.tenant, deed, back, {"restored_with": id})
                tell(tx, call.tenant, deed, id, {"revision": document.revision, "document_ids": ids})
                restored = replace(document, deleted_at=None, deletion=None)
                return changed(restored, "restored", affected=len(ids))

            return await self._shape(call, work)

        return await until_it_holds(attempt)


def _not_deleted(tx: Tx, tenant: str, id: str) -> NotDeleted:
    """A document that is to go with one above it shows a time, too, and that one's is the one to call off."""
    due = due_above(tx, tenant, id)
    if due is None:
        return NotDeleted(document_id=id)
    above, at = due
    return NotDeleted(
        document_id=id,
        guidance=f"It stands below '{above}' and will be deleted with it at {iso(at)}. "
        f'To call that off: restore_document(document_id="{above}").',
    )


def _need_parent_back(tx: Tx, tenant: str, document: Document) -> None:
    """What is above a document comes back before it."""
    above = store.get_all(tx, tenant, tree.above(tx, tenant, document.id))
    deleted = [one.id for one in above if one.deleted]
    if deleted:
        raise BelowDeleted(
            document_id=document.id,
            guidance=f"Restore '{deleted[-1]}' first: what was deleted together with it comes back with it.",
        )


def _place(tx: Tx, tenant: str, parent: str, position: model.Position, moved: str) -> int:
    if position.before is not None:
        sibling = store.get(tx, tenant, position.before)
        if sibling is None or sibling.deleted or sibling.parent != parent or sibling.id == moved:
            raise InvalidParams(
                "'position.before' must be another document directly below the new parent.", field="position.before"
            )
        return tree.place_before(tx, tenant, parent, sibling.id, moved)
    if position.ordering is not None:
        return tree.place_at(tx, tenant, parent, position.ordering, moved)
    return tree.last_place(tx, tenant, parent)


def _went_together(tx: Tx, tenant: str, id: str) -> list[tuple[Document, str]]:
    """A deleted document and what was deleted with it, with their bodies."""
    document = known(tx, tenant, id)
    if not document.deleted:
        return []
    ids = [one for one, _ in tree.below(tx, tenant, id, deletion=document.deletion)]
    return [(one, body_of(tx, tenant, one)) for one in store.get_all(tx, tenant, ids)]
