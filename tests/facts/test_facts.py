"""Facts after they were said: corrected, forgotten and restored, expired, listed; and what is refused."""

import asyncio
from typing import Any

import pytest
from tests.facts.conftest import Desk, MakeDesk

from kho.kernel.ports import SearchFilter
from kho.kernel.searchable import FoundPassage, Narrowing

# -- updating ----------------------------------------------------------------------------------------------------------


def everything(desk: Desk, since: int | None = None) -> SearchFilter:
    return SearchFilter(desk.searchable.space, desk.tenant, since=since)


async def test_an_edit_makes_a_revision_and_the_earlier_words_stay_in_history(desk: Desk) -> None:
    id = await desk.remember("Lan prefers npm.", about="Lan", tags=["tools"], source="chat")
    done = await desk.do("update_fact", "minh", id=id, text="Lan prefers pnpm.", about="Lan Anh", expected_revision=1)
    assert (done["id"], done["revision"]) == (id, 2)
    await desk.do("update_fact", id=id, tags=["js"], source="", about="")
    fact = await desk.do("get_fact", id=id)
    assert (fact["text"], fact["tags"], fact["revision"]) == ("Lan prefers pnpm.", ["js"], 3)
    assert not fact.keys() & {"about", "source"}
    entries = (await desk.do("fact_history", id=id))["entries"]
    assert [(one["revision"], one["text"], one["said_by"], one["state"]) for one in entries] == [
        (3, "Lan prefers pnpm.", "somebody", "current"),
        (2, "Lan prefers pnpm.", "minh", "edited"),
        (1, "Lan prefers npm.", "somebody", "edited"),
    ]
    assert entries[2]["source"] == "chat"
    assert [(row.details["before"], row.details["after"]) for row in (await desk.trail())[1:]] == [(1, 2), (2, 3)]


async def test_history_begins_with_what_counts_now(desk: Desk) -> None:
    old = await desk.remember("Lan prefers npm.")
    await desk.do("update_fact", id=old, text="Lan prefers npm a lot.")
    new = await desk.remember("Lan prefers pnpm.", replaces=old)
    await desk.do("update_fact", id=new, text="Lan prefers pnpm a lot.")
    entries = (await desk.do("fact_history", id=old))["entries"]
    assert [(one["text"], one["state"]) for one in entries] == [
        ("Lan prefers pnpm a lot.", "current"),
        ("Lan prefers pnpm.", "edited"),
        ("Lan prefers npm a lot.", "replaced"),
        ("Lan prefers npm.", "edited"),
    ]


async def test_an_edited_fact_is_found_by_its_new_words_and_place_only(desk: Desk) -> None:
    id = await desk.remember("The kettle is in the kitchen.", about="office", tags=["a"])
    await desk.do("update_fact", id=id, text="The samovar is in the hall.", about="villa", tags=["b"])
    assert await desk.found("kettle kitchen") == []
    assert await desk.found("samovar") == ["The samovar is in the hall."]
    assert await desk.found("samovar", collections=("villa",), tags=("b",)) == ["The samovar is in the hall."]
    assert await desk.found("samovar", collections=("office",)) == []
    assert (await desk.listed(about="office"), await desk.listed(tags=["a"])) == ([], [])
    assert desk.told[-1] == (desk.tenant, f"fact://{id}")


async def test_an_edit_of_what_changed_meanwhile_is_refused(desk: Desk) -> None:
    id = await desk.remember("One.")
    await desk.do("update_fact", id=id, text="Two.", expected_revision=1)
    error = await desk.refused("update_fact", id=id, text="Three.", expected_revision=1)
    assert (error.code, error.details) == ("CONFLICT", {"expected_revision": 1, "actual_revision": 2})


async def test_only_one_of_several_edits_of_one_revision_succeeds(desk: Desk) -> None:
    id = await desk.remember("The lift is broken.")
    edits = [{"id": id, "text": f"The lift is broken since {day}.", "expected_revision": 1} for day in range(6)]
    answers = await asyncio.gather(*(desk.ask("update_fact", edit, desk.call()) for edit in edits))
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert (await desk.do("get_fact", id=id))["revision"] == 2


async def test_an_edit_that_changes_nothing_leaves_no_trace(desk: Desk) -> None:
    id = await desk.remember("As it is.", about="x")
    before = await desk.everything()
    done = await desk.do("update_fact", id=id, text=" As it is. ", about="x")
    assert done["revision"] == 1
    assert await desk.everything() == before


async def test_two_facts_cannot_become_the_same(desk: Desk) -> None:
    first, second = await desk.remember("Tea at four."), await desk.remember("Tea at five.")
    error = await desk.refused("update_fact", id=second, text="Tea at four.")
    assert error.code == "CONFLICT"
    assert error.details == {"other": {"id": first, "text": "Tea at four."}}


