"""Adds documents that arrive as text or bytes instead of local files. Exact and near-duplicates are reported, not
stored twice."""

import asyncio
import base64
import binascii
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from kho.kernel import Arg, Call, Hint, Tx
from kho.kernel.ports import Screen
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.parsers.clean import one_line
from kho.parsers.model import ParsedFile, UnreadableFile
from kho.research import commands, errors, markdown, names, views
from kho.research.contract import RESEARCH, ResearchService
from kho.research.errors import InvalidDocumentRequest, Unreadable
from kho.research.ingest import indexing
from kho.research.ingest.indexing import Doc, Filing
from kho.research.ingest.prepare import Reader, hash_of, sentence
from kho.research.library import collection_store, document_store
from kho.research.library.collection_store import Collection
from kho.research.library.document_store import DocumentStore, at_places
from kho.research.model import AddsToCollection, AugmentAnswer, AugmentKnowledge, Duplicate, UploadDocument
from kho.search.indexing import minhash
from kho.search.indexing.index import prepare, storable

COMPARED = 10
"""Maximum candidates that a text is compared with word by word."""
UNLIKE = 3
"""Candidates this many times longer or shorter are not compared."""
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class _Alike:
    doc: Doc
    likeness: float


class _Again(Exception):
    """Retry: a similar document was added concurrently."""


