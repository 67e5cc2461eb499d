"""Who said it and when: named in a query, given as a filter, and shown."""

from typing import Any

import pytest
from tests.memory.conftest import Desk

from kho.kernel.call import Call
from kho.kernel.errors import InvalidParams
from kho.lib.clock import DAY, from_iso, iso
from kho.memory import model
from kho.search.query.conversations import NONE_NAMED

GROUP = "group"
NOW = "2026-03-18T12:00:00Z"
"""A Wednesday."""
SAID = (
    ("2026-03-12", "Lan", "The boiler is repaired."),
    ("2026-03-12", "Hùng", "Bún bò ngon quá."),
    ("2026-03-13", "Wang Wei", "Who has the key of the cellar?"),
    ("2026-03-13", "小李", "雨伞在门后面。"),
    ("2026-03-16", "Lan", "The plumber comes at noon."),
    ("2026-03-16", "Lan", "He brings two pipes."),
    ("2026-03-16", "Hùng", "Em mua vé rồi."),
    ("2026-03-16", "小李", "会议改到周末。"),
    ("2026-03-17", "Wang Wei", "The invoice is paid."),
    ("2026-03-17", "小李", "谁拿了我的书？"),
    ("2026-03-18", "Lan", "Is the oven still warm?"),
    ("2026-03-18", "Hùng", "Cơm chín rồi."),
)


@pytest.fixture
async def chat(desk: Desk) -> Desk:
    desk.clock.now = from_iso(NOW)
    for number, (day, speaker, text) in enumerate(SAID):
        at = iso(from_iso(day) + number * 60_000_000)
        await desk.say(GROUP, ("user", text), speaker=speaker, at=at)
    return desk


def those(speaker: str | None = None, day: str | None = None) -> list[str]:
    return [text for at, who, text in SAID if speaker in (None, who) and day in (None, at)]


@pytest.mark.parametrize(
    ("query", "speaker", "day"),
    [
        ("what did Lan say on Monday", "Lan", "2026-03-16"),
        ("what did Lan say on Monday 16 March", "Lan", "2026-03-16"),
        ("what was said on 2026-03-13", None, "2026-03-13"),
        ("2026-03-16 Lan", "Lan", "2026-03-16"),
        ("What did Wang Wei say yesterday?", "Wang Wei", "2026-03-17"),
        ("what did wang tell us on Friday", "Wang Wei", "2026-03-13"),
        ("what did Lan say today", "Lan", "2026-03-18"),
        ("13/03/2026", None, "2026-03-13"),
        ("Hùng nói gì hôm thứ hai", "Hùng", "2026-03-16"),
        ("hung noi gi ngay 16/03", "Hùng", "2026-03-16"),
        ("hung noi gi ngay 12 thang 3", "Hùng", "2026-03-12"),
        ("hung noi gi hom nay", "Hùng", "2026-03-18"),
        ("周一小李说了什么", "小李", "2026-03-16"),
        ("星期五小李说了什么", "小李", "2026-03-13"),
        ("昨天小李说了什么", "小李", "2026-03-17"),
        ("三月十六日小李说了什么", "小李", "2026-03-16"),
        ("3月12日", None, "2026-03-12"),
    ],
)
async def test_who_and_when_decide_where_nothing_else_is_asked(
    chat: Desk, query: str, speaker: str | None, day: str
) -> None:
    wanted = those(speaker, day)
    found = await chat.service.search(model.SearchMemory(query=query), chat.call)
    assert [hit.content for hit in found.results][: len(wanted)] == wanted
    assert all(hit.score >= 0.9 for hit in found.results[: len(wanted)])
    assert all(hit.score <= 0.9 for hit in found.results[len(wanted) :])


async def test_without_a_day_the_newest_come_first(chat: Desk) -> None:
    assert (await chat.found("what did Lan say"))[:4] == those("Lan")[::-1]


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("what did Lan ask", "Is the oven still warm?"),
        ("what did Wang Wei ask", "Who has the key of the cellar?"),
        ("小李问了什么", "谁拿了我的书？"),
    ],
)
async def test_who_asks_for_questions_gets_questions_first(chat: Desk, query: str, first: str) -> None:
    assert (await chat.found(query))[0] == first


