"""Contract 003: the order of the results, the pages cut from it, and the counting of queries, on both databases."""

import asyncio
import random
import threading
from itertools import pairwise

import pytest
from tests.contracts.capability_harness import NOW, Desk, Json
from tests.contracts.conftest import MakeDesk
from tests.timeouts import PATIENCE

from kho.experiences.service import Limits
from kho.kernel.ports import Tx
from kho.lib.clock import DAY, from_iso, iso


def aged(days: float) -> str:
    return iso(NOW - round(days * DAY))


def use(query_count: int) -> float:
    """In 0..1, for a record that nobody rated."""
    return (query_count + 100) / (query_count + 1_100)


# -- the order ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.sort.formula", "003.sort.descending", "003.sort.relevance")
async def test_the_order_is_that_of_the_formula(desk: Desk) -> None:
    """Every record's final score, computed here from what the answer says of it, falls from first to last."""
    chance = random.Random(3)
    words = ["kettle", "descale", "boil", "steam", "element"]
    records = [
        {
            "title": " ".join(["thing", *chance.sample(words, chance.randint(0, 3))]),
            "problem_description": " ".join(["problem", *chance.sample(words, chance.randint(0, 3))]),
            "query_count": chance.choice([0, 1, 3, 10, 50, 400]),
            "created_at": aged(chance.choice([0, 1, 10, 90, 400])),
        }
        for _ in range(60)
    ]
    await desk.take_in(*records)
    listed: list[Json] = []
    for offset in (0, 50):
        listed += (await desk.query("kettle descale boil", limit=50, offset=offset))["experiences"]

    def final_score(hit: Json) -> float:
        normalized_query_count = use(hit["query_count"])
        normalized_recency = 0.5 ** ((NOW - from_iso(hit["created_at"])) / DAY / 90)
        return (hit["relevance_score"] * 0.6) + (normalized_query_count * 0.3) + (normalized_recency * 0.1)

    scores = [final_score(hit) for hit in listed]
    assert len(listed) > 30
    # relevance_score is shown with four digits, which can be off by 0.00005 × 0.6
    assert all(one >= other - 0.0001 for one, other in pairwise(scores))
    assert len({round(score, 3) for score in scores}) > 20


@pytest.mark.requirement("003.sort.relevance")
async def test_of_two_alike_the_more_relevant_is_first(desk: Desk) -> None:
    await desk.take_in(
        {"title": "kettle", "created_at": aged(0)},
        {"title": "kettle descaling", "created_at": aged(0)},
        {"title": "pot", "problem_description": "kettle", "created_at": aged(0)},
    )
    found = (await desk.query("kettle descaling"))["experiences"]
    assert [hit["title"] for hit in found] == ["kettle descaling", "kettle", "pot"]
    assert 1.0 >= found[0]["relevance_score"] > 0.8


@pytest.mark.requirement("003.sort.query-count")
async def test_of_two_alike_the_more_used_is_first(desk: Desk) -> None:
    for count in (3, 50, 0, 7):
        await desk.take_in({"title": f"kettle {count}", "query_count": count, "created_at": aged(0)})
    assert await desk.titles("kettle") == ["kettle 50", "kettle 7", "kettle 3", "kettle 0"]


@pytest.mark.requirement("003.sort.recency")
async def test_of_two_alike_the_newer_is_first(desk: Desk) -> None:
    for days in (30, 1, 400, 0):
        await desk.take_in({"title": f"kettle {days}", "created_at": aged(days)})
    assert await desk.titles("kettle") == ["kettle 0", "kettle 1", "kettle 30", "kettle 400"]


