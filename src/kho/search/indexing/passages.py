"""The SQL of passages: what was filed, what waits for a vector, and which version of the index this is."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson

from kho.kernel.ports import PassageRef, Row, SearchFilter, Tx
from kho.lib.sql import among

SHARDS = 8
MAX_ROWS = 50
"""New passages in one statement."""

MODEL = "model"
"""The row of search_state that names the model whose vectors the passages have, or are getting, and their place.
Empty where passages were filed without a model: then all have to be looked at."""

_OWN = "NOT (space <> $1 OR tenant <> $2)"
"""Beside numbers: said with "=", SQLite would walk all that the tenant has instead of looking the numbers up."""

_COLUMNS = "seq, space, tenant, collection, kind, tags, created_at, key, part, digest, heading, text, weights, language"


@dataclass(frozen=True, slots=True)
class StoredPassage:
    """A passage as it was filed."""

    ref: PassageRef
    key: str
    part: int
    digest: str
    heading: str
    text: str
    weights: tuple[tuple[int, float], ...]
    """Lengths of the parts of `text`, and how much each counts; empty when all count the same."""
    language: str = ""


def insert(tx: Tx, stored: Sequence[StoredPassage]) -> list[int]:
    """Files passages (the number in `filed` does not matter) and returns their numbers, in the same order."""
    numbers: list[int] = []
    for start in range(0, len(stored), MAX_ROWS):
        batch = stored[start : start + MAX_ROWS]
        rows = ", ".join(f"({', '.join(f'${row * 13 + n}' for n in range(1, 14))})" for row in range(len(batch)))
        found = tx.all(
            "INSERT INTO passages (space, tenant, collection, kind, tags, created_at, key, part, digest, heading, "
            f"text, weights, language) VALUES {rows} RETURNING seq",
            *(value for one in batch for value in _values(one)),
        )
        # Numbers are given out in the order of the rows; the order in which they are returned is not promised.
        numbers += sorted(row[0] for row in found)
    return numbers


def move(tx: Tx, seq: int, filed: PassageRef, part: int) -> None:
    """The same text, filed elsewhere."""
    tx.run(
        "UPDATE passages SET collection = $1, kind = $2, tags = $3, created_at = $4, part = $5 WHERE seq = $6",
        filed.collection,
        filed.kind,
        _json(filed.tags),
        filed.created_at,
        part,
        seq,
    )


def of_keys(
    tx: Tx, space: str, tenant: str, collection: str, keys: Sequence[str]
) -> dict[str, list[tuple[PassageRef, int, str]]]:
    """The passages of some documents: how they are filed, their part number and digest."""
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


def get(tx: Tx, where: SearchFilter, seqs: Sequence[int]) -> dict[int, StoredPassage]:
    """Those of the passages that exist and are meant. An index may lag behind; this is how they are filed now."""
    select = f"SELECT {_COLUMNS} FROM passages WHERE {_OWN} AND seq"
    rows = among(tx, select, seqs, where.space, where.tenant)
    found = map(_stored, rows)
    return {stored.ref.seq: stored for stored in found if _is_meant(stored.ref, where)}


def labels(tx: Tx, where: SearchFilter, seqs: Sequence[int]) -> dict[int, tuple[str, str, str]]:
    """The collection, key and digest of passages: which document each is of, and what is a copy of what."""
    select = f"SELECT seq, collection, key, digest FROM passages WHERE {_OWN} AND seq"
    rows = among(tx, select, seqs, where.space, where.tenant)
    return {row[0]: row[1:] for row in rows}


def delete(tx: Tx, seqs: Sequence[int]) -> None:
    tx.many("DELETE FROM passages WHERE seq = $1", [(seq,) for seq in seqs])


def enqueue(tx: Tx, seqs: Iterable[int], now: int) -> None:
    tx.many(
        "INSERT INTO vector_queue (seq, due_at, attempts) VALUES ($1, $2, 0) "
        "ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = 0, problem = NULL",
        [(seq, now) for seq in seqs],
    )


def enqueue_all(tx: Tx, now: int) -> None:
    """Every passage waits again: the model changed."""
    tx.run(
        "INSERT INTO vector_queue (seq, due_at, attempts) SELECT seq, $1, 0 FROM passages WHERE seq > 0 "
        "ON CONFLICT (seq) DO UPDATE SET due_at = excluded.due_at, attempts = 0, problem = NULL",
        now,
    )


def due(tx: Tx, now: int, limit: int) -> list[StoredPassage]:
    """The passages whose turn it is, newest first: what was just written is what is asked for next.

    Those that failed together come again in fewer and fewer: one text that a provider refuses must not hold back the
    others for good.
    """
    rows = tx.all(
        f"SELECT {', '.join('p.' + name for name in _COLUMNS.split(', '))}, q.attempts FROM vector_queue AS q "
        "JOIN passages AS p ON p.seq = q.seq WHERE q.due_at <= $1 ORDER BY q.seq DESC LIMIT $2",
        now,
        limit,
    )
    attempts: int = rows[0][-1] if rows else 0
    return [_stored(row[:-1]) for row in rows if row[-1] == attempts][: max(1, limit >> attempts)]


def twins(tx: Tx, digests: Sequence[str]) -> dict[str, list[PassageRef]]:
    """Passages with the same text that no longer wait: their vectors can be copied."""
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
    """Without those that were dropped meanwhile, and filed as they are now."""
    # Locked, so that nobody files a passage elsewhere, or drops it, while its vector is being filed. SQLite has one
    # writer at a time anyway.
    lock = " FOR SHARE" if tx.engine == "postgres" else ""
    rows = among(tx, f"SELECT {_COLUMNS} FROM passages WHERE seq", sorted(seqs), rest=lock)
    return {row[0]: _stored(row).ref for row in rows}


def done(tx: Tx, seqs: Sequence[int]) -> None:
    tx.many("DELETE FROM vector_queue WHERE seq = $1", [(seq,) for seq in seqs])


def failed(tx: Tx, seqs: Sequence[int], due_at: int, problem: str) -> None:
    tx.many(
        "UPDATE vector_queue SET attempts = attempts + 1, due_at = $1, problem = $2 WHERE seq = $3",
        [(due_at, problem, seq) for seq in seqs],
    )


def problem(tx: Tx) -> str | None:
    """Why passages wait, if it is not just that there are many."""
    row = tx.one("SELECT problem FROM vector_queue WHERE problem IS NOT NULL LIMIT 1")
    return row[0] if row else None


def pending(tx: Tx, where: SearchFilter | None = None, most: int = 1_000_000) -> int:
    """How many passages wait for vectors, counted up to `most`."""
    if where is None:
        row = tx.one("SELECT count(*) FROM (SELECT 1 FROM vector_queue LIMIT $1) AS waiting", most)
        return row[0] if row else 0
    # CROSS: SQLite then begins with the queue, which is mostly short, and not with all that the tenant has.
    sql = (
        "SELECT 1 FROM vector_queue AS q CROSS JOIN passages AS p "
        "WHERE p.seq = q.seq AND p.space = $1 AND p.tenant = $2"
    )
    if where.collections:
        sql += f" AND p.collection IN ({', '.join(f'${n}' for n in range(3, len(where.collections) + 3))})"
    row = tx.one(
        f"SELECT count(*) FROM ({sql} LIMIT ${len(where.collections) + 3}) AS waiting",
        where.space,
        where.tenant,
        *where.collections,
        most,
    )
    return row[0] if row else 0


def changed(tx: Tx, space: str, tenant: str) -> None:
    """Marks every answer that was kept for this tenant's space as stale."""
    shard = random.randrange(SHARDS) if tx.engine == "postgres" else 0
    tx.run(
        "INSERT INTO search_versions (space, tenant, shard, version) VALUES ($1, $2, $3, 1) "
        "ON CONFLICT (space, tenant, shard) DO UPDATE SET version = search_versions.version + 1",
        space,
        tenant,
        shard,
    )


