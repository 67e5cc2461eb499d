"""The vector index on PostgreSQL: the graph, and a server without pgvector."""

import re

import numpy as np
import psycopg
import pytest
from tests.engines import as_role

from kho.kernel import errors
from kho.kernel.ports import PassageRef, SearchFilter, Tx
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres, PostgresLimits
from kho.storage.vector_index.postgres import PostgresVectors

DIMENSION = 32


async def test_the_graph_finds_what_an_exact_search_finds(postgres_schema_url: str) -> None:
    random = np.random.default_rng(1)
    rows = (np.linspace(-1, 1, DIMENSION) + 0.5 * random.standard_normal((2_000, DIMENSION))).astype(np.float32)
    asked = (np.linspace(-1, 1, DIMENSION) + 0.5 * random.standard_normal((20, DIMENSION))).astype(np.float32)
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=2))
    await migrate(db, [OWN])
    walking = PostgresVectors(db, exact=0)
    await walking.prepare("m", DIMENSION)
    tenants = np.array(["rare" if seq % 50 == 0 else f"t{seq % 4}" for seq in range(2_000)])
    filed = [PassageRef(seq + 1, "s", str(tenants[seq]), tags=("x",) * (seq % 3)) for seq in range(2_000)]
    await db.write(lambda tx: walking.put(tx, "m", list(zip(filed, rows, strict=True))))
    await walking.deliver()
    lengths = np.linalg.norm(rows, axis=1)
    for tenant, tags in (("t1", ()), ("rare", ()), ("t2", ("x",))):
        meant = np.array([one.tenant == tenant and set(tags) <= set(one.tags) for one in filed])
        hits = 0
        for query in asked:
            cosines = np.where(meant, rows @ query / lengths, -2)
            best = set((np.argsort(-cosines)[:10] + 1).tolist())
            found = [seq for seq, _ in await walking.nearest("m", SearchFilter("s", tenant, tags=tags), query, 10)]
            assert len(found) == len(set(found)) == 10
            hits += len(best & set(found))
        assert hits >= 0.98 * 10 * len(asked)
    await db.aclose()


async def test_the_graph_is_used(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=2))
    await migrate(db, [OWN])
    vectors = PostgresVectors(db, exact=0)
    await vectors.prepare("m", 3)
    rows = [(PassageRef(seq, "s", "t"), np.array([seq, 1, 0], np.float32)) for seq in range(1, 40)]
    await db.write(lambda tx: vectors.put(tx, "m", rows))
    await vectors.deliver()

    def used(tx: Tx) -> int:
        row = tx.one(
            "SELECT pg_stat_get_xact_numscans('vectors_1_graph'::regclass) + pg_stat_get_numscans('vectors_1_graph'::regclass)"
        )
        return row[0] if row else 0

    await vectors.nearest("m", SearchFilter("s", "t"), np.array([1, 0, 0], np.float32), 5)
    await db.write(lambda tx: tx.script("SELECT pg_stat_force_next_flush()"))
    await db.aclose()
    again = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=1))
    assert await again.read(used) > 0
    await again.aclose()


async def test_a_graph_is_built_where_rows_are_many_and_mended_where_it_broke(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=2))
    await migrate(db, [OWN])
    vectors = PostgresVectors(db, exact=20)
    await vectors.prepare("m", 3)

    def valid(tx: Tx) -> bool | None:
        row = tx.one("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('vectors_1_graph')")
        return row[0] if row else None

    async def rows(first: int, last: int) -> None:
        filed = [(PassageRef(seq, "s", "t"), np.array([seq, 1, 0], np.float32)) for seq in range(first, last)]
        await db.write(lambda tx: vectors.put(tx, "m", filed))

    async def nearest() -> list[int]:
        return [
            seq for seq, _ in await vectors.nearest("m", SearchFilter("s", "t"), np.array([0, 1, 0], np.float32), 3)
        ]

    await rows(1, 21)
    await vectors.deliver()
    assert await db.read(valid) is None
    await rows(21, 40)
    assert await nearest() == [1, 2, 3]  # without a graph
    await vectors.deliver()
    assert await db.read(valid) is True
    assert await nearest() == [1, 2, 3]
    with psycopg.connect(as_role(postgres_schema_url, "postgres"), autocommit=True) as admin:
        admin.execute("UPDATE pg_index SET indisvalid = false WHERE indexrelid = to_regclass('vectors_1_graph')")
    assert await nearest() == [1, 2, 3]
    await vectors.deliver()
    assert await db.read(valid) is True
    await rows(40, 50)
    assert await nearest() == [1, 2, 3]
    await db.aclose()


async def test_a_graph_is_built_by_one_process_where_several_have_no_room(
    postgres_schema_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shared memory cannot be made small for a test, so the first attempt is made to fail."""
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=1))
    await migrate(db, [OWN])
    vectors = PostgresVectors(db, exact=5)
    await vectors.prepare("m", 3)
    filed = [(PassageRef(seq, "s", "t"), np.array([seq, 1, 0], np.float32)) for seq in range(20)]
    await db.write(lambda tx: vectors.put(tx, "m", filed))
    maintain = db.maintain
    asked: list[dict[str, str]] = []

    async def refused_once(statement: str, **settings: str) -> None:
        if settings:
            asked.append(settings)
        if settings and len(asked) == 1:
            raise errors.DatabaseError("could not resize shared memory segment")
        await maintain(statement, **settings)

    monkeypatch.setattr(db, "maintain", refused_once)
    await vectors.deliver()
    assert [set(one) for one in asked] == [
        {"maintenance_work_mem"},
        {"maintenance_work_mem", "max_parallel_maintenance_workers"},
    ]
    assert await db.read(
        lambda tx: tx.one("SELECT indisvalid FROM pg_index WHERE indexrelid = 'vectors_1_graph'::regclass")
    )
    await db.aclose()


async def test_settings_of_one_statement_end_with_it(postgres_schema_url: str) -> None:
    db = Postgres.open(postgres_schema_url, PostgresLimits(pool_size=1))
    await db.maintain("CREATE TABLE kept AS SELECT current_setting('work_mem') AS memory", work_mem="5MB")
    assert await db.read(lambda tx: tx.one("SELECT memory FROM kept")) == ("5MB",)
    assert await db.read(lambda tx: tx.one("SELECT current_setting('work_mem')")) == ("4MB",)
    await db.aclose()


async def test_without_pgvector_the_message_says_what_to_do(postgres_url: str) -> None:
    """Everything else works there, the migrations too."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("CREATE ROLE plain LOGIN")
        admin.execute("CREATE DATABASE bare")
    bare = re.sub(r"/[^/?]*\?", "/bare?", postgres_url)
    with psycopg.connect(bare, autocommit=True) as admin:
        admin.execute("GRANT ALL ON SCHEMA public TO plain")
    db = Postgres.open(re.sub("//[^@]*@", "//plain@", bare), PostgresLimits(pool_size=1))
    await migrate(db, [OWN])
    with pytest.raises(errors.DatabaseError, match="CREATE EXTENSION vector;"):
        await PostgresVectors(db).prepare("m", 3)
    assert await db.read(lambda tx: tx.all("SELECT model FROM vector_models")) == []
    await db.aclose()
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute("DROP DATABASE bare WITH (FORCE)")
        admin.execute("DROP ROLE plain")