async def test_an_edit_names_a_field_and_a_fact_that_is_there(desk: Desk) -> None:
    id = await desk.remember("Gone.")
    assert (await desk.refused("update_fact", id=id)).code == "INVALID_ARGUMENT"
    await desk.do("forget", id=id)
    assert (await desk.refused("update_fact", id=id, text="Back.")).code == "NOT_FOUND"
    assert (await desk.refused("update_fact", id="no-such-id", text="x")).code == "NOT_FOUND"


# -- forgetting --------------------------------------------------------------------------------------------------------


async def test_what_is_forgotten_is_shown_nowhere_and_can_come_back(desk: Desk) -> None:
    id = await desk.remember("Chìa khóa ở dưới chậu cây.")
    await desk.do("forget", id=id, reason="moved")
    assert (await desk.listed(), await desk.found("chìa khóa")) == ([], [])
    assert await desk.listed(include_forgotten=True) == ["Chìa khóa ở dưới chậu cây."]
    assert "forgotten_at" in await desk.do("get_fact", id=id)
    assert (await desk.do("fact_history", id=id))["entries"][0]["state"] == "forgotten"
    row = (await desk.trail())[-1]
    assert (row.operation, row.subject, row.reason) == ("forget", id, "moved")
    await desk.do("restore_fact", id=id)
    assert await desk.listed() == await desk.found("chìa khóa") == ["Chìa khóa ở dưới chậu cây."]
    assert (await desk.trail())[-1].operation == "restore_fact"


async def test_doing_it_again_changes_nothing(desk: Desk) -> None:
    id = await desk.remember("Twice.")
    await desk.do("forget", id=id)
    before = await desk.everything()
    await desk.do("forget", id=id)
    assert await desk.everything() == before
    await desk.do("restore_fact", id=id)
    before = await desk.everything()
    await desk.do("restore_fact", id=id)
    assert await desk.everything() == before


@pytest.mark.parametrize("operation", ["forget", "restore_fact", "get_fact", "fact_history"])
async def test_unknown_and_foreign_ids_are_not_found(desk: Desk, make_desk: MakeDesk, operation: str) -> None:
    foreign = await make_desk().remember("Of another tenant.")
    for id in ("no-such-id", foreign):
        error = await desk.refused(operation, id=id)
        assert (error.code, error.status) == ("NOT_FOUND", 404)
        assert "list_facts" in error.guidance


# -- expiry ------------------------------------------------------------------------------------------------------------


async def test_an_expired_fact_leaves_search_and_lists_and_stays_in_history(desk: Desk) -> None:
    id = await desk.remember("The demo is today.", expires_at=desk.clock.later(600))
    assert await desk.found("demo") == ["The demo is today."]
    desk.clock.pass_seconds(601)
    assert (await desk.found("demo"), await desk.listed()) == ([], [])
    assert await desk.listed(include_expired=True) == ["The demo is today."]
    assert (await desk.do("fact_history", id=id))["entries"][0]["state"] == "expired"
    assert await desk.db.read(lambda tx: desk.searchable.recent(tx, everything(desk), 10)) == []


async def test_an_expired_fact_is_brought_back_by_saying_it_again_or_by_a_new_expiry(desk: Desk) -> None:
    id = await desk.remember("The offer stands.", expires_at=desk.clock.later(60))
    desk.clock.pass_seconds(100)
    done = await desk.do("remember", text="The offer stands.", expires_at=desk.clock.later(60))
    assert (done["status"], done["id"], done["fact"]["revision"]) == ("restored", id, 2)
    desk.clock.pass_seconds(100)
    assert await desk.listed() == []
    await desk.do("update_fact", id=id, expires_at="never")
    assert await desk.listed() == await desk.found("offer") == ["The offer stands."]
    assert "expires_at" not in await desk.do("get_fact", id=id)


async def test_a_known_fact_that_expires_says_so(desk: Desk) -> None:
    await desk.remember("The road is closed.", expires_at=desk.clock.later(600))
    done = await desk.do("remember", text="The road is closed.")
    assert done["status"] == "known"
    assert "expires" in done["message"]


# -- lists -------------------------------------------------------------------------------------------------------------


async def test_lists_are_newest_first_and_paged(desk: Desk) -> None:
    texts = [f"Fact number {n}." for n in range(7)]
    for text in texts:
        await desk.remember(text)
    first = await desk.do("list_facts", limit=4)
    second = await desk.do("list_facts", limit=4, cursor=first["next_cursor"])
    assert [one["text"] for one in (*first["facts"], *second["facts"])] == texts[::-1]
    assert "next_cursor" not in second