@pytest.mark.requirement("003.sort.formula", "003.sort.query-count")
@pytest.mark.parametrize(("count", "order"), [(0, ["pot", "kettle"]), (1_900, ["kettle", "pot"])])
async def test_use_and_relevance_are_weighed_three_to_six(desk: Desk, count: int, order: list[str]) -> None:
    """The kettle, in whose title it stands, is ahead in relevance; the pot has more queries, 3,000, and is ahead by
    that in use."""
    await desk.take_in(
        {"title": "pot", "problem_description": "kettle", "query_count": 3_000, "created_at": aged(0)},
        {"title": "kettle", "query_count": count, "created_at": aged(0)},
    )
    hits = {hit["title"]: hit for hit in (await desk.query("kettle"))["experiences"]}
    ahead = 0.6 * (hits["kettle"]["relevance_score"] - hits["pot"]["relevance_score"])
    behind = 0.3 * (use(3_000) - use(count))
    assert ahead > 0
    assert (ahead > behind) == (order[0] == "kettle"), (ahead, behind)
    assert list(hits) == order


@pytest.mark.requirement("003.sort.formula", "003.sort.recency")
@pytest.mark.parametrize(("days", "order"), [(69, ["old", "new"]), (71, ["new", "old"])])
async def test_use_and_freshness_are_weighed_three_to_one(desk: Desk, days: int, order: list[str]) -> None:
    """The old record is ahead by 0.3 × (300 / 1300 - 100 / 1100) = 0.0420 in use, and the new one by
    0.1 × (1 - 0.5 ** (days / 90)) in freshness."""
    ahead = 0.3 * (use(200) - use(0))
    assert 0.1 * (1 - 0.5 ** (69 / 90)) < ahead < 0.1 * (1 - 0.5 ** (71 / 90))
    await desk.take_in(
        {"title": "new", "problem_description": "kettle", "query_count": 0, "created_at": aged(0)},
        {"title": "old", "problem_description": "kettle", "query_count": 200, "created_at": aged(days)},
    )
    assert await desk.titles("kettle") == order


@pytest.mark.requirement("003.sort.descending")
async def test_equal_scores_come_newest_first_and_then_by_id(desk: Desk) -> None:
    ids = ["c", "a", "d", "b"]
    await desk.take_in(*({"id": id, "title": f"kettle {id}", "created_at": aged(1)} for id in ids))
    # What is newer than now is no fresher than now, so these two tie with each other in score.
    for title, days in (("kettle y", -1), ("kettle z", -2)):
        await desk.take_in({"title": title, "created_at": aged(days)})
    expected = ["kettle z", "kettle y", "kettle a", "kettle b", "kettle c", "kettle d"]
    assert await desk.titles("kettle") == expected
    assert await desk.titles("kettle", sort="created_at") == expected


# -- pages -------------------------------------------------------------------------------------------------------------


async def leaf_through(desk: Desk, limit: int, *, counting: bool) -> list[str]:
    seen: list[str] = []
    while True:
        page = await desk.query("kettle", limit=limit, offset=len(seen))
        assert page["total"] == 47
        seen += [hit["id"] for hit in page["experiences"]]
        if counting:
            await desk.settle()
        if len(page["experiences"]) < limit:
            return seen


@pytest.mark.requirement("003.query.offset-pages", "003.query.total")
@pytest.mark.parametrize("counting", [False, True], ids=["at-once", "counted-between-pages"])
@pytest.mark.parametrize("limit", [1, 7, 50])
async def test_pages_follow_one_another_without_gap_or_repetition(desk: Desk, limit: int, counting: bool) -> None:
    chance = random.Random(limit)
    everything = {f"k{number:02}" for number in range(47)}
    await desk.take_in(
        *(
            {
                "id": id,
                "title": chance.choice(["kettle", "pot"]),
                "problem_description": "A kettle",
                "query_count": chance.choice([0, 0, 1, 2, 9]),
                "created_at": aged(chance.choice([0, 0, 5, 200])),
            }
            for id in sorted(everything)
        ),
    )
    seen = await leaf_through(desk, limit, counting=counting)
    assert len(seen) == len(set(seen)) == 47
    assert set(seen) == everything