@dataclass(slots=True, kw_only=True)
class Augment(ResearchService):
    store: DocumentStore
    reader: Reader
    screen: Screen | None = None

    @RESEARCH.write(
        "augment_knowledge",
        title="Add a text",
        toolset="default",
        explained=("source",),
        invalid=errors.invalid_documents,
        text=markdown.augment,
        cli=commands.AUGMENT,
        example={
            "content": "BM25 ranks by the rarity of words.",
            "source": "https://example.org/bm25",
            "collection": "papers",
            "title": "BM25 in a line",
        },
    )
    async def augment(self, params: AugmentKnowledge, call: Call) -> AugmentAnswer:
        """Add a text that was found elsewhere, with its source.

        Keep a longer text that is not a file here, such as a web page or an abstract, with its source. The same text is
        not stored twice.
        """
        collection, new = await self._collection(call, params)
        try:
            found = await self.reader.read_text(params.content)
        except UnreadableFile as problem:
            raise InvalidDocumentRequest(f"'content' cannot be read: {problem.reason}.", parameter="content") from None
        if not found.text.strip():
            raise InvalidDocumentRequest("'content' holds no text.", parameter="content")
        title = one_line(params.title or "") or found.title
        tags = found.tags if params.tags is None else params.tags
        doc = replace(
            self._draft(collection, "external", params.content.encode(), params.source.strip(), title, tags),
            author=one_line(params.author) if params.author else found.author,
            published=_published(params.date) or found.published,
        )
        answer = await self._add(doc, found, call, force=params.force, new=collection if new else None)
        if new:
            self.tell(call.tenant)
        return answer

    @RESEARCH.write(
        "upload_document",
        tool=False,
        invalid=errors.invalid_documents,
        text=markdown.augment,
        example={"filename": "note.md", "content": "IyBBIG5vdGUKCkJyaWVmLg==", "collection": "papers"},
    )
    async def upload(self, params: UploadDocument, call: Call) -> AugmentAnswer:
        """Add a file by its bytes: for callers whose files the hub cannot read."""
        collection, new = await self._collection(call, params)
        name = _file_name(params.filename)
        raw = await asyncio.to_thread(_decoded, params.content)
        if len(raw) > self.settings.max_file:
            most = views.amount(self.settings.max_file)
            raise Unreadable(f"The file is larger than {most}.", guidance="Split it into smaller files.", path=name)
        try:
            found = await self.reader.read(raw, name)
        except UnreadableFile as problem:
            advice = problem.advice or None
            raise Unreadable(sentence(problem.reason), guidance=advice, path=name) from None
        if self.screen is not None:
            self.screen.tell(call, await self.screen.screen_file("research", name, found.texts))
        title = one_line(params.title or "") or found.title
        doc = replace(
            self._draft(collection, "upload", raw, name, title, found.tags if params.tags is None else params.tags),
            format=found.format,
            cut=found.kind,
            author=found.author,
            published=found.published,
        )
        answer = await self._add(doc, found, call, force=params.force, new=collection if new else None)
        if new:
            self.tell(call.tenant)
        return answer

    async def _collection(self, call: Call, params: AddsToCollection) -> tuple[Collection, bool]:
        """Return the collection, and True if it has to be created with the document."""

        def look(tx: Tx) -> tuple[Collection, bool]:
            if not params.create:
                return collection_store.need(tx, call.tenant, params.collection), False
            return collection_store.find_or_new(tx, call.tenant, params.collection, call.principal.sub, self.clock())

        return await self.db.read(look, timeout=call.remaining(self.settings.simple_timeout))

    def _draft(
        self, collection: Collection, origin: indexing.Origin, raw: bytes, source: str, title: str, tags: Sequence[str]
    ) -> Doc:
        now = self.clock()
        return Doc(
            id=str(uuid.uuid4()),
            collection_id=collection.id,
            origin=origin,
            source=source,
            title=title,
            hash=hash_of(raw),
            size_bytes=len(raw),
            tags=tuple(tags),
            created_at=now,
            updated_at=now,
        )

    async def _add(
        self, doc: Doc, found: ParsedFile, call: Call, *, force: bool, new: Collection | None
    ) -> AugmentAnswer:
        made = await asyncio.to_thread(indexing.make, call.tenant, doc, found.text, found.chunks, self.store.index)
        compared: dict[tuple[str, str], _Alike] = {}
        for _ in range(ATTEMPTS):
            for one in await self._alike(made, call.tenant, compared):
                compared[one.doc.id, one.doc.hash] = one
            try:
                return await call.commit(
                    self.db, lambda tx: self._decide(tx, made, call, compared, force=force, new=new, patient=True)
                )
            except _Again:
                continue
        return await call.commit(
            self.db, lambda tx: self._decide(tx, made, call, compared, force=force, new=new, patient=False)
        )

    async def _alike(self, made: Filing, tenant: str, compared: Iterable[tuple[str, str]]) -> list[_Alike]:
        """Return near-duplicate candidates with their similarity. Computed outside of the write transaction, which all
        writers share."""

        def look(tx: Tx) -> list[tuple[Doc, str]]:
            docs = self._candidates(tx, made, compared)
            texts = document_store.texts(tx, tenant, [doc.id for doc in docs])
            return [(doc, texts[doc.id]) for doc in docs if doc.id in texts]

        return await asyncio.to_thread(_measured, made, tenant, await self.db.read(look))

    def _candidates(self, tx: Tx, made: Filing, compared: Iterable[tuple[str, str]]) -> list[Doc]:
        known = set(compared)
        docs = self.store.similar(tx, made, COMPARED)
        return [
            doc
            for doc in docs
            if (doc.id, doc.hash) not in known and made.doc.chunks <= UNLIKE * doc.chunks <= UNLIKE**2 * made.doc.chunks
        ]

    def _decide(
        self,
        tx: Tx,
        made: Filing,
        call: Call,
        compared: dict[tuple[str, str], _Alike],
        *,
        force: bool,
        new: Collection | None,
        patient: bool,
    ) -> AugmentAnswer:
        created = False
        if new is not None:
            stored, created = collection_store.need_stored(tx, call.tenant, new)
            made = made.under(made.doc.id, stored.id, made.doc.created_at)
        doc, tenant = made.doc, call.tenant
        collection_store.lock(tx, tenant, [doc.collection_id])
        collection = collection_store.by_ids(tx, tenant, [doc.collection_id])[doc.collection_id]
        if patient and self._candidates(tx, made, compared):
            raise _Again
        before = at_places(tx, tenant, [doc]).get((doc.collection_id, doc.place))
        same = [_Alike(one, 1.0) for one in document_store.with_hash(tx, tenant, doc.collection_id, doc.hash)]
        similar = self._still_similar(tx, made, compared)
        others = list(
            {one.doc.id: one for one in (*similar, *same) if before is None or one.doc.id != before.id}.values()
        )
        others.sort(key=lambda one: -one.likeness)
        duplicates = [_duplicate(one, collection) for one in others]
        names = {collection.id: collection.name}
        if before is not None and not force and _says_the_same(before, doc):
            return AugmentAnswer(
                outcome="unchanged",
                message=f"'{before.title}' is in '{collection.name}' already, word for word. Nothing was changed.",
                document=views.brief(before, names),
                duplicates=duplicates,
            )
        if before is None and others and not force:
            return AugmentAnswer(
                outcome="duplicate",
                message=_refused(others[0], collection),
                document=views.brief(others[0].doc, names),
                duplicates=duplicates,
            )
        [put] = self.store.put_documents(tx, tenant, [made], doc.updated_at)
        known: dict[str, Any] = {"title": put.doc.title, "collection": collection.name, "new": put.new}
        if created:
            known["created"] = collection.id
        call.audit(tx, put.doc.id, at=doc.updated_at, **known)
        made_it = f"Created the collection '{collection.name}'. " if created else ""
        done, size = "Added" if put.new else "Replaced", counted(put.doc.chunks, "chunk")
        also = f" Nearly the same: {', '.join(repr(one.doc.title) for one in others)}." if others else ""
        return AugmentAnswer(
            outcome="added" if put.new else "replaced",
            message=f"{made_it}{done} '{put.doc.title}' ({size}) in '{collection.name}'.{also}",
            document=views.brief(put.doc, names),
            duplicates=duplicates,
        )

    def _still_similar(self, tx: Tx, made: Filing, compared: dict[tuple[str, str], _Alike]) -> list[_Alike]:
        """Return the measured candidates that have not changed since and are similar enough to be duplicates."""
        docs = self.store.similar(tx, made, COMPARED)
        found = [compared[doc.id, doc.hash] for doc in docs if (doc.id, doc.hash) in compared]
        return [one for one in found if one.likeness >= self.settings.duplicate]


