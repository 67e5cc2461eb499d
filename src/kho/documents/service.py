"""Write operations on documents. Rules: optimistic locking, every revision is kept, no cycles in the tree, and
deletions can be undone.

A document is read first and then changed in one transaction. Costly work (splitting a body into passages and preparing
them for the index) is done after that first read and before the transaction, because all writers wait for it. If the
document has changed by then, the operation starts again.
"""

import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kho.documents import errors, indexing, markdown, model, patch, store, tree
from kho.documents.contract import DOCUMENTS, ID
from kho.documents.deletion import CurrentReads, Deletions, ScheduledDeletion, due_above, further, same_revision
from kho.documents.events import emit
from kho.documents.model import PLAIN, ROOT, ChangedDocument
from kho.documents.store import DocumentVersion, Revision, StoredDocument, body_of, known, need
from kho.kernel import Call, Command, Conflict, Database, Hint, InvalidParams, Op, Tx
from kho.lib.clock import Clock, iso
from kho.lib.dataclass import dataclass
from kho.lib.sql import update
from kho.search.indexing.index import Index

T = TypeVar("T")
Apply = Callable[[Tx, StoredDocument], tuple[DocumentVersion, str | None]]
"""Makes a new version of a document, with the new body or None if it is unchanged."""

MAX_ATTEMPTS = 20
"""How often an operation is tried on a document that others keep changing."""
_LINE = "Ask for access on the first day."
_CONTENT = {"mime_type": "text/markdown", "body": f"# Onboarding\n\n{_LINE}"}
_METADATA = {"title": "Onboarding", "tags": ["ops"]}


class Overtaken(Exception):
    """The document was changed between the read and the write."""


def _nobody_waits() -> None:
    return None


