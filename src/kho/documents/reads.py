"""Read operations: documents, lists, revisions, diffs and the audit trail."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import unified_diff
from typing import Any

from kho.documents import events, markdown, model, store, tree
from kho.documents.contract import DELETED, DOCUMENTS, ID
from kho.documents.deletion import CurrentReads, due_at
from kho.documents.errors import UnknownDocument, UnknownRevision
from kho.documents.model import PLAIN
from kho.documents.store import DocumentVersion, Revision, StoredDocument, body_of, known, sorted_json
from kho.kernel import AuditLogPage, Call, Command, Tx, paging
from kho.kernel.audit import log_page
from kho.kernel.ports import Value
from kho.lib.dataclass import dataclass

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
    async def get(self, params: model.GetDocument, call: Call) -> model.WholeDocument:
        """Read a document, as it is or as it was at a revision.

        Use it to read a whole document before you change or quote it, as it is or as it was at a revision.
        """

        def work(tx: Tx) -> model.WholeDocument:
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
    async def get_many(self, params: model.GetDocuments, call: Call) -> model.WholeDocuments:
        """Read up to 50 documents at once.

        Use it to read several documents in one call, up to 50.
        """

        def work(tx: Tx) -> model.WholeDocuments:
            wanted = list(dict.fromkeys(params.document_ids))
            found = [one for one in store.get_all(tx, call.tenant, wanted) if params.include_deleted or not one.deleted]
            ids = {one.id for one in found}
            return model.WholeDocuments(
                documents=_whole(tx, call.tenant, found), missing=[id for id in wanted if id not in ids]
            )

        return await self.reads.read(call, work)

    @DOCUMENTS.read(
        "list_documents",
        cli=Command("docs list", ("parent_id",), names={"parent_id": "parent", **DELETED}),
        example={"parent_id": "root", "recursive": True},
        text=markdown.listed,
    )
    async def list(self, params: model.ListDocuments, call: Call) -> model.DocumentPage:
        """The children of a document, or all that is below it.

        Use it to look around in the tree: the children of a document, or all that is below it.
        """

        def work(tx: Tx) -> model.DocumentPage:
            store.need_parent(tx, call.tenant, params.parent_id, "parent_id", deleted=params.include_deleted)
            return (_below if params.recursive else _children)(tx, params, call.tenant)

        return await self.reads.read(call, work)

    @DOCUMENTS.read(
        "document_history", cli=Command("docs history", ("document_id",)), example=ID, text=markdown.history
    )
    async def history(self, params: model.DocumentHistory, call: Call) -> model.RevisionPage:
        """The revisions of a document, the newest first.

        Use it to see who changed a document and when: its revisions, the newest first.
        """
        [before] = paging.place(params.cursor, int) or (NEWEST,)

        def work(tx: Tx) -> Sequence[Revision]:
            known(tx, call.tenant, params.document_id)
            return store.history(tx, call.tenant, params.document_id, before, params.limit + 1)

        found = await self.reads.read(call, work)
        page, cursor = paging.cut(found, params.limit, lambda one: [one.revision])
        revisions = [_shown(one, previous) for one, previous in zip(page, [*found[1:], None], strict=False)]
        return model.RevisionPage(document_id=params.document_id, revisions=revisions, next_cursor=cursor)

    @DOCUMENTS.read(
        "diff_revisions",
        title="Compare revisions",
        cli=Command(
            "docs diff",
            ("document_id", "from_revision", "to_revision"),
            names={"from_revision": "from", "to_revision": "to"},
        ),
        example={**ID, "from_revision": 1},
        text=markdown.difference,
    )
    async def diff(self, params: model.DiffRevisions, call: Call) -> model.Difference:
        """What changed between two revisions of a document.

        Use it to see what changed between two revisions of a document.
        """

        def work(tx: Tx) -> tuple[Revision, Revision, str, str]:
            document = known(tx, call.tenant, params.document_id)
            old = _revision(tx, call.tenant, document.id, params.from_revision)
            new = _revision(tx, call.tenant, document.id, params.to_revision or document.revision)
            before, after = (store.body(tx, call.tenant, document.id, one.version.body_of) for one in (old, new))
            return old, new, before, after

        return _difference(params.document_id, *await self.reads.read(call, work))

    @DOCUMENTS.read(
        "audit_log",
        tool=False,
        action=False,
        cli=Command("docs audit", ("document_id",)),
        example={"limit": 20},
        text=markdown.log,
    )
    async def audit(self, params: model.DocumentAuditLog, call: Call) -> AuditLogPage:
        """Who did what to which document, when and why; the newest first.

        Use it to answer who changed a document, when and why.
        """

        def work(tx: Tx) -> AuditLogPage:
            return log_page(
                tx,
                call.tenant,
                params,
                subject=params.document_id,
                capabilities=["documents"],
                operations=events.OPERATIONS,
                outcome="done",
            )

        return await self.reads.read(call, work)


def _children(tx: Tx, params: model.ListDocuments, tenant: str) -> model.DocumentPage:
    after = _after(tx, tenant, params)
    found = tree.page(tx, tenant, params.parent_id, params.sort, params.include_deleted, after, params.limit + 1)
    page, cursor = paging.cut(found, params.limit, lambda one: [params.sort, one[1], one[0].id, one[0].updated_at])
    documents = [one for one, _ in page]
    depths = {one.id: 1 for one in documents}
    return model.DocumentPage(documents=_summaries(tx, tenant, documents, depths), next_cursor=cursor)


def _below(tx: Tx, params: model.ListDocuments, tenant: str) -> model.DocumentPage:
    order = list(_walk(tree.shape(tx, tenant, params.parent_id, params.include_deleted), params.parent_id))
    start = _start(params.cursor, [id for id, _ in order])
    page = order[start : start + params.limit]
    depths = dict(page)
    documents = store.get_all(tx, tenant, list(depths))
    more = paging.encode(["tree", start + len(page), page[-1][0]]) if start + len(page) < len(order) else None
    return model.DocumentPage(documents=_summaries(tx, tenant, documents, depths), next_cursor=more)


def _revision(tx: Tx, tenant: str, id: str, number: int) -> Revision:
    found = store.revision(tx, tenant, id, number)
    if found is None:
        raise UnknownRevision(document_id=id, revision=number)
    return found


def _walk(shape: dict[str, list[str]], top: str) -> Iterator[tuple[str, int]]:
    """Yield all documents below `top` with their depth, each parent before its children."""
    waiting = [(id, 1) for id in reversed(shape.get(top, ()))]
    while waiting:
        id, depth = waiting.pop()
        yield id, depth
        waiting += [(child, depth + 1) for child in reversed(shape.get(id, ()))]


def _after(tx: Tx, tenant: str, params: model.ListDocuments) -> tuple[Value, str] | None:
    """Return where the previous page ended: its last sort key and id."""
    found = paging.place(params.cursor, str, str if params.sort == "title" else int, str, int)
    if found is None:
        return None
    sort, by, id, changed = found
    if sort != params.sort:
        raise paging.foreign()
    if sort == "order":
        # Respacing siblings (`tree._spread`) changes their places but not their order, so use the current place, unless
        # the document itself was moved since (updated_at differs).
        last = store.get(tx, tenant, id)
        if last is not None and (last.parent, last.updated_at) == (params.parent_id, changed):
            return last.place, id
    return by, id


def _start(cursor: str | None, order: list[str]) -> int:
    """Return the index after the last document of the previous page; if that is gone, after as many as were listed."""
    found = paging.place(cursor, str, int, str)
    if found is None:
        return 0
    sort, count, id = found
    if sort != "tree":
        raise paging.foreign()
    return order.index(id) + 1 if id in order else max(0, min(count, len(order)))


# -- results for callers -----------------------------------------------------------------------------------------------


def _summaries(
    tx: Tx, tenant: str, documents: Sequence[StoredDocument], depths: Mapping[str, int]
) -> list[model.DocumentSummary]:
    facts = _facts(tx, tenant, documents)
    return [model.DocumentSummary(**facts[one.id], depth=depths[one.id]) for one in documents]


def _whole(tx: Tx, tenant: str, documents: Sequence[StoredDocument]) -> list[model.WholeDocument]:
    facts = _facts(tx, tenant, documents)
    return [
        model.WholeDocument(
            **facts[one.id],
            content=model.DocumentContent(mime_type=one.version.mime_type, body=body_of(tx, tenant, one)),
            path=tree.above(tx, tenant, one.id)[::-1],
        )
        for one in documents
    ]


def _facts(tx: Tx, tenant: str, documents: Sequence[StoredDocument]) -> dict[str, dict[str, Any]]:
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
    return {name: getattr(version, name) for name in ("mime_type", "metadata", *PLAIN)}


def _shown(one: Revision, previous: Revision | None) -> model.RevisionSummary:
    """`previous` is the preceding revision; None for the first."""
    made = {name: getattr(one, name) for name in ("revision", "change", "made_by", "made_at")}
    changed = previous is None or one.version.body_of != previous.version.body_of
    return model.RevisionSummary(**made, **_version(one.version), body_changed=changed)


def _difference(id: str, old: Revision, new: Revision, before: str, after: str) -> model.Difference:
    changed = _changed(_version(old.version), _version(new.version))
    return model.Difference(
        document_id=id,
        from_revision=old.revision,
        to_revision=new.revision,
        body=_diff(before, after, old.revision, new.revision),
        **{**changed, "metadata": _changed(old.version.metadata, new.version.metadata)},
    )


def _changed(was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: {"from": was.get(key), "to": now.get(key)} for key in {**was, **now}}
    return {key: one for key, one in both.items() if sorted_json(one["from"]) != sorted_json(one["to"])}


def _diff(before: str, after: str, old: int, new: int) -> str:
    marked = before.endswith("\n") != after.endswith("\n")
    lines = unified_diff(
        _lines(before, marked), _lines(after, marked), f"revision {old}", f"revision {new}", lineterm="", n=3
    )
    return "\n".join(lines)


def _lines(body: str, marked: bool) -> list[str]:
    """Split at newlines only, as `diff` and `git` do. `marked`: only one of the two bodies ends with a newline, so add
    their "No newline at end of file" mark to the other."""
    *lines, last = body.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file" if marked else last] if last else lines