@pytest.mark.requirement("003.query.offset-pages")
async def test_pages_follow_one_another_while_others_ask_too(desk: Desk) -> None:
    everything = [{"id": f"k{n:02}", "title": f"kettle word{n}", "created_at": aged(n)} for n in range(20)]
    await desk.take_in(*everything)
    seen = [hit["id"] for hit in (await desk.query("kettle", limit=10))["experiences"]]
    for _ in range(2):
        await desk.query("word19")
    await desk.settle()
    seen += [hit["id"] for hit in (await desk.query("kettle", limit=10, offset=10))["experiences"]]
    assert sorted(seen) == [record["id"] for record in everything]


@pytest.mark.requirement("003.query.total", "003.query.offset-pages")
async def test_a_thousand_matches_are_not_all(desk: Desk) -> None:
    for thousand in range(2):
        await desk.take_in(*({"id": f"{thousand}-{number}", "title": "kettle"} for number in range(520)))
    last = await desk.query("kettle", limit=50, offset=1030)
    assert (last["total"], len(last["experiences"])) == (1040, 10)


@pytest.mark.requirement("003.query.total")
async def test_the_total_is_the_length_of_the_list_that_pages_are_cut_from(make_desk: MakeDesk) -> None:
    desk = make_desk(limits=Limits(max_ranked=20))
    await desk.take_in(*({"title": f"kettle {number}"} for number in range(30)))
    pages = [await desk.query("kettle", offset=offset) for offset in (0, 10, 20)]
    assert [page["total"] for page in pages] == [20, 20, 20]
    assert len({hit["id"] for page in pages for hit in page["experiences"]}) == 20


async def test_a_record_that_is_deleted_while_somebody_pages_shifts_no_other(desk: Desk) -> None:
    ids = [f"k{number:02}" for number in range(20)]
    await desk.take_in(*({"id": id, "title": "kettle", "created_at": aged(0)} for id in ids))
    seen = [hit["id"] for hit in (await desk.query("kettle", limit=8))["experiences"]]
    for id in ("k00", "k10"):
        await desk.done("delete_experience", id=id)
    for offset in (8, 16):
        seen += [hit["id"] for hit in (await desk.query("kettle", limit=8, offset=offset))["experiences"]]
    assert seen == [id for id in ids if id != "k10"]
    assert (await desk.query("kettle"))["total"] == 18


async def test_a_new_record_is_in_the_next_first_page(desk: Desk) -> None:
    await desk.take_in(*({"title": f"kettle {number}", "created_at": aged(1)} for number in range(15)))
    await desk.query("kettle")
    await desk.query("kettle", offset=10)
    id = await desk.submit("kettle new")
    found = await desk.query("kettle", limit=50)
    assert found["total"] == 16
    assert id in [hit["id"] for hit in found["experiences"]]


async def test_callers_and_tenants_page_through_lists_of_their_own(make_desk: MakeDesk) -> None:
    ours, theirs = make_desk(), make_desk()
    await ours.take_in(*({"title": f"kettle {number}"} for number in range(15)))
    await ours.query("kettle")
    assert (await theirs.query("kettle", offset=10))["total"] == 0
    assert len((await ours.query("kettle", offset=10))["experiences"]) == 5


# -- the count ---------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("003.count.incremented", "003.count.only-returned", "003.count.updated-at")
async def test_returned_records_are_counted_once_and_others_not(desk: Desk) -> None:
    shown = [await desk.submit(f"kettle {number}") for number in range(3)]
    beyond = await desk.submit("pot", problem_description="kettle")
    unrelated = await desk.submit("pan")
    desk.clock.pass_days(2)
    found = await desk.query("kettle", limit=3)
    assert {hit["id"] for hit in found["experiences"]} == set(shown)
    await desk.settle()
    later = "2026-01-03T00:00:00Z"
    for id in shown:
        record = await desk.get(id)
        assert (record["query_count"], record["updated_at"], record["created_at"]) == (1, later, aged(0))
        assert record["revision"] == 1
    for id in (beyond, unrelated):
        record = await desk.get(id)
        assert (record["query_count"], record["updated_at"]) == (0, aged(0))


