"""The rules of what documents say: nothing is overwritten unseen, and what was said before is kept."""

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from kho.documents import filing, model, patching, store, tree
from kho.documents.changing import (
    Overtaken,
    body_of,
    changed,
    deed_of,
    need,
    need_parent,
    need_revision,
    until_it_holds,
)
from kho.documents.errors import IdOfDeleted, IdTaken, NotOnce, UnknownRevision
from kho.documents.model import ROOT
from kho.documents.placing import Placing
from kho.documents.results import Changed
from kho.documents.store import Document, Revision, Saying
from kho.documents.trail import Deed, log, tell
from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.kernel.ports import Tx


class Service(Placing):
    """All that changes documents: beside their places in the tree, what they say."""

    async def create(self, params: model.CreateDocument, call: Call) -> Changed:
        id, parent, content = params.document_id or str(uuid.uuid4()), params.parent_id, params.content
        if id == ROOT:
            raise InvalidParams("'root' is the top of the tree and cannot be a document.", field="document_id")
        now = self._clock()
        created = now if params.created_at is None else params.created_at
        saying = Saying(1, content.mime_type, params.metadata, params.is_human_readable)
        entry = await filing.prepared(call.tenant, id, parent, created, saying, content.body)
        deed = deed_of("create_document", call, now)

        def work(tx: Tx) -> Changed:
            need_parent(tx, call.tenant, parent, 1, "parent_id")
            place = tree.last_place(tx, call.tenant, parent)
            made = Document(id, parent, place, 1, created, now, None, None, saying)
            if not store.insert(tx, call.tenant, made):
                there = store.get(tx, call.tenant, id)
                raise (IdOfDeleted if there and there.deleted else IdTaken)(document_id=id)
            revision = Revision(1, saying, deed.action, deed.actor, now)
            store.add_revision(tx, call.tenant, id, revision, content.body)
            self._index.put(tx, [entry])
            log(tx, call.tenant, deed, [(id, None, 1)])
            tell(tx, call.tenant, deed, id, {"revision": 1, "parent_id": parent})
            return changed(made, "created")

        return await self._shape(call, work)

    async def update(self, params: model.UpdateDocument, call: Call) -> Changed:
        patching.check(params.patch, params.update_mask)

        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            body = body_of(tx, call.tenant, now)
            try:
                return patching.patched(now.saying, params.patch, params.update_mask, body)
            except PydanticCustomError as problem:
                raise InvalidParams(f"'patch.content': {problem.message()}", field="patch.content") from None

        deed = deed_of("update_document", call, self._clock())
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply)

    async def edit(self, params: model.EditDocument, call: Call) -> Changed:
        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            body = body_of(tx, call.tenant, now)
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

        deed = deed_of("edit_document", call, self._clock())
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply)

    async def restore_revision(self, params: model.RestoreRevision, call: Call) -> Changed:
        def apply(tx: Tx, now: Document) -> tuple[Saying, str | None]:
            wanted = store.revision(tx, call.tenant, now.id, params.revision)
            if wanted is None:
                raise UnknownRevision(document_id=now.id, revision=params.revision)
            return wanted.saying, None

        deed = deed_of("restore_revision", call, self._clock())
        details = {"restored_revision": params.revision}
        return await self._revise(params.document_id, params.last_known_revision, call, deed, apply, details)

    async def _revise(
        self,
        id: str,
        known: int | None,
        call: Call,
        deed: Deed,
        apply: Callable[[Tx, Document], tuple[Saying, str | None]],
        details: dict[str, Any] | None = None,
    ) -> Changed:
        """A new revision of what `apply` makes of the document: what it says, and its body where that is another.

        Where it says the same as before there is no new revision, and nobody is told: others who hold the revision that
        there is would be refused for nothing.
        """

        def look(tx: Tx, before: Document) -> tuple[Saying, str | None, str]:
            need_revision(before, known)
            saying, new = apply(tx, before)
            now = body_of(tx, call.tenant, before)
            body = store.body(tx, call.tenant, id, saying.body_of) if new is None else new
            if body == now:
                saying, new = replace(saying, body_of=before.saying.body_of), None
            return saying, new, body

        def as_seen(tx: Tx, seen: Document) -> Document:
            self._deleting.carry_out(tx, call.tenant)
            store.lock(tx, call.tenant, id)
            before = need(tx, call.tenant, id)
            need_revision(before, known)
            if (before.revision, before.parent) != (seen.revision, seen.parent):
                raise Overtaken
            return before

        async def attempt() -> Changed:
            seen, (saying, new, body) = await self._look(call, id, look)
            if new is None and saying.is_as(seen.saying):
                return await call.commit(self._db, lambda tx: changed(as_seen(tx, seen), "unchanged"))
            number = seen.revision + 1
            if new is not None:
                saying = replace(saying, body_of=number)
            entry = await filing.prepared(call.tenant, id, seen.parent, seen.created_at, saying, body)

            def work(tx: Tx) -> Changed:
                before = as_seen(tx, seen)
                store.add_revision(tx, call.tenant, id, Revision(number, saying, deed.action, deed.actor, deed.at), new)
                store.set_revision(tx, call.tenant, id, number, deed.at)
                # Passages that are the same keep their vectors, whatever label they get.
                self._index.put(tx, [entry], anew=saying.title != before.saying.title)
                log(tx, call.tenant, deed, [(id, before.revision, number)], details)
                tell(tx, call.tenant, deed, id, {"revision": number, "parent_id": before.parent})
                after = replace(before, revision=number, updated_at=deed.at, saying=saying)
                return changed(after, "updated")

            return await self._commit(call, work)

        return await until_it_holds(attempt)


def _occurrences(body: str, text: str) -> int:
    """Also those that overlap, of which there are two or more."""
    times = body.count(text)
    return 2 if times == 1 and body.find(text, body.find(text) + 1) >= 0 else times