async def test_what_is_asked_about_still_counts(chat: Desk) -> None:
    assert (await chat.found("what did Lan say about the boiler"))[0] == "The boiler is repaired."
    assert (await chat.found("the invoice yesterday"))[0] == "The invoice is paid."


async def test_yesterday_is_another_day_tomorrow(chat: Desk) -> None:
    """The ranked list of the same query is kept, as long as nothing was said meanwhile."""
    assert (await chat.found("what did 小李 say yesterday"))[0] == "谁拿了我的书？"
    chat.clock.now -= DAY
    assert (await chat.found("what did 小李 say yesterday"))[0] == "会议改到周末。"


@pytest.mark.parametrize("query", ["what did she say", "xylophone", "plumber", ""])
async def test_a_filter_loses_nothing_that_matches(chat: Desk, query: str) -> None:
    where: dict[str, Any] = {"speaker": "Lan", "since": "2026-03-16", "until": "2026-03-17"}
    assert {*await chat.found(query, **where)} == {*those("Lan", "2026-03-16")}
    assert {*await chat.found(query, speaker="Lan")} == {*those("Lan")}
    assert {*await chat.found(query, GROUP, since="2026-03-17", limit=50)} == {
        text for at, _, text in SAID if at >= "2026-03-17"
    }
    if query == "plumber":
        assert (await chat.found(query, speaker="Lan"))[0] == "The plumber comes at noon."


async def test_pages_reach_all_that_matches(chat: Desk) -> None:
    for query in ("", "plumber"):
        found: list[str] = []
        cursor: str | None = None
        while True:
            asked = model.SearchMemory.model_validate(
                {"query": query, "since": "2026-03-01", "limit": 5, "cursor": cursor}
            )
            page = await chat.service.search(asked, chat.call)
            assert page.total == len(SAID)
            found += (hit.content for hit in page.results)
            cursor = page.next_cursor
            if cursor is None:
                break
        assert sorted(found) == sorted(those())
        assert query or found == those()  # in the order of time


async def test_a_long_message_is_listed_once(desk: Desk) -> None:
    await desk.say(GROUP, ("user", "The zeppelin lands. " * 400), speaker="Lan")
    await desk.say(GROUP, ("user", "Fine."), speaker="Lan")
    for query in ("", "zeppelin"):
        assert len(await desk.found(query, speaker="Lan")) == 2


async def test_a_query_or_a_filter_is_needed(chat: Desk) -> None:
    for query in ("", "  "):
        with pytest.raises(InvalidParams, match="'query' must not be empty, unless a speaker or a time is given"):
            await chat.found(query, user_id="lan")


@pytest.mark.parametrize(
    ("speaker", "meant"),
    [
        ("lan", "Lan"),
        ("hung", "Hùng"),
        ("HÙNG", "Hùng"),
        ("wang wei", "Wang Wei"),
        ("Wang", "Wang Wei"),
        ("wei", "Wang Wei"),
        ("小李", "小李"),
    ],
)
async def test_a_speaker_is_known_by_part_of_the_name_and_without_marks(chat: Desk, speaker: str, meant: str) -> None:
    assert await chat.found("", speaker=speaker) == those(meant)


async def test_a_speaker_who_is_not_known_is_told_who_is(chat: Desk) -> None:
    async def notes(**more: Any) -> list[str] | None:
        found = await chat.service.search(model.SearchMemory.model_validate({"query": "key", **more}), chat.call)
        assert found.results == []
        return found.notes

    assert await notes(speaker="Bob") == ["Nobody called 'Bob' has spoken there, but Hùng, Lan, 小李 and Wang Wei."]
    await chat.say("other", ("user", "Hello."), speaker="Wang Fang")
    assert await notes(speaker="Wang") == ["'Wang' may be Wang Fang or Wang Wei. Say which."]
    assert await chat.found("", GROUP, speaker="Wang") == those("Wang Wei")  # there is one in that conversation
    assert await notes(speaker="Bob", conversation_id="other") == [
        "Nobody called 'Bob' has spoken there, but Wang Fang."
    ]
    for number in range(20):
        await chat.say("other", ("user", "Hello."), speaker=f"Guest {number}")
    [note] = await notes(speaker="Bob") or []
    assert note.endswith("and 15 more.")
    await chat.service.clear(model.DeleteConversation(conversation_id="other"), chat.call)
    assert "Guest" not in ((await notes(speaker="Bob")) or [""])[0]