@pytest.mark.requirement("003.count.incremented")
async def test_fifty_queries_at_once_count_fifty(desk: Desk) -> None:
    ids = [await desk.submit(f"kettle {number}") for number in range(4)]
    await asyncio.gather(*(desk.query("kettle") for _ in range(50)))
    await desk.settle()
    assert [(await desk.get(id))["query_count"] for id in ids] == [50] * 4


@pytest.mark.requirement("003.count.incremented")
async def test_two_hubs_on_one_database_lose_no_count(make_desk: MakeDesk) -> None:
    one = make_desk()
    other = make_desk(tenant=one.tenant)
    ids = [await one.submit(f"kettle {number}") for number in range(4)]
    await asyncio.gather(*(desk.query("kettle") for _ in range(25) for desk in (one, other)))
    await asyncio.gather(one.settle(), other.settle())
    assert [(await one.get(id))["query_count"] for id in ids] == [50] * 4


@pytest.mark.requirement("003.count.incremented")
async def test_fetching_by_ids_counts_too(desk: Desk) -> None:
    id = await desk.submit("kettle")
    await desk.done("query_experiences", ids=[id, id, "unknown"])
    await desk.settle()
    assert (await desk.get(id))["query_count"] == 1


@pytest.mark.requirement("003.count.after-response")
async def test_the_answer_shows_the_count_before_it(desk: Desk) -> None:
    await desk.submit("kettle")
    for before in range(4):
        [found] = (await desk.query("kettle"))["experiences"]
        assert found["query_count"] == before
        await desk.settle()


@pytest.mark.requirement("003.count.after-response")
async def test_the_answer_does_not_wait_for_the_count(own_desk: Desk) -> None:
    """Somebody holds the row, so the count cannot be written; the answer comes all the same."""
    id = await own_desk.submit("kettle")
    held, release = threading.Event(), threading.Event()

    def hold(tx: Tx) -> None:
        tx.run(
            "UPDATE experience_uses SET query_count = query_count WHERE tenant = $1 AND id = $2", own_desk.tenant, id
        )
        held.set()
        assert release.wait(PATIENCE)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(own_desk.db.write(hold))
        try:
            assert await asyncio.to_thread(held.wait, 30)
            for _ in range(3):
                assert (await own_desk.query("kettle"))["total"] == 1
            settling = tasks.create_task(own_desk.settle())
            assert (await own_desk.get(id))["query_count"] == 0
            assert not settling.done()
        finally:
            release.set()
    assert (await own_desk.get(id))["query_count"] == 3


REFUSE = {
    "sqlite": (
        "CREATE TRIGGER refuse BEFORE UPDATE OF query_count ON experience_uses BEGIN SELECT RAISE(ABORT, 'no'); END",
        "DROP TRIGGER refuse",
    ),
    "postgres": (
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
        "CREATE TRIGGER refuse BEFORE UPDATE OF query_count ON experience_uses FOR EACH ROW EXECUTE FUNCTION refuse()",
        "DROP TRIGGER refuse ON experience_uses; DROP FUNCTION refuse()",
    ),
}


@pytest.mark.requirement("003.count.after-response", "003.count.incremented")
async def test_a_count_that_cannot_be_written_fails_no_query_and_is_made_up_for(own_desk: Desk) -> None:
    id = await own_desk.submit("kettle")
    refuse, allow = REFUSE[own_desk.db.engine]
    await own_desk.db.write(lambda tx: tx.script(refuse))
    for _ in range(2):
        assert (await own_desk.query("kettle"))["total"] == 1
        await own_desk.settle()
    assert (await own_desk.get(id))["query_count"] == 0
    await own_desk.db.write(lambda tx: tx.script(allow))
    await own_desk.query("kettle")
    await own_desk.settle()
    assert (await own_desk.get(id))["query_count"] == 3


async def test_a_record_that_is_gone_meanwhile_takes_no_count_away_from_others(desk: Desk) -> None:
    gone, stays = await desk.submit("kettle one"), await desk.submit("kettle two")
    await desk.query("kettle")
    await desk.done("delete_experience", id=gone)
    await desk.settle()
    assert (await desk.get(stays))["query_count"] == 1
