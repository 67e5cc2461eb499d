"""Export and import: collections and documents as JSON lines, with their texts. The rest is derived from them."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from kho.kernel import paging, validation
from kho.kernel.call import Call
from kho.kernel.errors import about
from kho.kernel.params import Id, Params, Whole
from kho.kernel.ports import Database, Tx
from kho.lib.chunking.chunker import Kind
from kho.lib.clock import Clock, from_iso, iso
from kho.lib.markdown import counted
from kho.research import errors, markdown, names, views
from kho.research.contract import READ_TIMEOUT, RESEARCH, SOME_ID
from kho.research.errors import InvalidDocumentRequest
from kho.research.ingest import indexing
from kho.research.ingest.indexing import Doc, Filing, Origin
from kho.research.library import collection_store, document_listing
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import DocumentStore, at_places, get_many
from kho.research.model import CollectionName, CollectionType, ExportKnowledge, ImportKnowledge, Line, Path, Tags
from kho.research.results import Exported, Imported

_Count = Annotated[int, Field(ge=0, lt=2**62), Whole]


class CollectionLine(Params):
    kind: Literal["collection"] = "collection"
    id: Id
    name: CollectionName
    type: CollectionType = "fundamental"
    description: Annotated[str, Field(max_length=2_000)] = ""
    created_at: str | None = None


class DocumentLine(Params):
    kind: Literal["document"] = "document"
    id: Id
    collection: CollectionName
    origin: Origin = "external"
    path: Path | None = None
    source: Line | None = None
    title: Line
    format: Annotated[str, Field(max_length=64)] = "text"
    cut: Kind = "auto"
    hash: Annotated[str, Field(max_length=128)]
    size_bytes: _Count
    modified_at: str | None = None
    tags: Tags = Field(default_factory=list)
    author: Line | None = None
    published: Annotated[str, Field(max_length=64)] | None = None
    created_at: str | None = None
    updated_at: str | None = None
    text: str


_LINES: dict[Any, type[CollectionLine] | type[DocumentLine]] = {"collection": CollectionLine, "document": DocumentLine}


@dataclass(slots=True, kw_only=True)
class Transfer:
    db: Database
    store: DocumentStore
    clock: Clock
    page_bytes: int = 4_000_000
    """The most bytes of documents on one page: a reader takes a page in one message."""

    @RESEARCH.read(
        "export_knowledge",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.exported,
        example={"limit": 100},
    )
    async def export(self, params: ExportKnowledge, call: Call) -> Exported:
        """Collections and documents, a page at a time, in the form that import takes."""
        [after] = views.place(params.cursor, InvalidDocumentRequest, str) or ("",)

        def work(tx: Tx) -> Exported:
            chosen = [collection_store.need(tx, call.tenant, name).id for name in params.collections or []]
            rows = collection_store.by_ids(tx, call.tenant, chosen or _all(tx, call.tenant))
            docs = document_listing.by_id(tx, call.tenant, chosen or None, after, params.limit + 1)
            page = _fitting(docs[: params.limit], self.page_bytes)
            texts = document_listing.texts(tx, call.tenant, [doc.id for doc in page])
            first = sorted(rows.values(), key=lambda row: names.key(row.name)) if not after else []
            lines: list[CollectionLine | DocumentLine] = [_collection_line(row) for row in first]
            lines += [_document_line(doc, rows[doc.collection_id].name, texts[doc.id]) for doc in page]
            return Exported(
                lines=[line.model_dump(exclude_none=True) for line in lines],
                next_cursor=paging.encode([page[-1].id]) if len(docs) > len(page) else None,
            )

        return await self.db.read(work, timeout=call.remaining(READ_TIMEOUT))

    @RESEARCH.write(
        "import_knowledge",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.imported,
        example={"lines": [{"kind": "collection", "id": SOME_ID, "name": "papers"}]},
    )
    async def import_(self, params: ImportKnowledge, call: Call) -> Imported:
        """Take what export gave; documents that are here already stay, unless they are to be replaced."""
        # In any order. Importing twice is harmless.
        now, by = self.clock(), call.principal.sub
        lines = [_parsed(number, line) for number, line in enumerate(params.lines, 1)]
        made = {names.key(one.name): _from_line(n, one, by, now) for n, one in lines if isinstance(one, CollectionLine)}
        for _, one in lines:
            if isinstance(one, DocumentLine) and names.key(one.collection) not in made:
                made[names.key(one.collection)] = collection_store.new(one.collection, "fundamental", "", by, now)
        documents = [(n, one) for n, one in lines if isinstance(one, DocumentLine)]
        filings = await asyncio.to_thread(
            lambda: [(one.collection, _filing(n, one, call.tenant, now)) for n, one in documents]
        )

        def work(tx: Tx) -> Imported:
            rows, new = self._collections(tx, call.tenant, list(made.values()))
            placed = [one.under(one.doc.id, rows[names.key(name)].id, one.doc.created_at) for name, one in filings]
            known = _known(tx, call.tenant, placed)
            wanted = placed if params.merge == "replace" else [one for one in placed if not known[one.doc.id]]
            put = self.store.put_documents(tx, call.tenant, wanted, now)
            added, replaced = sum(one.new for one in put), sum(not one.new for one in put)
            skipped = len(placed) - len(put)
            if put or new:
                also = [(one.doc.id, {"new": one.new}) for one in put]
                call.audit(tx, "", at=now, also=also, collections=new, imported=added, replaced=replaced)
            return Imported(
                message=f"{counted(added, 'document')} imported, {replaced} replaced, {skipped} skipped; "
                f"{counted(new, 'new collection')}.",
                collections=new,
                imported=added,
                replaced=replaced,
                skipped=skipped,
            )

        return await call.commit(self.db, work)

    def _collections(self, tx: Tx, tenant: str, wanted: list[Collection]) -> tuple[dict[str, Collection], int]:
        """Those that are there by name, else new ones; and how many are new."""
        found: dict[str, Collection] = {}
        new = 0
        for row in wanted:
            there = collection_store.find(tx, tenant, row.name)
            if there is None:
                fresh = collection_store.new(row.name, row.type, row.description, row.created_by, row.created_at)
                # The id it had, if that is free here.
                created = collection_store.create(tx, tenant, row) or collection_store.create(tx, tenant, fresh)
                there, new = collection_store.need(tx, tenant, row.name), new + created
            found[names.key(row.name)] = there
        return found, new


def _all(tx: Tx, tenant: str) -> list[str]:
    return [id for id, _ in collection_store.all_ids(tx, tenant)]


def _fitting(docs: list[Doc], room: int) -> list[Doc]:
    """As many as one page holds; one at least."""
    for count, doc in enumerate(docs):
        room -= doc.size
        if room < 0 and count:
            return docs[:count]
    return docs


def _known(tx: Tx, tenant: str, filings: list[Filing]) -> dict[str, bool]:
    """True for each that is here already, under its id or in its place."""
    docs = [one.doc for one in filings]
    placed, ids = at_places(tx, tenant, docs), get_many(tx, tenant, [doc.id for doc in docs])
    return {
        doc.id: (doc.collection_id, doc.place) in placed
        or (doc.id in ids and ids[doc.id].collection_id == doc.collection_id)
        for doc in docs
    }


def _collection_line(row: Collection) -> CollectionLine:
    return CollectionLine.model_construct(
        kind="collection",
        id=row.id,
        name=row.name,
        type=row.type,
        description=row.description,
        created_at=iso(row.created_at),
    )


def _document_line(doc: Doc, collection: str, text: str) -> DocumentLine:
    return DocumentLine.model_construct(
        kind="document",
        id=doc.id,
        collection=collection,
        origin=doc.origin,
        path=doc.path,
        source=doc.source,
        title=doc.title,
        format=doc.format,
        cut=doc.cut,
        hash=doc.hash,
        size_bytes=doc.size,
        modified_at=None if doc.mtime is None else iso(doc.mtime),
        tags=[*doc.tags],
        author=doc.author,
        published=doc.published,
        created_at=iso(doc.created_at),
        updated_at=iso(doc.updated_at),
        text=text,
    )


def _parsed(number: int, line: dict[str, Any]) -> tuple[int, CollectionLine | DocumentLine]:
    kind = line.get("kind")
    if kind not in ("collection", "document"):
        raise InvalidDocumentRequest(f"Line {number}: 'kind' must be collection or document.", parameter="lines")
    try:
        return number, _LINES[kind].model_validate(line)
    except ValidationError as failure:
        first = validation.found(failure)[0]
        said = about(f"'{first.field}'", first.message)
        raise InvalidDocumentRequest(f"Line {number}: {said}.", parameter="lines") from None


def _time(number: int, text: str | None, default: int) -> int:
    try:
        return default if text is None else from_iso(text)
    except ValueError:
        raise InvalidDocumentRequest(f"Line {number}: a time is not in ISO 8601 form.", parameter="lines") from None


def _from_line(number: int, line: CollectionLine, by: str, now: int) -> Collection:
    created = _time(number, line.created_at, now)
    return Collection(line.id, line.name, line.type, line.description, by, created, created)


def _filing(number: int, line: DocumentLine, tenant: str, now: int) -> Filing:
    created = _time(number, line.created_at, now)
    doc = Doc(
        id=line.id,
        collection_id="",
        origin=line.origin,
        path=line.path,
        source=line.source,
        title=line.title,
        format=line.format,
        cut=line.cut,
        hash=line.hash,
        size=line.size_bytes,
        mtime=None if line.modified_at is None else _time(number, line.modified_at, 0),
        tags=tuple(line.tags),
        author=line.author,
        published=line.published,
        job_id=None,
        created_at=created,
        updated_at=_time(number, line.updated_at, created),
    )
    return indexing.make(tenant, doc, line.text)
