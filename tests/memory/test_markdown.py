"""What people at the command line read."""

from pathlib import Path

import orjson
from tests.doors.doors import kho

from kho.memory import markdown, model

AT = "2026-07-28T09:00:05.000001Z"


def test_messages() -> None:
    said = [
        model.MessageEntry(role="user", content="Xin chào.\n\n# Tôi là An", id="m1", created_at=AT),
        model.MessageEntry(role="assistant", content="Chào anh!", id="m2", created_at=AT),
    ]
    assert markdown.messages(model.Messages(messages=said)) == (
        "**user**, 2026-07-28 09:00 UTC\n\n> Xin chào.\n>\n> # Tôi là An\n\n**assistant**, 2026-07-28 09:00 UTC\n\n> Chào anh!"
    )
    assert markdown.messages(model.Messages(messages=[])) == "There are no messages."


def test_hits() -> None:
    hit = model.MessageHit(
        conversation_id="c",
        message_id="m",
        role="user",
        content="long",
        created_at=AT,
        score=0.816,
        highlights=["**lo**ng"],
    )
    found = model.Hits(results=[hit], total=7, next_cursor="abc", notes=["Keyword search only."])
    assert markdown.hits(found) == (
        "1. **user** in `c`, 2026-07-28 09:00 UTC, score 0.82\n\n   > **lo**ng\n\n1 of 7 messages.\n\n"
        "There are more: `--cursor abc`\n\nKeyword search only."
    )
    assert markdown.hits(model.Hits(results=[], total=0)) == "Nothing was found."
    said = hit.model_copy(update={"speaker": "Lan", "at": "2026-07-27T08:00:00Z"})
    shown = markdown.hits(model.Hits(results=[said], total=1))
    assert shown.startswith("1. **user** (Lan) in `c`, 2026-07-27 08:00 UTC, score 0.82")


def test_a_summary_is_one_list() -> None:
    kept = "- Lan: Ten.\n- Tom: Eleven.\n\n- Lan: Twelve.\n\nA paragraph."
    assert (
        markdown.summary(model.Summary(summary=kept)) == "- Lan: Ten.\n- Tom: Eleven.\n- Lan: Twelve.\n\nA paragraph."
    )


def test_conversations() -> None:
    def listed(id: str, title: str, count: int, has_summary: bool) -> model.ListedConversation:
        return model.ListedConversation(
            conversation_id=id,
            title=title,
            message_count=count,
            has_summary=has_summary,
            created_at=AT,
            last_activity=AT,
        )

    found = model.Conversations(conversations=[listed("a", "Hello", 12, True), listed("b", "", 1, False)])
    assert markdown.conversations(found) == (
        "- `a`: Hello (12 messages, with a summary, 2026-07-28 09:00 UTC)\n"
        "- `b`: (nothing said yet) (1 message, 2026-07-28 09:00 UTC)"
    )
    assert markdown.conversations(model.Conversations(conversations=[])) == "There are no conversations."


def test_what_was_said_cannot_pass_for_anything_of_ours() -> None:
    said = model.MessageEntry(role="user", content="a\r\n\u2028**kho**: done\x1b[2J\u202eb", id="m", created_at=AT)
    shown = markdown.messages(model.Messages(messages=[said]))
    assert shown == "**user**, 2026-07-28 09:00 UTC\n\n> a\n>\n> **kho**: done [2Jb"
    listed = model.ListedConversation(
        conversation_id="c",
        title="# **x**\n- `y`",
        message_count=1_200,
        has_summary=False,
        created_at=AT,
        last_activity=AT,
    )
    found = model.Conversations(conversations=[listed])
    assert markdown.conversations(found) == r"- `c`: \# \*\*x\*\* - \`y\` (1,200 messages, 2026-07-28 09:00 UTC)"


def test_summary() -> None:
    assert markdown.summary(model.Summary(summary="- An: 12/05")) == "- An: 12/05"
    assert markdown.summary(model.Summary(summary="")) == "There is no summary yet."


async def test_the_command_line_shows_it_and_json_for_programs(tmp_path: Path) -> None:
    home = tmp_path / "home"
    await kho(home, "memory", "open", "chat_1")
    await kho(home, "memory", "add", "chat_1", "--role", "user", "--content", "Xin chào.")
    for words in (("context", "chat_1"), ("messages", "chat_1"), ("search", "xin", "chào"), ("list",)):
        people, programs = await kho(home, "memory", *words), await kho(home, "memory", *words, "--json")
        assert "Xin chào." in people.out
        assert "{" not in people.out
        assert "Xin chào." in orjson.dumps(orjson.loads(programs.out)).decode()
    assert (await kho(home, "memory", "summary", "chat_1")).out == "There is no summary yet.\n"
