"""Qdrant behind its outbox: what happens when a delivery is cut short, when two deliver, when Qdrant is away."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray

from kho.kernel import errors
from kho.kernel.ports import Database, PassageRef, SearchFilter, Tx
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index import qdrant_outbox as outbox
from kho.storage.vector_index.qdrant import QdrantVectors

R = TypeVar("R")
T = SearchFilter("s", "t")
NOWHERE = "http://127.0.0.1:1"
"""Nobody listens on port 1."""


def vector(*numbers: float) -> NDArray[np.float32]:
    return np.array(numbers, np.float32)


class Hand:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        return self.now


class Breaking:
    """A database that takes only so many writes more, as if the process died then."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.writes_left: int | None = None

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return self._db.engine

    async def read(self, work: Callable[[Tx], R], *, timeout: float | None = None) -> R:
        return await self._db.read(work, timeout=timeout)

    async def write(self, work: Callable[[Tx], R]) -> R:
        if self.writes_left is not None:
            if self.writes_left == 0:
                raise errors.DatabaseError("gone")
            self.writes_left -= 1
        return await self._db.write(work)

    def pin(self, mark: str) -> None:
        raise AssertionError

    async def maintain(self, statement: str, **settings: str) -> None:
        await self._db.maintain(statement, **settings)

    async def aclose(self) -> None:
        await self._db.aclose()


@pytest.fixture
def clock() -> Hand:
    return Hand()


@pytest.fixture
async def breaking(db: Database) -> Breaking:
    return Breaking(db)


@pytest.fixture
async def qdrant(breaking: Breaking, clock: Hand) -> AsyncIterator[QdrantVectors]:
    vectors = QdrantVectors(breaking, ":memory:", clock=clock)
    await vectors.prepare("m", 3)
    yield vectors
    await vectors.aclose()


async def put(db: Database, vectors: QdrantVectors, *seqs: int) -> None:
    rows = [(PassageRef(seq, "s", "t"), vector(1, seq / 1000, 0)) for seq in seqs]
    await db.write(lambda tx: vectors.put(tx, "m", rows))


async def drop(db: Database, vectors: QdrantVectors, *seqs: int) -> None:
    await db.write(lambda tx: vectors.drop(tx, seqs))


async def found(vectors: QdrantVectors) -> list[int]:
    return sorted(seq for seq, _ in await vectors.nearest("m", T, vector(1, 0, 0), 10_000))


async def waiting(db: Database) -> int:
    row = await db.read(lambda tx: tx.one("SELECT count(*) FROM vector_outbox"))
    return row[0] if row else -1


async def test_what_was_put_is_found_after_a_delivery(breaking: Breaking, qdrant: QdrantVectors) -> None:
    await put(breaking, qdrant, *range(1, 1_201))
    assert await found(qdrant) == []
    assert await waiting(breaking) == 1_200
    assert await qdrant.deliver() == 1_200
    assert await waiting(breaking) == 0
    assert await found(qdrant) == list(range(1, 1_201))
    assert await qdrant.deliver() == 0


async def test_the_order_of_writing_counts(breaking: Breaking, qdrant: QdrantVectors) -> None:
    await put(breaking, qdrant, 1, 2, 3)
    await drop(breaking, qdrant, 1, 2)
    await put(breaking, qdrant, 2)
    assert await qdrant.deliver() == 6
    assert await found(qdrant) == [2, 3]
    # Also across batches.
    await drop(breaking, qdrant, 3)
    await put(breaking, qdrant, *range(10, 700))
    await put(breaking, qdrant, 3)
    await drop(breaking, qdrant, 2)
    await qdrant.deliver()
    assert await found(qdrant) == [3, *range(10, 700)]


async def test_an_interrupted_delivery_is_repeated_without_doubles(
    breaking: Breaking, qdrant: QdrantVectors, clock: Hand
) -> None:
    await put(breaking, qdrant, *range(1, 601))
    await drop(breaking, qdrant, 600)
    # The lease is taken and Qdrant is told of the first batch; then the process dies before it can strike that out.
    breaking.writes_left = 1
    with pytest.raises(errors.DatabaseError):
        await qdrant.deliver()
    breaking.writes_left = None
    assert await found(qdrant) == list(range(1, 501))
    assert await waiting(breaking) == 601

    # Another process: not before the lease is over.
    survivor = QdrantVectors(breaking, ":memory:", clock=clock)
    survivor._client = qdrant._client  # type: ignore[reportPrivateUsage] # the same Qdrant: in-process it has no address
    assert await survivor.deliver() == 0
    clock.now += outbox.LEASE_DURATION
    assert await survivor.deliver() == 601
    assert await found(survivor) == list(range(1, 600))
    assert await waiting(breaking) == 0
    survivor._client = None  # type: ignore[reportPrivateUsage] # it is closed once
    await survivor.aclose()


async def test_two_deliver_each_row_once(breaking: Breaking, qdrant: QdrantVectors, clock: Hand) -> None:
    other = QdrantVectors(breaking, ":memory:", clock=clock)
    await put(breaking, qdrant, *range(1, 1_501))
    counts = await asyncio.gather(qdrant.deliver(), other.deliver())
    assert sorted(counts) == [0, 1_500]
    assert await waiting(breaking) == 0
    await other.aclose()


async def test_while_qdrant_is_away_nothing_is_lost(breaking: Breaking, qdrant: QdrantVectors, clock: Hand) -> None:
    away = QdrantVectors(breaking, NOWHERE, clock=clock)
    await put(breaking, away, 1, 2)
    await drop(breaking, away, 2)
    with pytest.raises(errors.Unavailable):
        await away.nearest("m", T, vector(1, 0, 0), 10)
    with pytest.raises(errors.Unavailable):
        await away.get("m", T, [1])
    with pytest.raises(errors.Unavailable):
        await away.deliver()
    assert await waiting(breaking) == 3
    # Not again at once, whoever asks …
    assert await away.deliver() == await qdrant.deliver() == 0
    # … and twice as long after the second failure.
    clock.now += outbox.FIRST_BACKOFF
    with pytest.raises(errors.Unavailable):
        await away.deliver()
    clock.now += outbox.FIRST_BACKOFF
    assert await away.deliver() == 0
    clock.now += outbox.FIRST_BACKOFF
    # It is back.
    assert await qdrant.deliver() == 3
    assert await found(qdrant) == [1]
    await put(breaking, qdrant, 3)
    assert await qdrant.deliver() == 1
    await away.aclose()


async def test_a_wrong_vector_is_refused_before_it_is_queued(breaking: Breaking, qdrant: QdrantVectors) -> None:
    with pytest.raises(errors.InvalidParams):
        await breaking.write(lambda tx: qdrant.put(tx, "m", [(PassageRef(1, "s", "t"), vector(1, 0))]))
    assert await waiting(breaking) == 0


async def test_a_deadline_holds(breaking: Breaking, qdrant: QdrantVectors) -> None:
    with pytest.raises(errors.Timeout):
        await qdrant.nearest("m", T, vector(1, 0, 0), 10, timeout=0)


async def test_two_hubs_can_share_one_qdrant(tmp_path: Path) -> None:
    for number in (1, 2):
        db = Sqlite.open(tmp_path / f"{number}.db")
        await migrate(db, [OWN])
        vectors = QdrantVectors(db, f"path:{tmp_path / 'qdrant'}")
        await vectors.prepare("m", 3)
        await put(db, vectors, number, 10 * number)
        await vectors.deliver()
        assert await found(vectors) == [number, 10 * number]
        await vectors.aclose()
        await db.aclose()
