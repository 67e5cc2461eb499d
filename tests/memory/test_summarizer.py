"""The rolling summary: by itself, in pieces, bounded, and never over a client's own."""

from collections.abc import Sequence

import pytest
from tests.memory.chats import PLANTED, chat
from tests.memory.conftest import Desk

from kho.kernel.errors import Unavailable
from kho.kernel.ports import PromptMessage, Written
from kho.memory import model
from kho.memory.settings import MemorySettings
from kho.memory.summarizer import appended
from kho.search.text.language import language as language_of


@pytest.mark.parametrize("language", ["vi", "en", "zh"])
async def test_sixty_messages(desk: Desk, language: str) -> None:
    id = await desk.open("c")
    for one in chat(language):
        await desk.say(id, one)
        await desk.summary(id)
    text = await desk.summary(id)
    assert all(fact in text for fact in PLANTED[language]), text
    assert language_of(text) == language
    assert len(text) <= desk.settings.summary_max_chars
    assert "\n\n" in text  # one piece after the other
    assert await desk.all(id) == chat(language)


@pytest.mark.requirement("002.summary.logged")
async def test_a_summary_is_one_line_in_the_log_without_what_was_said(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    id = await desk.open("19:abc@thread.v2")
    with caplog.at_level("INFO", "kho.memory"):
        await desk.say(id, *chat("en")[:11])
        assert "Margaret Holloway" in await desk.summary(id)
    [line] = [one.getMessage() for one in caplog.records if "summary" in one.getMessage()]
    assert line == "summary of conversation 19:abc@thread.v2 extended by 5 messages"


async def test_nothing_happens_below_the_threshold(desk: Desk) -> None:
    id = await desk.open("c")
    talk = chat("en")
    await desk.say(id, *talk[:10])
    assert await desk.summary(id) == ""
    await desk.say(id, talk[10])
    first = await desk.summary(id)
    assert "Margaret Holloway" in first
    await desk.say(id, *talk[11:15])
    assert await desk.summary(id) == first
    await desk.say(id, *talk[15:17])
    second = await desk.summary(id)
    assert second.startswith(first)
    assert "12 May 2026" in second


async def test_a_backlog_is_worked_off_in_pieces(desk: Desk) -> None:
    id = await desk.open("c")
    await desk.say(id, *chat("en"))
    text = await desk.summary(id)
    assert all(fact in text for fact in PLANTED["en"])


async def test_a_clients_summary_is_left_alone(desk: Desk) -> None:
    id = await desk.open("c")
    talk = chat("en")
    await desk.say(id, *talk[:3])
    done = await desk.service.set_summary(
        model.SetSummary(conversation_id=id, summary="S1\n\nS2", compress=True), desk.call
    )
    assert (done.status, done.conversation_id) == ("success", id)
    await desk.say(id, *talk[3:40])
    assert await desk.summary(id) == "S1\n\nS2"
    asked = model.GetOrCreateSummary.model_validate(
        {"conversation_id": id, "old_messages": [{"role": "user", "content": "x", "timestamp": 1}], "language": "vi"}
    )
    assert (await desk.service.get_or_create_summary(asked, desk.call)).summary == "S1\n\nS2"
    assert await desk.all(id) == talk[:40]


async def test_a_summary_set_while_ours_is_made_wins(desk: Desk) -> None:
    class Slow:
        async def complete(self, messages: Sequence[PromptMessage]) -> Written:
            await desk.service.set_summary(model.SetSummary(conversation_id="c", summary="theirs"), desk.call)
            return Written("ours")

    slow = Desk(desk.db, desk.words, tenant=desk.tenant, llm=Slow())
    await desk.open("c")
    await desk.say("c", *chat("en", 20))
    assert await slow.summary("c") == "theirs"


async def test_with_a_model_it_writes_in_the_language_and_sees_the_text_as_data(desk: Desk) -> None:
    shown: list[Sequence[PromptMessage]] = []

    class Model:
        async def complete(self, messages: Sequence[PromptMessage]) -> Written:
            shown.append(messages)
            return Written("Chị Châu hẹn ngày 12/05.")

    writing = Desk(desk.db, desk.words, tenant=desk.tenant, llm=Model())
    await desk.open("c")
    await desk.say("c", *chat("vi", 18))
    assert (await writing.summary("c")).startswith("Chị Châu hẹn ngày 12/05.")
    system, user = shown[0]
    assert "Vietnamese" in system["content"]
    assert "Nguyễn Thị Minh Châu" in user["content"]
    assert "Nguyễn Thị Minh Châu" not in system["content"]


async def test_without_its_model_it_quotes(desk: Desk) -> None:
    class Away:
        async def complete(self, messages: Sequence[PromptMessage]) -> Written:
            raise Unavailable("the server is away")

    quoting = Desk(desk.db, desk.words, tenant=desk.tenant, llm=Away())
    await desk.open("c")
    await desk.say("c", *chat("en", 20))
    assert "Margaret Holloway" in await quoting.summary("c")


async def test_what_is_folded_away_can_be_read(desk: Desk) -> None:
    import orjson

    small = Desk(desk.db, desk.words, MemorySettings(summary_max_chars=500), desk.tenant)
    await small.open("c")
    for one in chat("en"):
        await small.say("c", one)
        await small.summary("c")
    text = await small.summary("c")
    assert 100 < len(text) <= 500
    held = (
        await small.resources.read_resource(model.ReadResource(uri="memory://conversation/c"), small.call)
    ).contents[0]
    summary = orjson.loads(held.text)["summary"]
    together = "\n".join([*summary["folded"], summary["text"]])
    assert all(fact in together for fact in PLANTED["en"])


async def test_two_processes_do_it_once(desk: Desk) -> None:
    import asyncio

    other = Desk(desk.db, desk.words, tenant=desk.tenant)
    ids = [await desk.open(f"c{n}") for n in range(6)]
    for id in ids:
        await desk.say(id, *chat("en", 20))

    async def work(one: Desk) -> None:
        while await one.summaries.step():
            pass

    await asyncio.gather(work(desk), work(other))
    texts = {await desk.summary(id) for id in ids}
    assert len(texts) == 1
    assert texts.pop().count("Margaret Holloway") == 1


@pytest.mark.parametrize("most", [50, 120, 300, 1_000])
def test_a_summary_stays_bounded(most: int) -> None:
    text, folded = "", list[str]()
    for n in range(60):
        text, gone = appended(text, f"- User: Paragraph {n} says that room {n} costs {n}00 dollars.", most)
        assert len(text) <= most
        folded += [gone] if gone else []
    assert all(f"Paragraph {n} " in "\n".join([*folded, text]) for n in range(60))
