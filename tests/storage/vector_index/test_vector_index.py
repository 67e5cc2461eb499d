"""The vector index, alike on SQLite, PostgreSQL and Qdrant."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.storage.conftest import Store

from kho.kernel import errors
from kho.kernel.ports import PassageRef, SearchFilter, Tx

Vector = NDArray[np.float32]

CLOSE = 2e-3
"""Half precision: each of a vector's numbers is right to 0.05 %."""
T = SearchFilter("s", "t")


def filed(seq: int, **changes: object) -> PassageRef:
    return replace(PassageRef(seq, "s", "t"), **changes)  # type: ignore[arg-type] # names and values of Filed's fields


def vector(*numbers: float) -> Vector:
    return np.array(numbers, np.float32)


async def put(store: Store, *rows: tuple[PassageRef, Vector], model: str = "m") -> None:
    await store.db.write(lambda tx: store.vectors.put(tx, model, rows))
    await store.settle()


async def drop(store: Store, *seqs: int) -> None:
    await store.db.write(lambda tx: store.vectors.drop(tx, seqs))
    await store.settle()


async def near(store: Store, asked: Vector, where: SearchFilter = T, limit: int = 10, model: str = "m") -> list[int]:
    return [seq for seq, _ in await store.vectors.nearest(model, where, asked, limit)]


@pytest.fixture
async def small(store: Store) -> Store:
    await store.vectors.prepare("m", 3)
    return store


async def test_the_nearest_come_first_with_their_cosine(small: Store) -> None:
    await put(
        small,
        (filed(1), vector(1, 0, 0)),
        (filed(2), vector(0.6, 0.8, 0)),
        (filed(3), vector(0, 0, 1)),
        (filed(4), vector(-1, 0, 0)),
    )
    found = await small.vectors.nearest("m", T, vector(1, 0, 0), 10)
    assert [seq for seq, _ in found] == [1, 2, 3, 4]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.6, 0, -1], abs=CLOSE)
    assert await near(small, vector(1, 0, 0), limit=2) == [1, 2]


async def test_equals_newest_first(small: Store) -> None:
    await put(small, *((filed(seq), vector(0, 1, 0)) for seq in (2, 3, 1)))
    assert await near(small, vector(0, 1, 0)) == [3, 2, 1]


async def test_length_does_not_matter(small: Store) -> None:
    await put(small, (filed(1), vector(30, 40, 0)), (filed(2), vector(1e30, 0, 0)), (filed(3), vector(0, 1e-30, 0)))
    found = await small.vectors.nearest("m", T, vector(0, 1e25, 0), 10)
    assert found == [
        (3, pytest.approx(1, abs=CLOSE)),
        (1, pytest.approx(0.8, abs=CLOSE)),
        (2, pytest.approx(0, abs=CLOSE)),
    ]


FILED = [
    filed(1, collection="red", kind="note", tags=("a", "b"), created_at=10),
    filed(2, collection="red", kind="code", tags=("a",), created_at=20),
    filed(3, collection="blue", kind="note", tags=("b",), created_at=30),
    filed(4, collection="màu xanh", kind="笔记", tags=("a", "c", "标签"), created_at=40),
    filed(5),
    filed(6, created_at=-5),
]


