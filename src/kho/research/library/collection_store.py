"""SQL of collections. Every statement filters by tenant."""

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol

from kho.kernel import Hint, Op, Tx
from kho.lib import sql
from kho.lib.dataclass import dataclass
from kho.lib.sql import NOTHING, Table, among, marks
from kho.research import names
from kho.research.errors import UnknownCollection

GUESSED_FROM = 5_000
"""Maximum names that a mistyped one is compared with."""


class InCollection(Protocol):
    @property
    def collection_id(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Collection:
    id: str
    name: str
    type: str
    description: str
    created_by: str
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class Size:
    documents: int = 0
    chunks: int = 0
    size_bytes: int = 0


COLLECTIONS = Table("research_collections", Collection)
SELECT = f"SELECT {COLLECTIONS.columns} FROM research_collections"


def create(tx: Tx, tenant: str, collection: Collection) -> bool:
    """Insert a collection. False if the name is taken, also by a concurrent insert."""
    key = names.key(collection.name)
    return COLLECTIONS.insert(tx, collection, conflict=NOTHING, tenant=tenant, name_key=key) == 1


def new(name: str, type: str, description: str, by: str, now: int) -> Collection:
    return Collection(str(uuid.uuid4()), name, type, description, by, now, now)


def find(tx: Tx, tenant: str, name: str) -> Collection | None:
    return COLLECTIONS.find(tx, tenant=tenant, name_key=names.key(name))


def need(tx: Tx, tenant: str, name: str) -> Collection:
    """Return the collection of that name, or raise UnknownCollection with suggestions."""
    found = find(tx, tenant, name)
    if found is None:
        there = Op("manage_collections", action="list")
        new = Op("manage_collections", action="create", collection_name=name)
        raise UnknownCollection(
            f"There is no collection '{name}'.", **guess(tx, tenant, "collection", name, there, new)
        )
    return found


def find_or_new(tx: Tx, tenant: str, name: str, by: str, now: int) -> tuple[Collection, bool]:
    """Return the collection of that name, or one to store and True."""
    found = find(tx, tenant, name)
    return (new(name, "fundamental", "", by, now), True) if found is None else (found, False)


def need_stored(tx: Tx, tenant: str, collection: Collection) -> tuple[Collection, bool]:
    """Store a new collection and return it with True, or the one that took its name meanwhile."""
    stored = create(tx, tenant, collection)
    return (collection, True) if stored else (need(tx, tenant, collection.name), False)


def by_ids(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, Collection]:
    return {row.id: row for row in COLLECTIONS.read_all(among(tx, f"{SELECT} WHERE tenant = $1 AND id", ids, tenant))}


def names_of(tx: Tx, tenant: str, rows: Iterable[InCollection]) -> dict[str, str]:
    """Return the names of the collections that documents or jobs belong to, by id."""
    ids = sorted({row.collection_id for row in rows if row.collection_id})
    return {id: row.name for id, row in by_ids(tx, tenant, ids).items()}


def lock(tx: Tx, tenant: str, ids: Sequence[str], now: int | None = None) -> None:
    """Lock collections until the transaction ends; `now` also sets updated_at. In a fixed order, so that two writers
    cannot deadlock."""
    for id in sorted(set(ids)):
        statement = (
            "UPDATE research_collections SET updated_at = coalesce($1, updated_at) WHERE tenant = $2 AND id = $3"
        )
        found = tx.run(statement, now, tenant, id)
        if not found:
            raise UnknownCollection("The collection was deleted meanwhile. Nothing was changed.")


def need_locked(tx: Tx, tenant: str, name: str) -> Collection:
    collection = need(tx, tenant, name)
    lock(tx, tenant, [collection.id])
    # Read again: it may have been renamed while we waited for the lock.
    return by_ids(tx, tenant, [collection.id])[collection.id]


def page(
    tx: Tx, tenant: str, after: str, limit: int, ids: Sequence[str] | None = None, type: str | None = None
) -> list[Collection]:
    """Return a page in the order of names, optionally limited to `ids` and `type`."""
    if ids is not None and not ids:
        return []
    narrowed, values = _narrowed(tenant, ids, type)
    n = len(values) + 1
    page = f"{narrowed} AND name_key > ${n} ORDER BY name_key LIMIT ${n + 1}"
    return COLLECTIONS.all(tx, page, *values, after, limit)


def all_ids(tx: Tx, tenant: str) -> list[tuple[str, str]]:
    """Return ids and names of all collections, by name."""
    rows = tx.all("SELECT id, name FROM research_collections WHERE tenant = $1 ORDER BY name_key", tenant)
    return [(id, name) for id, name in rows]


def count(tx: Tx, tenant: str, ids: Sequence[str] | None = None, type: str | None = None) -> int:
    if ids is not None and not ids:
        return 0
    narrowed, values = _narrowed(tenant, ids, type)
    return sql.number(tx, f"SELECT count(*) FROM research_collections WHERE {narrowed}", *values)


def _narrowed(tenant: str, ids: Sequence[str] | None, type: str | None) -> tuple[str, list[str]]:
    text, values = "tenant = $1", [tenant]
    if ids is not None:
        text += f" AND id IN ({marks(len(ids), 2)})"
        values += ids
    if type is not None:
        values.append(type)
        text += f" AND type = ${len(values)}"
    return text, values


def sizes(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, Size]:
    statement = (
        "SELECT collection_id, count(*), sum(chunks), sum(size) FROM research_documents "
        "WHERE tenant = $1 AND collection_id"
    )
    rows = among(tx, statement, ids, tenant, rest=" GROUP BY collection_id")
    found = {row[0]: Size(*row[1:]) for row in rows}
    return {id: found.get(id, Size()) for id in ids}


def formats(tx: Tx, tenant: str, id: str) -> dict[str, int]:
    statement = (
        "SELECT format, count(*) FROM research_documents WHERE tenant = $1 AND collection_id = $2 "
        "GROUP BY format ORDER BY count(*) DESC, format"
    )
    return dict(tx.all(statement, tenant, id))


def rename(tx: Tx, tenant: str, id: str, name: str, now: int) -> None:
    changes = {"name": name, "name_key": names.key(name), "updated_at": now}
    sql.update(tx, "research_collections", changes, tenant=tenant, id=id)


def delete(tx: Tx, tenant: str, id: str) -> None:
    """Delete the row with its links to projects. Its documents must be gone already."""
    sql.delete(tx, "research_collections", tenant=tenant, id=id)


def guess(tx: Tx, tenant: str, kind: Literal["collection", "project"], name: str, there: Op, new: Op) -> dict[str, Any]:
    """Return the fields of an error for an unknown name: guidance and similar names."""
    statement = f"SELECT name FROM research_{kind}s WHERE tenant = $1 ORDER BY updated_at DESC LIMIT $2"
    known = [row[0] for row in tx.all(statement, tenant, GUESSED_FROM)]
    near = names.similar(name, known)
    if near:
        first = (names.did_you_mean(near), "Otherwise ")
    elif known:
        first = ("See what there is with ", there, ", or ")
    else:
        first = (f"There are no {kind}s yet: ",)
    hint = Hint(*first, "create it with ", new, ".")
    return {"guidance": hint, kind: name, **({"suggestions": near} if near else {})}
