"""Experience records beyond the contract: reading one, changing it with its history, deleting and restoring,
verdicts of readers, similar records, looking up by ids, other orders, moving records from hub to hub."""

import asyncio
import random

import pytest
from tests.contracts.capability_harness import NOW, Desk, Json
from tests.contracts.conftest import MakeDesk

from kho.experiences.settings import ExperienceSettings
from kho.lib.clock import DAY, iso

LATER = "2026-01-04T00:00:00Z"


# -- reading and changing ----------------------------------------------------------------------------------------------


async def test_a_record_is_read_by_its_id_and_that_does_not_count(desk: Desk) -> None:
    id = await desk.submit("kettle", root_cause="limescale", context="v2", keywords=["Pot"])
    await desk.get(id)
    await desk.settle()
    assert await desk.get(id) == {
        "id": id,
        "title": "kettle",
        "problem_description": "It did not work.",
        "root_cause": "limescale",
        "solution": "Now it does.",
        "context": "v2",
        "keywords": ["pot"],
        "query_count": 0,
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
        "revision": 1,
        "helpful": 0,
        "unhelpful": 0,
    }


async def test_a_change_makes_a_revision_and_earlier_ones_stay_readable(desk: Desk) -> None:
    id = await desk.submit("kettle", root_cause="limescale", context="v1", keywords=["pot"])
    desk.clock.pass_days(3)
    done = await desk.done("update_experience", id=id, expected_revision=1, title="samovar", keywords=["Tea", "tea"])
    assert (done["id"], done["revision"]) == (id, 2)
    await desk.done("update_experience", id=id, expected_revision=2, root_cause=None, context=None, keywords=None)
    now = await desk.get(id)
    assert (now["title"], now["keywords"], now["revision"], now["updated_at"]) == ("samovar", [], 3, LATER)
    assert "root_cause" not in now
    assert "context" not in now
    second, first = await desk.get(id, revision=2), await desk.get(id, revision=1)
    assert (second["title"], second["keywords"], second["root_cause"], second["revision"]) == (
        "samovar", ["tea"], "limescale", 2,
    )  # fmt: skip
    assert (first["title"], first["keywords"], first["context"], first["revision"]) == ("kettle", ["pot"], "v1", 1)
    assert await desk.get(id, revision=3) == now
    assert (await desk.refused("get_experience", id=id, revision=4))["details"] == {"latest": 3}


async def test_a_changed_record_is_found_by_its_new_words_only(desk: Desk) -> None:
    id = await desk.submit("kettle")
    await desk.done("update_experience", id=id, expected_revision=1, title="samovar")
    assert await desk.titles("samovar") == ["samovar"]
    assert await desk.titles("kettle") == []


async def test_a_change_to_what_somebody_else_changed_is_refused(desk: Desk) -> None:
    id = await desk.submit("kettle")
    changes = [
        desk.ask("update_experience", {"id": id, "expected_revision": 1, "title": f"kettle {number}"})
        for number in range(8)
    ]
    answers = await asyncio.gather(*changes)
    [won] = [answer["data"] for answer in answers if answer["success"]]
    lost = [answer["error"] for answer in answers if not answer["success"]]
    assert won["revision"] == 2
    assert [error["code"] for error in lost] == ["CONFLICT"] * 7
    assert lost[0]["details"] == {"expected_revision": 1, "actual_revision": 2}
    assert (await desk.get(id))["revision"] == 2


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, "VALIDATION_ERROR"),
        ({"title": None}, "VALIDATION_ERROR"),  # null is "not given" here
        ({"title": ""}, "INVALID_TITLE"),
        ({"title": "x" * 501}, "INVALID_TITLE"),
        ({"solution": " "}, "MISSING_REQUIRED_FIELDS"),
        ({"root_cause": ""}, "VALIDATION_ERROR"),
        ({"keywords": [""]}, "VALIDATION_ERROR"),
        ({"query_count": 7}, "VALIDATION_ERROR"),
        ({"context": "password = 'hT9#kLm2$vQx'"}, "CONTEXT_NOT_SANITIZED"),
        ({"keywords": ["AKIA" + "Q3EGVZR7TMWXKD5B"]}, "CONTEXT_NOT_SANITIZED"),
        ({"expected_revision": 0, "title": "x"}, "VALIDATION_ERROR"),
    ],
)
async def test_changes_keep_the_rules_of_submission(desk: Desk, change: Json, code: str) -> None:
    id = await desk.submit("kettle")
    before = await desk.stored()
    assert (await desk.refused("update_experience", **{"id": id, "expected_revision": 1, **change}))["code"] == code
    assert await desk.stored() == before


