"""Vector index on PostgreSQL: pgvector's HNSW graph, half-precision vectors (cosines are accurate to 0.001).

A search walks the graph from vector to vector, so a filter that few rows pass would make it slow and miss some.
Therefore the rows that pass are counted first, up to MAX_EXACT; if there are no more, all of them are scored. The same
is done while there is no graph yet: it is built once there are many rows and none are pending, because adding row by
row takes five times as long. It is built in memory and given as much as it needs: with the server's default of 64 MB, a
graph of more than about thirty thousand vectors is built on disk, which takes several times as long.
"""

import json
import logging
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import orjson

from kho.kernel import Database, PassageRef, SearchFilter, Tx, errors
from kho.kernel.ports import Where, each
from kho.lib.sql import number_of
from kho.storage.vector_index.base import (
    IndexFilter,
    Model,
    find,
    latest,
    look_up,
    matrix,
    of_all,
    register,
    registered,
    vector_of,
)

if TYPE_CHECKING:
    from kho.kernel.ports import Vector

log = logging.getLogger(__name__)

ENGINE = "postgres"
MAX_EXACT = 5_000
"""Rows up to which all are scored, without the graph."""
M, EF_CONSTRUCTION = 24, 128
"""Connections of the graph. Twice pgvector's default: vectors that all point roughly the same way need it. With a
filter that one row in ten passes (40,000 vectors like those of multilingual-e5-small), 98 % of the true top ten are
found with pgvector's default, 99.3 % with this one (both with 400 for EF_SEARCH below). It takes twice as long to
build."""
EF_SEARCH = 600
"""Minimum number of vectors requested from the graph at a time: the larger the index, the more are needed."""
MAX_EF_SEARCH = 1_000
"""pgvector's maximum; beyond it, the iterative scan continues."""
OVERSAMPLING = 4
"""Multiple of the limit that is taken from the graph, because its order is only approximate."""
MAX_SCANNED = 40_000
"""Vectors after which an iterative scan stops: enough for 80 hits if one row in 500 passes the filters."""

MAX_BUILD_MEMORY = 2 * 1024**3
"""Maximum memory in bytes to build a graph: a million vectors of 384 numbers fit."""

_LOCK = 0x6B686F_76  # "khov": two processes may prepare at once
_NEEDED = (0, 8)
_TABLES = """
CREATE TABLE IF NOT EXISTS vectors_{n} (
    seq BIGINT PRIMARY KEY,
    space TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection BIGINT NOT NULL,
    kind BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    tags BIGINT[] NOT NULL,
    vector halfvec({dimension}) NOT NULL
);
CREATE INDEX IF NOT EXISTS vectors_{n}_filed ON vectors_{n} (space, tenant, collection, kind, created_at);
CREATE INDEX IF NOT EXISTS vectors_{n}_tags ON vectors_{n} USING gin (tags);
"""
# Concurrently, because writes would wait for minutes otherwise.
_GRAPH = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS vectors_{n}_graph ON vectors_{n} USING hnsw (vector halfvec_ip_ops)
WITH (m = {m}, ef_construction = {ef})
"""
_NO_GRAPH = "DROP INDEX CONCURRENTLY IF EXISTS vectors_{n}_graph"
_MANY = "SELECT count(*) FROM (SELECT 1 FROM vectors_{n} LIMIT {limit}) AS rows"
_STANDING = """
SELECT indisvalid, EXISTS (SELECT 1 FROM pg_stat_progress_create_index WHERE index_relid = indexrelid)
FROM pg_index WHERE indexrelid = to_regclass('vectors_{n}_graph')
"""
_PUT = """
INSERT INTO vectors_{n} (seq, space, tenant, collection, kind, created_at, tags, vector)
VALUES ($1, $2, $3, $4, $5, $6, $7::bigint[], $8::halfvec)
ON CONFLICT (seq) DO UPDATE SET space = excluded.space, tenant = excluded.tenant, collection = excluded.collection,
    kind = excluded.kind, created_at = excluded.created_at, tags = excluded.tags, vector = excluded.vector