@dataclass(slots=True, kw_only=True)
class DocumentService:
    """Operations that change documents."""

    db: Database
    index: Index
    clock: Clock
    deletions: Deletions
    reads: CurrentReads
    on_event: Callable[[], None] = _nobody_waits
    """Called when there may be an event for a webhook."""

    @DOCUMENTS.write(
        "create_document",
        toolset="default",
        explained=(),
        cli=Command(
            "docs create",
            ("document_id",),
            names={"parent_id": "parent", "metadata.tags": "tag", "is_human_readable": "human-readable"},
            from_file="content.body",
            example={**ID, "content": {"body": _LINE}, "metadata": _METADATA},
            group="Documents: a tree with revisions, an audit log and answered questions.",
        ),
        example={**ID, "parent_id": "root", "content": _CONTENT, "metadata": _METADATA},
        text=markdown.changed,
    )
    async def create(self, params: model.CreateDocument, call: Call) -> ChangedDocument:
        """Create a document in the tree.

        Write a document into the team's tree, below parent_id ('root' is the top). Without a document_id one is made.
        """
        id, parent, content = params.document_id or str(uuid.uuid4()), params.parent_id, params.content
        if id == ROOT:
            raise InvalidParams("'root' is the top of the tree and cannot be a document.", field="document_id")
        now = self.clock()
        created = now if params.created_at is None else params.created_at
        plain = {name: getattr(params, name) for name in PLAIN}
        version = DocumentVersion(1, content.mime_type, params.metadata, **plain)
        entry = await indexing.checked(self.index, call.tenant, id, parent, created, version, content.body)

        def work(tx: Tx) -> ChangedDocument:
            _need_room(tx, call.tenant, parent, 1, "parent_id")
            place = tree.last_place(tx, call.tenant, parent)
            document = StoredDocument(id, parent, place, 1, created, now, None, None, version)
            if not store.insert(tx, call.tenant, document):
                there = store.get(tx, call.tenant, id)
                raise (errors.IdOfDeleted if there and there.deleted else errors.IdTaken)(document_id=id)
            revision = Revision(1, "create_document", call.principal.sub, now, version)
            store.add_revision(tx, call.tenant, id, revision, content.body)
            self._count_body(tx, call, content.body)
            self.index.put(tx, [entry])
            change = call.audit(tx, id, at=now, operation="create_document", after_revision=1)
            emit(tx, change, revision=1, parent_id=parent)
            return _changed(document, "created")

        return await self._change_tree(call, work)

    @DOCUMENTS.write(
        "update_document",
        toolset="default",
        explained=(),
        cli=Command(
            "docs update",
            ("document_id",),
            names={
                "patch.metadata.tags": "tag",
                "patch.is_human_readable": "human-readable",
                "update_mask": "mask",
                "last_known_revision": "revision",
            },
            from_file="patch.content.body",
            masks=("patch", "update_mask"),
            example={**ID, "patch": {"content": {"body": _LINE}}, "last_known_revision": 1},
        ),
        example={**ID, "patch": {"metadata": {"title": "Onboarding (v2)"}}, "update_mask": ["metadata"]},
        text=markdown.changed,
    )
    async def update(self, params: model.UpdateDocument, call: Call) -> ChangedDocument:
        """Change what a document says; the revision before is kept.

        Change a document's content or metadata. Send last_known_revision: if somebody changed it meanwhile, the answer
        is CONFLICT and nothing is lost. To replace one passage, edit_document is simpler.
        """
        patch.check(params.patch, params.update_mask)

        def apply(tx: Tx, now: StoredDocument) -> tuple[DocumentVersion, str | None]:
            body = body_of(tx, call.tenant, now)
            try:
                return patch.patched(now.version, params.patch, params.update_mask, body)
            except PydanticCustomError as problem:
                raise InvalidParams(f"'patch.content': {problem.message()}", field="patch.content") from None

        return await self._revise("update_document", params, call, apply)

    @DOCUMENTS.destroy(
        "delete_document",
        toolset="default",
        explained=("delete_at",),
        cli=Command(
            "docs delete",
            ("document_id",),
            names={"delete_at": "at", "deleted_by": "by"},
            summary="Hide a document and all below it; 'docs restore' brings them back.",
        ),
        example={**ID, "reason": "retired"},
        text=markdown.changed,
    )
    async def delete(self, params: model.DeleteDocument, call: Call) -> ChangedDocument:
        """Hide a document and all below it; restore_document brings them back.

        Hide a document that is no longer wanted, with all below it; restore_document brings them back.
        """
        id, tenant, now = params.document_id, call.tenant, self.clock()
        at = now if params.delete_at is None else params.delete_at
        sub = call.principal.sub
        by = params.deleted_by or sub

        def work(tx: Tx) -> ChangedDocument:
            store.lock(tx, tenant, id)
            document = need(tx, tenant, id)
            if at > now:
                deletion = ScheduledDeletion(tenant, id, at, params.reason, by, sub)
                self.deletions.schedule(tx, document, call, deletion, now)
                return _changed(document, "scheduled", delete_at=iso(at))
            change = call.audit_event(id, at=now, operation="delete_document", reason=params.reason)
            gone = self.deletions.delete(tx, document, change, by, at)
            return _changed(replace(document, deleted_at=at), "deleted", affected=gone)

        return await self._change_tree(call, work)

    @DOCUMENTS.write(
        "move_document",
        toolset="default",
        explained=(),
        cli=Command("docs move", ("document_id", "new_parent_id"), names={"new_parent_id": "parent"}),
        example={**ID, "new_parent_id": "root", "position": {"ordering": 0}},
        text=markdown.changed,
    )
    async def move(self, params: model.MoveDocument, call: Call) -> ChangedDocument:
        """Move a document, with all below it, to another place in the tree.

        Put a document, with all below it, under another parent or at another place among its siblings.
        """
        id, parent, now = params.document_id, params.new_parent_id, self.clock()
        position = params.position or model.Position()

        async def attempt() -> ChangedDocument:
            seen, body = await self._look(call, id, lambda tx, document: body_of(tx, call.tenant, document))
            entry = await indexing.prepared(call.tenant, id, parent, seen.created_at, seen.version, body)

            def work(tx: Tx) -> ChangedDocument:
                store.lock(tx, call.tenant, id)
                before = need(tx, call.tenant, id)
                if id == parent or id in tree.above(tx, call.tenant, parent):
                    raise errors.Cycle(document_id=id, new_parent_id=parent)
                levels = tree.below(tx, call.tenant, id)[-1][1] + 1
                _need_room(tx, call.tenant, parent, levels, "new_parent_id")
                place = _place(tx, call.tenant, parent, position, id)
                tree.put(tx, call.tenant, id, parent, place, now)
                if parent != before.parent:
                    if before.revision != seen.revision:
                        raise Overtaken
                    self.index.put(tx, [entry], moved_from=before.parent)
                between: dict[str, Any] = {"from_parent_id": before.parent, "to_parent_id": parent}
                change = call.audit(tx, id, at=now, operation="move_document", **same_revision(before), **between)
                emit(tx, change, revision=before.revision, **between)
                after = replace(before, parent=parent, place=place, updated_at=now)
                return _changed(after, "moved", ordering=tree.ordering(tx, call.tenant, after))

            return await self._change_tree(call, work)

        return await _until_it_holds(attempt)

    @DOCUMENTS.write(
        "edit_document",
        cli=Command(
            "docs edit",
            ("document_id",),
            names={"old_text": "old", "new_text": "new", "last_known_revision": "revision"},
        ),
        example={**ID, "old_text": "on the first day", "new_text": "before the first day"},
        text=markdown.changed,
    )
    async def edit(self, params: model.EditDocument, call: Call) -> ChangedDocument:
        """Replace a text that occurs exactly once in a document.

        Use it for a small change: replaces old_text, which must occur exactly once in the body, by new_text. Send
        last_known_revision to be sure that nobody changed it meanwhile.
        """

        def apply(tx: Tx, now: StoredDocument) -> tuple[DocumentVersion, str | None]:
            body = body_of(tx, call.tenant, now)
            times = _occurrences(body, params.old_text)
            if times != 1:
                found = f"occurs {times} times in the document" if times else "does not occur in the document"
                raise errors.NotOnce(
                    f"'old_text' {found}; it must occur exactly once. Nothing was changed.",
                    field="old_text",
                    occurrences=times,
                    guidance="Copy the text as it stands in the document, with enough around it to occur only once.",
                )
            edited = body.replace(params.old_text, params.new_text)
            try:
                model.NewContent.model_validate({"mime_type": now.version.mime_type, "body": edited})
            except ValidationError as failure:
                raise InvalidParams(f"'new_text': then the {failure.errors()[0]['msg']}", field="new_text") from None
            return now.version, edited

        return await self._revise("edit_document", params, call, apply)

    @DOCUMENTS.write(
        "restore_document", cli=Command("docs restore", ("document_id",)), example=ID, text=markdown.changed
    )
    async def restore(self, params: model.RestoreDocument, call: Call) -> ChangedDocument:
        """Bring back a deleted document and what was deleted with it, or call off a deletion.

        Use it to bring back a deleted document and what was deleted with it, or to call off a scheduled deletion.
        """
        id, now = params.document_id, self.clock()

        async def attempt() -> ChangedDocument:
            lost = await self.reads.read(call, lambda tx: _deleted_together(tx, call.tenant, id))
            entries = [
                await indexing.prepared(call.tenant, one.id, one.parent, one.created_at, one.version, body)
                for one, body in lost
            ]
            documents = [document for document, _ in lost]
            ids = [document.id for document in documents]
            deletion = documents[0].deletion if documents else None

            def work(tx: Tx) -> ChangedDocument:
                document = known(tx, call.tenant, id)
                if not document.deleted:
                    if not self.deletions.cancel(tx, document, call, params.reason, now):
                        raise _not_deleted(tx, call.tenant, id)
                    return _changed(document, "restored", affected=0)
                _need_parent_back(tx, call.tenant, document)
                if document.deletion != deletion:
                    raise Overtaken
                tree.mark_restored(tx, call.tenant, ids)
                self.index.put(tx, entries)
                change = call.audit(
                    tx,
                    id,
                    at=now,
                    operation="restore_document",
                    reason=params.reason,
                    also=further(documents, id),
                    **same_revision(document),
                    restored_with=id,
                )
                emit(tx, change, revision=document.revision, document_ids=ids)
                restored = replace(document, deleted_at=None, deletion=None)
                return _changed(restored, "restored", affected=len(ids))

            return await self._change_tree(call, work)

        return await _until_it_holds(attempt)

    @DOCUMENTS.write(
        "restore_revision",
        cli=Command("docs revert", ("document_id", "revision"), names={"last_known_revision": "known-revision"}),
        example={**ID, "revision": 1},
        text=markdown.changed,
    )
    async def restore_revision(self, params: model.RestoreRevision, call: Call) -> ChangedDocument:
        """Make what a document said at a revision its newest revision.

        Use it to undo changes: an earlier revision becomes the newest. Nothing in between is lost.
        """

        def apply(tx: Tx, now: StoredDocument) -> tuple[DocumentVersion, str | None]:
            wanted = store.revision(tx, call.tenant, now.id, params.revision)
            if wanted is None:
                raise errors.UnknownRevision(document_id=now.id, revision=params.revision)
            return wanted.version, None

        return await self._revise("restore_revision", params, call, apply, restored_revision=params.revision)

    async def _revise(
        self,
        operation: str,
        params: model.UpdateDocument | model.EditDocument | model.RestoreRevision,
        call: Call,
        apply: Apply,
        **details: Any,
    ) -> ChangedDocument:
        """Add the revision that `apply` makes of the document.

        If its content is unchanged, no revision and no event are added: other callers who hold the current revision
        would get a needless conflict.
        """
        id, last_known, now = params.document_id, params.last_known_revision, self.clock()

        def look(tx: Tx, before: StoredDocument) -> tuple[DocumentVersion, str | None, str]:
            _need_revision(before, last_known)
            version, new = apply(tx, before)
            body = store.body(tx, call.tenant, id, version.body_of) if new is None else new
            if body == body_of(tx, call.tenant, before):
                version, new = replace(version, body_of=before.version.body_of), None
            return version, new, body

        def as_seen(tx: Tx, seen: StoredDocument) -> StoredDocument:
            self.deletions.carry_out(tx, call.tenant)
            store.lock(tx, call.tenant, id)
            before = need(tx, call.tenant, id)
            _need_revision(before, last_known)
            if (before.revision, before.parent) != (seen.revision, seen.parent):
                raise Overtaken
            return before

        async def attempt() -> ChangedDocument:
            seen, (version, new, body) = await self._look(call, id, look)
            if new is None and version.equals(seen.version):
                return await call.commit(self.db, lambda tx: _changed(as_seen(tx, seen), "unchanged"))
            number = seen.revision + 1
            if new is not None:
                version = replace(version, body_of=number)
            prepared = indexing.prepared if new is None else partial(indexing.checked, self.index)
            entry = await prepared(call.tenant, id, seen.parent, seen.created_at, version, body)

            def work(tx: Tx) -> ChangedDocument:
                before = as_seen(tx, seen)
                revision = Revision(number, operation, call.principal.sub, now, version)
                store.add_revision(tx, call.tenant, id, revision, new)
                self._count_body(tx, call, new)
                update(tx, "documents", {"revision": number, "updated_at": now}, tenant=call.tenant, id=id)
                # Unchanged passages keep their vectors, whatever title they get.
                self.index.put(tx, [entry], anew=version.title != before.version.title)
                numbers = {"before_revision": before.revision, "after_revision": number}
                change = call.audit(tx, id, at=now, operation=operation, **numbers, **details)
                emit(tx, change, revision=number, parent_id=before.parent)
                return _changed(replace(before, revision=number, updated_at=now, version=version), "updated")

            return await self._commit(call, work)

        return await _until_it_holds(attempt)

    async def _look(self, call: Call, id: str, work: Callable[[Tx, StoredDocument], T]) -> tuple[StoredDocument, T]:
        def look(tx: Tx) -> tuple[StoredDocument, T]:
            document = need(tx, call.tenant, id)
            return document, work(tx, document)

        return await self.reads.read(call, look)

    def _count_body(self, tx: Tx, call: Call, body: str | None) -> None:
        """Count the body that a revision has stored. It stays when the next one replaces it."""
        if body is not None:
            self.index.count(tx, store.REVISIONS, call.tenant, len(body.encode()), by_key=call.shared)

    async def _change_tree(self, call: Call, work: Callable[[Tx], ChangedDocument]) -> ChangedDocument:
        """Commit a change of the tree's shape; these are serialised per tenant."""

        def alone(tx: Tx) -> ChangedDocument:
            tree.hold(tx, call.tenant)
            self.deletions.carry_out(tx, call.tenant)
            return work(tx)

        return await self._commit(call, alone)

    async def _commit(self, call: Call, work: Callable[[Tx], ChangedDocument]) -> ChangedDocument:
        done = await call.commit(self.db, work)
        self.on_event()
        return done


