"""SQL of passages: the indexed passages, the vector queue, and the version of the index."""

import random
from collections.abc import Container, Iterable, Sequence
from itertools import takewhile, zip_longest
from typing import NamedTuple

import orjson

from kho.kernel.ports import PassageRef, Row, SearchFilter, Tx, Where, each
from kho.lib.dataclass import dataclass
from kho.lib.sql import among, marks, number, pairs, replacing, to_json
from kho.lib.sql import insert as insert_row

SHARDS = 8
MAX_ROWS = 50
"""Maximum new passages per statement."""

MODEL = "model"
"""Row of search_state that names the model and the store of the passages' vectors, existing or being computed. Empty if
passages were indexed without a model: then all have to be checked."""

_COLUMNS = "seq, space, tenant, collection, kind, tags, created_at, key, part, digest, heading, text, weights, language"


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage as stored."""

    ref: PassageRef
    key: str
    part: int
    digest: str
    heading: str
    text: str
    weights: tuple[tuple[int, float], ...]
    """Lengths of the parts of `text` and the weight of each; empty if all weigh the same."""
    language: str = ""


def insert(tx: Tx, stored: Sequence[StoredPassage]) -> list[int]:
    """Insert passages (the `seq` of their `ref` is ignored) and return their numbers, in the same order."""
    numbers: list[int] = []
    for start in range(0, len(stored), MAX_ROWS):
        batch = stored[start : start + MAX_ROWS]
        rows = ", ".join(f"({', '.join(f'${row * 13 + n}' for n in range(1, 14))})" for row in range(len(batch)))
        found = tx.all(
            "INSERT INTO passages (space, tenant, collection, kind, tags, created_at, key, part, digest, heading, "
            f"text, weights, language) VALUES {rows} RETURNING seq",
            *(value for one in batch for value in _values(one)),
        )
        # Numbers are assigned in the order of the rows; the order in which they are returned is not guaranteed.
        numbers += sorted(row[0] for row in found)
    return numbers


def move(tx: Tx, seq: int, filed: PassageRef, part: int) -> None:
    """Update collection, kind, tags, date and part of a passage whose text is unchanged."""
    sql = (
        "UPDATE passages SET collection = $1, kind = $2, tags = $3, created_at = $4, part = $5 "
        "WHERE seq = $6 AND tenant = $7"
    )
    tx.run(sql, filed.collection, filed.kind, to_json(filed.tags), filed.created_at, part, seq, filed.tenant)


def of_keys(
    tx: Tx, space: str, tenant: str, collection: str, keys: Sequence[str]
) -> dict[str, list[tuple[PassageRef, int, str]]]:
    """Return the passages of some documents: reference, part number and digest, by key."""
    found: dict[str, list[tuple[PassageRef, int, str]]] = {key: [] for key in keys}
    rows = among(
        tx,
        "SELECT seq, kind, tags, created_at, part, digest, key FROM passages "
        "WHERE space = $1 AND tenant = $2 AND collection = $3 AND key",
        list(found),
        space,
        tenant,
        collection,
    )
    for seq, kind, tags, created_at, part, digest, key in rows:
        filed = PassageRef(seq, space, tenant, collection, kind, tuple(orjson.loads(tags)), created_at)
        found[key].append((filed, part, digest))
    return found


def get(tx: Tx, where: Where, seqs: Sequence[int]) -> dict[int, StoredPassage]:
    """Return those of the passages that exist and match. An index may lag behind; this is how they are indexed now."""
    filters = {one.space: one for one in each(where)}
    found = map(_stored, _own(tx, _COLUMNS, where, seqs))
    return {stored.ref.seq: stored for stored in found if _is_meant(stored.ref, filters[stored.ref.space])}


def labels(tx: Tx, where: Where, seqs: Sequence[int]) -> dict[int, tuple[str, str, str, str]]:
    """Return the space, collection, key and digest of passages: which document each is of, and what is a copy of
    what."""
    return {row[0]: row[1:] for row in _own(tx, "seq, space, collection, key, digest", where, seqs)}


def last_by_tags(
    tx: Tx, space: str, tenant: str, collections: Sequence[str] = (), start: int = 0
) -> dict[tuple[str, ...], int]:
    """Return every combination of tags that passages have, with the number of the last such passage; of some
    collections, or of the passages after a number."""
    select = "SELECT tags, max(seq) FROM passages WHERE"
    if collections:
        own = f"space = $1 AND tenant = $2 AND collection IN ({marks(len(collections), 3)})"
        rows = tx.all(f"{select} {own} GROUP BY tags", space, tenant, *collections)
    elif start:
        # Said with "=", SQLite would walk all that the tenant has instead of beginning at the number.
        rows = tx.all(f"{select} NOT (space <> $1 OR tenant <> $2) AND seq > $3 GROUP BY tags", space, tenant, start)
    else:
        rows = tx.all(f"{select} space = $1 AND tenant = $2 GROUP BY tags", space, tenant)
    return {tuple(orjson.loads(tags)): seq for tags, seq in rows}


def _own(tx: Tx, columns: str, where: Where, seqs: Sequence[int]) -> Sequence[Row]:
    filters = each(where)
    spaces = " AND ".join(f"space <> ${n}" for n in range(2, len(filters) + 2))
    # Said with "=", SQLite would walk all that the tenant has instead of looking the numbers up.
    own = f"NOT (tenant <> $1 OR ({spaces}))"
    names = [one.space for one in filters]
    return among(tx, f"SELECT {columns} FROM passages WHERE {own} AND seq", seqs, filters[0].tenant, *names)


def parts(
    tx: Tx, space: str, tenant: str, collection: str, key: str, numbers: Container[int]
) -> dict[int, StoredPassage]:
    """The passages of a document that have these part numbers, in their order, as far as there are any."""
    filed = of_keys(tx, space, tenant, collection, [key])[key]
    found = get(tx, SearchFilter(space, tenant), [ref.seq for ref, part, _ in filed if part in numbers])
    return {one.part: one for one in sorted(found.values(), key=lambda one: one.part)}


def beginnings(tx: Tx, space: str, tenant: str, keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """The text of the first passage of documents, by collection and key."""
    select = "SELECT collection, key, text FROM passages WHERE space = $1 AND tenant = $2 AND part = 0"
    rows = pairs(tx, f"{select} AND (collection, key)", keys, space, tenant)
    return {(collection, key): text for collection, key, text in rows}


def delete(tx: Tx, tenant: str, seqs: Sequence[int]) -> int:
    """Delete passages of a tenant. Return the bytes of their text."""
    # Said with "=", SQLite would walk all that the tenant has instead of looking the numbers up.
    rows = among(tx, "SELECT octet_length(text) FROM passages WHERE NOT tenant <> $1 AND seq", seqs, tenant)
    tx.many("DELETE FROM passages WHERE seq = $1 AND tenant = $2", [(seq, tenant) for seq in seqs])
    return sum(row[0] for row in rows)


def any_of(tx: Tx, tenant: str, limit: int) -> list[PassageRef]:
    """Return some passages of a tenant, in whichever space."""
    rows = tx.all("SELECT seq, space FROM passages WHERE tenant = $1 LIMIT $2", tenant, limit)
    return [PassageRef(seq, space, tenant) for seq, space in rows]


def enqueue(tx: Tx, tenant: str, seqs: Iterable[int], now: int) -> None:
    tx.many(
        "INSERT INTO vector_queue (seq, tenant, due_at, attempts) VALUES ($1, $2, $3, 0) "
        "ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = 0, problem = NULL",
        [(seq, tenant, now) for seq in seqs],
    )


def enqueue_all(tx: Tx, now: int) -> None:
    """Queue every passage again, because the model changed."""
    tx.run(
        "INSERT INTO vector_queue (seq, tenant, due_at, attempts) "
        "SELECT seq, tenant, $1, 0 FROM passages WHERE seq > 0 "
        "ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = 0, problem = NULL",
        now,
    )


class Due(NamedTuple):
    passages: list[StoredPassage]
    turn: str
    """The tenant after which to go on next time."""


def due(tx: Tx, now: int, limit: int, turn: str = "") -> Due:
    """Return passages that are due. Tenants take turns, from the one that follows `turn`, so that one with many does
    not hold up the others; of each the newest come first: what was just written is what is asked for next.

    Batches that failed are retried in smaller and smaller ones: one text that a provider refuses must not hold back the
    others for good.
    """
    tenants = list(dict.fromkeys([*_waiting(tx, now, turn, limit), *_waiting(tx, now, "", limit)]))[:limit]
    newest = (
        "SELECT seq, attempts, tenant FROM vector_queue WHERE tenant = $1 AND due_at <= $2 ORDER BY seq DESC LIMIT $3"
    )
    rounds = zip_longest(*(tx.all(newest, tenant, now, limit) for tenant in tenants))
    queued = [row for turns in rounds for row in turns if row is not None][:limit]
    attempts: int = queued[0][1] if queued else 0
    batch = [row for row in queued if row[1] == attempts][: max(1, limit >> attempts)]
    served = {row[2] for row in batch}
    rows = among(tx, f"SELECT {_COLUMNS} FROM passages WHERE seq", [row[0] for row in batch])
    found = {row[0]: _stored(row) for row in rows}
    return Due([found[row[0]] for row in batch], [turn, *takewhile(served.__contains__, tenants)][-1])


def _waiting(tx: Tx, now: int, after: str, limit: int) -> list[str]:
    """Return the next tenants that have passages which are due."""
    # Each is looked up in the index from the one before: a SELECT DISTINCT would read the whole queue.
    following = "SELECT tenant FROM vector_queue WHERE tenant > {} AND due_at <= $2 ORDER BY tenant LIMIT 1"
    sql = (
        f"WITH RECURSIVE waiting (tenant) AS (SELECT ({following.format('$1')}) UNION ALL "
        f"SELECT ({following.format('waiting.tenant')}) FROM waiting WHERE waiting.tenant IS NOT NULL) "
        "SELECT tenant FROM waiting WHERE tenant IS NOT NULL LIMIT $3"
    )
    return [row[0] for row in tx.all(sql, after, now, limit)]


def twins(tx: Tx, digests: Sequence[str]) -> dict[str, list[PassageRef]]:
    """Return, by digest, passages with the same text that are not queued: their vectors can be copied."""
    found: dict[str, list[PassageRef]] = {}
    for digest in digests:
        rows = tx.all(
            "SELECT p.seq, p.space, p.tenant FROM passages AS p LEFT JOIN vector_queue AS q ON q.seq = p.seq "
            "WHERE p.digest = $1 AND q.seq IS NULL LIMIT 1",
            digest,
        )
        found[digest] = [PassageRef(*row) for row in rows]
    return found


def still_there(tx: Tx, seqs: Sequence[int]) -> dict[int, PassageRef]:
    """Return the current references of the passages that still exist."""
    # Locked, so that no passage is moved or deleted while its vector is being stored. SQLite has one writer at a time
    # anyway.
    lock = " FOR SHARE" if tx.engine == "postgres" else ""
    rows = among(tx, f"SELECT {_COLUMNS} FROM passages WHERE seq", sorted(seqs), rest=lock)
    return {row[0]: _stored(row).ref for row in rows}


def done(tx: Tx, seqs: Sequence[int]) -> None:
    tx.many("DELETE FROM vector_queue WHERE seq = $1", [(seq,) for seq in seqs])


def failed(tx: Tx, seqs: Sequence[int], due_at: int, problem: str) -> None:
    sql = "UPDATE vector_queue SET attempts = attempts + 1, due_at = $1, problem = $2 WHERE seq = $3"
    tx.many(sql, [(due_at, problem, seq) for seq in seqs])


def retry(tx: Tx, now: int) -> None:
    """Make passages that failed due now: what they lacked may be there."""
    tx.run("UPDATE vector_queue SET attempts = 0, due_at = $1, problem = NULL WHERE problem IS NOT NULL", now)


def problem(tx: Tx) -> str | None:
    """Return why passages wait, if it is not just that there are many."""
    row = tx.one("SELECT problem FROM vector_queue WHERE problem IS NOT NULL LIMIT 1")
    return row[0] if row else None


def pending(tx: Tx, where: SearchFilter | None = None, most: int = 1_000_000) -> int:
    """Return how many passages wait for vectors, counted up to `most`."""
    if where is None:
        return number(tx, "SELECT count(*) FROM (SELECT 1 FROM vector_queue LIMIT $1) AS waiting", most)
    # CROSS makes SQLite begin with the queue, which is mostly short, and not with all rows of the tenant.
    sql = (
        "SELECT 1 FROM vector_queue AS q CROSS JOIN passages AS p "
        "WHERE p.seq = q.seq AND p.space = $1 AND p.tenant = $2"
    )
    if where.collections:
        sql += f" AND p.collection IN ({marks(len(where.collections), 3)})"
    counted = f"SELECT count(*) FROM ({sql} LIMIT ${len(where.collections) + 3}) AS waiting"
    return number(tx, counted, where.space, where.tenant, *where.collections, most)


def changed(tx: Tx, space: str, tenant: str, items: int = 0, size: int = 0) -> None:
    """Invalidate cached results of this tenant's space, and count the documents and the bytes of text that it has more,
    or fewer."""
    shard = random.randrange(SHARDS) if tx.engine == "postgres" else 0
    sql = (
        "INSERT INTO search_versions (space, tenant, shard, version, items, bytes) VALUES ($1, $2, $3, 1, $4, $5) "
        "ON CONFLICT (space, tenant, shard) DO UPDATE SET version = search_versions.version + 1, "
        "items = search_versions.items + excluded.items, bytes = search_versions.bytes + excluded.bytes"
    )
    tx.run(sql, space, tenant, shard, items, size)


def usage(tx: Tx, tenant: str, spaces: str = "TRUE") -> tuple[int, int]:
    """Return the documents of a tenant in all spaces, or in those of a condition, and the bytes of their text."""
    # On PostgreSQL the sums are numeric.
    sums = "CAST(coalesce(sum(items), 0) AS BIGINT), CAST(coalesce(sum(bytes), 0) AS BIGINT)"
    row = tx.one(f"SELECT {sums} FROM search_versions WHERE tenant = $1 AND {spaces}", tenant)
    return (row[0], row[1]) if row else (0, 0)


def changed_for_all(tx: Tx) -> None:
    """Invalidate all cached results, of all tenants."""
    changed(tx, "", "")


def version(tx: Tx, space: str, tenant: str) -> int:
    sql = (
        "SELECT coalesce(sum(version), 0) FROM search_versions "
        "WHERE (space = $1 AND tenant = $2) OR (space = '' AND tenant = '')"
    )
    return number(tx, sql, space, tenant)


def state(tx: Tx, name: str) -> str | None:
    row = tx.one("SELECT value FROM search_state WHERE name = $1", name)
    return row[0] if row else None


def set_state(tx: Tx, name: str, value: str) -> None:
    insert_row(tx, "search_state", {"name": name, "value": value}, replacing("name", "value"))


def unmodel(tx: Tx) -> None:
    """Record that passages were indexed without a model: one that is set up later has to check all of them."""
    if state(tx, MODEL):
        set_state(tx, MODEL, "")


def _is_meant(filed: PassageRef, where: SearchFilter) -> bool:
    return (
        (not where.collections or filed.collection in where.collections)
        and (not where.kinds or filed.kind in where.kinds)
        and set(where.tags) <= set(filed.tags)
        and (not where.any_tags or not set(where.any_tags).isdisjoint(filed.tags))
        and (where.since is None or filed.created_at >= where.since)
        and (where.until is None or filed.created_at < where.until)
    )


def _values(stored: StoredPassage) -> tuple[str | int, ...]:
    filed = stored.ref
    return (
        filed.space,
        filed.tenant,
        filed.collection,
        filed.kind,
        to_json(filed.tags),
        filed.created_at,
        stored.key,
        stored.part,
        stored.digest,
        stored.heading,
        stored.text,
        to_json(stored.weights) if stored.weights else "",
        stored.language,
    )


def _stored(row: Row) -> StoredPassage:
    seq, space, tenant, collection, kind, tags, created_at, key, part, digest, heading, text, weights, language = row
    filed = PassageRef(
        seq, space, tenant, collection, kind, tuple(orjson.loads(tags)) if tags != "[]" else (), created_at
    )
    spans = tuple((int(length), float(weight)) for length, weight in orjson.loads(weights)) if weights else ()
    return StoredPassage(filed, key, part, digest, heading, text, spans, language)