async def test_what_is_deleted_is_gone_from_every_answer_until_it_is_restored(desk: Desk) -> None:
    id = await desk.submit("kettle")
    await desk.done("rate_experience", id=id, helpful=True)
    before = await desk.get(id)
    desk.clock.pass_days(3)
    assert (await desk.done("delete_experience", id=id, reason="superseded"))["id"] == id
    assert await desk.query("kettle") == {"experiences": [], "total": 0, "limit": 10, "offset": 0}
    assert (await desk.done("query_experiences", ids=[id]))["total"] == 0
    for operation, more in (
        ("get_experience", {}),
        ("update_experience", {"expected_revision": 1, "title": "x"}),
        ("rate_experience", {"helpful": True}),
        ("delete_experience", {}),
    ):
        assert (await desk.refused(operation, id=id, **more))["code"] == "NOT_FOUND"
    assert (await desk.done("export_experiences"))["experiences"] == []
    assert [record["deleted_at"] for record in await desk.stored()] == [LATER]
    await desk.done("restore_experience", id=id)
    assert await desk.get(id) == {**before, "updated_at": LATER}
    assert await desk.titles("kettle") == ["kettle"]
    assert (await desk.refused("restore_experience", id=id))["code"] == "NOT_FOUND"


@pytest.mark.parametrize("id", ["", "no spaces", "x" * 129, "a\nb", 7, None])
async def test_ids_have_a_form(desk: Desk, id: object) -> None:
    assert (await desk.refused("get_experience", id=id))["code"] == "VALIDATION_ERROR"


# -- verdicts ----------------------------------------------------------------------------------------------------------


async def test_a_caller_has_one_verdict_and_may_change_it(desk: Desk) -> None:
    id = await desk.submit("kettle")

    async def rate(by: str, helpful: bool) -> tuple[int, int]:
        answer = await desk.ask("rate_experience", {"id": id, "helpful": helpful, "note": "a note"}, by=by)
        return answer["data"]["helpful"], answer["data"]["unhelpful"]

    assert await rate("mai", True) == (1, 0)
    assert await rate("mai", True) == (1, 0)
    assert await rate("lan", True) == (2, 0)
    assert await rate("mai", False) == (1, 1)
    record = await desk.get(id)
    assert (record["helpful"], record["unhelpful"], record["query_count"]) == (1, 1, 0)


async def test_verdicts_at_once_are_all_counted(desk: Desk) -> None:
    id = await desk.submit("kettle")
    await asyncio.gather(
        *(desk.ask("rate_experience", {"id": id, "helpful": True}, by=f"reader {number}") for number in range(20))
    )
    assert (await desk.get(id))["helpful"] == 20


async def test_verdicts_change_the_rank(desk: Desk) -> None:
    for title in ("kettle one", "kettle two", "kettle three"):
        await desk.submit(title)
        desk.clock.pass_days(1)
    ids = {hit["title"]: hit["id"] for hit in (await desk.query("kettle"))["experiences"]}
    assert list(ids) == ["kettle three", "kettle two", "kettle one"]
    await desk.done("rate_experience", id=ids["kettle one"], helpful=True)
    assert await desk.titles("kettle") == ["kettle one", "kettle three", "kettle two"]
    await desk.settle()  # each has been returned twice by now; a verdict against outweighs that
    await desk.done("rate_experience", id=ids["kettle three"], helpful=False)
    assert await desk.titles("kettle") == ["kettle one", "kettle two", "kettle three"]