async def _until_it_holds(attempt: Callable[[], Awaitable[ChangedDocument]]) -> ChangedDocument:
    for _ in range(MAX_ATTEMPTS):
        try:
            return await attempt()
        except Overtaken:
            continue
    raise Conflict("Others keep changing this document. Nothing was changed; try again.")


def _changed(document: StoredDocument, status: str, **more: Any) -> ChangedDocument:
    return ChangedDocument(
        document_id=document.id,
        status=status,
        revision=document.revision,
        parent_id=document.parent,
        updated_at=iso(document.updated_at),
        deleted=document.deleted or None,
        **more,
    )


def _need_revision(document: StoredDocument, last_known: int | None) -> None:
    if last_known is not None and last_known != document.revision:
        raise errors.Stale(
            expected=last_known,
            actual=document.revision,
            document_id=document.id,
            metadata=document.version.metadata,
            updated_at=iso(document.updated_at),
        )


def _need_room(tx: Tx, tenant: str, parent: str, levels: int, field: str) -> None:
    """Raise unless the parent exists and the tree may have `levels` more levels below it."""
    store.need_parent(tx, tenant, parent, field)
    depth = 0 if parent == ROOT else len(tree.above(tx, tenant, parent)) + 1
    if depth + levels > tree.MAX_DEPTH:
        raise errors.TooDeep(
            f"A tree has at most {tree.MAX_DEPTH} levels. Choose a parent nearer to the top.", field=field
        )


