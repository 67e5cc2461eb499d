"""The SQL of the tree: who stands below whom, and in which order.

Siblings are ordered by `place`, a number with room between neighbours, so that putting one between two others touches
its own row alone. What callers see is counted: 0, 1, 2 … among those that are not deleted, and so always dense.
"""

from collections.abc import Iterable, Sequence

from kho.documents.store import COLUMNS, FROM, Document, document_of
from kho.kernel.ports import Tx, Value
from kho.lib.sql import among, marks, update

# Walks downwards say CROSS JOIN, from the level above to the one below, and beside it no other "=" that has an index:
# SQLite keeps to that order, and would else read the whole tenant, or a whole deletion, for every step of the walk.
GAP = 2**32
MAX_DEPTH = 100
"""Levels that a tree may have."""


def hold(tx: Tx, tenant: str) -> None:
    """One change of a tenant's tree at a time: whoever comes second waits here, and then sees what the first did."""
    tx.run(
        "INSERT INTO document_trees (tenant, changes) VALUES ($1, 1) "
        "ON CONFLICT (tenant) DO UPDATE SET changes = document_trees.changes + 1",
        tenant,
    )


def above(tx: Tx, tenant: str, id: str) -> list[str]:
    """The ids from the document's parent up to the top, without 'root'."""
    rows = tx.all(
        "WITH RECURSIVE up (id, parent, level) AS ("
        "SELECT id, parent, 0 FROM documents WHERE tenant = $1 AND id = $2 UNION ALL "
        "SELECT d.id, d.parent, up.level + 1 FROM documents AS d JOIN up ON d.id = up.parent "
        "WHERE d.tenant = $3 AND up.level < 1000) SELECT id FROM up WHERE level > 0 ORDER BY level",
        tenant,
        id,
        tenant,
    )
    return [id for (id,) in rows]


def below(tx: Tx, tenant: str, id: str, *, deletion: str | None = None) -> list[tuple[str, int]]:
    """The document itself and all below it, with their depth: those that are not deleted, or those that one deletion
    took away."""
    alive = "d.deleted_at IS NULL" if deletion is None else "NOT d.deletion <> $4"
    rows = tx.all(
        "WITH RECURSIVE down (id, level) AS ("
        "SELECT id, 0 FROM documents WHERE tenant = $1 AND id = $2 UNION ALL "
        "SELECT d.id, down.level + 1 FROM down CROSS JOIN documents AS d "
        f"WHERE d.parent = down.id AND d.tenant = $3 AND down.level < 1000 AND {alive}) "
        "SELECT id, level FROM down ORDER BY level, id",
        tenant,
        id,
        tenant,
        *(() if deletion is None else (deletion,)),
    )
    return [(id, level) for id, level in rows]


def with_children(tx: Tx, tenant: str, id: str) -> list[str]:
    """The document and those below it that have children themselves."""
    rows = tx.all(
        "WITH RECURSIVE down (id, level) AS ("
        "SELECT CAST($1 AS TEXT), 0 UNION ALL "
        "SELECT d.id, down.level + 1 FROM down CROSS JOIN documents AS d "
        "WHERE d.parent = down.id AND d.tenant = $2 AND down.level < 1000 AND d.deleted_at IS NULL) "
        "SELECT id FROM down WHERE EXISTS "
        "(SELECT 1 FROM documents AS c WHERE c.tenant = $3 AND c.parent = down.id AND c.deleted_at IS NULL)",
        id,
        tenant,
        tenant,
    )
    return [id for (id,) in rows]


def shape(tx: Tx, tenant: str, id: str, deleted: bool) -> dict[str, list[str]]:
    """The ids of the children of every document below, and of the document itself, in order."""
    alive = "" if deleted else " AND d.deleted_at IS NULL"
    rows = tx.all(
        "WITH RECURSIVE down (id, parent, place, level) AS ("
        "SELECT CAST($1 AS TEXT), CAST('' AS TEXT), CAST(0 AS BIGINT), 0 UNION ALL "
        "SELECT d.id, d.parent, d.place, down.level + 1 FROM down CROSS JOIN documents AS d "
        f"WHERE d.parent = down.id AND d.tenant = $2 AND down.level < 1000{alive}) "
        "SELECT id, parent FROM down WHERE level > 0 ORDER BY place, id",
        id,
        tenant,
    )
    found: dict[str, list[str]] = {}
    for child, parent in rows:
        found.setdefault(parent, []).append(child)
    return found


def ordering(tx: Tx, tenant: str, document: Document) -> int:
    """Counts the siblings before it."""
    row = tx.one(
        "SELECT COUNT(*) FROM documents WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL "
        "AND (place < $3 OR (place = $4 AND id < $5))",
        tenant,
        document.parent,
        document.place,
        document.place,
        document.id,
    )
    return row[0] if row else 0


