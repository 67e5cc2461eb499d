"""Consistency checks between documents and their index, for `kho doctor`."""

from kho.kernel.ports import Tx
from kho.lib.dataclass import dataclass
from kho.lib.markdown import counted
from kho.lib.sql import number
from kho.research.ingest.indexing import SPACE
from kho.search.indexing.index import Index

_INDEXED = (
    "SELECT count(*) FROM passages AS p WHERE p.space = $1 AND p.tenant = d.tenant "
    "AND p.collection = d.collection_id AND p.key = d.id"
)
_HOMELESS = (
    "FROM passages AS p WHERE p.space = $1 AND NOT EXISTS (SELECT 1 FROM research_documents AS d "
    "WHERE d.tenant = p.tenant AND d.collection_id = p.collection AND d.id = p.key)"
)


@dataclass(frozen=True, slots=True)
class ResearchIntegrity:
    index: Index

    def problems(self, tx: Tx) -> list[str]:
        unindexed = number(tx, f"SELECT count(*) FROM research_documents AS d WHERE ({_INDEXED}) <> d.chunks", SPACE)
        homeless = number(tx, f"SELECT count(*) {_HOMELESS}", SPACE)
        textless = number(
            tx,
            "SELECT count(*) FROM research_documents AS d WHERE NOT EXISTS "
            "(SELECT 1 FROM research_texts AS t WHERE t.tenant = d.tenant AND t.id = d.id)",
        )
        findings = (
            (unindexed, "document", "not indexed as written, and may not be found"),
            (homeless, "passage", "indexed, but of no document"),
            (textless, "document", "without a text: add the file again"),
        )
        return [
            f"{counted(count, what)} {'is' if count == 1 else 'are'} {how}." for count, what, how in findings if count
        ]

    def mend(self, tx: Tx) -> None:
        """Delete passages that belong to no document. Documents that are not indexed are left to the full reindex."""
        rows = tx.all(f"SELECT DISTINCT p.tenant, p.collection, p.key {_HOMELESS}", SPACE)
        by_place: dict[tuple[str, str], list[str]] = {}
        for tenant, collection, key in rows:
            by_place.setdefault((tenant, collection), []).append(key)
        for (tenant, collection), keys in by_place.items():
            self.index.drop(tx, SPACE, tenant, keys, collection)