def changed_for_all(tx: Tx) -> None:
    """Marks every answer that was kept as stale, whoever's it is."""
    changed(tx, "", "")


def version(tx: Tx, space: str, tenant: str) -> int:
    row = tx.one(
        "SELECT coalesce(sum(version), 0) FROM search_versions "
        "WHERE (space = $1 AND tenant = $2) OR (space = '' AND tenant = '')",
        space,
        tenant,
    )
    return int(row[0]) if row else 0


def state(tx: Tx, name: str) -> str | None:
    row = tx.one("SELECT value FROM search_state WHERE name = $1", name)
    return row[0] if row else None


def set_state(tx: Tx, name: str, value: str) -> None:
    tx.run(
        "INSERT INTO search_state (name, value) VALUES ($1, $2) "
        "ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        name,
        value,
    )


def unmodel(tx: Tx) -> None:
    """Passages are filed without a model: one that is set up later has to look at all of them."""
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
        _json(filed.tags),
        filed.created_at,
        stored.key,
        stored.part,
        stored.digest,
        stored.heading,
        stored.text,
        _json(stored.weights) if stored.weights else "",
        stored.language,
    )


def _stored(row: Row) -> StoredPassage:
    seq, space, tenant, collection, kind, tags, created_at, key, part, digest, heading, text, weights, language = row
    filed = PassageRef(
        seq, space, tenant, collection, kind, tuple(orjson.loads(tags)) if tags != "[]" else (), created_at
    )
    spans = tuple((int(length), float(weight)) for length, weight in orjson.loads(weights)) if weights else ()
    return StoredPassage(filed, key, part, digest, heading, text, spans, language)


def _json(value: object) -> str:
    return orjson.dumps(value).decode()