def _not_deleted(tx: Tx, tenant: str, id: str) -> errors.NotDeleted:
    """Make the error for restoring a document that is not deleted. If one above it is scheduled for deletion, the hint
    names that one: its deletion is the one to cancel."""
    due = due_above(tx, tenant, id)
    if due is None:
        return errors.NotDeleted(document_id=id)
    above, at = due
    return errors.NotDeleted(
        document_id=id,
        guidance=Hint(
            f"It stands below '{above}' and will be deleted with it at {iso(at)}. To cancel that: ",
            Op("restore_document", document_id=above),
            ".",
        ),
    )


def _need_parent_back(tx: Tx, tenant: str, document: StoredDocument) -> None:
    """Raise unless all documents above are restored: parents come back before their children."""
    above = store.get_all(tx, tenant, tree.above(tx, tenant, document.id))
    deleted = [one.id for one in above if one.deleted]
    if deleted:
        raise errors.BelowDeleted(
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


def _deleted_together(tx: Tx, tenant: str, id: str) -> list[tuple[StoredDocument, str]]:
    """Return a deleted document and those deleted with it, with their bodies; empty if it is not deleted."""
    document = known(tx, tenant, id)
    if not document.deleted:
        return []
    ids = [one for one, _ in tree.below(tx, tenant, id, deletion=document.deletion)]
    return [(one, body_of(tx, tenant, one)) for one in store.get_all(tx, tenant, ids)]


def _occurrences(body: str, text: str) -> int:
    """Count occurrences; overlapping ones count as at least two."""
    times = body.count(text)
    return 2 if times == 1 and body.find(text, body.find(text) + 1) >= 0 else times
