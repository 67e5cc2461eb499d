"""Export and import: collections and documents as JSON lines, with their texts. Everything else is derived from
them."""

import asyncio
from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field

from kho.kernel import Call, ExportedLines, ForeignId, Id, InvalidParams, Line, Moment, Tx, Whole, paging, transfer
from kho.kernel.transfer import Part, Place
from kho.lib.chunking.chunker import Kind
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.lib.sql import NOTHING
from kho.research import errors, markdown, model, names, views
from kho.research.contract import RESEARCH, SOME_ID, ResearchService
from kho.research.errors import InvalidDocumentRequest
from kho.research.ingest import indexing
from kho.research.ingest.indexing import Doc, Filing, Origin
from kho.research.library import collection_store, document_store, project_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import DocumentStore, at_places, get_many
from kho.research.library.project_store import Project
from kho.research.query.feedback import OPINIONS, Opinion
from kho.search.indexing.index import Index

Lines = Iterable[tuple[Place, dict[str, Any]]]
_Count = Annotated[int, Field(ge=0, lt=2**62), Whole]


class CollectionLine(Line):
    kind: Literal["collection"] = "collection"
    id: Id
    name: model.CollectionName
    type: model.CollectionType = "fundamental"
    description: Annotated[str, Field(max_length=2_000)] = ""
    created_by: ForeignId | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None


class DocumentLine(Line):
    kind: Literal["document"] = "document"
    id: Id
    collection: model.CollectionName
    origin: Origin = "external"
    path: model.Path | None = None
    source: model.OneLine | None = None
    title: model.OneLine
    format: Annotated[str, Field(max_length=64)] = "text"
    cut: Kind = "auto"
    hash: Annotated[str, Field(max_length=128)]
    size_bytes: _Count
    modified_at: Moment | None = None
    tags: model.Tags = Field(default_factory=list)
    author: model.OneLine | None = None
    published: Annotated[str, Field(max_length=64)] | None = None
    created_at: Moment | None = None
    updated_at: Moment | None = None
    text: str


class OpinionLine(Line):
    """Whether a document, or one passage of it, helped somebody."""

    kind: Literal["feedback"] = "feedback"
    document_id: Id
    digest: Annotated[str, Field(max_length=64)] = ""
    sub: ForeignId
    chunk: _Count | None = None
    verdict: model.Verdict
    reason: Annotated[str, Field(max_length=2_000)] | None = None
    query: Annotated[str, Field(max_length=model.MAX_QUERY)] | None = None
    at: Moment


class ProjectLine(Line):
    kind: Literal["project"] = "project"
    id: Id
    name: model.Name
    description: Annotated[str, Field(max_length=2_000)] = ""
    directory: model.Path | None = None
    archived_at: Moment | None = None
    created_at: Moment
    updated_at: Moment
    collections: list[model.CollectionName] = Field(default_factory=list[str])
    defaults: list[model.CollectionName] = Field(default_factory=list[str])


KINDS: dict[str, type[CollectionLine | DocumentLine | OpinionLine | ProjectLine]] = {
    "collection": CollectionLine,
    "document": DocumentLine,
    "feedback": OpinionLine,
    "project": ProjectLine,
}


