"""The SQL of passages, alike on both databases."""

from dataclasses import replace

import pytest

from kho.kernel.ports import Database, PassageRef, SearchFilter
from kho.search.indexing import passages
from kho.search.indexing.passages import StoredPassage

T = SearchFilter("s", "t")


def stored(number: int, **changes: object) -> StoredPassage:
    filed = replace(PassageRef(0, "s", "t"), **changes)  # type: ignore[arg-type] # names and values of Filed's fields
    return StoredPassage(filed, f"key{number}", number, f"digest{number}", "", f"text {number}", ())


async def insert(db: Database, *many: StoredPassage) -> list[int]:
    return await db.write(lambda tx: passages.insert(tx, many))


async def test_numbers_come_in_the_order_of_the_rows(db: Database) -> None:
    count = 2 * passages.MAX_ROWS + 7
    seqs = await insert(db, *(stored(n) for n in range(count)))
    assert seqs == sorted(set(seqs))
    found = await db.read(lambda tx: passages.get(tx, T, seqs))
    assert [found[seq].text for seq in seqs] == [f"text {n}" for n in range(count)]
    assert await insert(db) == []


async def test_a_number_is_never_given_twice(db: Database) -> None:
    seqs = await insert(db, stored(1), stored(2))
    await db.write(lambda tx: passages.delete(tx, "t", seqs))
    assert min(await insert(db, stored(3))) > max(seqs)


async def test_everything_comes_back_as_it_was_filed(db: Database) -> None:
    filed = PassageRef(0, "s", "t", "màu xanh", "笔记", ("a", 'b"', "标签"), -5)
    one = StoredPassage(filed, "khóa/1", 7, "d" * 32, "Đầu đề", "Nội dung 😀", ((5, 2.0), (4, 0.5)), "vi")
    [seq] = await insert(db, one)
    assert await db.read(lambda tx: passages.get(tx, T, [seq])) == {seq: replace(one, ref=replace(filed, seq=seq))}
    labels = await db.read(lambda tx: passages.labels(tx, T, [seq, seq + 1]))
    assert labels == {seq: ("s", "màu xanh", "khóa/1", "d" * 32)}


FILED: list[dict[str, object]] = [
    {"collection": "red", "kind": "note", "tags": ("a", "b"), "created_at": 10},
    {"collection": "blue", "kind": "code", "tags": ("a",), "created_at": 20},
    {"created_at": 30},
    {"tenant": "u"},
    {"space": "s2"},
]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (T, {0, 1, 2}),
        (SearchFilter("s", "u"), {3}),
        (SearchFilter("s2", "t"), {4}),
        (SearchFilter("s", "t", ("red", "blue")), {0, 1}),
        (SearchFilter("s", "t", ("",)), {2}),
        (SearchFilter("s", "t", kinds=("code",)), {1}),
        (SearchFilter("s", "t", tags=("a",)), {0, 1}),
        (SearchFilter("s", "t", tags=("b", "a")), {0}),
        (SearchFilter("s", "t", since=20), {1, 2}),
        (SearchFilter("s", "t", until=20), {0}),
        (SearchFilter("s", "t", since=10, until=11, tags=("c",)), set[int]()),
    ],
)
async def test_only_what_is_meant_is_got(db: Database, where: SearchFilter, expected: set[int]) -> None:
    seqs = await insert(db, *(stored(n, **changes) for n, changes in enumerate(FILED)))
    found = await db.read(lambda tx: passages.get(tx, where, seqs))
    assert {one.part for one in found.values()} == expected


async def test_the_newest_are_due_first_and_only_when_it_is_time(db: Database) -> None:
    seqs = await insert(db, *(stored(n) for n in range(6)))
    await db.write(lambda tx: passages.enqueue(tx, "t", seqs[:4], 10))
    await db.write(lambda tx: passages.enqueue(tx, "t", seqs[4:], 20))

    async def due(now: int, limit: int) -> list[int]:
        return [one.part for one in (await db.read(lambda tx: passages.due(tx, now, limit))).passages]

    assert await due(9, 24) == []
    assert await due(10, 24) == [3, 2, 1, 0]
    assert await due(20, 3) == [5, 4, 3]
    await db.write(lambda tx: passages.done(tx, seqs[2:]))
    assert await due(20, 24) == [1, 0]


async def test_what_failed_together_comes_again_in_fewer_and_fewer(db: Database) -> None:
    seqs = await insert(db, *(stored(n) for n in range(20)))
    await db.write(lambda tx: passages.enqueue(tx, "t", seqs, 10))
    sizes: list[int] = []
    for _ in range(6):
        batch = (await db.read(lambda tx: passages.due(tx, 10, 16))).passages
        sizes.append(len(batch))
        failing = [one.ref.seq for one in batch]
        await db.write(lambda tx, failing=failing: passages.failed(tx, failing, 10, "no luck"))
    # The newest first: 16 of 20, 8 of these 16, 4 of these 8 …, down to one by one.
    assert sizes == [16, 8, 4, 2, 1, 1]
    assert await db.read(passages.problem) == "no luck"
    await db.write(lambda tx: passages.enqueue(tx, "t", seqs, 10))
    assert await db.read(passages.problem) is None
    assert len((await db.read(lambda tx: passages.due(tx, 10, 16))).passages) == 16


