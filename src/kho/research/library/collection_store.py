"""The SQL of collections. Every statement names the tenant."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from kho.kernel.ports import Tx
from kho.lib import sql
from kho.lib.sql import NOTHING, Table, among, marks
from kho.research import names
from kho.research.errors import UnknownCollection

GUESSED_FROM = 5_000
"""Names among which a mistyped one is looked for."""


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
    """False if the name is taken, also by somebody who comes at the same moment."""
    key = names.key(collection.name)
    return COLLECTIONS.insert(tx, collection, conflict=NOTHING, tenant=tenant, name_key=key) == 1


def new(name: str, type: str, description: str, by: str, now: int) -> Collection:
    return Collection(str(uuid.uuid4()), name, type, description, by, now, now)


def find(tx: Tx, tenant: str, name: str) -> Collection | None:
    row = tx.one(f"{SELECT} WHERE tenant = $1 AND name_key = $2", tenant, names.key(name))
    return COLLECTIONS.read(row) if row else None


def need(tx: Tx, tenant: str, name: str) -> Collection:
    """The collection of that name, or the error that suggests others."""
    return find(tx, tenant, name) or _unknown(tx, tenant, name)


def by_ids(tx: Tx, tenant: str, ids: Sequence[str]) -> dict[str, Collection]:
    rows = COLLECTIONS.read_all(among(tx, f"{SELECT} WHERE tenant = $1 AND id", ids, tenant))
    return {row.id: row for row in rows}


def lock(tx: Tx, tenant: str, ids: Sequence[str], now: int | None = None) -> None:
    """Nobody else changes or deletes these before the transaction ends; with `now` they count as changed. In a fixed
    order, so that two writers cannot lock each other out."""
    for id in sorted(set(ids)):
        found = tx.run(
            "UPDATE research_collections SET updated_at = coalesce($1, updated_at) WHERE tenant = $2 AND id = $3",
            now,
            tenant,
            id,
        )
        if not found:
            raise UnknownCollection("The collection was deleted meanwhile. Nothing was changed.")


def need_locked(tx: Tx, tenant: str, name: str) -> Collection:
    collection = need(tx, tenant, name)
    lock(tx, tenant, [collection.id])
    # It may have been renamed while the lock was waited for.
    return by_ids(tx, tenant, [collection.id])[collection.id]


def page(
    tx: Tx, tenant: str, after: str, limit: int, ids: Sequence[str] | None = None, type: str | None = None
) -> list[Collection]:
    """A page in the order of names; `ids` and `type` narrow it."""
    if ids is not None and not ids:
        return []
    narrowed, values = _narrowed(tenant, ids, type)
    n = len(values) + 1
    rows = tx.all(
        f"{SELECT} WHERE {narrowed} AND name_key > ${n} ORDER BY name_key LIMIT ${n + 1}",
        *values,
        after,
        limit,
    )
    return COLLECTIONS.read_all(rows)


def all_ids(tx: Tx, tenant: str) -> list[tuple[str, str]]:
    """Ids and names of all, by name."""
    return [
        (row[0], row[1])
        for row in tx.all("SELECT id, name FROM research_collections WHERE tenant = $1 ORDER BY name_key", tenant)
    ]


def count(tx: Tx, tenant: str, ids: Sequence[str] | None = None, type: str | None = None) -> int:
    if ids is not None and not ids:
        return 0
    narrowed, values = _narrowed(tenant, ids, type)
    row = tx.one(f"SELECT count(*) FROM research_collections WHERE {narrowed}", *values)
    return row[0] if row else 0


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
    rows = among(
        tx,
        "SELECT collection_id, count(*), sum(chunks), sum(size) FROM research_documents "
        "WHERE tenant = $1 AND collection_id",
        ids,
        tenant,
        rest=" GROUP BY collection_id",
    )
    found = {row[0]: Size(*row[1:]) for row in rows}
    return {id: found.get(id, Size()) for id in ids}


def formats(tx: Tx, tenant: str, id: str) -> dict[str, int]:
    rows = tx.all(
        "SELECT format, count(*) FROM research_documents WHERE tenant = $1 AND collection_id = $2 "
        "GROUP BY format ORDER BY count(*) DESC, format",
        tenant,
        id,
    )
    return {row[0]: row[1] for row in rows}


def rename(tx: Tx, tenant: str, id: str, name: str, now: int) -> None:
    changes = {"name": name, "name_key": names.key(name), "updated_at": now}
    sql.update(tx, "research_collections", changes, tenant=tenant, id=id)


def delete(tx: Tx, tenant: str, id: str) -> None:
    """The row alone, with its links to projects: its documents have to be gone."""
    sql.delete(tx, "research_collections", tenant=tenant, id=id)


def _unknown(tx: Tx, tenant: str, name: str) -> Collection:
    rows = tx.all(
        "SELECT name FROM research_collections WHERE tenant = $1 ORDER BY updated_at DESC LIMIT $2",
        tenant,
        GUESSED_FROM,
    )
    near = names.similar(name, [row[0] for row in rows])
    create = f'create it with manage_collections(action="create", collection_name="{name}")'
    guidance = (
        f"{names.did_you_mean(near)}Otherwise {create}."
        if near
        else f'See what there is with manage_collections(action="list"), or {create}.'
        if rows
        else f"There are no collections yet: {create}."
    )
    raise UnknownCollection(
        f"There is no collection '{name}'.",
        guidance=guidance,
        collection=name,
        **({"suggestions": near} if near else {}),
    )
