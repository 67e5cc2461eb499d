"""Checks of research documents against their texts and collections."""

import hashlib
import zlib
from collections.abc import Iterator

from kho.kernel.ports import Tx
from kho.kernel.upkeep.checks import Checks, Rule, every
from kho.kernel.upkeep.defect import Finding, Progress, found
from kho.lib.sql import insert, update
from kho.research import names
from kho.research.ingest.indexing import DOCUMENTS, FORM, SPACE, Doc, pack, unpack
from kho.research.library.collection_store import Collection, create
from kho.research.library.document_store import readable_documents
from kho.search.indexing.integrity import SliceUpkeep

SALVAGED = "salvaged"
"""Id and name of the collection of what is left of documents whose row or collection is lost."""
_KEY = ("tenant", "id")
_NO = "NOT EXISTS (SELECT 1 FROM {} AS x WHERE x.tenant = t.tenant AND {})"
_TEXTLESS = "FROM research_documents AS t WHERE " + _NO.format("research_texts", "x.id = t.id")
_HOMELESS = "FROM research_documents AS t WHERE " + _NO.format("research_collections", "x.id = t.collection_id")
_OF_NOTHING = "FROM {} AS t WHERE " + _NO.format("research_documents", "x.id = t.{}")
_TEXTS = _OF_NOTHING.format("research_texts", "id")
_VERDICTS = _OF_NOTHING.format("research_feedback", "document_id")

_INDEXED = (
    "SELECT count(*) FROM passages AS p WHERE p.space = 'research' AND p.tenant = t.tenant "
    "AND p.collection = t.collection_id AND p.key = t.id"
)
_STRAY = (
    "FROM passages AS t WHERE t.space = 'research' AND NOT EXISTS (SELECT 1 FROM research_documents AS d "
    "WHERE d.tenant = t.tenant AND d.collection_id = t.collection AND d.id = t.key)"
)

_RULES = (
    Rule(
        "passages",
        "document",
        "not indexed as written, and may not be found",
        f"FROM research_documents AS t WHERE ({_INDEXED}) <> t.chunks",
        cure="repair",
    ),
    Rule("passages", "passage", "indexed, but of no document", _STRAY, cure="repair"),
    Rule(
        "research_documents",
        "document",
        "without a text: add the file again",
        _TEXTLESS,
        (f"INSERT INTO research_texts (tenant, id, packed, text) SELECT t.tenant, t.id, 0, x'' {_TEXTLESS}",),
    ),
    Rule("research_texts", "text", "of no document", _TEXTS),
    Rule("research_documents", "document", "in a collection that is not there", _HOMELESS),
    Rule("research_feedback", "verdict", "of no document", _VERDICTS, (f"DELETE {_VERDICTS}",)),
    *(
        Rule(
            "research_project_collections",
            "collection of a project",
            "not there",
            "FROM research_project_collections AS t WHERE " + _NO.format(table, f"x.id = t.{column}"),
            (f"DELETE FROM research_project_collections AS t WHERE {_NO.format(table, f'x.id = t.{column}')}",),
        )
        for table, column in (("research_projects", "project_id"), ("research_collections", "collection_id"))
    ),
)


def _digests(tx: Tx, progress: Progress) -> Iterator[Finding]:
    """Unpack every text: what is packed carries a checksum of its own."""
    progress("Texts of documents", 0, 0)
    wrong = sum(_text(*row) is None for row in every(tx, "research_texts", _KEY, ("packed", "text")))
    yield from found(wrong, "text", "unreadable", "research_texts")


def _text(packed: int, content: bytes) -> str | None:
    try:
        return unpack(packed, content)
    except (zlib.error, UnicodeDecodeError, TypeError):
        return None


def _beginning(content: bytes) -> str:
    """Return what can be unpacked of a text whose rest is lost."""
    unpacker, found = zlib.decompressobj(), bytearray()
    try:
        for at in range(len(content)):
            found += unpacker.decompress(content[at : at + 1])
    except zlib.error:
        pass
    return found.decode("utf-8", "ignore")


def _settle(tx: Tx) -> None:
    """Keep every text that can be read, in a document of its own if its row is lost."""
    for tenant, id, packed, content in tx.all("SELECT tenant, id, packed, text FROM research_texts"):
        if _text(packed, content) is None:
            some, text = pack(_beginning(content))
            update(tx, "research_texts", {"packed": int(some), "text": text}, tenant=tenant, id=id)
    for tenant, collection in tx.all(f"SELECT DISTINCT t.tenant, t.collection_id {_HOMELESS}"):
        _collect(tx, tenant, collection, f"{SALVAGED}-{collection[:8]}")
    for tenant, id, packed, content in tx.all(f"SELECT t.tenant, t.id, t.packed, t.text {_TEXTS}"):
        _collect(tx, tenant, SALVAGED, SALVAGED)
        text = (_text(packed, content) or "").encode()
        digest = hashlib.sha256(text).hexdigest()
        doc = Doc(id, SALVAGED, "external", f"Salvaged: {id}", digest, len(text), 0, 0, source=SALVAGED)
        insert(
            tx,
            "research_documents",
            {"tenant": tenant, "place": doc.place, "sought": doc.sought, **DOCUMENTS.write(doc)},
        )


def _collect(tx: Tx, tenant: str, id: str, name: str) -> None:
    if tx.one("SELECT 1 FROM research_collections WHERE tenant = $1 AND id = $2", tenant, id) is None:
        create(tx, tenant, Collection(id, names.key(name), "general", "Read out of a damaged store.", SALVAGED, 0, 0))


UPKEEP = SliceUpkeep(
    space=SPACE,
    form=FORM,
    pages=readable_documents,
    checks=Checks(
        rules=_RULES,
        json=(("research_documents", _KEY, ("tags",)), ("research_jobs", _KEY, ("skipped",))),
        digests=_digests,
        settles=_settle,
    ),
)
