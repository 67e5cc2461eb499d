"""Operations on collections."""

import asyncio
from contextlib import nullcontext
from dataclasses import replace

from kho.kernel import Call, Hint, Op, SearchFilter, Tx, UniqueViolation, paging
from kho.kernel.hints import OPEN
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.research import commands, errors, markdown, names, views
from kho.research.contract import READ, RESEARCH, WRITE, ResearchService, time_limit
from kho.research.ingest.indexing import SPACE, Doc, elsewhere
from kho.research.library import collection_store, document_store, project_store
from kho.research.library.collection_store import Collection, Size
from kho.research.library.document_store import DocumentStore, at_places, get_many
from kho.research.model import CollectionInfo, CollectionsAnswer, ManageCollections
from kho.search.indexing import passages

NEWEST = 5
"""Number of newest documents shown in a collection's info."""
REMOVED_AT_ONCE = 500


@dataclass(slots=True, kw_only=True)
class Collections(ResearchService):
    store: DocumentStore
    model: str = ""
    """The embedder's name; empty for keyword search only."""

    @RESEARCH.destroy(
        "manage_collections",
        toolset="default",
        explained=("documents", "confirm"),
        name="collections",
        scope=READ,
        invalid=errors.invalid_collections,
        text=markdown.collections,
        cli=commands.COLLECTIONS,
        example={"action": "create", "collection_name": "papers", "collection_type": "fundamental"},
    )
    async def manage(self, params: ManageCollections, call: Call) -> CollectionsAnswer:
        """Create, list, delete, rename or look into collections of documents.

        List, create, rename or delete the collections that hold ingested documents, or move documents between them. Ask
        the user before you confirm a deletion.
        """
        reads = {"list": self._list, "info": self._info}
        writes = {"create": self._create, "rename": self._rename, "delete": self._delete}
        grows = params.action in ("delete", "move-documents")  # with the collection, so it has no short time limit
        async with nullcontext() if grows else time_limit(call, self.settings.simple_timeout):
            if read := reads.get(params.action):
                return await self.read(call, lambda tx: read(tx, params, call))
            call.need(WRITE)
            if params.action == "move-documents":
                return await self._move(params, call)
            answer = await call.commit(self.db, lambda tx: writes[params.action](tx, params, call))
        self.tell(call.tenant)
        return answer

    def _create(self, tx: Tx, params: ManageCollections, call: Call) -> CollectionsAnswer:
        name = _needed(params, "collection_name")
        type = params.collection_type or "fundamental"
        row = collection_store.new(name, type, params.description or "", call.principal.sub, self.clock())
        project = project_store.need(tx, call.tenant, params.project_name) if params.project_name else None
        if not collection_store.create(tx, call.tenant, row):
            raise _taken(tx, call.tenant, name)
        if project is not None:
            project_store.touch(tx, call.tenant, project.id, row.created_at)
            project_store.link(tx, call.tenant, project.id, [row.id], default=False)
        call.audit(tx, row.id, at=row.created_at, action="create", name=name)
        linked = f" and linked it to the project '{project.name}'" if project else ""
        return CollectionsAnswer(
            action="create",
            message=Hint(
                f"Created the collection '{name}' ({type}){linked}. Add documents with ",
                Op("ingest_documents", path=OPEN, collection=name),
                " or ",
                Op("augment_knowledge"),
                ".",
            ),
            collection=self._described(tx, call.tenant, row),
        )

    def _list(self, tx: Tx, params: ManageCollections, call: Call) -> CollectionsAnswer:
        [after] = views.place(params.cursor, errors.InvalidCollectionRequest, str) or ("",)
        ids = None
        if params.project_name:
            project = project_store.need(tx, call.tenant, params.project_name)
            ids = [link.collection_id for link in project_store.links(tx, call.tenant, [project.id])[project.id]]
        type = params.collection_type
        rows = collection_store.page(tx, call.tenant, after, params.limit + 1, ids, type)
        total = collection_store.count(tx, call.tenant, ids, type)
        shown, more = paging.cut(rows, params.limit, lambda last: [names.key(last.name)])
        sizes = collection_store.sizes(tx, call.tenant, [row.id for row in shown])
        projects = project_store.of_collections(tx, call.tenant, [row.id for row in shown])
        message = f"{counted(total, f'{type} collection' if type else 'collection')}."
        if not total and type is None and ids is None:
            create = Op("manage_collections", action="create", collection_name=OPEN)
            message = Hint("There are no collections yet. Create one with ", create, ".")
        return CollectionsAnswer(
            action="list",
            message=message,
            collections=[views.collection(row, sizes[row.id], projects[row.id]) for row in shown],
            total=total,
            next_cursor=more,
        )

    def _info(self, tx: Tx, params: ManageCollections, call: Call) -> CollectionsAnswer:
        name = _needed(params, "collection_name")
        row = collection_store.need(tx, call.tenant, name)
        described = self._described(tx, call.tenant, row)
        size = f"{counted(described.documents, 'document')}, {counted(described.chunks, 'chunk')}"
        return CollectionsAnswer(
            action="info",
            message=f"'{row.name}': {size}, {views.amount(described.size_bytes)}.",
            collection=described,
        )

    def _rename(self, tx: Tx, params: ManageCollections, call: Call) -> CollectionsAnswer:
        name, wanted = _needed(params, "collection_name"), _needed(params, "new_name")
        row = collection_store.need_locked(tx, call.tenant, name)
        holder = collection_store.find(tx, call.tenant, wanted)
        if holder is not None and holder.id != row.id:
            raise _taken(tx, call.tenant, wanted)
        now = self.clock()
        try:
            collection_store.rename(tx, call.tenant, row.id, wanted, now)
        except UniqueViolation:  # a concurrent call took the name
            raise errors.CollectionExists(f"There is a collection '{wanted}' already.") from None
        if row.name != wanted:
            call.audit(tx, row.id, at=now, action="rename", name=wanted, before=row.name)
        renamed = collection_store.need(tx, call.tenant, wanted)
        return CollectionsAnswer(
            action="rename",
            message=f"Renamed '{row.name}' to '{wanted}'. Its documents and links are unchanged.",
            collection=self._described(tx, call.tenant, renamed),
        )

    def _delete(self, tx: Tx, params: ManageCollections, call: Call) -> CollectionsAnswer:
        name = _needed(params, "collection_name")
        row = collection_store.need_locked(tx, call.tenant, name)
        size = collection_store.sizes(tx, call.tenant, [row.id])[row.id]
        if size.documents and not params.confirm:
            raise _not_empty(row, size)
        while batch := document_store.by_id(tx, call.tenant, [row.id], "", REMOVED_AT_ONCE):
            self.store.remove_documents(tx, call.tenant, [doc.id for doc in batch], self.clock())
        collection_store.delete(tx, call.tenant, row.id)
        call.audit(
            tx,
            row.id,
            at=self.clock(),
            reason=params.reason,
            action="delete",
            name=row.name,
            documents=size.documents,
        )
        lost = f" with {_extent(size)}" if size.documents else ", which was empty"
        return CollectionsAnswer(action="delete", message=f"Deleted the collection '{row.name}'{lost}.")

    async def _move(self, params: ManageCollections, call: Call) -> CollectionsAnswer:
        name, target = _needed(params, "collection_name"), _needed(params, "target_collection")
        if not params.documents:
            raise errors.missing(errors.InvalidCollectionRequest, "documents", params.action)
        wanted, now = params.documents, self.clock()

        def look(tx: Tx) -> tuple[list[Doc], Collection, dict[str, str]]:
            source, to = (collection_store.need(tx, call.tenant, one) for one in (name, target))
            if to.id == source.id:
                raise errors.InvalidCollectionRequest(
                    "'target_collection' is the collection that the documents are in.", parameter="target_collection"
                )
            docs = {doc.id: doc for doc in (document_store.need(tx, call.tenant, one, source) for one in wanted)}
            return [*docs.values()], to, document_store.texts(tx, call.tenant, [*docs])

        docs, there, texts = await self.read(call, look)
        moved = await asyncio.to_thread(lambda: [elsewhere(call.tenant, doc, texts[doc.id], there.id) for doc in docs])

        def work(tx: Tx) -> CollectionsAnswer:
            source = collection_store.need(tx, call.tenant, name)
            to = collection_store.need(tx, call.tenant, target)
            collection_store.lock(tx, call.tenant, [source.id, to.id])
            known = get_many(tx, call.tenant, [doc.id for doc in docs], lock=True)
            if any(known.get(doc.id) != doc for doc in docs) or to.id != there.id:
                raise errors.DocumentChanged
            _need_room(tx, call.tenant, docs, to)
            self.store.move_documents(tx, call.tenant, docs[0].collection_id, moved, now)
            also = [(doc.id, {"title": doc.title}) for doc in docs]
            call.audit(tx, source.id, at=now, also=also, action="move-documents", to=to.id, documents=len(docs))
            return CollectionsAnswer(
                action="move-documents",
                message=f"Moved {counted(len(docs), 'document')} from '{source.name}' to '{to.name}'.",
                collection=self._described(tx, call.tenant, collection_store.need(tx, call.tenant, target)),
                moved=len(docs),
            )

        return await call.commit(self.db, work)

    def _described(self, tx: Tx, tenant: str, row: Collection) -> CollectionInfo:
        size = collection_store.sizes(tx, tenant, [row.id])[row.id]
        newest = document_store.page(tx, tenant, [row.id], "", None, NEWEST)
        summary = views.collection(row, size, project_store.of_collections(tx, tenant, [row.id])[row.id])
        return CollectionInfo(
            **summary.model_dump(),
            id=row.id,
            created_by=row.created_by,
            embedder=self.model or "none (keyword search only)",
            vectors_pending=passages.pending(tx, SearchFilter(SPACE, tenant, (row.id,))) if self.model else 0,
            formats=collection_store.formats(tx, tenant, row.id),
            newest=[views.brief(doc, {row.id: row.name}) for doc in newest],
        )