async def test_names_of_other_tenants_are_not_told(chat: Desk) -> None:
    other = Desk(chat.db, chat.words)
    other.service.searcher = chat.service.searcher
    await other.say(GROUP, ("user", "Hello."), speaker="Zoe")
    found = await other.service.search(model.SearchMemory(speaker="Lan"), other.call)
    assert found.notes == ["Nobody called 'Lan' has spoken there, but Zoe."]
    nobody = Call(other.call.principal.__class__("x", "nobody-else", frozenset({"*"})))
    found = await other.service.search(model.SearchMemory(speaker="Lan"), nobody)
    assert found.notes == ["Nobody called 'Lan' has spoken there, nor anybody else."]


async def test_the_day_is_that_of_the_place(desk: Desk) -> None:
    desk.clock.now = from_iso("2026-04-05T00:00:00Z")
    await desk.say(GROUP, ("user", "The ship leaves."), speaker="Lan", at="2026-04-02T01:30:00+07:00")
    await desk.say(GROUP, ("user", "The ship is late."), metadata={"name": "Tom", "ts": "2026-04-02T23:00:00-05:00"})
    await desk.say(GROUP, ("user", "The harbour is empty."), speaker="Mai", at="2026-04-01T18:30:00")
    on_second = {"The ship leaves.", "The ship is late."}
    found = await desk.service.search(model.SearchMemory(query="what was said on 2 April"), desk.call)
    assert {hit.content for hit in found.results if hit.score > 0.9} == on_second
    assert (await desk.found("what was said on 1 April"))[0] == "The harbour is empty."
    assert [hit.at for hit in found.results[:1]] == ["2026-04-01T18:30:00Z"]  # shown in UTC, as ever
    exported = (await desk.transfer.export(model.ExportMemory(), desk.call)).lines
    assert [one.get("at") for one in exported] == [None, "2026-04-02T01:30:00+07:00", None, "2026-04-01T18:30:00Z"]
    other = Desk(desk.db, desk.words)
    await other.transfer.import_(model.ImportMemory(lines=exported), other.call)
    found = await other.service.search(model.SearchMemory(query="what was said on 2 April"), other.call)
    assert {hit.content for hit in found.results if hit.score > 0.9} == on_second
    assert (await other.transfer.export(model.ExportMemory(), other.call)).lines == exported


async def test_hits_say_who_and_when(desk: Desk) -> None:
    await desk.say(GROUP, ("user", "The gate is red."), metadata={"author": "Mai", "timestamp": "2026-03-02T09:14:00Z"})
    [hit] = (await desk.service.search(model.SearchMemory(query="gate"), desk.call)).results
    assert (hit.speaker, hit.at) == ("Mai", "2026-03-02T09:14:00Z")
    assert hit.created_at > "2026-07"


async def test_what_a_time_may_be_is_said(desk: Desk) -> None:
    with pytest.raises(ValueError, match="or a day such as 2025-09-16"):
        model.SearchMemory.model_validate({"query": "gate", "since": "yesterday"})


@pytest.mark.parametrize("query", ["what did Lan say on 13 March", "周一王伟说了什么", "what was said on 2026-03-14"])
async def test_who_said_nothing_that_day_is_not_given_the_words_of_others_without_a_note(
    chat: Desk, query: str
) -> None:
    await chat.say(GROUP, ("user", "我来了。"), speaker="王伟", at="2026-03-17T09:00:00Z")
    found = await chat.service.search(model.SearchMemory.model_validate({"query": query}), chat.call)
    assert found.notes == [NONE_NAMED]
    right = await chat.service.search(model.SearchMemory.model_validate({"query": "what did Lan say"}), chat.call)
    assert right.notes is None
