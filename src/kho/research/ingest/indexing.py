"""A document's text as the search core files it. Derived from the text alone, so it can be made again at any time."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kho.lib.chunking.chunker import Content, Kind, chunks
from kho.lib.sql import Table, digest
from kho.parsers import TextChunk
from kho.research import names
from kho.search.indexing import minhash
from kho.search.indexing.index import Document, Field, Passage, Prepared, prepare, storable
from kho.search.text.language import language

SPACE = "research"
FORM = 1
"""Goes up when documents are indexed differently: they are then re-indexed."""
JOINT = " > "
"""Between the titles of a header path."""
PACKED_FROM = 1_000
"""Bytes from which packing a text is worth it."""
GIST = 400
"""Words of a document by which near-duplicates are looked for; who is found is compared in full."""

Origin = Literal["file", "external", "upload"]
_LETTERS: dict[Content, str] = {"prose": "p", "code_block": "c", "table": "t"}
_CONTENTS: dict[str, Content] = {letter: content for content, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Doc:
    """A document's row."""

    id: str
    collection_id: str
    origin: Origin
    path: str | None
    """As it was read, absolute; of files only."""
    source: str | None
    """The origin of what came as text."""
    title: str
    format: str
    cut: Kind
    """How its text is cut into passages."""
    hash: str
    """The SHA-256 of the bytes that it was made from."""
    size: int
    """The number of those bytes."""
    mtime: int | None
    tags: tuple[str, ...]
    author: str | None
    published: str | None
    job_id: str | None
    created_at: int
    updated_at: int
    chunks: int = 0
    kinds: str = ""
    """One letter per chunk: prose, code or table."""
    language: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", tuple(self.tags))  # a row has a list; documents are compared as a whole

    @property
    def place(self) -> str:
        """Identifies the document when it comes again: a digest of its path, or of its source and title."""
        named = ("path", self.path) if self.path is not None else ("source", self.source or "", self.title)
        return digest(*named)

    @property
    def sought(self) -> str:
        """The text that a filter searches."""
        return names.key("\n".join(part for part in (self.path, self.source, self.title) if part))

    @property
    def name(self) -> str:
        """The name that people know it by."""
        return self.path or self.source or self.title

    def content_type(self, chunk: int) -> Content:
        return _CONTENTS[self.kinds[chunk]] if 0 <= chunk < len(self.kinds) else "prose"

    def content_types(self) -> dict[str, int]:
        counted = {content: self.kinds.count(letter) for content, letter in _LETTERS.items()}
        return {str(content): count for content, count in counted.items() if count}


DOCUMENTS = Table("research_documents", Doc, json=("tags",))


@dataclass(frozen=True, slots=True)
class Filing:
    """A document that is ready to be stored. The costly part, done outside of the transaction that all writes share."""

    doc: Doc
    packed: bool
    text: bytes
    prepared: Prepared

    def under(self, id: str, collection_id: str, created_at: int) -> "Filing":
        """The same under another id, in another collection or with another date; nothing is computed again."""
        doc = replace(self.doc, id=id, collection_id=collection_id, created_at=created_at)
        if doc == self.doc:
            return self
        document = replace(self.prepared.document, key=id, collection=collection_id, created_at=created_at)
        moved = {"collection": collection_id, "created_at": created_at}
        parts = [
            replace(part, stored=replace(part.stored, key=id, ref=replace(part.stored.ref, **moved)))
            for part in self.prepared.parts
        ]
        return replace(self, doc=doc, prepared=replace(self.prepared, document=document, parts=parts))


def make(tenant: str, doc: Doc, text: str, passages: Sequence[TextChunk] | None = None) -> Filing:
    """Cuts, unless that was done, folds and packs. Takes milliseconds per page: not for the event loop."""
    text = storable(text)
    doc, document = cut(tenant, _storable(doc), text, passages)
    prepared = prepare(document)
    packed, content = pack(text)
    return Filing(doc, packed, content, replace(prepared, bands=minhash.bands(_beginning(prepared))))


def cut(tenant: str, doc: Doc, text: str, passages: Sequence[TextChunk] | None = None) -> tuple[Doc, Document]:
    """The row, with what is known of its chunks, and what the search core gets."""
    found = chunks(text, kind=doc.cut) if passages is None else passages
    kinds = "".join(_LETTERS[one.content] for one in found)
    doc = replace(doc, chunks=len(found), kinds=kinds, language=language(text))
    filed = [Passage((Field(one.text),), _heading(doc.title, one.heading)) for one in found]
    return doc, Document(SPACE, tenant, doc.id, filed, doc.collection_id, "", doc.tags, doc.created_at)


def elsewhere(tenant: str, doc: Doc, text: str, collection_id: str) -> tuple[Doc, Prepared]:
    """The document, ready to be indexed in another collection. It is cut into passages again, perhaps differently."""
    doc, document = cut(tenant, replace(doc, collection_id=collection_id), text)
    return doc, prepare(document)


def header_path(heading: str, title: str) -> str:
    """The titles above a passage, without the document's own, which stands in front of them in the index."""
    return "" if heading == title else heading.removeprefix(title + JOINT)


def words(prepared: Prepared) -> set[str]:
    """All of a document's words, by which its likeness to another is measured."""
    return {word for part in prepared.parts for word in part.body}


def pack(text: str) -> tuple[bool, bytes]:
    content = text.encode()
    return (True, zlib.compress(content, 6)) if len(content) >= PACKED_FROM else (False, content)


def unpack(packed: int, content: bytes) -> str:
    return (zlib.decompress(content) if packed else bytes(content)).decode()


def _storable(doc: Doc) -> Doc:
    """A file's name need not be text; what is not is replaced, here as in the index."""
    named = {name: getattr(doc, name) for name in ("path", "source", "title", "author")}
    return replace(doc, **{name: storable(value) for name, value in named.items() if value is not None})


def _heading(title: str, heading: tuple[str, ...]) -> str:
    # A passage is often found by its document's title, which its own text does not repeat.
    return JOINT.join(heading if heading[:1] == (title,) else (title, *heading))


def _beginning(prepared: Prepared) -> set[str]:
    found: set[str] = set()
    for part in prepared.parts:
        found.update(part.body)
        if len(found) >= GIST:
            break
    return found