@dataclass(slots=True, kw_only=True)
class KnowledgeTransfer(ResearchService):
    store: DocumentStore
    page_bytes: int = 4_000_000
    """Maximum bytes of documents on a page: a client receives a page in one message."""

    @RESEARCH.read(
        "export_knowledge",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.exported,
        example={"limit": 100},
    )
    async def export(self, params: model.ExportKnowledge, call: Call) -> ExportedLines:
        """Collections and documents, a page at a time, in the form that import takes."""
        if params.everything:
            call.need("admin")
            return await self.read(call, lambda tx: self._everything(tx, params, call.tenant))
        [after] = views.place(params.cursor, InvalidDocumentRequest, str) or ("",)

        def work(tx: Tx) -> ExportedLines:
            chosen = [collection_store.need(tx, call.tenant, name).id for name in params.collections or []]
            rows = collection_store.by_ids(tx, call.tenant, chosen or _all(tx, call.tenant))
            docs = document_store.by_id(tx, call.tenant, chosen or None, after, params.limit + 1)
            page = _fitting(docs[: params.limit], self.page_bytes)
            texts = document_store.texts(tx, call.tenant, [doc.id for doc in page])
            first = sorted(rows.values(), key=lambda row: names.key(row.name)) if not after else []
            lines = [CollectionLine.of(row, created_by=None) for row in first]
            for doc in page:
                name, text = rows[doc.collection_id].name, texts[doc.id]
                lines.append(DocumentLine.of(doc, collection=name, tags=[*doc.tags], text=text))
            more = paging.encode([page[-1].id]) if len(docs) > len(page) else None
            return ExportedLines(lines=lines, next_cursor=more)

        return await self.read(call, work)

    def _everything(self, tx: Tx, params: model.ExportKnowledge, tenant: str) -> ExportedLines:
        chosen = {collection_store.need(tx, tenant, name).id for name in params.collections or []}

        def collections(tx: Tx, tenant: str, after: Place, limit: int) -> Lines:
            rows = collection_store.page(tx, tenant, str(after[0]) if after else "", limit, sorted(chosen) or None)
            return (([names.key(row.name)], CollectionLine.of(row)) for row in rows)

        def documents(tx: Tx, tenant: str, after: Place, limit: int) -> Lines:
            docs = document_store.by_id(tx, tenant, sorted(chosen) or None, str(after[0]) if after else "", limit)
            called = collection_store.names_of(tx, tenant, docs)
            for doc in docs:
                text = document_store.texts(tx, tenant, [doc.id])[doc.id]
                yield [doc.id], DocumentLine.of(doc, collection=called[doc.collection_id], tags=[*doc.tags], text=text)

        def projects(tx: Tx, tenant: str, after: Place, limit: int) -> Lines:
            rows = project_store.page(tx, tenant, str(after[0]) if after else "", limit, archived=True)
            links = project_store.links(tx, tenant, [row.id for row in rows])
            for row in rows:
                linked = {"collections": [one.name for one in links[row.id]]}
                linked["defaults"] = [one.name for one in links[row.id] if one.is_default]
                yield [names.key(row.name)], ProjectLine.of(row, **linked)

        opinions = {"document_id": str, "digest": str, "sub": str}
        parts = [Part("collection", (str,), collections), Part("document", (str,), documents)]
        if not chosen:  # these may be about others, too
            parts.append(transfer.part("feedback", OPINIONS, opinions, OpinionLine.of))
            parts.append(Part("project", (str,), projects))
        try:
            return transfer.page(tx, tenant, parts, params.cursor, params.limit)
        except InvalidParams as problem:
            raise InvalidDocumentRequest(problem.message, parameter="cursor") from None

    @RESEARCH.write(
        "import_knowledge",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.message,
        example={"lines": [{"kind": "collection", "id": SOME_ID, "name": "papers"}]},
    )
    async def import_(self, params: model.ImportKnowledge, call: Call) -> model.ImportedKnowledge:
        """Take what export gave; documents that are here already stay, unless they are to be replaced."""
        # Lines may come in any order. Importing twice is harmless.
        now, by = self.clock(), call.principal.sub
        lines = transfer.parsed(params.lines, KINDS, _refused)
        if any(isinstance(one, OpinionLine | ProjectLine) for one in lines):
            call.need("admin")
        named = transfer.keeps_names(call)
        made = {
            names.key(one.name): _collection(one, (named and one.created_by) or by, now)
            for one in lines
            if isinstance(one, CollectionLine)
        }
        documents = [one for one in lines if isinstance(one, DocumentLine)]
        for one in documents:
            made.setdefault(names.key(one.collection), collection_store.new(one.collection, "fundamental", "", by, now))
        filings = await asyncio.to_thread(
            lambda: [(one.collection, _filing(one, call.tenant, now, self.store.index)) for one in documents]
        )

        def work(tx: Tx) -> model.ImportedKnowledge:
            rows, new = self._collections(tx, call.tenant, list(made.values()))
            placed = [one.under(one.doc.id, rows[names.key(name)].id, one.doc.created_at) for name, one in filings]
            known = _known(tx, call.tenant, placed)
            wanted = placed if params.merge == "replace" else [one for one in placed if not known[one.doc.id]]
            # A collection keeps its times where documents are only added: it may have been imported itself.
            at = now if any(known[one.doc.id] for one in wanted) else None
            put = self.store.put_documents(tx, call.tenant, wanted, at)
            more = sum(self._taken(tx, call.tenant, line) for line in lines)
            added, replaced = sum(one.new for one in put), sum(not one.new for one in put)
            skipped = len(placed) - len(put)
            if put or new or more:
                also = [(one.doc.id, {"new": one.new}) for one in put]
                call.audit(tx, "", at=now, also=also, collections=new, imported=added, replaced=replaced)
            also = f"; {counted(more, 'line')} of projects and feedback" if more else ""
            return model.ImportedKnowledge(
                message=f"{counted(added, 'document')} imported, {replaced} replaced, {skipped} skipped; "
                f"{counted(new, 'new collection')}{also}.",
                collections=new,
                imported=added,
                replaced=replaced,
                skipped=skipped,
                related=more,
            )

        done = await call.commit(self.db, work)
        if done.collections:
            self.tell(call.tenant)
        return done

    def _taken(self, tx: Tx, tenant: str, line: Line) -> bool:
        """Store a verdict or a project. False if it is known, or the line is something else."""
        if isinstance(line, OpinionLine):
            found = get_many(tx, tenant, [line.document_id])
            return bool(found and OPINIONS.insert(tx, Opinion(**line.values("kind")), conflict=NOTHING, tenant=tenant))
        if not isinstance(line, ProjectLine):
            return False
        project = Project(**line.values("kind", "collections", "defaults"))
        if not project_store.create(tx, tenant, project):
            return False
        for default, linked in ((False, line.collections), (True, line.defaults)):
            ids = [collection_store.need(tx, tenant, name).id for name in linked]
            project_store.link(tx, tenant, project.id, ids, default=default)
        return True

    def _collections(self, tx: Tx, tenant: str, wanted: list[Collection]) -> tuple[dict[str, Collection], int]:
        """Return the existing collections by name, creating missing ones; and how many were created."""
        found: dict[str, Collection] = {}
        new = 0
        for row in wanted:
            there = collection_store.find(tx, tenant, row.name)
            if there is None:
                fresh = collection_store.new(row.name, row.type, row.description, row.created_by, row.created_at)
                # Keep the exported id if it is free here.
                created = collection_store.create(tx, tenant, row) or collection_store.create(tx, tenant, fresh)
                there, new = collection_store.need(tx, tenant, row.name), new + created
            found[names.key(row.name)] = there
        return found, new