async def test_a_note_with_a_secret_is_refused(desk: Desk) -> None:
    id = await desk.submit("kettle")
    note = "works with password = 'hT9#kLm2$vQx'"
    error = await desk.refused("rate_experience", id=id, helpful=True, note=note)
    assert (error["code"], error["validation_errors"][0]["field"]) == ("CONTEXT_NOT_SANITIZED", "note")
    assert (await desk.get(id))["helpful"] == 0


# -- similar records, ids, other orders --------------------------------------------------------------------------------

KETTLE: Json = {
    "title": "Kettle overheats after forty minutes",
    "problem_description": "The heating element of the kettle stays on and error E-7741 is shown.",
    "solution": "Descale with citric acid, twenty grams per litre, then rinse thrice.",
}


async def test_a_similar_record_is_mentioned_in_the_message_and_only_there(desk: Desk) -> None:
    first = await desk.done("submit_experience", **KETTLE)
    again = await desk.done("submit_experience", **{**KETTLE, "title": "The kettle overheats after forty minutes"})
    assert first["message"] == "Experience record created and published successfully"
    assert again.keys() == {"id", "status", "message"}
    assert again["status"] == "published"
    assert again["message"].startswith("Experience record created and published successfully")
    assert first["id"] in again["message"]
    assert KETTLE["title"] in again["message"]
    assert (await desk.query("kettle"))["total"] == 2
    other = {**KETTLE, "problem_description": "Water tastes of plastic.", "solution": "Boil vinegar in it, twice."}
    assert "similar" not in (await desk.done("submit_experience", **other))["message"]


async def test_records_are_looked_up_by_ids_in_the_order_asked_for(desk: Desk) -> None:
    ids = [await desk.submit(f"kettle {number}") for number in range(4)]
    wanted = [ids[2], "unknown", ids[0], ids[2], ids[3]]
    found = await desk.done("query_experiences", ids=wanted)
    assert [hit["id"] for hit in found["experiences"]] == [ids[2], ids[0], ids[3]]
    assert (found["total"], found["experiences"][0]["relevance_score"]) == (3, 1.0)
    page = await desk.done("query_experiences", ids=wanted, limit=1, offset=1)
    assert ([hit["id"] for hit in page["experiences"]], page["total"]) == ([ids[0]], 3)
    assert (await desk.refused("query_experiences", ids=["x"] * 51))["code"] == "VALIDATION_ERROR"


@pytest.mark.parametrize(
    ("sort", "order"),
    [
        ("relevance", ["kettle kettle", "old kettle", "new pot"]),
        ("query_count", ["old kettle", "new pot", "kettle kettle"]),
        ("created_at", ["new pot", "kettle kettle", "old kettle"]),
    ],
)
async def test_matches_can_be_sorted_otherwise(desk: Desk, sort: str, order: list[str]) -> None:
    await desk.take_in(
        {"title": "old kettle", "query_count": 900, "created_at": iso(NOW - 90 * DAY)},
        {"title": "kettle kettle", "keywords": ["boil"], "query_count": 3, "created_at": iso(NOW - DAY)},
        {"title": "new pot", "problem_description": "kettle", "query_count": 4, "created_at": iso(NOW)},
    )
    assert await desk.titles("kettle boil", sort=sort) == order


# -- moving records ----------------------------------------------------------------------------------------------------


async def everything(desk: Desk, limit: int) -> list[Json]:
    records: list[Json] = []
    arguments: Json = {"limit": limit, "include_deleted": True}
    while True:
        page = await desk.done("export_experiences", **arguments)
        records += page["experiences"]
        if "next_cursor" not in page:
            return records
        arguments["cursor"] = page["next_cursor"]


