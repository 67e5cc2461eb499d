"""The vector index on SQLite: what its blocks must not show."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kho.kernel import errors
from kho.kernel.ports import PassageRef, SearchFilter, Tx
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index.sqlite import BLOCK_ROWS, RELEARN_FACTOR, SqliteVectors

Matrix = NDArray[np.float32]
DIMENSION = 32
T = SearchFilter("s", "t")


def like_a_model(random: np.random.Generator, count: int) -> Matrix:
    """Vectors that all point roughly the same way (cosines about 0.75), around a few hundred topics."""
    common = np.linspace(-1, 1, DIMENSION)
    topics = np.random.default_rng(1).standard_normal((300, DIMENSION))
    rows = common + 0.28 * topics[random.integers(0, 300, count)] + 0.2 * random.standard_normal((count, DIMENSION))
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
async def db(sqlite_path: Path) -> AsyncIterator[Sqlite]:
    db = Sqlite.open(sqlite_path, durable=False)
    await migrate(db, [OWN])
    yield db
    await db.aclose()


@pytest.fixture
async def vectors(db: Sqlite) -> SqliteVectors:
    vectors = SqliteVectors(db)
    await vectors.prepare("m", DIMENSION)
    return vectors


async def put(db: Sqlite, vectors: SqliteVectors, rows: Matrix, first: int = 1, tenant: str = "t") -> None:
    filed = [
        PassageRef(seq, "s", tenant, f"c{seq % 3}", "", (f"x{seq % 50}",), seq)
        for seq in range(first, first + len(rows))
    ]
    for start in range(0, len(rows), 500):
        some = list(zip(filed, rows, strict=True))[start : start + 500]
        await db.write(lambda tx, some=some: vectors.put(tx, "m", some))


async def drop(db: Sqlite, vectors: SqliteVectors, seqs: Sequence[int]) -> None:
    await db.write(lambda tx: vectors.drop(tx, seqs))


async def figures(db: Sqlite) -> dict[str, int]:
    def work(tx: Tx) -> dict[str, int]:
        questions = {
            "blocks": "SELECT count(*) FROM vectors_1_blocks",
            "codes": "SELECT count(*) FROM vectors_1_codes",
            "frames": "SELECT count(*) FROM vectors_1_frames",
            "tail": "SELECT count(*) FROM vectors_1 WHERE block = 0",
            "rows": "SELECT count(*) FROM vectors_1",
            "pages": "SELECT page_count FROM pragma_page_count",
        }
        return {name: (tx.one(sql) or (0,))[0] for name, sql in questions.items()}

    return await db.read(work)


async def recall(
    vectors: SqliteVectors, kept: dict[int, NDArray[np.float32]], asked: Matrix, where: SearchFilter = T
) -> float:
    seqs, rows = np.array(list(kept)), np.stack(list(kept.values()))
    hits = 0
    for query in asked:
        best = seqs[np.argsort(-(rows @ query))[:10]]
        found = {seq for seq, _ in await vectors.nearest("m", where, query, 10)}
        hits += len(found & set(best.tolist()))
    return hits / (10 * len(asked))


async def test_large_stores_find_what_an_exact_search_finds(db: Sqlite, vectors: SqliteVectors) -> None:
    random = np.random.default_rng(3)
    rows = like_a_model(random, 10_000)
    await put(db, vectors, rows)
    found = await figures(db)
    assert found["blocks"] == found["codes"] == 10_000 // BLOCK_ROWS
    assert found["tail"] == 10_000 % BLOCK_ROWS
    assert found["frames"] == 2  # with the first block, and with RELEARN_FACTOR times as many
    assert 10_000 // BLOCK_ROWS >= RELEARN_FACTOR
    asked = like_a_model(random, 40)
    every = dict(enumerate(rows, start=1))
    assert await recall(vectors, every, asked) >= 0.98
    assert await recall(SqliteVectors(db, cache_bytes=0), every, asked[:5]) >= 0.98
    some = {seq: row for seq, row in every.items() if seq % 3 == 1 and seq >= 700}
    assert await recall(vectors, some, asked, SearchFilter("s", "t", collections=("c1",), since=700)) >= 0.98
    # So few that all of them are scored; two that are as good as equal may change places.
    few = {seq: row for seq, row in every.items() if seq % 50 == 7}
    assert await recall(vectors, few, asked, SearchFilter("s", "t", tags=("x7",))) >= 0.99


async def test_deleting_and_adding_rots_neither_speed_nor_size(db: Sqlite, vectors: SqliteVectors) -> None:
    random = np.random.default_rng(4)
    rows = like_a_model(random, 4_000)
    await put(db, vectors, rows)
    kept = dict(enumerate(rows, start=1))
    before = await figures(db)
    following = 4_001
    for _ in range(6):
        gone = random.choice(list(kept), 1_200, replace=False).tolist()
        await drop(db, vectors, gone)
        for seq in gone:
            del kept[seq]
        assert await recall(vectors, kept, like_a_model(random, 5)) >= 0.9
        fresh = like_a_model(random, 1_200)
        await put(db, vectors, fresh, following)
        kept.update(enumerate(fresh, start=following))
        following += 1_200
    after = await figures(db)
    assert after["rows"] == 4_000
    assert after["tail"] < BLOCK_ROWS
    # No block is less than half full, and what the others held is used again.
    assert after["blocks"] == after["codes"] <= 2 * before["blocks"]
    assert after["pages"] <= 1.4 * before["pages"]
    assert await recall(vectors, kept, like_a_model(random, 30)) >= 0.98


async def test_the_last_of_a_block(db: Sqlite, vectors: SqliteVectors) -> None:
    rows = like_a_model(np.random.default_rng(5), BLOCK_ROWS)
    await put(db, vectors, rows)
    assert (await figures(db))["blocks"] == 1
    await drop(db, vectors, range(1, BLOCK_ROWS // 2 + 1))
    assert (await figures(db))["blocks"] == 1
    await drop(db, vectors, [BLOCK_ROWS])
    found = await figures(db)
    assert (found["blocks"], found["codes"], found["tail"]) == (0, 0, BLOCK_ROWS // 2 - 1)
    assert len(await vectors.nearest("m", T, rows[0], BLOCK_ROWS)) == BLOCK_ROWS // 2 - 1
    await drop(db, vectors, range(1, BLOCK_ROWS + 1))
    assert await vectors.nearest("m", T, rows[0], 10) == []


async def test_a_row_that_moves_out_of_its_block(db: Sqlite, vectors: SqliteVectors) -> None:
    rows = like_a_model(np.random.default_rng(6), BLOCK_ROWS)
    await put(db, vectors, rows)
    assert (await vectors.nearest("m", T, rows[9], 1))[0][0] == 10
    await db.write(lambda tx: vectors.put(tx, "m", [(PassageRef(10, "s", "u"), rows[9])]))
    assert 10 not in [seq for seq, _ in await vectors.nearest("m", T, rows[9], BLOCK_ROWS)]
    assert (await vectors.nearest("m", SearchFilter("s", "u"), rows[9], 10))[0][0] == 10


async def test_a_second_process_sees_blocks_change(db: Sqlite, vectors: SqliteVectors, sqlite_path: Path) -> None:
    """Both have the blocks in memory when the other one writes."""
    there = Sqlite.open(sqlite_path, durable=False)
    other = SqliteVectors(there)
    rows = like_a_model(np.random.default_rng(7), 3 * BLOCK_ROWS)
    await put(db, vectors, rows[:BLOCK_ROWS])
    for first in (0, BLOCK_ROWS, 2 * BLOCK_ROWS):
        if first:
            await put(there, other, rows[first : first + BLOCK_ROWS], first + 1)
        for index in (vectors, other):
            assert (await index.nearest("m", T, rows[first + 5], 1))[0][0] == first + 6
        await drop(there, other, [first + 6])
        for index in (vectors, other):
            assert first + 6 not in [seq for seq, _ in await index.nearest("m", T, rows[first + 5], 10)]
    await drop(db, vectors, range(BLOCK_ROWS, 2 * BLOCK_ROWS))
    found = [seq for seq, _ in await other.nearest("m", T, rows[0], 4 * BLOCK_ROWS)]
    assert len(found) == len(set(found)) == 3 * BLOCK_ROWS - 3 - (BLOCK_ROWS - 1)
    await there.aclose()


async def test_a_rollback_of_a_block(db: Sqlite, vectors: SqliteVectors) -> None:
    rows = like_a_model(np.random.default_rng(8), 2 * BLOCK_ROWS)

    def work(tx: Tx) -> None:
        vectors.put(tx, "m", [(PassageRef(seq, "s", "t"), row) for seq, row in enumerate(rows, start=1)])
        raise errors.Conflict()

    with pytest.raises(errors.Conflict):
        await db.write(work)
    assert await vectors.nearest("m", T, rows[0], 10) == []
    # The same numbers of blocks, now with other contents.
    await put(db, vectors, rows[BLOCK_ROWS:])
    assert (await vectors.nearest("m", T, rows[BLOCK_ROWS], 1))[0][0] == 1


async def test_thousands_of_equals(db: Sqlite, vectors: SqliteVectors) -> None:
    """Newest first, from the blocks as from the tail."""
    count = 3 * BLOCK_ROWS
    await put(db, vectors, np.repeat(like_a_model(np.random.default_rng(2), 1), count, axis=0))
    found = await vectors.nearest("m", T, like_a_model(np.random.default_rng(2), 1)[0], 3)
    assert [seq for seq, _ in found] == [count, count - 1, count - 2]


async def test_many_small_tenants_have_no_blocks(db: Sqlite, vectors: SqliteVectors) -> None:
    rows = like_a_model(np.random.default_rng(9), 900)
    for tenant in range(30):
        await put(db, vectors, rows[30 * tenant : 30 * tenant + 30], 30 * tenant + 1, f"t{tenant}")
    assert (await figures(db))["blocks"] == 0
    found = await vectors.nearest("m", SearchFilter("s", "t7"), rows[215], 100)
    assert found[0] == (216, pytest.approx(1, abs=1e-3))
    assert {seq for seq, _ in found} == set(range(211, 241))
