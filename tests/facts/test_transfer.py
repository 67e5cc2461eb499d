"""Facts from hub to hub: nothing is lost on the way, and taking them twice is harmless."""

import pytest
from tests.facts.conftest import Desk, Json, MakeDesk


async def exported(desk: Desk, limit: int = 2) -> list[Json]:
    lines: list[Json] = []
    page: Json = {"next_cursor": None}
    while "next_cursor" in page:
        page = await desk.do("export_facts", limit=limit, cursor=page["next_cursor"])
        lines += page["lines"]
    return lines


async def filled(desk: Desk) -> None:
    old = await desk.remember("Tôi sống ở Đà Nẵng.", about="tôi")
    new = await desk.remember("Tôi chuyển ra Huế.", about="tôi", tags=["nhà"], replaces=old)
    await desk.do("update_fact", "lan", id=new, source="điện thoại")
    gone = await desk.remember("备份在夜里运行。")
    await desk.do("forget", id=gone)
    await desk.remember("The demo is today.", expires_at=desk.clock.later(60))
    await desk.remember("We deploy on Tuesdays.", tags=["ops", "release"])


async def test_everything_arrives_and_can_be_found(desk: Desk, make_desk: MakeDesk) -> None:
    await filled(desk)
    lines = await exported(desk)
    assert len(lines) == 5
    other = make_desk()
    other.clock.pass_seconds(3_600)
    done = await other.do("import_facts", lines=lines)
    assert (done["imported"], done["unchanged"]) == (5, 0)
    assert await exported(other) == lines
    assert await other.listed() == ["We deploy on Tuesdays.", "Tôi chuyển ra Huế."]
    assert await other.found("deploy") == ["We deploy on Tuesdays."]
    assert await other.found("Đà Nẵng") == await other.found("备份") == await other.found("demo") == []
    [new] = [line["id"] for line in lines if line["text"] == "Tôi chuyển ra Huế."]
    assert [one["text"] for one in (await other.do("fact_history", id=new))["entries"]] == [
        "Tôi chuyển ra Huế.", "Tôi sống ở Đà Nẵng.",
    ]  # fmt: skip
    again = await other.do("import_facts", lines=lines)
    assert (again["imported"], again["unchanged"]) == (0, 5)
    assert [row.details for row in await other.trail()] == [{"imported": 5}]


async def test_a_line_needs_only_a_text_and_what_is_known_is_not_doubled(desk: Desk) -> None:
    await desk.remember("Known.")
    lines = [{"text": "Known."}, {"text": "New.", "about": "Lan"}, {"text": " New. ", "about": "LAN"}]
    for imported in (1, 0):
        done = await desk.do("import_facts", lines=lines)
        assert (done["imported"], done["unchanged"]) == (imported, 3 - imported)
    assert await desk.listed() == ["New.", "Known."]


async def test_an_id_from_elsewhere_leads_to_the_equal_fact_that_is_here(desk: Desk) -> None:
    here = await desk.remember("Both hubs know this.")
    await desk.do(
        "import_facts",
        lines=[{"id": "b", "text": "Both hubs know this."}, {"id": "a", "text": "Older.", "replaced_by": "b"}],
    )
    assert await desk.listed() == ["Both hubs know this."]
    assert (await desk.do("fact_history", id="a"))["id"] == here
    error = await desk.refused("remember", text="Newer.", replaces="b")
    assert error.details["newer"]["id"] == here


async def test_lines_that_lead_nowhere_or_in_a_circle_do_no_harm(desk: Desk) -> None:
    await desk.do(
        "import_facts",
        lines=[
            {"id": "lost", "text": "Lost.", "replaced_by": "nobody"},
            {"id": "x", "text": "X.", "replaced_by": "y"},
            {"id": "y", "text": "Y.", "replaced_by": "x"},
        ],
    )
    assert await desk.listed() == []
    assert [one["text"] for one in (await desk.do("fact_history", id="lost"))["entries"]] == ["Lost."]
    assert {one["id"] for one in (await desk.do("fact_history", id="x"))["entries"]} == {"x", "y"}
    for id in ("lost", "x"):
        error = await desk.refused("remember", text="New.", replaces=id)
        assert (error.code, error.details) == ("CONFLICT", {"id": id})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"text": ""}, "Line 2: 'text' must not be empty"),
        ({"text": "t", "created_at": "yesterday"}, "Line 2: 'created_at' must be a time"),
        ({"text": "t", "revision": 0}, "Line 2: 'revision' must be 1 or more"),
        ({"text": "t", "colour": "red"}, "Line 2: 'colour' is not a known parameter"),
    ],
)
async def test_one_bad_line_refuses_all_and_is_named(desk: Desk, line: Json, message: str) -> None:
    error = await desk.refused("import_facts", lines=[{"text": "Good."}, line])
    assert error.code == "INVALID_ARGUMENT"
    assert message in error.message