def _needed(params: ManageCollections, parameter: str) -> str:
    value = getattr(params, parameter)
    if value is None:
        raise errors.missing(errors.InvalidCollectionRequest, parameter, params.action)
    return value


def _taken(tx: Tx, tenant: str, name: str) -> errors.CollectionExists:
    holder = collection_store.find(tx, tenant, name)
    called = holder.name if holder else name
    return errors.CollectionExists(
        f"There is a collection '{called}' already.",
        guidance=Hint(
            "Use it (",
            Op("manage_collections", action="info", collection_name=called),
            " shows it), or choose another name. Upper and lower case are the same name.",
        ),
        collection=called,
    )


def _extent(size: Size) -> str:
    return f"{counted(size.documents, 'document')}, {counted(size.chunks, 'chunk')} ({views.amount(size.size_bytes)})"


def _not_empty(row: Collection, size: Size) -> errors.CollectionNotEmpty:
    return errors.CollectionNotEmpty(
        f"'{row.name}' is not empty: {_extent(size)} would be lost.",
        guidance=Hint(
            "To delete it all the same, call ",
            Op("manage_collections", action="delete", collection_name=row.name, confirm=True),
            ".",
        ),
        documents=size.documents,
        chunks=size.chunks,
        size_bytes=size.size_bytes,
    )


def _need_room(tx: Tx, tenant: str, docs: list[Doc], to: Collection) -> None:
    """Raise DocumentExists if a document with the same identity is already in the target collection."""
    there = [replace(doc, collection_id=to.id) for doc in docs]
    taken = at_places(tx, tenant, there)
    if taken:
        shown = ", ".join(f"'{doc.name}'" for doc in [*taken.values()][:3])
        raise errors.DocumentExists(
            f"'{to.name}' has {shown} already. Nothing was moved.", ids=[d.id for d in taken.values()]
        )