NOTHING: set[int] = set()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (T, {1, 2, 3, 4, 5, 6}),
        (SearchFilter("s", "t", collections=("red",)), {1, 2}),
        (SearchFilter("s", "t", collections=("blue", "màu xanh")), {3, 4}),
        (SearchFilter("s", "t", collections=("",)), {5, 6}),
        (SearchFilter("s", "t", kinds=("note",)), {1, 3}),
        (SearchFilter("s", "t", kinds=("code", "笔记")), {2, 4}),
        (SearchFilter("s", "t", tags=("a",)), {1, 2, 4}),
        (SearchFilter("s", "t", tags=("a", "b")), {1}),
        (SearchFilter("s", "t", tags=("a", "a")), {1, 2, 4}),
        (SearchFilter("s", "t", tags=("标签", "c")), {4}),
        (SearchFilter("s", "t", tags=("ab",)), NOTHING),
        (SearchFilter("s", "t", any_tags=("b", "c")), {1, 3, 4}),
        (SearchFilter("s", "t", tags=("a",), any_tags=("b", "标签", "no")), {1, 4}),
        (SearchFilter("s", "t", any_tags=("no",)), NOTHING),
        (SearchFilter("s", "t", collections=(*(f"c{n}" for n in range(50)), "blue")), {3}),
        (SearchFilter("s", "t", since=20), {2, 3, 4}),
        (SearchFilter("s", "t", until=20), {1, 5, 6}),
        (SearchFilter("s", "t", since=20, until=40), {2, 3}),
        (SearchFilter("s", "t", since=-5, until=0), {6}),
        (SearchFilter("s", "t", ("red", "blue"), ("note",), ("b",), 10, 30), {1}),
        (SearchFilter("s", "t", ("red",), ("note",), ("c",)), NOTHING),
        (SearchFilter("s", "t", collections=("Red",)), NOTHING),
    ],
)
async def test_every_filter(small: Store, where: SearchFilter, expected: set[int]) -> None:
    await put(small, *((one, vector(one.seq, 1, 1)) for one in FILED))
    assert set(await near(small, vector(1, 0, 0), where)) == expected


async def test_a_filter_holds_before_the_limit(small: Store) -> None:
    """The one that is meant is the farthest of all."""
    await put(
        small,
        *((filed(seq), vector(1, seq / 1000, 0)) for seq in range(1, 50)),
        (filed(99, collection="c", kind="k", tags=("x",), created_at=7), vector(-1, 0, 0)),
    )
    for where in (
        SearchFilter("s", "t", collections=("c",)),
        SearchFilter("s", "t", kinds=("k",)),
        SearchFilter("s", "t", tags=("x",)),
        SearchFilter("s", "t", since=7),
    ):
        assert await near(small, vector(1, 0, 0), where, limit=1) == [99]


async def test_tenants_and_spaces_are_apart(small: Store) -> None:
    owners = [("s", "t"), ("s", "t2"), ("s2", "t"), ("st", ""), ("", "st"), ('s"', ","), ("s", "T")]
    await put(
        small,
        *((PassageRef(seq, space, tenant), vector(1, 0, 0)) for seq, (space, tenant) in enumerate(owners, start=1)),
    )
    for seq, (space, tenant) in enumerate(owners, start=1):
        assert await near(small, vector(1, 0, 0), SearchFilter(space, tenant)) == [seq]
    assert await near(small, vector(1, 0, 0), SearchFilter("s", "nobody")) == []


async def test_several_spaces_at_once_give_the_nearest_of_all(small: Store) -> None:
    """Many, so that SQLite has packed some of them; each space has a filter of its own."""
    refs = [PassageRef(seq, f"s{seq % 3}", "t", kind="odd" if seq % 2 else "even") for seq in range(1, 901)]
    await put(small, *((ref, vector(1, ref.seq / 1_000, 0)) for ref in refs))
    both = (SearchFilter("s0", "t", kinds=("even",)), SearchFilter("s1", "t"), SearchFilter("none", "t"))
    meant = [ref.seq for ref in refs if ref.space == "s1" or (ref.space == "s0" and ref.kind == "even")]
    single = [one for where in both for one in await small.vectors.nearest("m", where, vector(1, 0, 0), 20)]
    found = await small.vectors.nearest("m", both, vector(1, 0, 0), 20)
    assert found == sorted(single, key=lambda one: (-one[1], -one[0]))[:20]
    assert {seq for seq, _ in await small.vectors.nearest("m", both, vector(1, 0, 0), 1_000)} == {*meant}


