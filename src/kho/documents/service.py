"""The rules of changing documents: no update is lost, no circle in the tree, no deletion that cannot be undone.

What is costly (cutting a body into passages and folding them) is done on a look at the document, before the transaction
that all writers wait for. If the document has changed until then, it is looked at again.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kho.documents import filing, model, patching, store, tree
from kho.documents.deleting import Deleting
from kho.documents.errors import (
    BelowDeleted,
    Cycle,
    Deleted,
    IdTaken,
    NotDeleted,
    NotOnce,
    Stale,
    TooDeep,
    UnknownDocument,
    UnknownParent,
    UnknownRevision,
)
from kho.documents.model import ROOT
from kho.documents.results import Changed
from kho.documents.store import Document, Revision, Saying
from kho.documents.trail import Deed, log, tell
from kho.kernel.call import Call
from kho.kernel.clock import Clock, iso
from kho.kernel.errors import Conflict, InvalidParams
from kho.kernel.ports import Database, Tx
from kho.search.index import Index

T = TypeVar("T")

LOOKS = 20
"""How often a document that keeps changing is looked at again."""


class Overtaken(Exception):
    """Somebody else changed it between the look and the write."""


class Service:
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

    async def create(self, params: model.CreateDocument, call: Call) -> Changed:
        id, parent, content = params.document_id or str(uuid.uuid4()), params.parent_id, params.content
        if id == ROOT:
            raise InvalidParams("'root' is the top of the tree and cannot be a document.", field="document_id")
        now = self._clock()
        created = now if params.created_at is None else params.created_at
        saying = Saying(1, content.mime_type, params.metadata, params.is_human_readable)
        entry = await filing.prepared(call.tenant, id, parent, created, saying, content.body)
        deed = _deed("create_document", call, now)

        def work(tx: Tx) -> Changed:
            _need_parent(tx, call.tenant, parent, 1, "parent_id")
            place = tree.last_place(tx, call.tenant, parent)
            made = Document(id, parent, place, 1, created, now, None, None, saying)
            if not store.insert(tx, call.tenant, made):
                raise IdTaken(document_id=id)
            revision = Revision(1, saying, deed.action, deed.actor, now)
            store.add_revision(tx, call.tenant, id, revision, content.body)
            self._index.put(tx, [entry])
            log(tx, call.tenant, deed, [(id, None, 1)])
            tell(tx, call.tenant, deed, id, {"revision": 1, "parent_id": parent})
            return _changed(made, "created")

        return await self._shape(call, work)

    async def update(self, params: model.UpdateDocument, call: Call) -> Changed:
        patching.check(params.patch, params.update_mask)

        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            body = store.body(tx, call.tenant, now.id, now.saying.body_of)
            try:
                return patching.patched(now.saying, params.patch, params.update_mask, body)
            except PydanticCustomError as problem:
                raise InvalidParams(f"'patch.content': {problem.message()}", field="patch.content") from None

        deed = _deed("update_document", call, self._clock())
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply)

    async def edit(self, params: model.EditDocument, call: Call) -> Changed:
        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            body = store.body(tx, call.tenant, now.id, now.saying.body_of)
            times = _occurrences(body, params.old_text)
            if times != 1:
                found = f"occurs {times} times in the document" if times else "does not occur in the document"
                raise NotOnce(
                    f"'old_text' {found}; it must occur exactly once. Nothing was changed.",
                    field="old_text",
                    occurrences=times,
                    guidance="Copy the text as it stands in the document, with enough around it to occur only once.",
                )
            edited = body.replace(params.old_text, params.new_text)
            try:
                model.Content.model_validate({"mime_type": now.saying.mime_type, "body": edited})
            except ValidationError as failure:
                raise InvalidParams(f"'new_text': then the {failure.errors()[0]['msg']}", field="new_text") from None
            return now.saying, edited

        deed = _deed("edit_document", call, self._clock())
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply)

    async def restore_revision(self, params: model.RestoreRevision, call: Call) -> Changed:
        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            wanted = store.revision(tx, call.tenant, now.id, params.revision)
            if wanted is None:
                raise UnknownRevision(document_id=now.id, revision=params.revision)
            return wanted.saying, None

        deed = _deed("restore_revision", call, self._clock())
        details = {"restored_revision": params.revision}
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply, details)

    async def move(self, params: model.MoveDocument, call: Call) -> Changed:
        id, parent, now = params.document_id, params.new_parent_id, self._clock()
        position = params.position or model.Position()
        deed = _deed("move_document", call, now)

        async def attempt() -> Changed:
            seen, body = await self._look(call, id, lambda tx, document: _body(tx, call.tenant, document))
            entry = await filing.prepared(call.tenant, id, parent, seen.created_at, seen.saying, body)

            def work(tx: Tx) -> Changed:
                store.lock(tx, call.tenant, id)
                before = _need(tx, call.tenant, id)
                if id == parent or id in tree.above(tx, call.tenant, parent):
                    raise Cycle(document_id=id, new_parent_id=parent)
                levels = tree.below(tx, call.tenant, id)[-1][1] + 1
                _need_parent(tx, call.tenant, parent, levels, "new_parent_id")
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
                return _changed(after, "moved", ordering=tree.ordering(tx, call.tenant, after))

            return await self._shape(call, work)

        return await _until_it_holds(attempt)

    async def delete(self, params: model.DeleteDocument, call: Call) -> Changed:
        id, now = params.document_id, self._clock()
        at = now if params.delete_at is None else params.delete_at
        deed = replace(_deed("delete_document", call, now), reason=params.reason)
        by = params.deleted_by or call.principal.sub

        def work(tx: Tx) -> Changed:
            store.lock(tx, call.tenant, id)
            document = _need(tx, call.tenant, id)
            if at > now:
                self._deleting.later(tx, call.tenant, document, deed, by, at)
                return _changed(document, "scheduled", delete_at=iso(at))
            gone = self._deleting.now(tx, call.tenant, document, deed, by, at)
            return _changed(replace(document, deleted_at=at), "deleted", affected=gone)

        return await self._shape(call, work)

    async def restore(self, params: model.RestoreDocument, call: Call) -> Changed:
        id = params.document_id
        deed = replace(_deed("restore_document", call, self._clock()), reason=params.reason)

        async def attempt() -> Changed:
            lost = await self._deleting.read(call, lambda tx: _went_together(tx, call.tenant, id), self._timeout)
            entries = [
                await filing.prepared(call.tenant, one.id, one.parent, one.created_at, one.saying, body)
                for one, body in lost
            ]
            ids = [one.id for one, _ in lost]
            deletion = lost[0][0].deletion if lost else None

            def work(tx: Tx) -> Changed:
                document = _known(tx, call.tenant, id)
                if not document.deleted:
                    if not self._deleting.not_after_all(tx, call.tenant, document, deed):
                        raise NotDeleted(document_id=id)
                    return _changed(document, "restored", affected=0)
                _need_parent_back(tx, call.tenant, document)
                if document.deletion != deletion:
                    raise Overtaken
                tree.mark_restored(tx, call.tenant, ids)
                self._index.put(tx, entries)
                back = [(one.id, one.revision, one.revision) for one, _ in lost]
                log(tx, call.tenant, deed, back, {"restored_with": id})
                tell(tx, call.tenant, deed, id, {"revision": document.revision, "document_ids": ids})
                restored = replace(document, deleted_at=None, deletion=None)
                return _changed(restored, "restored", affected=len(ids))

            return await self._shape(call, work)

        return await _until_it_holds(attempt)

    async def _revise(
        self,
        id: str,
        known: int | None,
        call: Call,
        deed: Deed,
        apply: Callable[[Tx, Document], tuple[Saying, str | None]],
        details: dict[str, Any] | None = None,
    ) -> Changed:
        """A new revision of what `apply` makes of the document: what it says, and its body where that is another."""

        def look(tx: Tx, before: Document) -> tuple[Saying, str | None, str]:
            _need_revision(before, known)
            saying, new = apply(tx, before)
            return saying, new, store.body(tx, call.tenant, id, saying.body_of) if new is None else new

        async def attempt() -> Changed:
            seen, (saying, new, body) = await self._look(call, id, look)
            number = seen.revision + 1
            if new is not None:
                saying = replace(saying, body_of=number)
            entry = await filing.prepared(call.tenant, id, seen.parent, seen.created_at, saying, body)

            def work(tx: Tx) -> Changed:
                self._deleting.carry_out(tx, call.tenant)
                store.lock(tx, call.tenant, id)
                before = _need(tx, call.tenant, id)
                _need_revision(before, known)
                if (before.revision, before.parent) != (seen.revision, seen.parent):
                    raise Overtaken
                store.add_revision(tx, call.tenant, id, Revision(number, saying, deed.action, deed.actor, deed.at), new)
                store.set_revision(tx, call.tenant, id, number, deed.at)
                # Passages that are the same keep their vectors, whatever label they get.
                self._index.put(tx, [entry], anew=saying.title != before.saying.title)
                log(tx, call.tenant, deed, [(id, before.revision, number)], details)
                tell(tx, call.tenant, deed, id, {"revision": number, "parent_id": before.parent})
                after = replace(before, revision=number, updated_at=deed.at, saying=saying)
                return _changed(after, "updated")

            return await self._commit(call, work)

        return await _until_it_holds(attempt)

    async def _look(self, call: Call, id: str, work: Callable[[Tx, Document], T]) -> tuple[Document, T]:
        def look(tx: Tx) -> tuple[Document, T]:
            document = _need(tx, call.tenant, id)
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
        changed = await call.commit(self._db, work)
        self._on_event()
        return changed


async def _until_it_holds(attempt: Callable[[], Awaitable[Changed]]) -> Changed:
    for _ in range(LOOKS):
        try:
            return await attempt()
        except Overtaken:
            continue
    raise Conflict("Others keep changing this document. Nothing was changed; try again.")


def _deed(action: str, call: Call, now: int) -> Deed:
    return Deed(action, call.principal.sub, call.request_id, now)


def _known(tx: Tx, tenant: str, id: str) -> Document:
    document = store.get(tx, tenant, id)
    if document is None:
        raise UnknownDocument(document_id=id)
    return document


def _need(tx: Tx, tenant: str, id: str) -> Document:
    document = _known(tx, tenant, id)
    if document.deleted:
        raise Deleted(document_id=id)
    return document


def _need_revision(document: Document, known: int | None) -> None:
    if known is not None and known != document.revision:
        raise Stale(
            expected=known,
            actual=document.revision,
            document_id=document.id,
            metadata=document.saying.metadata,
            updated_at=iso(document.updated_at),
        )


def _need_parent(tx: Tx, tenant: str, id: str, levels: int, field: str) -> None:
    depth = 0
    if id != ROOT:
        parent = store.get(tx, tenant, id)
        if parent is None or parent.deleted:
            raise UnknownParent(field=field)
        depth = len(tree.above(tx, tenant, id)) + 1
    if depth + levels > tree.DEEPEST:
        raise TooDeep(f"A tree has at most {tree.DEEPEST} levels. Choose a parent nearer to the top.", field=field)


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


def _occurrences(body: str, text: str) -> int:
    """Also those that overlap, of which there are two or more."""
    times = body.count(text)
    return 2 if times == 1 and body.find(text, body.find(text) + 1) >= 0 else times


def _body(tx: Tx, tenant: str, document: Document) -> str:
    return store.body(tx, tenant, document.id, document.saying.body_of)


def _went_together(tx: Tx, tenant: str, id: str) -> list[tuple[Document, str]]:
    """A deleted document and what was deleted with it, with their bodies."""
    document = _known(tx, tenant, id)
    if not document.deleted:
        return []
    ids = [one for one, _ in tree.below(tx, tenant, id, deletion=document.deletion)]
    return [(one, _body(tx, tenant, one)) for one in store.get_all(tx, tenant, ids)]


def _changed(
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
