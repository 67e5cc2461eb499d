"""Documents, as `search`, `fetch` and `recent` show them."""

from collections.abc import Mapping, Sequence
from typing import Any

from kho.documents import KIND, store
from kho.documents.contract import DOCUMENTS
from kho.documents.deletion import CurrentReads, due_at
from kho.documents.store import SPACE, StoredDocument
from kho.kernel import Call, FoundPassage, Item, Searchable, SearchFilter, Tx, split_passage
from kho.lib.clock import Clock
from kho.search.indexing import passages


def searchable(reads: CurrentReads, clock: Clock) -> Searchable:
    def current(tx: Tx, tenant: str, documents: Sequence[StoredDocument]) -> list[StoredDocument]:
        """Without those that are deleted, or whose time has come though nobody has deleted them yet."""
        alive = [one for one in documents if not one.deleted]
        due, now = due_at(tx, tenant, [one.id for one in alive]), clock()
        return [one for one in alive if due.get(one.id, now + 1) > now]

    def described(tx: Tx, tenant: str, found: Sequence[FoundPassage]) -> list[Item | None]:
        ids = list(dict.fromkeys(one.key for one in found))
        documents = {one.id: one for one in current(tx, tenant, store.get_all(tx, tenant, ids))}
        return [
            _item(documents[one.key], "", passage=one.part, heading=one.heading) if one.key in documents else None
            for one in found
        ]

    async def fetch(call: Call, id: str) -> Item | None:
        whole, number = split_passage(id)

        def work(tx: Tx) -> Item | None:
            document = store.get(tx, call.tenant, whole)
            if document is None or document.deleted:
                return None
            if number is None:
                return _item(document, store.body_of(tx, call.tenant, document))
            part = passages.parts(tx, SPACE, call.tenant, document.parent, whole, {number}).get(number)
            return part and _item(document, part.text, id=id, passage=number, heading=part.heading)

        return await reads.read(call, work)

    def recent(tx: Tx, where: SearchFilter, limit: int) -> list[Item]:
        documents = current(tx, where.tenant, store.recent(tx, where.tenant, where.since or 0, limit))
        texts = passages.beginnings(tx, SPACE, where.tenant, [(one.parent, one.id) for one in documents])
        return [_item(one, texts.get((one.parent, one.id), "")) for one in documents]

    return Searchable(
        KIND,
        SPACE,
        DOCUMENTS.read_scope,
        described=described,
        fetch=fetch,
        recent=recent,
    )


def _item(document: StoredDocument, text: str, *, id: str | None = None, **more: Any) -> Item:
    known: Mapping[str, Any] = {
        "mime_type": document.version.mime_type,
        "parent_id": document.parent,
        "revision": document.revision,
        "tags": [*document.version.tags],
        **more,
    }
    return Item(id or document.id, document.version.title or document.id, document.updated_at, text, known)
