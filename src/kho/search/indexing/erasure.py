"""What the indexes hold of tenants. Rows take their entries with them; this is what is left when all rows are gone."""

from collections.abc import Sequence

from kho.kernel.ports import Row, Tx
from kho.kernel.upkeep.erasure import Gone, Nameless, Whom, delete_some
from kho.lib.dataclass import dataclass
from kho.lib.sql import number
from kho.search.indexing.index import Index


def drop_each(index: Index, tx: Tx, space: str, tenant: str, rows: Sequence[Row]) -> None:
    """Drop the entries of rows that are (key, collection)."""
    by_collection: dict[str, list[str]] = {}
    for key, collection in rows:
        by_collection.setdefault(collection, []).append(key)
    for collection, keys in by_collection.items():
        index.drop(tx, space, tenant, keys, collection)


@dataclass(frozen=True, slots=True)
class Entries(Nameless):
    index: Index
    slice: str = "search"
    tables: Sequence[str] = ("passages", "similarity_bands", "search_versions")

    def count(self, tx: Tx, whom: Whom) -> dict[str, int]:
        if not whom.everything:
            return {}
        counted = {"passages": "", "similarity_bands": "", "search_versions": " AND (items <> 0 OR bytes <> 0)"}
        return {
            table: number(tx, f"SELECT count(*) FROM {table} WHERE tenant = $1{more}", whom.tenant)
            for table, more in counted.items()
        }

    def erase(self, tx: Tx, whom: Whom, limit: int) -> Gone:
        if not whom.everything:
            return Gone()
        if dropped := self.index.drop_any(tx, whom.tenant, limit):
            return Gone(dropped)
        key = ("space", "collection", "band", "key")
        if bands := delete_some(tx, "similarity_bands", key, "tenant = $1", [whom.tenant], limit):
            return Gone(len(bands))
        # The counter of versions goes on: rankings that are kept in processes are told apart by it.
        sql = (
            "UPDATE search_versions SET version = version + 1, items = 0, bytes = 0 "
            "WHERE tenant = $1 AND (items <> 0 OR bytes <> 0)"
        )
        return Gone(tx.run(sql, whom.tenant))