def orderings(tx: Tx, tenant: str, documents: Iterable[Document]) -> dict[str, int]:
    """Counts the siblings before each, without those that are deleted."""
    by_parent: dict[str, list[str]] = {}
    for one in documents:
        by_parent.setdefault(one.parent, []).append(one.id)
    found: dict[str, int] = {}
    for parent, ids in by_parent.items():
        rows = tx.all(
            "SELECT id, number FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY place, id) - 1 AS number FROM documents "
            f"WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL) AS siblings WHERE id IN ({marks(len(ids), 3)})",
            tenant,
            parent,
            *ids,
        )
        found |= dict(rows)
    return found


def children(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    """Counts the children of each; documents without any are left out."""
    select = "SELECT parent, COUNT(*) FROM documents WHERE tenant = $1 AND parent"
    return dict(among(tx, select, ids, tenant, rest=" AND deleted_at IS NULL GROUP BY parent"))


def last_place(tx: Tx, tenant: str, parent: str) -> int:
    """Behind all others, also behind those that are deleted and may come back."""
    row = tx.one("SELECT MAX(place) FROM documents WHERE tenant = $1 AND parent = $2", tenant, parent)
    return 0 if row is None or row[0] is None else row[0] + GAP


def place_at(tx: Tx, tenant: str, parent: str, ordering: int, moved: str) -> int:
    """A place with so many siblings before it, the moved document not counted."""
    row = tx.one(
        "SELECT id FROM documents WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL AND id <> $3 "
        "ORDER BY place, id LIMIT 1 OFFSET $4",
        tenant,
        parent,
        moved,
        ordering,
    )
    return last_place(tx, tenant, parent) if row is None else place_before(tx, tenant, parent, row[0], moved)


def place_before(tx: Tx, tenant: str, parent: str, sibling: str, moved: str) -> int:
    """A place just before a sibling. Where there is no room left, all siblings are spread out again."""
    for _ in range(2):
        row = tx.one("SELECT place FROM documents WHERE tenant = $1 AND id = $2", tenant, sibling)
        here: int = row[0] if row else 0
        row = tx.one(
            "SELECT MAX(place) FROM documents WHERE tenant = $1 AND parent = $2 AND id <> $3 AND id <> $4 "
            "AND (place < $5 OR (place = $6 AND id < $7))",
            tenant,
            parent,
            moved,
            sibling,
            here,
            here,
            sibling,
        )
        if row is None or row[0] is None:
            return here - GAP
        if here - row[0] > 1:
            return (here + row[0]) // 2
        _spread(tx, tenant, parent)
    raise AssertionError("siblings that were just spread out have room between them")


def put(tx: Tx, tenant: str, id: str, parent: str, place: int, now: int) -> None:
    update(tx, "documents", {"parent": parent, "place": place, "updated_at": now}, tenant=tenant, id=id)


def mark_deleted(tx: Tx, tenant: str, ids: Sequence[str], deletion: str, at: int) -> None:
    tx.many(
        "UPDATE documents SET deleted_at = $1, deletion = $2 WHERE tenant = $3 AND id = $4",
        [(at, deletion, tenant, id) for id in ids],
    )


def mark_restored(tx: Tx, tenant: str, ids: Sequence[str]) -> None:
    tx.many(
        "UPDATE documents SET deleted_at = NULL, deletion = NULL WHERE tenant = $1 AND id = $2",
        [(tenant, id) for id in ids],
    )


_SORTED = {
    "order": ("d.place", "ASC"),
    "title": ("", "ASC"),
    "created_at": ("d.created_at", "DESC"),
    "updated_at": ("d.updated_at", "DESC"),
}


def page(
    tx: Tx, tenant: str, parent: str, sort: str, deleted: bool, after: tuple[Value, str] | None, limit: int
) -> list[tuple[Document, Value]]:
    """Children behind a place in their order, each with what it is ordered by."""
    by, direction = _SORTED[sort]
    if sort == "title":
        title = "json_extract(r.metadata, '$.title')" if tx.engine == "sqlite" else "r.metadata::jsonb ->> 'title'"
        by = f"lower(coalesce({title}, d.id))"
    where, values = "", list[Value]()
    if after is not None:
        further = ">" if direction == "ASC" else "<"
        where = f" AND ({by} {further} $3 OR ({by} = $4 AND d.id > $5))"
        values = [after[0], after[0], after[1]]
    hidden = "" if deleted else " AND d.deleted_at IS NULL"
    rows = tx.all(
        f"SELECT {COLUMNS}, {by} FROM {FROM} WHERE d.tenant = $1 AND d.parent = $2{where}{hidden} "
        f"ORDER BY {by} {direction}, d.id LIMIT ${3 + len(values)}",
        tenant,
        parent,
        *values,
        limit,
    )
    return [(document_of(row), row[-1]) for row in rows]


def _spread(tx: Tx, tenant: str, parent: str) -> None:
    rows = tx.all("SELECT id FROM documents WHERE tenant = $1 AND parent = $2 ORDER BY place, id", tenant, parent)
    tx.many(
        "UPDATE documents SET place = $1 WHERE tenant = $2 AND id = $3",
        [(number * GAP, tenant, id) for number, (id,) in enumerate(rows)],
    )