"""
_REFILE = """
UPDATE vectors_{n} SET space = $1, tenant = $2, collection = $3, kind = $4, created_at = $5, tags = $6::bigint[]
WHERE seq = $7
"""
_COUNT = (
    "SELECT count(*) FROM (SELECT 1 FROM vectors_{n} WHERE space = $1 AND tenant = $2{more} LIMIT {limit}) AS meant"
)
_EXACT = """
WITH meant AS MATERIALIZED (SELECT seq, vector FROM vectors_{n} WHERE space = $1 AND tenant = $2{more})
SELECT seq, -(vector <#> $3::halfvec) AS cosine FROM meant ORDER BY cosine DESC, seq DESC LIMIT $4
"""
_WALK = """
WITH nearest AS MATERIALIZED (
    SELECT seq, vector <#> $1::halfvec AS distance FROM vectors_{n} WHERE space = $2 AND tenant = $3{more}
    ORDER BY vector <#> $1::halfvec LIMIT $4
)
SELECT seq, -distance FROM nearest ORDER BY distance, seq DESC LIMIT $5
"""


class PostgresVectors:
    """The `Vectors` port."""

    def __init__(self, db: Database, *, exact: int = MAX_EXACT) -> None:
        self._db = db
        self._exact = exact

    async def prepare(self, model: str, dimension: int) -> None:
        await self.need_extension()

        def work(tx: Tx) -> None:
            tx.one("SELECT pg_advisory_xact_lock($1)", _LOCK)
            known = register(tx, ENGINE, model, dimension)
            tx.script(_TABLES.format(n=known.number, dimension=dimension))

        await self._db.write(work)

    def put(self, tx: Tx, model: str, rows: "Sequence[tuple[PassageRef, Vector]]") -> None:
        known = find(tx, ENGINE, model)
        rows = latest(rows)
        vectors = matrix(model, known.dimension, [vector for _, vector in rows])
        tx.many(
            _PUT.format(n=known.number),
            ((filed.seq, *_columns(filed), _literal(vector)) for (filed, _), vector in zip(rows, vectors, strict=True)),
        )

    def move(self, tx: Tx, model: str, rows: Sequence[PassageRef]) -> None:
        known = look_up(tx, ENGINE, model)
        if known is not None:
            tx.many(_REFILE.format(n=known.number), ((*_columns(filed), filed.seq) for filed in rows))

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        for known in registered(tx, ENGINE):
            tx.run(f"DELETE FROM vectors_{known.number} WHERE seq = ANY($1::bigint[])", _array(seqs))

    async def nearest(
        self, model: str, where: Where, vector: "Vector", limit: int, *, timeout: float | None = None
    ) -> list[tuple[int, float]]:
        if limit < 1:
            return []
        return await of_all(
            (
                self._db.read(
                    partial(_near, model=model, where=one, vector=vector, limit=limit, exact=self._exact),
                    timeout=timeout,
                )
                for one in each(where)
            ),
            limit,
        )

    async def get(
        self, model: str, where: SearchFilter, seqs: Sequence[int], *, timeout: float | None = None
    ) -> "dict[int, Vector]":
        return await self._db.read(lambda tx: _get(tx, model, where, seqs), timeout=timeout)

    async def deliver(self) -> int:
        """Build missing graphs of models with many rows."""
        for known in await self._db.read(lambda tx: registered(tx, ENGINE)):
            number = known.number
            graph = await self._db.read(lambda tx, number=number: _graph(tx, number, self._exact))
            if graph in ("missing", "broken"):
                if graph == "broken":  # the process that built it was killed
                    await self._db.maintain(_NO_GRAPH.format(n=number))
                log.info("vectors: the graph of vectors_%d is being built", number)
                await self._build(number, known.dimension)
        return 0

    async def _build(self, number: int, dimension: int) -> None:
        count = await self._db.read(lambda tx: tx.one(f"SELECT count(*) FROM vectors_{number}"))
        rows = 0 if count is None else count[0]
        # Bytes for a vector, its neighbours (twice M on the lowest level), and overhead.
        memory = min(max(rows * (2 * dimension + 2 * M * 16 + 512), 64 * 1024**2), MAX_BUILD_MEMORY)
        graph = _GRAPH.format(n=number, m=M, ef=EF_CONSTRUCTION)
        wanted = f"{memory // 1024}kB"
        try:
            await self._db.maintain(graph, maintenance_work_mem=wanted)
        except errors.DatabaseError as problem:
            # A parallel build needs shared memory, of which a container may have next to none. One process does not.
            log.warning("vectors: the graph of vectors_%d is built by one process: %s", number, problem.message)
            await self._db.maintain(_NO_GRAPH.format(n=number))
            await self._db.maintain(graph, maintenance_work_mem=wanted, max_parallel_maintenance_workers="0")

    async def aclose(self) -> None:
        """Does nothing: only the database is open, and others use it."""

    async def need_extension(self) -> None:
        """Ensure that pgvector is installed, and new enough for iterative scans when a filter leaves too few hits."""
        if await self._db.read(_version) is None:
            try:
                await self._db.write(lambda tx: tx.script("CREATE EXTENSION IF NOT EXISTS vector"))
            except errors.DatabaseError as error:
                # Another process may just have created it.
                if await self._db.read(_version) is None:
                    raise errors.DatabaseError(
                        "PostgreSQL lacks pgvector, or Kho may not create it. Install pgvector 0.8 or newer and let an "
                        "administrator run, in Kho's database:  CREATE EXTENSION vector;"
                    ) from error
        version = await self._db.read(_version)
        if version is not None and tuple(int(part) for part in version.split(".")[:2]) < _NEEDED:
            raise errors.DatabaseError(
                f"pgvector {version} is too old: filtered searches would lose rows. Install 0.8 or newer and let an "
                "administrator run, in Kho's database:  ALTER EXTENSION vector UPDATE;"
            )


def halves(known: Model) -> str:
    """Return the SELECT of a model's vectors with their numbers, for a backup: see `as_half`."""
    return f"SELECT seq, halfvec_send(vector) FROM vectors_{known.number}"


def as_half(sent: bytes) -> bytes:
    """Convert what PostgreSQL sends (a header of four bytes, then the numbers, the high byte first) to the form of a
    backup."""
    import numpy as np

    return np.frombuffer(sent, ">f2", offset=4).astype("<f2").tobytes()


def put_halves(tx: Tx, model: str, dimension: int, rows: Sequence[tuple[PassageRef, bytes]]) -> None:
    """Store vectors of a backup, which are of half precision and of length 1 already."""
    import numpy as np

    known = register(tx, ENGINE, model, dimension)
    tx.script(_TABLES.format(n=known.number, dimension=dimension))
    tx.many(
        _PUT.format(n=known.number),
        ((filed.seq, *_columns(filed), _literal(np.frombuffer(half, "<f2").astype("f4"))) for filed, half in rows),
    )


def _version(tx: Tx) -> str | None:
    row = tx.one("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
    return None if row is None else row[0]


def _graph(tx: Tx, number: int, exact: int) -> Literal["ready", "building", "broken", "missing", "needless"]:
    row = tx.one(_STANDING.format(n=number))
    if row is not None:
        return "ready" if row[0] else "building" if row[1] else "broken"
    count = tx.one(_MANY.format(n=number, limit=exact + 1))
    return "missing" if count is not None and count[0] > exact else "needless"


def _near(tx: Tx, model: str, where: SearchFilter, vector: "Vector", limit: int, exact: int) -> list[tuple[int, float]]:
    known = look_up(tx, ENGINE, model)
    if known is None:
        return []
    query = _literal(vector_of(model, known.dimension, vector))
    index_filter = IndexFilter(where)
    more = index_filter.sql()
    if index_filter.tags:
        more += f" AND tags @> '{_array(index_filter.tags)}'::bigint[]"
    if index_filter.any_tags:
        more += f" AND tags && '{_array(index_filter.any_tags)}'::bigint[]"
    count = tx.one(_COUNT.format(n=known.number, more=more, limit=exact + 1), where.space, where.tenant)
    if count is None or count[0] == 0:
        return []
    if count[0] <= exact or OVERSAMPLING * limit > MAX_SCANNED or _graph(tx, known.number, exact) != "ready":
        rows = tx.all(_EXACT.format(n=known.number, more=more), where.space, where.tenant, query, limit)
    else:
        wanted = max(OVERSAMPLING * limit, 40)
        # For this transaction only. Without sorting the planner has no choice but to use the graph.
        sql = (
            "SELECT set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('enable_sort', 'off', true), "
            "set_config('hnsw.ef_search', $1, true), set_config('hnsw.max_scan_tuples', $2, true)"
        )
        tx.one(sql, str(min(max(EF_SEARCH, wanted), MAX_EF_SEARCH)), str(MAX_SCANNED))
        rows = tx.all(_WALK.format(n=known.number, more=more), query, where.space, where.tenant, wanted, limit)
    return [(seq, min(1.0, max(-1.0, cosine))) for seq, cosine in rows]


def _get(tx: Tx, model: str, where: SearchFilter, seqs: Sequence[int]) -> "dict[int, Vector]":
    import numpy as np

    known = look_up(tx, ENGINE, model)
    if known is None:
        return {}
    # As bytes: a header of four, then the numbers. Reading it as text takes ten times as long.
    sql = (
        f"SELECT seq, halfvec_send(vector) FROM vectors_{known.number} "
        "WHERE seq = ANY($1::bigint[]) AND space = $2 AND tenant = $3"
    )
    rows = tx.all(sql, _array(seqs), where.space, where.tenant)
    vectors = matrix(
        model, known.dimension, [np.frombuffer(row[1], ">f2", offset=4).astype(np.float32) for row in rows]
    )
    return {row[0]: vector for row, vector in zip(rows, vectors, strict=True)}


def _columns(filed: PassageRef) -> tuple[str, str, int, int, int, str]:
    """Return the columns that a search can be filtered by."""
    tags = _array(map(number_of, dict.fromkeys(filed.tags)))
    return filed.space, filed.tenant, number_of(filed.collection), number_of(filed.kind), filed.created_at, tags


def _literal(vector: "Vector | Any") -> str:
    return orjson.dumps(vector, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _array(numbers: Iterable[int]) -> str:
    return "{" + json.dumps(list(numbers))[1:-1] + "}"