async def test_lists_by_time(desk: Desk) -> None:
    await desk.remember("Early.")
    middle = desk.clock.later(5)
    desk.clock.pass_seconds(10)
    await desk.remember("Late.")
    assert await desk.listed(since=middle) == ["Late."]
    assert await desk.listed(until=middle) == ["Early."]
    assert await desk.listed(since=middle, until=middle) == []


async def test_tags_match_whole_and_as_they_are(desk: Desk) -> None:
    for tag in ("a", "ab", "50%", "x_y", 'say "hi"', "后端"):
        await desk.remember(f"Tagged {tag}.", tags=[tag])
    for tag in ("a", "50%", "x_y", 'say "hi"', "后端"):
        assert await desk.listed(tags=[tag]) == [f"Tagged {tag}."]
    assert await desk.listed(tags=["a", "ab"]) == []


# -- what is refused ---------------------------------------------------------------------------------------------------

LONG = "x" * 8_001


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        ({}, "text", "is required"),
        ({"text": ""}, "text", "must not be empty"),
        ({"text": " \n\t "}, "text", "must not be empty"),
        ({"text": "\u200b\u2060"}, "text", "must not be empty"),
        ({"text": LONG}, "text", "at most 8,000 characters (it has 8001)"),
        ({"text": "a\0b"}, "text", "NUL"),
        ({"text": "a\ud800b"}, "text", "surrogate"),
        ({"text": 5}, "text", "must be a text"),
        ({"text": "t", "about": "n" * 257}, "about", "at most 256 characters"),
        ({"text": "t", "about": "\ufdfa" * 100}, "about", "at most 256 characters"),
        ({"text": "t", "about": "bell\x07"}, "about", "printable"),
        ({"text": "t", "source": "s" * 513}, "source", "at most 512 characters"),
        ({"text": "t", "tags": [""]}, "tags", "1 to 128 characters"),
        ({"text": "t", "tags": ["t" * 129]}, "tags", "1 to 128 characters"),
        ({"text": "t", "tags": [f"t{n}" for n in range(33)]}, "tags", "at most 32 items"),
        ({"text": "t", "tags": "a"}, "tags", "must be a list"),
        ({"text": "t", "expires_at": "2020-01-01T00:00:00Z"}, "expires_at", "must be in the future"),
        ({"text": "t", "expires_at": "tomorrow"}, "expires_at", "must be a time such as"),
        ({"text": "t", "replaces": "no such id"}, "replaces", "must be 1 to 128 letters"),
        ({"text": "t", "colour": "red"}, "colour", "is not a known parameter"),
    ],
)
async def test_bad_input_is_refused_and_nothing_is_stored(
    desk: Desk, arguments: dict[str, Any], field: str, message: str
) -> None:
    error = await desk.refused("remember", **arguments)
    assert error.code == "INVALID_ARGUMENT"
    assert message in error.message
    assert field in error.message
    assert await desk.everything() == ([], 0)


async def test_the_longest_of_everything_is_kept(desk: Desk) -> None:
    """Also where one character is four bytes: an index of PostgreSQL holds 2,700."""
    about, tags = "𠀀" * 256, [f"{n:02}" + "標" * 126 for n in range(32)]
    text = "𠀀字" * 4_000
    done = await desk.do("remember", text=f"  {text}  ", about=about, tags=tags, source="s" * 512)
    assert (done["fact"]["text"], done["fact"]["about"], done["fact"]["tags"]) == (text, about, tags)
    assert await desk.listed(about=about, tags=tags) == [text]


async def test_names_may_hold_emoji_that_belong_together(desk: Desk) -> None:
    await desk.remember("Writes the release notes.", about="Bot 👩‍💻")
    assert await desk.listed(about="bot 👩‍💻") == ["Writes the release notes."]


async def test_since_after_until_is_refused(desk: Desk) -> None:
    error = await desk.refused("list_facts", since="2026-02-01T00:00:00Z", until="2026-01-01T00:00:00Z")
    assert (error.code, error.details) == ("INVALID_ARGUMENT", {"field": "since"})


async def test_a_cursor_of_another_list_is_refused(desk: Desk) -> None:
    assert (await desk.refused("list_facts", cursor="bm9uc2Vuc2U")).code == "INVALID_ARGUMENT"


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("field", ["text", "about", "source", "tags"])
async def test_secrets_are_refused_without_being_repeated(desk: Desk, field: str) -> None:
    held = f"The token is {SECRET}"
    given = {"text": "A fact.", field: [held] if field == "tags" else held}
    id = await desk.remember("Innocent.")
    for operation, arguments in (
        ("remember", given),
        ("update_fact", {"id": id, **given}),
        ("import_facts", {"lines": [given]}),
    ):
        error = await desk.refused(operation, **arguments)
        assert (error.code, error.status) == ("CONTEXT_NOT_SANITIZED", 400)
        [problem] = error.details["problems"]
        assert field in problem["field"]
        assert SECRET not in str(error.as_dict())