async def test_putting_again_replaces(small: Store) -> None:
    await put(small, (filed(1, tags=("old",)), vector(1, 0, 0)), (filed(2), vector(0, 1, 0)))
    await put(small, (filed(1, tenant="t2", tags=("new",)), vector(0, 0, 1)))
    assert await near(small, vector(1, 0, 0)) == [2]
    assert await near(small, vector(1, 0, 0), SearchFilter("s", "t2", tags=("old",))) == []
    found = await small.vectors.nearest("m", SearchFilter("s", "t2", tags=("new",)), vector(0, 0, 1), 10)
    assert found == [(1, pytest.approx(1, abs=CLOSE))]


async def test_the_last_of_one_call_counts(small: Store) -> None:
    await put(small, (filed(1), vector(1, 0, 0)), (filed(1), vector(0, 1, 0)))
    assert await small.vectors.nearest("m", T, vector(0, 1, 0), 10) == [(1, pytest.approx(1, abs=CLOSE))]


async def test_vectors_can_be_had_back(small: Store) -> None:
    await put(small, (filed(1), vector(3, 4, 0)), (filed(2), vector(0, 0, 1)), (filed(3, tenant="t2"), vector(1, 0, 0)))
    found = await small.vectors.get("m", T, [2, 1, 3, 99])
    assert sorted(found) == [1, 2]
    assert found[1].tolist() == pytest.approx([0.6, 0.8, 0], abs=CLOSE)
    assert found[1].dtype == np.float32
    assert float(np.linalg.norm(found[1])) == pytest.approx(1, abs=1e-6)
    assert await small.vectors.get("m", T, []) == {}
    assert await small.vectors.get("unknown", T, [1]) == {}
    assert await small.vectors.get("m", SearchFilter("s", "nobody"), [1]) == {}


async def test_a_vector_is_filed_elsewhere(small: Store) -> None:
    """Many, so that SQLite has packed them; of those that have no vector nothing comes to be."""
    await put(small, *((filed(seq, collection="red", tags=("x",)), vector(seq, 1, 0)) for seq in range(1, 601)))
    moved = [filed(seq, collection="blue", kind="note", tags=("y",), created_at=9) for seq in [*range(1, 601, 2), 999]]
    await small.db.write(lambda tx: small.vectors.move(tx, "m", moved))
    await small.settle()
    elsewhere = SearchFilter("s", "t", collections=("blue",), kinds=("note",), tags=("y",), since=9)
    assert {*await near(small, vector(1, 0, 0), elsewhere, 1_000)} == {*range(1, 601, 2)}
    assert {*await near(small, vector(1, 0, 0), SearchFilter("s", "t", ("red",)), 1_000)} == {*range(2, 601, 2)}
    assert (await small.vectors.get("m", T, [3]))[3].tolist() == pytest.approx([0.949, 0.316, 0], abs=CLOSE)
    await small.db.write(lambda tx: small.vectors.move(tx, "unknown", moved))


async def test_filed_and_filed_elsewhere_in_one_go(small: Store) -> None:
    def work(tx: Tx) -> None:
        small.vectors.put(tx, "m", [(filed(1, collection="red"), vector(1, 0, 0)), (filed(2), vector(1, 0, 0))])
        small.vectors.move(tx, "m", [filed(1, collection="green"), filed(2, collection="green")])
        small.vectors.move(tx, "m", [filed(1, collection="blue")])
        small.vectors.drop(tx, [2])

    await small.db.write(work)
    await small.settle()
    assert await near(small, vector(1, 0, 0), SearchFilter("s", "t", ("blue",))) == [1]
    assert await near(small, vector(1, 0, 0)) == [1]


async def test_drop(small: Store) -> None:
    await put(small, *((filed(seq), vector(seq, 1, 0)) for seq in range(1, 6)))
    await drop(small, 2, 4, 99)
    assert sorted(await near(small, vector(1, 0, 0))) == [1, 3, 5]
    await drop(small)
    await drop(small, 2)
    await put(small, (filed(2), vector(1, 0, 0)))
    assert sorted(await near(small, vector(1, 0, 0))) == [1, 2, 3, 5]


