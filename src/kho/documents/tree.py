"""SQL of the tree: parents and the order of siblings.

Siblings are ordered by `place`, a number with gaps between neighbours, so that inserting one between two others changes
its own row only. Callers see a dense `ordering` instead, counted among those that are not deleted: 0, 1, 2 …
"""

from collections.abc import Iterable, Sequence

from kho.documents.store import COLUMNS, FROM, StoredDocument, document_of
from kho.kernel.ports import Tx, Value
from kho.lib.sql import among, marks, update

# Recursive queries down the tree use CROSS JOIN, from parent to child, and no other "=" on an indexed column (but "NOT
# a <> b"): SQLite keeps that join order. Otherwise it would scan the whole tenant, or a whole deletion, at each step.
GAP = 2**32
MAX_DEPTH = 100
"""Maximum number of levels of a tree."""


def hold(tx: Tx, tenant: str) -> None:
    """Lock a tenant's tree: concurrent changes wait here, and then see the result of this transaction."""
    tx.run(
        "INSERT INTO document_trees (tenant, changes) VALUES ($1, 1) "
        "ON CONFLICT (tenant) DO UPDATE SET changes = document_trees.changes + 1",
        tenant,
    )


def above(tx: Tx, tenant: str, id: str) -> list[str]:
    """Return the ids from the document's parent up to the top, without 'root'."""
    statement = (
        "WITH RECURSIVE up (id, parent, level) AS ("
        "SELECT id, parent, 0 FROM documents WHERE tenant = $1 AND id = $2 UNION ALL "
        "SELECT d.id, d.parent, up.level + 1 FROM documents AS d JOIN up ON d.id = up.parent "
        "WHERE d.tenant = $3 AND up.level < 1000) SELECT id FROM up WHERE level > 0 ORDER BY level"
    )
    return [id for (id,) in tx.all(statement, tenant, id, tenant)]


def below(tx: Tx, tenant: str, id: str, *, deletion: str | None = None) -> list[tuple[str, int]]:
    """Return the document itself and all below it, with their depth: those that are not deleted, or those that
    `deletion` deleted."""
    alive = "d.deleted_at IS NULL" if deletion is None else "NOT d.deletion <> $4"
    statement = (
        "WITH RECURSIVE down (id, level) AS ("
        "SELECT id, 0 FROM documents WHERE tenant = $1 AND id = $2 UNION ALL "
        "SELECT d.id, down.level + 1 FROM down CROSS JOIN documents AS d "
        f"WHERE d.parent = down.id AND d.tenant = $3 AND down.level < 1000 AND {alive}) "
        "SELECT id, level FROM down ORDER BY level, id"
    )
    rows = tx.all(statement, tenant, id, tenant, *(() if deletion is None else (deletion,)))
    return [(id, level) for id, level in rows]


def with_children(tx: Tx, tenant: str, id: str) -> list[str]:
    """Return the ids of the document and of those below it, as far as they have children."""
    statement = (
        "WITH RECURSIVE down (id, level) AS ("
        "SELECT CAST($1 AS TEXT), 0 UNION ALL "
        "SELECT d.id, down.level + 1 FROM down CROSS JOIN documents AS d "
        "WHERE d.parent = down.id AND d.tenant = $2 AND down.level < 1000 AND d.deleted_at IS NULL) "
        "SELECT id FROM down WHERE EXISTS "
        "(SELECT 1 FROM documents AS c WHERE c.tenant = $3 AND c.parent = down.id AND c.deleted_at IS NULL)"
    )
    return [id for (id,) in tx.all(statement, id, tenant, tenant)]


def shape(tx: Tx, tenant: str, id: str, deleted: bool) -> dict[str, list[str]]:
    """Return the ids of the children, in order, of the document and of every document below it, by parent."""
    alive = "" if deleted else " AND d.deleted_at IS NULL"
    statement = (
        "WITH RECURSIVE down (id, parent, place, level) AS ("
        "SELECT CAST($1 AS TEXT), CAST('' AS TEXT), CAST(0 AS BIGINT), 0 UNION ALL "
        "SELECT d.id, d.parent, d.place, down.level + 1 FROM down CROSS JOIN documents AS d "
        f"WHERE d.parent = down.id AND d.tenant = $2 AND down.level < 1000{alive}) "
        "SELECT id, parent FROM down WHERE level > 0 ORDER BY place, id"
    )
    rows = tx.all(statement, id, tenant)
    found: dict[str, list[str]] = {}
    for child, parent in rows:
        found.setdefault(parent, []).append(child)
    return found