async def test_personal_data_is_stored_and_mentioned_on_a_shared_hub(desk: Desk) -> None:
    said = {"text": "Lan's address is lan.nguyen@gmail.com."}
    answer = await desk.ask("remember", said, desk.call(kind="key"))
    assert isinstance(answer, dict)
    assert answer["status"] == "remembered"
    assert "personal data" in answer["message"]


# -- elsewhere ---------------------------------------------------------------------------------------------------------


async def test_the_declaration_for_search(desk: Desk) -> None:
    old = await desk.remember("I live in Đà Nẵng.", about="Lan", tags=["home"], source="chat")
    id = await desk.remember("I moved to Huế.", about="Lan", replaces=old)
    await desk.do("update_fact", id=id, text="I moved to Huế in May.")
    await desk.remember("About nobody.")
    where = desk.searchable.narrow(SearchFilter(desk.searchable.space, desk.tenant), Narrowing("LAN"))
    assert where is not None
    assert await desk.found_in(where, "Huế nobody") == ["I moved to Huế in May."]
    item = await desk.searchable.fetch(desk.call(), id)
    assert item is not None
    assert (item.id, item.title, item.text) == (id, "Lan: I moved to Huế in May.", "I moved to Huế in May.")
    assert {
        "about": "Lan",
        "revision": 2,
        "said_by": "somebody",
        "earlier_versions": 2,
    }.items() <= item.metadata.items()
    replaced = await desk.searchable.fetch(desk.call(), old)
    assert replaced is not None
    assert replaced.metadata["replaced_by"] == id
    assert await desk.searchable.fetch(desk.call(tenant="another"), id) is None
    await desk.do("forget", id=id)
    assert await desk.searchable.fetch(desk.call(), id) is None
    recent = await desk.db.read(lambda tx: desk.searchable.recent(tx, everything(desk), 10))
    assert [one.text for one in recent] == ["About nobody."]
    later = desk.clock()
    assert await desk.db.read(lambda tx: desk.searchable.recent(tx, everything(desk, later), 10)) == []


async def test_a_hit_that_is_gone_meanwhile_is_not_shown(desk: Desk) -> None:
    id = await desk.remember("Here and gone.")
    await desk.do("forget", id=id)
    stale = FoundPassage(id, "", "", 0, "", "Here and gone.", 0)
    assert await desk.db.read(lambda tx: desk.searchable.described(tx, desk.tenant, [stale])) == [None]


async def test_a_long_fact_is_found_by_its_end(desk: Desk) -> None:
    filler = "The minutes of the meeting say nothing of interest here. " * 60
    text = f"{filler}The treasure is buried under the old oak."
    await desk.remember(text)
    assert await desk.found("treasure oak") == [text]


async def test_resources(desk: Desk, make_desk: MakeDesk) -> None:
    ids = [await desk.remember(f"Fact number {n}.", about="Lan") for n in range(3)]
    await desk.do("forget", id=ids[0])
    await make_desk().remember("Of another tenant.")
    page, more = await desk.resources.page(desk.call(), None)
    assert ([one.uri for one in page], more) == ([f"fact://{ids[2]}", f"fact://{ids[1]}"], None)
    assert (page[0].name, page[0].description) == ("Fact number 2.", "About Lan")
    content = await desk.resources.read(desk.call(), page[0].uri)
    assert content is not None
    assert '"text":"Fact number 2."' in (content.text or "")
    for uri in (f"fact://{ids[0]}", "fact://no-such-id", "memory://conversation/x"):
        assert await desk.resources.read(desk.call(), uri) is None
    assert await desk.resources.read(desk.call(tenant="another"), page[0].uri) is None
    assert await desk.resources.complete(desk.call(), "fact://{id}", "id", ids[1][:8]) == [ids[1]]
    assert await desk.resources.complete(desk.call(), "fact://{id}", "other", "") == []


async def test_the_beginning_of_an_id_is_enough_where_only_one_begins_so(desk: Desk) -> None:
    here = await desk.remember("I live in Đà Nẵng.")
    assert (await desk.do("get_fact", id=here[:8]))["id"] == here
    moved = await desk.do("remember", text="I moved to Huế.", replaces=here[:13])
    assert moved["status"] == "replaced"
    assert moved["id"] in str((await desk.refused("update_fact", id=here[:8], text="Gone.")).as_dict())
    assert (await desk.do("forget", id=moved["id"][:9]))["id"] == moved["id"]
    await desk.do("import_facts", lines=[{"id": f"{'0' * 8}-{last}", "text": f"Fact {last}."} for last in "12"])
    assert (await desk.refused("forget", id="0" * 8)).code == "NOT_FOUND", "two begin so: nothing is guessed"
    assert (await desk.refused("forget", id=here[:5])).code == "NOT_FOUND", "five characters are too few"
