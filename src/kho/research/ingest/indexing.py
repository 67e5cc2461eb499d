"""Turns a document's text into what the search core indexes. Derived from the text alone, so it can be rebuilt at any
time."""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kho.lib.chunking.chunker import Chunk, Content, Kind, chunks
from kho.lib.chunking.code_blocks import defined, without_parameters
from kho.lib.dataclass import dataclass
from kho.lib.sql import Table, digest
from kho.parsers import TextChunk
from kho.research import names
from kho.search.indexing import minhash
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare, storable
from kho.search.text.language import language

SPACE = "research"
FORM = 2
"""Index version. Increase it when documents are indexed differently: all are then reindexed."""
JOINT = " > "
"""Separator of the titles in a header path."""
PACKED_FROM = 1_000
"""Minimum bytes at which a text is compressed."""
GIST = 400
"""Number of distinct words from the start of a document used to find near-duplicate candidates; candidates are then
compared in full."""

Origin = Literal["file", "external", "upload"]
_LETTERS: dict[Content, str] = {"prose": "p", "code_block": "c", "table": "t"}
_CONTENTS: dict[str, Content] = {letter: content for content, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Doc:
    """Row of table research_documents."""

    id: str
    collection_id: str
    origin: Origin
    title: str
    hash: str
    """SHA-256 of the original bytes."""
    size_bytes: int
    """Number of the original bytes."""
    created_at: int
    updated_at: int
    path: str | None = None
    """Absolute path; files only."""
    source: str | None = None
    """Source of a text or upload; None for files."""
    format: str = "markdown"
    cut: Kind = "auto"
    """How its text is chunked."""
    modified_at: int | None = None
    """Modification time of the file."""
    tags: tuple[str, ...] = ()
    author: str | None = None
    published: str | None = None
    job_id: str | None = None
    chunks: int = 0
    kinds: str = ""
    """Content type of each chunk, one letter per chunk: prose, code or table."""
    language: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", tuple(self.tags))  # rows hold a list, but documents are compared as a whole

    @property
    def place(self) -> str:
        """Identity of the document when it is added again: a digest of its path, or of its source and title."""
        named = ("path", self.path) if self.path is not None else ("source", self.source or "", self.title)
        return digest(*named)

    @property
    def sought(self) -> str:
        """Text that the filter of a listing is matched against."""
        return names.key("\n".join(part for part in (self.path, self.source, self.title) if part))

    @property
    def name(self) -> str:
        """Display name: path, source or title."""
        return self.path or self.source or self.title

    @property
    def is_untitled(self) -> bool:
        """True if its title is only the name of its file, which says little, unless it is code."""
        named = self.path is not None and self.title in (Path(self.path).name, Path(self.path).stem)
        return named and self.cut != "code"

    def content_type(self, chunk: int) -> Content:
        return _CONTENTS[self.kinds[chunk]] if 0 <= chunk < len(self.kinds) else "prose"

    def content_types(self) -> dict[str, int]:
        counted = {content: self.kinds.count(letter) for content, letter in _LETTERS.items()}
        return {str(content): count for content, count in counted.items() if count}


DOCUMENTS = Table("research_documents", Doc, json=("tags",), names={"size_bytes": "size", "modified_at": "mtime"})


@dataclass(frozen=True, slots=True)
class Filing:
    """A document prepared for storing. The expensive part, done outside of the write transaction, which all writers
    share."""

    doc: Doc
    packed: bool
    text: bytes
    prepared: Prepared

    def under(self, id: str, collection_id: str, created_at: int) -> "Filing":
        """Return the same under another id, collection or creation date, without recomputing anything."""
        doc = replace(self.doc, id=id, collection_id=collection_id, created_at=created_at)
        if doc == self.doc:
            return self
        prepared = self.prepared.refiled(key=id, collection=collection_id, created_at=created_at)
        return replace(self, doc=doc, prepared=prepared)


def make(
    tenant: str, doc: Doc, text: str, passages: Sequence[TextChunk] | None = None, index: Index | None = None
) -> Filing:
    """Prepare a document: chunk the text (unless `passages` are given), tokenize and compress it. Takes milliseconds
    per page: do not run it in the event loop. A text that is new is refused by `index` if it is too much."""
    text = storable(text)
    doc, document = cut(tenant, _storable(doc), text, passages, index.most_passages if index else 0)
    prepared = index.prepare(document) if index else prepare(document)
    packed, content = pack(text)
    return Filing(doc, packed, content, replace(prepared, bands=minhash.bands(_beginning(prepared))))


def cut(
    tenant: str, doc: Doc, text: str, passages: Sequence[TextChunk] | None = None, most: int = 0
) -> tuple[Doc, Document]:
    """Chunk the text. Return the row with its chunk columns filled in, and the document for the search core."""
    found = chunks(text, kind=doc.cut, most=most) if passages is None else passages
    kinds = "".join(_LETTERS[one.content] for one in found)
    doc = replace(doc, chunks=len(found), kinds=kinds, language=language(text))
    label = doc.title if doc.is_untitled else ""
    filed = [Passage((Field(one.text),), _heading(doc, one), label) for one in found]
    return doc, Document(SPACE, tenant, doc.id, filed, doc.collection_id, "", doc.tags, doc.created_at)


def elsewhere(tenant: str, doc: Doc, text: str, collection_id: str) -> tuple[Doc, Prepared]:
    """Prepare the document for another collection. Its text is chunked again, perhaps differently."""
    doc, document = cut(tenant, replace(doc, collection_id=collection_id), text)
    return doc, prepare(document)


def header_path(heading: str, title: str) -> str:
    """Return the titles above a passage without the document's own title, which the index puts in front of them."""
    return "" if heading == title else heading.removeprefix(title + JOINT)


def words(prepared: Prepared) -> set[str]:
    """Return all words of a document, for measuring its similarity to another."""
    return {word for part in prepared.parts for word in part.body}


def pack(text: str) -> tuple[bool, bytes]:
    content = text.encode()
    return (True, zlib.compress(content, 6)) if len(content) >= PACKED_FROM else (False, content)


def unpack(packed: int, content: bytes) -> str:
    return (zlib.decompress(content) if packed else bytes(content)).decode()


def _storable(doc: Doc) -> Doc:
    """Replace characters that cannot be stored, as the index does: a file name need not be valid Unicode."""
    named = {name: getattr(doc, name) for name in ("path", "source", "title", "author")}
    return replace(doc, **{name: storable(value) for name, value in named.items() if value is not None})


def _heading(doc: Doc, chunk: Chunk | TextChunk) -> str:
    heading = chunk.heading
    if doc.cut == "code":
        # A question says it in words, which the model does not see in `parseArgs`; parameters only distract it.
        names = defined("\n".join((*heading, chunk.text)))
        heading = (*map(without_parameters, heading), *filter(None, (names,)))
    # The document's title is included: it often matches a query, and the passage's own text does not repeat it. The
    # name of a file is mostly no title: it is found by its words, but would only distract the model.
    titled = heading[:1] == (doc.title,) or doc.is_untitled
    return JOINT.join(heading if titled else (doc.title, *heading))


def _beginning(prepared: Prepared) -> set[str]:
    found: set[str] = set()
    for part in prepared.parts:
        found.update(part.body)
        if len(found) >= GIST:
            break
    return found