def ordering(tx: Tx, tenant: str, document: StoredDocument) -> int:
    """Count the siblings before a document, without deleted ones."""
    statement = (
        "SELECT COUNT(*) FROM documents WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL "
        "AND (place < $3 OR (place = $4 AND id < $5))"
    )
    row = tx.one(statement, tenant, document.parent, document.place, document.place, document.id)
    return row[0] if row else 0


def orderings(tx: Tx, tenant: str, documents: Iterable[StoredDocument]) -> dict[str, int]:
    """Count the siblings before each document, without deleted ones."""
    by_parent: dict[str, list[str]] = {}
    for one in documents:
        by_parent.setdefault(one.parent, []).append(one.id)
    found: dict[str, int] = {}
    for parent, ids in by_parent.items():
        statement = (
            "SELECT id, number FROM (SELECT id, ROW_NUMBER() OVER (ORDER BY place, id) - 1 AS number FROM documents "
            f"WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL) AS siblings WHERE id IN ({marks(len(ids), 3)})"
        )
        rows = tx.all(statement, tenant, parent, *ids)
        found |= dict(rows)
    return found


def children(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, int]:
    """Count the children of each document; those without any are left out."""
    select = "SELECT parent, COUNT(*) FROM documents WHERE tenant = $1 AND parent"
    return dict(among(tx, select, ids, tenant, rest=" AND deleted_at IS NULL GROUP BY parent"))


def last_place(tx: Tx, tenant: str, parent: str) -> int:
    """Return a place after all siblings, including deleted ones, which may be restored."""
    row = tx.one("SELECT MAX(place) FROM documents WHERE tenant = $1 AND parent = $2", tenant, parent)
    return 0 if row is None or row[0] is None else row[0] + GAP


def place_at(tx: Tx, tenant: str, parent: str, ordering: int, moved: str) -> int:
    """Return a place with `ordering` siblings before it, not counting the moved document."""
    statement = (
        "SELECT id FROM documents WHERE tenant = $1 AND parent = $2 AND deleted_at IS NULL AND id <> $3 "
        "ORDER BY place, id LIMIT 1 OFFSET $4"
    )
    row = tx.one(statement, tenant, parent, moved, ordering)
    return last_place(tx, tenant, parent) if row is None else place_before(tx, tenant, parent, row[0], moved)


def place_before(tx: Tx, tenant: str, parent: str, sibling: str, moved: str) -> int:
    """Return a place just before a sibling. If there is no gap left, all siblings are respaced first."""
    for _ in range(2):
        row = tx.one("SELECT place FROM documents WHERE tenant = $1 AND id = $2", tenant, sibling)
        here: int = row[0] if row else 0
        statement = (
            "SELECT MAX(place) FROM documents WHERE tenant = $1 AND parent = $2 AND id <> $3 AND id <> $4 "
            "AND (place < $5 OR (place = $6 AND id < $7))"
        )
        row = tx.one(statement, tenant, parent, moved, sibling, here, here, sibling)
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
) -> list[tuple[StoredDocument, Value]]:
    """Return children after `after` = (sort key, id) in the given order, each with its sort key."""
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
    statement = (
        f"SELECT {COLUMNS}, {by} FROM {FROM} WHERE d.tenant = $1 AND d.parent = $2{where}{hidden} "
        f"ORDER BY {by} {direction}, d.id LIMIT ${3 + len(values)}"
    )
    return [(document_of(row), row[-1]) for row in tx.all(statement, tenant, parent, *values, limit)]


def _spread(tx: Tx, tenant: str, parent: str) -> None:
    rows = tx.all("SELECT id FROM documents WHERE tenant = $1 AND parent = $2 ORDER BY place, id", tenant, parent)
    tx.many(
        "UPDATE documents SET place = $1 WHERE tenant = $2 AND id = $3",
        [(number * GAP, tenant, id) for number, (id,) in enumerate(rows)],
    )