async def test_tenants_take_turns_the_newest_of_each_first(db: Database) -> None:
    filed = ["flood"] * 40 + ["b"] * 3 + ["a"]
    seqs = await insert(db, *(stored(n, tenant=tenant) for n, tenant in enumerate(filed)))
    await db.write(lambda tx: passages.enqueue_all(tx, 10))

    async def step(limit: int, turn: str = "") -> tuple[list[tuple[str, int]], str]:
        found, following = await db.read(lambda tx: passages.due(tx, 10, limit, turn))
        await db.write(lambda tx: passages.done(tx, [one.ref.seq for one in found]))
        return [(one.ref.tenant, one.part) for one in found], following

    assert await step(6) == (
        [("a", 43), ("b", 42), ("flood", 39), ("b", 41), ("flood", 38), ("b", 40)],
        "flood",
    )
    await db.write(lambda tx: passages.enqueue_all(tx, 10))
    # More tenants than fit into a batch: those that were left out come next.
    order: list[str] = []
    turn = ""
    for _ in range(4):
        found, turn = await step(2, turn)
        order += [tenant for tenant, _ in found]
    assert order == ["a", "b", "flood", "b", "flood", "b", "flood", "flood"]
    assert len(seqs) - 8 == await db.read(passages.pending)


async def test_what_failed_of_one_tenant_neither_holds_up_the_others_nor_is_forgotten(db: Database) -> None:
    filed = ["a", "b", "c"] * 4
    seqs = await insert(db, *(stored(n, tenant=tenant) for n, tenant in enumerate(filed)))
    await db.write(lambda tx: passages.enqueue_all(tx, 10))
    await db.write(lambda tx: passages.failed(tx, seqs[1::3], 10, "no luck"))
    turn, batches = "", list[set[str]]()
    for _ in range(3):
        found, turn = await db.read(lambda tx, turn=turn: passages.due(tx, 10, 3, turn))
        batches.append({one.ref.tenant for one in found})
    assert {"b"} in batches
    assert {"a", "c"} in batches


async def test_pending_is_counted_by_where_it_is(db: Database) -> None:
    filed: list[dict[str, object]] = [
        {"collection": "red"},
        {"collection": "blue"},
        {},
        {"tenant": "u"},
        {"space": "s2"},
    ]
    seqs = await insert(db, *(stored(n, **changes) for n, changes in enumerate(filed)))
    await db.write(lambda tx: passages.enqueue_all(tx, 10))

    async def pending(where: SearchFilter | None, most: int = 100) -> int:
        return await db.read(lambda tx: passages.pending(tx, where, most))

    assert await pending(None) == 5
    assert await pending(None, 2) == 2
    assert await pending(T) == 3
    assert await pending(T, 2) == 2
    assert await pending(SearchFilter("s", "t", ("red", "blue"))) == 2
    assert await pending(SearchFilter("s", "u")) == 1
    for tenant in ("t", "u"):  # what is of others stays, whatever the number
        await db.write(lambda tx, tenant=tenant: passages.delete(tx, tenant, seqs))
    assert await pending(None) == 0


async def test_twins_are_those_that_no_longer_wait(db: Database) -> None:
    one, other, last = await insert(db, stored(1), replace(stored(1, tenant="u"), key="k"), stored(2))
    await db.write(lambda tx: passages.enqueue(tx, "t", [one, last], 10))
    found = await db.read(lambda tx: passages.twins(tx, ["digest1", "digest2", "unknown"]))
    assert found == {"digest1": [PassageRef(other, "s", "u")], "digest2": [], "unknown": []}


async def test_versions_only_go_up_and_are_each_tenants_own(db: Database) -> None:
    async def version(space: str, tenant: str) -> int:
        return await db.read(lambda tx: passages.version(tx, space, tenant))

    seen = {await version("s", "t")}
    for _ in range(20):
        await db.write(lambda tx: passages.changed(tx, "s", "t"))
        seen.add(await version("s", "t"))
    assert len(seen) == 21
    assert await version("s", "u") == await version("s2", "t") == 0
    await db.write(passages.changed_for_all)
    assert await version("s", "t") > max(seen)
    assert await version("s", "u") == await version("s2", "t") == 1


async def test_filing_without_a_model_forgets_which_one_it_was(db: Database) -> None:
    await db.write(passages.unmodel)
    assert await db.read(lambda tx: passages.state(tx, passages.MODEL)) is None
    await db.write(lambda tx: passages.set_state(tx, passages.MODEL, "m"))
    await db.write(passages.unmodel)
    assert await db.read(lambda tx: passages.state(tx, passages.MODEL)) == ""


async def test_thousands_of_numbers_at_once(db: Database) -> None:
    seqs = await insert(db, *(stored(n) for n in range(1_300)))
    assert len(await db.read(lambda tx: passages.get(tx, T, seqs))) == 1_300
    filed = await db.read(lambda tx: passages.of_keys(tx, "s", "t", "", [f"key{n}" for n in range(1_400)]))
    assert sum(map(len, filed.values())) == 1_300
    assert filed["key1399"] == []
    assert await db.write(lambda tx: len(passages.still_there(tx, [*seqs, 10**9]))) == 1_300