def _all(tx: Tx, tenant: str) -> list[str]:
    return [id for id, _ in collection_store.all_ids(tx, tenant)]


def _fitting(docs: list[Doc], room: int) -> list[Doc]:
    """Return as many documents as fit on a page; at least one."""
    for count, doc in enumerate(docs):
        room -= doc.size_bytes
        if room < 0 and count:
            return docs[:count]
    return docs


def _known(tx: Tx, tenant: str, filings: list[Filing]) -> dict[str, bool]:
    """Map document ids to True if the document exists already, by id or by identity."""
    docs = [one.doc for one in filings]
    placed, ids = at_places(tx, tenant, docs), get_many(tx, tenant, [doc.id for doc in docs])
    return {
        doc.id: (doc.collection_id, doc.place) in placed
        or (doc.id in ids and ids[doc.id].collection_id == doc.collection_id)
        for doc in docs
    }


def _refused(message: str, field: str) -> InvalidDocumentRequest:
    return InvalidDocumentRequest(message, parameter="lines")


def _collection(line: CollectionLine, by: str, now: int) -> Collection:
    created = now if line.created_at is None else line.created_at
    updated = created if line.updated_at is None else line.updated_at
    return Collection(line.id, line.name, line.type, line.description, by, created, updated)


def _filing(line: DocumentLine, tenant: str, now: int, index: Index) -> Filing:
    created = now if line.created_at is None else line.created_at
    updated = created if line.updated_at is None else line.updated_at
    row = line.values("kind", "collection", "text", collection_id="", created_at=created, updated_at=updated)
    return indexing.make(tenant, Doc(**row), line.text, index=index)