async def test_a_rollback_leaves_nothing(small: Store) -> None:
    await put(small, (filed(1), vector(1, 0, 0)))

    def work(tx: Tx) -> None:
        small.vectors.put(tx, "m", [(filed(2), vector(1, 0, 0)), (filed(1), vector(0, 1, 0))])
        small.vectors.drop(tx, [1])
        raise errors.Conflict()

    with pytest.raises(errors.Conflict):
        await small.db.write(work)
    await small.settle()
    assert await small.vectors.nearest("m", T, vector(1, 0, 0), 10) == [(1, pytest.approx(1, abs=CLOSE))]


@pytest.mark.parametrize(
    "bad",
    [
        vector(1, 0),
        vector(1, 0, 0, 0),
        vector(),
        vector(0, 0, 0),
        vector(1, float("nan"), 0),
        vector(float("inf"), 0, 0),
        np.ones((1, 3), np.float32),
    ],
    ids=["short", "long", "empty", "zero", "nan", "inf", "matrix"],
)
async def test_a_vector_that_cannot_be_compared_is_refused(small: Store, bad: Vector) -> None:
    await put(small, (filed(1), vector(1, 0, 0)))
    with pytest.raises(errors.InvalidParams):
        await put(small, (filed(1), vector(0, 1, 0)), (filed(2), bad))
    with pytest.raises(errors.InvalidParams):
        await near(small, bad)
    await small.settle()
    assert await small.vectors.nearest("m", T, vector(1, 0, 0), 10) == [(1, pytest.approx(1, abs=CLOSE))]


@pytest.mark.parametrize("dimension", [0, -1, 4, 1_000_000])
async def test_another_dimension_under_the_same_name_is_refused(small: Store, dimension: int) -> None:
    await put(small, (filed(1), vector(1, 0, 0)))
    with pytest.raises(errors.InvalidParams):
        await small.vectors.prepare("m", dimension)
    await small.vectors.prepare("m", 3)
    assert await near(small, vector(1, 0, 0)) == [1]


async def test_preparing_at_once(store: Store) -> None:
    await asyncio.gather(*(store.vectors.prepare(model, 3) for model in "mnmnmn"))
    await put(store, (filed(1), vector(1, 0, 0)), model="n")
    assert await near(store, vector(1, 0, 0), model="n") == [1]


async def test_two_models_side_by_side(small: Store) -> None:
    await small.vectors.prepare("M", 2)
    await put(small, (filed(1), vector(1, 0, 0)), (filed(2), vector(0, 1, 0)))
    await put(small, (filed(1), vector(0, 1)), (filed(3), vector(1, 0)), model="M")
    assert await near(small, vector(1, 0, 0)) == [1, 2]
    assert await near(small, vector(1, 0), model="M") == [3, 1]
    await drop(small, 1)
    assert await near(small, vector(1, 0, 0)) == [2]
    assert await near(small, vector(1, 0), model="M") == [3]


async def test_a_model_that_was_not_prepared(small: Store) -> None:
    with pytest.raises(errors.InvalidParams, match="prepare it"):
        await put(small, (filed(1), vector(1, 0, 0)), model="unknown")
    assert await near(small, vector(1, 0), model="unknown") == []


async def test_an_empty_index(small: Store) -> None:
    assert await near(small, vector(1, 0, 0)) == []
    await put(small)
    await drop(small, 1)
    assert await near(small, vector(1, 0, 0), SearchFilter("s", "t", tags=("a",))) == []


async def test_any_limit(small: Store) -> None:
    await put(small, *((filed(seq), vector(seq, 1, 0)) for seq in range(1, 6)))
    for limit, expected in ((0, 0), (-1, 0), (1, 1), (5, 5), (1_000_000, 5)):
        assert len(await near(small, vector(1, 0, 0), limit=limit)) == expected


