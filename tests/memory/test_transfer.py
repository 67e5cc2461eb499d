"""Out and in again: nothing is lost, and a second time nothing changes."""

from typing import Any

import pytest
from tests.memory.chats import chat
from tests.memory.conftest import Desk

from kho.kernel.errors import InvalidParams
from kho.memory import model
from kho.memory.errors import UnknownConversation
from kho.memory.settings import MemorySettings


async def exported(desk: Desk, limit: int = 500, only: str | None = None) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = await desk.transfer.export(
            model.ExportMemory(limit=limit, cursor=cursor, conversation_id=only), desk.call
        )
        assert len(page.lines) <= limit
        lines += page.lines
        cursor = page.next_cursor
        if cursor is None:
            return lines


async def filled(desk: Desk) -> None:
    for language in ("vi", "en", "zh"):
        await desk.open(language)
        await desk.say(language, *chat(language, 30))
        await desk.summary(language)
    await desk.say("en", ("user", "with data"), metadata={"a": [1, "b", None]}, message_id="mine")
    await desk.say(
        "en", ("tool", "21 degrees"), speaker="thermometer", at="2026-07-27T08:00:00Z", user_id="Lan", agent_id="bot"
    )
    await desk.open("empty")
    await desk.service.set_summary(model.SetSummary(conversation_id="zh", summary="客户自己的摘要"), desk.call)


@pytest.mark.parametrize("limit", [1, 7, 500])
async def test_a_round_trip(desk: Desk, limit: int) -> None:
    await filled(desk)
    lines = await exported(desk, limit)
    assert [line["conversation_id"] for line in lines if line["type"] == "conversation"] == ["empty", "en", "vi", "zh"]
    there = Desk(desk.db, desk.words)
    for start in range(0, len(lines), 40):
        await there.transfer.import_(model.ImportMemory(lines=lines[start : start + 40]), there.call)
    assert await exported(there) == lines
    again = await there.transfer.import_(model.ImportMemory(lines=lines[:100]), there.call)
    assert (again.conversations, again.messages) == (0, 0)
    assert await exported(there) == lines
    assert await there.found("penicillin") == await desk.found("penicillin") != []
    labelled = await there.service.search(model.SearchMemory(query="penicillin", user_id="lan"), there.call)
    assert {hit.conversation_id for hit in labelled.results} == {"en"}


async def test_a_summary_comes_along_with_its_time_and_what_it_let_go_of(desk: Desk) -> None:
    small = Desk(desk.db, desk.words, MemorySettings(summary_max_chars=500), desk.tenant)
    await small.open("c")
    for one in chat("en"):
        await small.say("c", one)
        await small.summary("c")
    lines = await exported(small)
    assert len(lines[0]["folded"]) > 1
    there = Desk(desk.db, desk.words)
    await there.transfer.import_(model.ImportMemory(lines=lines), there.call)
    asked = model.ReadResource(uri="memory://conversation/c")
    [here], [copied] = [(await one.resources.read_resource(asked, one.call)).contents for one in (small, there)]
    assert copied == here
    assert await exported(there) == lines
    await there.say("c", *chat("en", 12))
    assert (await there.summary("c")).startswith(lines[0]["summary"][:40])  # it goes on where it was


async def test_one_conversation(desk: Desk) -> None:
    await filled(desk)
    lines = await exported(desk, 9, "vi")
    assert {line["conversation_id"] for line in lines} == {"vi"}
    assert len(lines) == 31
    with pytest.raises(UnknownConversation):
        await exported(desk, 9, "nowhere")


@pytest.mark.parametrize(
    "line",
    [
        {},
        {"type": "song"},
        {"type": "message", "conversation_id": "c"},
        {"type": "message", "conversation_id": "c", "id": "m", "role": "user", "content": "x", "created_at": "soon"},
        {
            "type": "message",
            "conversation_id": "c",
            "id": "m",
            "role": "cat",
            "content": "x",
            "created_at": "2026-07-28",
        },
        {"type": "conversation", "conversation_id": "a\nb", "created_at": "2026-07-28", "updated_at": "2026-07-28"},
        {"type": "conversation", "conversation_id": "c", "created_at": "2026-07-28", "updated_at": "soon"},
        {
            "type": "message",
            "conversation_id": "c",
            "id": "m",
            "role": "user",
            "content": " ",
            "created_at": "2026-07-28",
        },
    ],
)
async def test_a_wrong_line_is_named_and_nothing_is_taken(desk: Desk, line: dict[str, Any]) -> None:
    right = {
        "type": "message",
        "conversation_id": "c",
        "id": "m0",
        "role": "user",
        "content": "x",
        "created_at": "2026-07-28",
    }
    with pytest.raises(InvalidParams, match="Line 2"):
        await desk.transfer.import_(model.ImportMemory.model_validate({"lines": [right, line]}), desk.call)
    assert (await desk.service.list_(model.ListConversations(), desk.call)).conversations == []