async def test_export_and_import_lose_nothing_and_may_be_repeated(make_desk: MakeDesk) -> None:
    here, there = make_desk(), make_desk()
    chance = random.Random(5)
    for number in range(23):
        here.clock.now += chance.randint(1, DAY)
        id = await here.submit(f"kettle {number} ấm đun 水壶", context=chance.choice([None, "a\n\tb"]), keywords=["x"])
        await here.query(f"kettle {number}")
        if number % 3 == 0:
            await here.done("rate_experience", id=id, helpful=bool(number % 2))
        if number % 5 == 0:
            await here.done("update_experience", id=id, expected_revision=1, root_cause="Limescale.")
        if number % 7 == 0:
            await here.done("delete_experience", id=id)
    await here.settle()
    exported = await everything(here, limit=4)
    assert [record["id"] for record in exported] == sorted({record["id"] for record in exported})
    assert len(exported) == 23
    taken = await there.done("import_experiences", experiences=exported)
    assert (taken["imported"], taken["unchanged"]) == (23, 0)
    assert await everything(there, limit=1000) == exported
    again = await there.done("import_experiences", experiences=exported)
    assert (again["imported"], again["unchanged"]) == (0, 23)
    assert await everything(there, limit=7) == exported
    assert sorted(await there.titles("ấm", limit=50)) == sorted(await here.titles("ấm", limit=50))


async def test_an_import_changes_nothing_that_is_here(desk: Desk) -> None:
    id = await desk.submit("kettle")
    taken = await desk.done("import_experiences", experiences=[{**KETTLE, "id": id}, KETTLE, {**KETTLE, "id": "new"}])
    assert (taken["imported"], taken["unchanged"]) == (2, 1)
    assert (await desk.get(id))["title"] == "kettle"
    assert (await desk.get("new"))["title"] == KETTLE["title"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"title": ""}, "VALIDATION_ERROR"),
        ({"solution": None}, "VALIDATION_ERROR"),
        ({"id": "not an id"}, "VALIDATION_ERROR"),
        ({"query_count": -1}, "VALIDATION_ERROR"),
        ({"created_at": "yesterday"}, "VALIDATION_ERROR"),
        ({"colour": "red"}, "VALIDATION_ERROR"),
        ({"context": "password = 'hT9#kLm2$vQx'"}, "CONTEXT_NOT_SANITIZED"),
    ],
)
async def test_an_import_takes_all_or_nothing(desk: Desk, wrong: Json, code: str) -> None:
    error = await desk.refused("import_experiences", experiences=[KETTLE, {**KETTLE, **wrong}])
    assert error["code"] == code
    assert "2" in error["message"] or error["validation_errors"][0]["field"].startswith("experiences[1].")
    assert await desk.stored() == []


@pytest.mark.parametrize("cursor", ["nonsense", "MQ", "e30", "é"])
async def test_a_cursor_that_kho_did_not_give_out(desk: Desk, cursor: str) -> None:
    await desk.submit("kettle")
    error = await desk.refused("export_experiences", cursor=cursor)
    assert "cursor" in error["message"]


async def test_the_floor_decides_what_is_a_match(make_desk: MakeDesk) -> None:
    strict = make_desk(settings=ExperienceSettings(floor=0.9))
    await strict.submit("kettle", problem_description="limescale")
    await strict.submit("pot", problem_description="handle")
    assert await strict.titles("kettle") == ["kettle"]
    assert await strict.titles("kettle unheardof") == ["kettle"]
    assert await strict.titles("kettle handle") == []


async def test_the_beginning_of_an_id_is_enough(desk: Desk) -> None:
    id = await desk.submit("kettle")
    assert (await desk.get(id[:8]))["id"] == id
    assert (await desk.done("rate_experience", id=id[:8], helpful=True))["id"] == id
    assert (await desk.done("delete_experience", id=id[:12]))["id"] == id
    assert (await desk.done("restore_experience", id=id[:8]))["id"] == id
