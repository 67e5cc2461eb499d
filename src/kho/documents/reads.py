"""Reading documents: as they are, as they were, and who did what to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from typing import Any

import orjson

from kho.documents import events, markdown, model, results, store, tree
from kho.documents.contract import DELETED, DOCUMENTS, ID
from kho.documents.deletion import CurrentReads, due_at
from kho.documents.errors import UnknownDocument, UnknownRevision
from kho.documents.store import Document, DocumentVersion, Revision, body_of, known
from kho.kernel import audit, paging
from kho.kernel.audit import AuditEntry
from kho.kernel.call import Call
from kho.kernel.command import Command
from kho.kernel.ports import Tx, Value

NEWEST = 2**62


@dataclass(slots=True, kw_only=True)
class Reads:
    reads: CurrentReads

    @DOCUMENTS.read(
        "get_document",
        cli=Command("docs get", ("document_id",), names=DELETED),
        example=ID,
        text=markdown.document,
    )
    async def get(self, params: model.GetDocument, call: Call) -> results.Document:
        """Read a document, as it is or as it was at a revision."""

        def work(tx: Tx) -> results.Document:
            document = known(tx, call.tenant, params.document_id)
            if document.deleted and not params.include_deleted:
                raise UnknownDocument(document_id=document.id)
            if params.revision is not None:
                old = _revision(tx, call.tenant, document.id, params.revision)
                document = replace(document, revision=old.revision, updated_at=old.made_at, version=old.version)
            return _whole(tx, call.tenant, [document])[0]

        return await self.reads.read(call, work)

    @DOCUMENTS.read(
        "get_documents",
        cli=Command("docs get-many", ("document_ids",), names=DELETED),
        example={"document_ids": ["doc-onboarding"]},
        text=markdown.documents,
    )
    async def get_many(self, params: model.GetDocuments, call: Call) -> results.Documents:
        """Read up to 50 documents at once."""

        def work(tx: Tx) -> results.Documents:
            wanted = list(dict.fromkeys(params.document_ids))
            found = [one for one in store.get_all(tx, call.tenant, wanted) if params.include_deleted or not one.deleted]
            ids = {one.id for one in found}
            return results.Documents(
                documents=_whole(tx, call.tenant, found), missing=[id for id in wanted if id not in ids]
            )

        return await self.reads.read(call, work)

    @DOCUMENTS.read(
        "list_documents",
        cli=Command("docs list", ("parent_id",), names={"parent_id": "parent", **DELETED}),
        example={"parent_id": "root", "recursive": True},
        text=markdown.listed,
    )
    async def list(self, params: model.ListDocuments, call: Call) -> results.Listed:
        """The children of a document, or all that is below it."""

        def work(tx: Tx) -> results.Listed:
            store.need_parent(tx, call.tenant, params.parent_id, "parent_id", deleted=params.include_deleted)
            return (_below if params.recursive else _children)(tx, params, call.tenant)

        return await self.reads.read(call, work)

    @DOCUMENTS.read(
        "document_history", cli=Command("docs history", ("document_id",)), example=ID, text=markdown.history
    )
    async def history(self, params: model.DocumentHistory, call: Call) -> results.History:
        """The revisions of a document, the newest first."""
        [before] = paging.place(params.cursor, int) or (NEWEST,)

        def work(tx: Tx) -> Sequence[Revision]:
            known(tx, call.tenant, params.document_id)
            return store.history(tx, call.tenant, params.document_id, before, params.limit + 1)

        found = await self.reads.read(call, work)
        page, cursor = paging.cut(found, params.limit, lambda one: [one.revision])
        revisions = [_shown(one, previous) for one, previous in zip(page, [*found[1:], None], strict=False)]
        return results.History(document_id=params.document_id, revisions=revisions, next_cursor=cursor)

    @DOCUMENTS.read(
        "diff_revisions",
        cli=Command(
            "docs diff",
            ("document_id", "from_revision", "to_revision"),
            names={"from_revision": "from", "to_revision": "to"},
        ),
        example={**ID, "from_revision": 1},
        text=markdown.difference,
    )
    async def diff(self, params: model.DiffRevisions, call: Call) -> results.Difference:
        """What changed between two revisions of a document."""

        def work(tx: Tx) -> tuple[Revision, Revision, str, str]:
            document = known(tx, call.tenant, params.document_id)
            old = _revision(tx, call.tenant, document.id, params.from_revision)
            new = _revision(tx, call.tenant, document.id, params.to_revision or document.revision)
            before, after = (store.body(tx, call.tenant, document.id, one.version.body_of) for one in (old, new))
            return old, new, before, after

        return _difference(params.document_id, *await self.reads.read(call, work))

    @DOCUMENTS.read("audit_log", cli=Command("docs audit", ("document_id",)), example={"limit": 20}, text=markdown.log)
    async def audit(self, params: model.AuditLog, call: Call) -> results.Log:
        """Who did what to which document, when and why; the newest first."""
        before = paging.place(params.cursor, int, str) or audit.NEWEST

        def work(tx: Tx) -> Sequence[AuditEntry]:
            return audit.entries(
                tx,
                call.tenant,
                limit=params.limit + 1,
                before=before,
                capabilities=["documents"],
                operations=events.OPERATIONS if params.action is None else [params.action],
                subject=params.document_id,
                actor=params.actor,
                since=params.since,
                until=params.until,
                outcome="done",
            )

        page, cursor = paging.cut(await self.reads.read(call, work), params.limit, lambda one: one.position)
        return results.Log(entries=[_entry(one) for one in page], next_cursor=cursor)


def _children(tx: Tx, params: model.ListDocuments, tenant: str) -> results.Listed:
    after = _after(tx, tenant, params)
    found = tree.page(tx, tenant, params.parent_id, params.sort, params.include_deleted, after, params.limit + 1)
    page, cursor = paging.cut(found, params.limit, lambda one: [params.sort, one[1], one[0].id, one[0].updated_at])
    documents = [one for one, _ in page]
    depths = {one.id: 1 for one in documents}
    return results.Listed(documents=_summaries(tx, tenant, documents, depths), next_cursor=cursor)


def _below(tx: Tx, params: model.ListDocuments, tenant: str) -> results.Listed:
    order = list(_walk(tree.shape(tx, tenant, params.parent_id, params.include_deleted), params.parent_id))
    start = _start(params.cursor, [id for id, _ in order])
    page = order[start : start + params.limit]
    depths = dict(page)
    documents = store.get_all(tx, tenant, list(depths))
    more = paging.encode(["tree", start + len(page), page[-1][0]]) if start + len(page) < len(order) else None
    return results.Listed(documents=_summaries(tx, tenant, documents, depths), next_cursor=more)


def _revision(tx: Tx, tenant: str, id: str, number: int) -> Revision:
    found = store.revision(tx, tenant, id, number)
    if found is None:
        raise UnknownRevision(document_id=id, revision=number)
    return found


def _walk(shape: dict[str, list[str]], top: str) -> Iterator[tuple[str, int]]:
    """All below, each parent before its children, with their depth."""
    waiting = [(id, 1) for id in reversed(shape.get(top, ()))]
    while waiting:
        id, depth = waiting.pop()
        yield id, depth
        waiting += [(child, depth + 1) for child in reversed(shape.get(id, ()))]


def _after(tx: Tx, tenant: str, params: model.ListDocuments) -> tuple[Value, str] | None:
    """The end of the last page: its last sort key and id."""
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


def _start(cursor: str | None, order: list[str]) -> int:
    """Behind the document that the last page ended with; where that has gone, as many further on."""
    found = paging.place(cursor, str, int, str)
    if found is None:
        return 0
    sort, count, id = found
    if sort != "tree":
        raise paging.foreign()
    return order.index(id) + 1 if id in order else max(0, min(count, len(order)))


# -- as callers see them -----------------------------------------------------------------------------------------------


def _summaries(tx: Tx, tenant: str, documents: Sequence[Document], depths: Mapping[str, int]) -> list[results.Summary]:
    facts = _facts(tx, tenant, documents)
    return [results.Summary(**facts[one.id], depth=depths[one.id]) for one in documents]


def _whole(tx: Tx, tenant: str, documents: Sequence[Document]) -> list[results.Document]:
    facts = _facts(tx, tenant, documents)
    return [
        results.Document(
            **facts[one.id],
            content=results.Content(mime_type=one.version.mime_type, body=body_of(tx, tenant, one)),
            path=tree.above(tx, tenant, one.id)[::-1],
        )
        for one in documents
    ]


def _facts(tx: Tx, tenant: str, documents: Sequence[Document]) -> dict[str, dict[str, Any]]:
    if not documents:
        return {}
    orderings = tree.orderings(tx, tenant, documents)
    children = tree.children(tx, tenant, [one.id for one in documents])
    due = due_at(tx, tenant, [one.id for one in documents if not one.deleted])
    return {
        one.id: {
            "document_id": one.id,
            "parent_id": one.parent,
            "ordering": orderings.get(one.id),
            "revision": one.revision,
            **_version(one.version),
            "children": children.get(one.id, 0),
            "created_at": one.created_at,
            "updated_at": one.updated_at,
            "deleted": one.deleted,
            "deleted_at": one.deleted_at,
            "delete_at": due.get(one.id),
        }
        for one in documents
    }


def _version(version: DocumentVersion) -> dict[str, Any]:
    return {name: getattr(version, name) for name in ("mime_type", "metadata", "is_human_readable")}


def _shown(one: Revision, previous: Revision | None) -> results.Revision:
    """`previous` is the revision that it followed: none before the first."""
    made = {name: getattr(one, name) for name in ("revision", "change", "made_by", "made_at")}
    changed = previous is None or one.version.body_of != previous.version.body_of
    return results.Revision(**made, **_version(one.version), body_changed=changed)


def _entry(one: AuditEntry) -> results.Entry:
    details = dict(one.details)
    numbers = {name: details.pop(name, None) for name in ("before_revision", "after_revision")}
    return results.Entry.model_validate(
        {
            "at": one.at,
            "action": one.operation,
            "actor": one.actor,
            "document_id": one.subject,
            "reason": one.reason,
            "request_id": one.request_id,
            **numbers,
            "details": details,
        }
    )


def _difference(id: str, old: Revision, new: Revision, before: str, after: str) -> results.Difference:
    was, now = old.version, new.version
    keys = [key for key in {**was.metadata, **now.metadata} if _json(was, key) != _json(now, key)]
    changed = {
        name: {"from": getattr(was, name), "to": getattr(now, name)}
        for name in ("mime_type", "is_human_readable")
        if getattr(was, name) != getattr(now, name)
    }
    return results.Difference(
        document_id=id,
        from_revision=old.revision,
        to_revision=new.revision,
        body=_diff(before, after, old.revision, new.revision),
        metadata={key: {"from": was.metadata.get(key), "to": now.metadata.get(key)} for key in keys},
        **changed,
    )


def _json(version: DocumentVersion, key: str) -> bytes:
    """To Python 1, 1.0 and True are equal; in JSON they are not."""
    return orjson.dumps(version.metadata.get(key), option=orjson.OPT_SORT_KEYS)


def _diff(before: str, after: str, old: int, new: int) -> str:
    marked = before.endswith("\n") != after.endswith("\n")
    lines = unified_diff(
        _lines(before, marked), _lines(after, marked), f"revision {old}", f"revision {new}", lineterm="", n=3
    )
    return "\n".join(lines)


def _lines(body: str, marked: bool) -> list[str]:
    """Split where `diff` and `git` split, and `marked` as they do where only one of two bodies ends its last line."""
    *lines, last = body.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file" if marked else last] if last else lines