def _measured(made: Filing, tenant: str, found: list[tuple[Doc, str]]) -> list[_Alike]:
    words = indexing.words(made.prepared)
    return [
        _Alike(doc, minhash.likeness(words, indexing.words(prepare(indexing.cut(tenant, doc, text)[1]))))
        for doc, text in found
    ]


def _says_the_same(before: Doc, doc: Doc) -> bool:
    """True if content and metadata are equal: new tags are a change."""
    return (before.hash, before.tags, before.author, before.published, before.origin) == (
        doc.hash,
        doc.tags,
        doc.author,
        doc.published,
        doc.origin,
    )


def _duplicate(one: _Alike, collection: Collection) -> Duplicate:
    return Duplicate(
        document_id=one.doc.id, title=one.doc.title, collection=collection.name, likeness=round(one.likeness, 3)
    )


def _refused(one: _Alike, collection: Collection) -> str:
    how = "word for word" if one.likeness == 1.0 else f"to {one.likeness:.0%}"
    return Hint(
        f"This is in '{collection.name}' already ({how}): '{one.doc.title}' from {one.doc.name}. It was not stored "
        "again; ",
        Arg("force", True),
        " stores it all the same.",
    )


def _published(given: str | None) -> str | None:
    if given is None or not given.strip():
        return None
    try:
        return names.published(given)
    except ValueError as problem:
        raise InvalidDocumentRequest(f"'date' {problem}.", parameter="date") from None


def _file_name(given: str) -> str:
    """Return the last part of the path: folders of another machine are of no use here."""
    name = one_line(storable(given).replace("\\", "/").rstrip("/").rpartition("/")[2], 255)
    if name in ("", ".", ".."):
        raise InvalidDocumentRequest("'filename' must be the name of a file.", parameter="filename")
    return name


def _decoded(content: str) -> bytes:
    try:
        return base64.b64decode("".join(content.split()), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidDocumentRequest("'content' must be the file's bytes in base64.", parameter="content") from None