async def test_other_connections_see_it_at_once(small: Store) -> None:
    if small.other is None:
        pytest.skip("Qdrant is told afterwards")
    other = small.other()
    await put(small, (filed(1), vector(1, 0, 0)))
    assert await near(other, vector(1, 0, 0)) == [1]
    await put(other, (filed(2), vector(1, 0, 0)))
    await drop(other, 1)
    assert await near(small, vector(1, 0, 0)) == [2]
    await other.db.aclose()


DIMENSION = 24
ROWS = 400
COLLECTIONS, KINDS, TAGS, TENANTS = ("c0", "c1", "c2"), ("k0", "k1"), ("x", "y", "z"), ("t", "t", "t", "u")


def random_rows(random: np.random.Generator, seqs: Sequence[int]) -> list[tuple[PassageRef, Vector]]:
    """Like those of real models: all point roughly the same way."""
    common = np.linspace(-1, 1, DIMENSION)
    return [
        (
            PassageRef(
                seq,
                "s",
                str(random.choice(TENANTS)),
                str(random.choice(COLLECTIONS)),
                str(random.choice(KINDS)),
                tuple(tag for tag in TAGS if random.random() < 0.4),
                int(random.integers(0, 1000)),
            ),
            (common + 0.5 * random.standard_normal(DIMENSION)).astype(np.float32),
        )
        for seq in seqs
    ]


def random_where(random: np.random.Generator) -> SearchFilter:
    where = SearchFilter("s", str(random.choice(TENANTS)))
    if random.random() < 0.4:
        where = replace(where, collections=tuple(random.choice(COLLECTIONS, 2, replace=False).tolist()))
    if random.random() < 0.4:
        where = replace(where, kinds=(str(random.choice(KINDS)),))
    if random.random() < 0.4:
        where = replace(where, tags=tuple(tag for tag in TAGS if random.random() < 0.4))
    if random.random() < 0.4:
        since = int(random.integers(0, 500))
        where = replace(where, since=since, until=since + int(random.integers(1, 600)))
    return where


def is_meant(one: PassageRef, where: SearchFilter) -> bool:
    return (
        (one.space, one.tenant) == (where.space, where.tenant)
        and one.collection in (where.collections or COLLECTIONS)
        and one.kind in (where.kinds or KINDS)
        and set(where.tags) <= set(one.tags)
        and (where.since is None or one.created_at >= where.since)
        and (where.until is None or one.created_at < where.until)
    )


async def test_random_work_is_answered_as_numpy_would(store: Store) -> None:
    random = np.random.default_rng(7)
    await store.vectors.prepare("m", DIMENSION)
    model: dict[int, tuple[PassageRef, Vector]] = {}
    hits = wanted = 0
    for _ in range(3):
        rows = random_rows(random, random.integers(1, 1_500, ROWS).tolist())
        gone = random.integers(1, 1_500, 100).tolist()
        await put(store, *rows)
        await drop(store, *gone)
        model.update({one.seq: (one, vector) for one, vector in rows})
        for seq in gone:
            model.pop(seq, None)
        for _ in range(10):
            where, asked = random_where(random), random_rows(random, [0])[0][1]
            meant = [(one.seq, vector) for one, vector in model.values() if is_meant(one, where)]
            cosines = {seq: float(v @ asked / np.linalg.norm(v) / np.linalg.norm(asked)) for seq, v in meant}
            best = sorted(cosines, key=lambda seq: -cosines[seq])[:10]
            found = await store.vectors.nearest("m", where, asked, 10)
            assert len(found) == len(best)
            assert {seq for seq, _ in found} <= set(cosines)
            assert [cosine for _, cosine in found] == pytest.approx([cosines[seq] for seq, _ in found], abs=CLOSE)
            assert found == sorted(found, key=lambda hit: -hit[1])
            hits += len({seq for seq, _ in found} & set(best))
            wanted += len(best)
    assert hits >= 0.98 * wanted
