"""Conversations: what goes in comes out, in order, and for its owner only."""

import asyncio
import unicodedata
from collections.abc import Awaitable
from typing import Any

import pytest
from pydantic import ValidationError
from tests.memory.conftest import Desk

from kho.kernel.call import Principal
from kho.kernel.capability import Capability
from kho.kernel.checkpoint import Checkpoint
from kho.kernel.errors import InvalidParams
from kho.memory import model, store
from kho.memory.errors import OtherMessage, UnknownConversation

TALK = [("user" if n % 2 else "assistant", f"message number {n}") for n in range(1, 11)]


async def test_a_conversation_begins_and_goes_on(desk: Desk) -> None:
    minted = await desk.open()
    assert minted.startswith("chat_")
    assert await desk.open(minted) == minted
    await desk.say(minted, *TALK)
    assert await desk.all(minted) == TALK
    assert await desk.open(minted) == minted
    assert await desk.all(minted) == TALK


@pytest.mark.parametrize(("most", "shown"), [(None, 6), (1, 1), (4, 4), (10, 10), (50, 10)])
async def test_context_is_the_newest(desk: Desk, most: int | None, shown: int) -> None:
    id = await desk.open("c")
    await desk.say(id, *TALK)
    found = await desk.service.get_context(model.GetContext(conversation_id=id, max_messages=most), desk.call)
    assert [(message.role, message.content) for message in found.messages] == TALK[-shown:]


@pytest.mark.parametrize(("said", "old"), [(0, 0), (5, 0), (6, 0), (7, 1), (10, 4)])
async def test_old_messages_are_those_before(desk: Desk, said: int, old: int) -> None:
    id = await desk.open("c")
    await desk.say(id, *TALK[:said])
    found = await desk.service.get_old_messages(model.OfConversation(conversation_id=id), desk.call)
    assert [(message.role, message.content) for message in found.messages] == TALK[:old]
    assert found.total_count == old


async def test_a_retry_is_not_doubled(desk: Desk) -> None:
    id = await desk.open("c")
    await desk.say(id, ("user", "once"), message_id="m-1")
    await desk.say(id, ("user", "once"), message_id="m-1")
    assert await desk.all(id) == [("user", "once")]
    with pytest.raises(OtherMessage):
        await desk.say(id, ("user", "something else"), message_id="m-1")
    other = await desk.open("d")
    await desk.say(other, ("user", "in another conversation"), message_id="m-1")
    assert await desk.all(other) == [("user", "in another conversation")]


async def test_retries_at_the_same_moment(desk: Desk) -> None:
    id = await desk.open("c")
    await asyncio.gather(*(desk.say(id, ("user", "once"), message_id="m-1") for _ in range(8)))
    await desk.say(id, ("user", "then"))
    assert await desk.all(id) == [("user", "once"), ("user", "then")]


async def test_who_writes_at_once_loses_nothing(desk: Desk) -> None:
    id = await desk.open("c")

    async def speaker(name: int) -> None:
        for n in range(10):
            await desk.say(id, ("user", f"{name}:{n}"))

    await asyncio.gather(*map(speaker, range(8)))
    said = [content for _, content in await desk.all(id)]
    assert len(said) == 80
    for name in range(8):  # what was sent after an acknowledgement comes after it
        assert [one for one in said if one.startswith(f"{name}:")] == [f"{name}:{n}" for n in range(10)]


async def test_metadata_id_and_time_come_along(desk: Desk) -> None:
    id = await desk.open("c")
    await desk.say(id, ("user", "hello"), message_id="m-1", metadata={"channel": "zalo", "tags": [1, None, "x"]})
    found = await desk.service.get_all_messages(model.OfConversation(conversation_id=id), desk.call)
    [message] = found.messages
    assert (message.id, message.metadata) == ("m-1", {"channel": "zalo", "tags": [1, None, "x"]})
    assert message.created_at.startswith("2026-07-28T00:00:")


async def test_search_finds_what_was_said_and_where(desk: Desk) -> None:
    first, second = await desk.open("first"), await desk.open("second")
    await desk.say(first, ("user", "Tôi bị đau răng hàm bên trái."), ("assistant", "Anh nên đi chụp phim."))
    await desk.say(second, ("user", "我的牙齿很敏感。"), ("user", "The invoice number is INV-2041."))
    assert await desk.found("dau rang") == ["Tôi bị đau răng hàm bên trái."]
    assert await desk.found("牙齿") == ["我的牙齿很敏感。"]
    assert await desk.found("INV-2041") == ["The invoice number is INV-2041."]
    assert await desk.found("INV-2041", first) == []
    assert await desk.found("zzqx vwk") == []
    hit = (await desk.service.search(model.SearchMemory(query="invoice"), desk.call)).results[0]
    assert (hit.conversation_id, hit.role) == ("second", "user")
    assert 0 < hit.score <= 1
    with pytest.raises(UnknownConversation):
        await desk.found("x", "nowhere")


async def test_a_long_message_is_found_by_its_end(desk: Desk) -> None:
    id = await desk.open("c")
    long = "A sentence about nothing much at all. " * 400 + "The launch code is tangerine."
    await desk.say(id, ("user", long))
    assert await desk.found("launch code tangerine") == [long]


async def test_clear_keeps_the_conversation_and_nothing_else(desk: Desk) -> None:
    id = await desk.open("c")
    await desk.say(id, *TALK, ("user", "a word like xylophone"))
    await desk.service.set_summary(model.SetSummary(conversation_id=id, summary="something"), desk.call)
    done = await desk.service.clear(model.DeleteConversation(conversation_id=id), desk.call)
    assert (done.status, done.conversation_id) == ("cleared", id)
    assert await desk.all(id) == []
    assert await desk.found("xylophone") == []
    assert await desk.summary(id) == ""
    await desk.say(id, ("user", "again"))
    assert await desk.all(id) == [("user", "again")]


async def test_delete_removes_rows_and_entries(desk: Desk) -> None:
    id = await desk.open("c")
    await desk.say(id, ("user", "a word like xylophone"))
    done = await desk.service.delete(model.DeleteConversation(conversation_id=id), desk.call)
    assert done.status == "deleted"
    assert await desk.found("xylophone") == []
    for table in ("conversations", "messages", "passages", "words_entries", "folded_summaries"):
        row = await desk.db.read(lambda tx, table=table: tx.one(f"SELECT count(*) FROM {table}"))
        assert row == (0,), table
    with pytest.raises(UnknownConversation):
        await desk.all(id)


async def test_unknown_and_foreign_are_the_same(desk: Desk) -> None:
    theirs = await desk.open("theirs")
    await desk.say(theirs, ("user", "private"))
    stranger = Desk(desk.db, desk.words)
    service, call = stranger.service, stranger.call
    for id in ("nowhere", "theirs"):
        of = model.DeleteConversation(conversation_id=id)
        tries: list[Awaitable[object]] = [
            service.get_context(model.GetContext(conversation_id=id), call),
            service.get_all_messages(of, call),
            service.get_old_messages(of, call),
            service.get_summary(of, call),
            service.clear(of, call),
            service.delete(of, call),
            service.set_summary(model.SetSummary(conversation_id=id, summary="x"), call),
            service.context(model.ReadContext(conversation_id=id), call),
        ]
        for one in tries:
            with pytest.raises(UnknownConversation):
                await one
    assert await stranger.found("private") == []
    await stranger.say("theirs", ("user", "x"))  # another conversation, which has the same id
    assert await stranger.all("theirs") == [("user", "x")]
    assert await desk.all(theirs) == [("user", "private")]


async def test_the_list_is_by_last_use_and_paged(desk: Desk) -> None:
    ids = [await desk.open(f"c{n}") for n in range(5)]
    for id in ids:
        await desk.say(id, ("user", f"  About   {id}\nand more"))
    await desk.say("c1", ("assistant", "later"))
    seen: list[model.ListedConversation] = []
    cursor = None
    while True:
        page = await desk.service.list_(model.ListConversations(limit=2, cursor=cursor), desk.call)
        seen += page.conversations
        cursor = page.next_cursor
        if cursor is None:
            break
    assert [one.conversation_id for one in seen] == ["c1", "c4", "c3", "c2", "c0"]
    assert (seen[0].title, seen[0].message_count, seen[0].has_summary) == ("About c1 and more", 2, False)
    with pytest.raises(InvalidParams):
        await desk.service.list_(model.ListConversations(cursor="nonsense"), desk.call)


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "robot"},
        {"content": ""},
        {"content": " \n"},
        {"content": "x" * (256 * 1024 + 1)},
        {"content": "đ" * (128 * 1024 + 1)},
        {"content": 5},
        {"conversation_id": "a\nb"},
        {"conversation_id": "a\u200bb"},
        {"conversation_id": ""},
        {"conversation_id": " "},
        {"conversation_id": "x" * 257},
        {"message_id": "x" * 257},
        {"metadata": ["no object"]},
        {"metadata": {"long": "x" * 20_000}},
        {"unknown": 1},
    ],
)
def test_wrong_messages_are_refused(wrong: dict[str, Any]) -> None:
    right: dict[str, Any] = {"conversation_id": "c", "role": "user", "content": "hello"}
    with pytest.raises(ValidationError):
        model.AddMessage.model_validate({**right, **wrong})


async def test_resources_list_and_read(desk: Desk) -> None:
    import orjson

    id = await desk.open("chat_1")
    await desk.say(id, ("user", "xin chào"))
    listed = await desk.resources.list_resources(model.ListResources(), desk.call)
    assert [one.model_dump() for one in listed.resources] == [
        {
            "uri": "memory://conversation/chat_1",
            "name": "Conversation chat_1",
            "description": "Conversation history for chat_1",
            "mimeType": "application/json",
        }
    ]
    held = (await desk.resources.read_resource(model.ReadResource(uri=listed.resources[0].uri), desk.call)).contents[0]
    read = orjson.loads(held.text)
    assert read["messages"][0]["content"] == "xin chào"
    assert read["summary"]["text"] == ""
    assert await desk.resources.complete(desk.call, "memory://conversation/{id}", "id", "chat") == ["chat_1"]
    assert await desk.resources.read(desk.call, "kho://elsewhere") is None


async def test_resources_are_paged(desk: Desk) -> None:
    def fill(tx: store.Tx) -> None:
        for n in range(250):
            store.create(tx, desk.tenant, f"c{n:03}", 1)

    await desk.db.write(fill)
    seen: list[str] = []
    cursor = None
    while True:
        page = await desk.resources.list_resources(model.ListResources(cursor=cursor), desk.call)
        seen += [one.name for one in page.resources]
        cursor = page.nextCursor
        if cursor is None:
            break
    assert seen == [f"Conversation c{n:03}" for n in range(250)]


async def test_resources_are_for_those_who_may_read(desk: Desk) -> None:
    await desk.open("chat_1")
    checkpoint = Checkpoint([Capability("memory", "memory-server", (), resources=desk.resources)])
    for scope, expected in (("memory:write", None), ("memory:read", desk.resources.templates)):
        [seen] = checkpoint.visible(Principal("bot", desk.tenant, frozenset({scope})))
        assert (seen.resources and seen.resources.templates) is expected


async def test_whoever_listens_is_told_what_changed(desk: Desk) -> None:
    of = model.DeleteConversation(conversation_id="c")
    uri = "memory://conversation/c"

    def news() -> list[str | None]:
        assert all(tenant == desk.tenant for tenant, _ in desk.told)
        told = [uri for _, uri in desk.told]
        desk.told.clear()
        return told

    await desk.open("c")
    assert news() == [None]
    await desk.open("c")
    assert news() == []
    await desk.say("c", *TALK, ("user", "one more"))
    assert news() == [uri] * 11
    await desk.summary("c")
    assert news() == [uri]
    await desk.service.set_summary(model.SetSummary(conversation_id="c", summary="x"), desk.call)
    await desk.service.clear(of, desk.call)
    assert news() == [uri, uri]
    await desk.service.delete(of, desk.call)
    assert news() == [uri, None]
    await desk.say("c", ("user", "again"))
    assert news() == [None, uri]


PLATFORM_IDS = [
    "whatsapp:+84901234567",
    "lan@example.com",
    "19:abc@thread.v2",
    "nhóm gia đình",
    "群聊/三",
    "a%2Fb",
    "?#&=",
    "x" * 256,
]
"""Ids as chat platforms make them."""


@pytest.mark.parametrize("id", PLATFORM_IDS)
async def test_ids_of_chat_platforms(desk: Desk, id: str) -> None:
    await desk.say(id, ("user", "Xin chào zeppelin."), message_id=id)
    await desk.say(id, ("user", "Xin chào zeppelin."), message_id=id)
    assert await desk.all(id) == [("user", "Xin chào zeppelin.")]
    assert await desk.found("zeppelin", id) == ["Xin chào zeppelin."]
    [[resource], _] = await desk.resources.page(desk.call, None)
    assert resource.uri.isascii()
    assert not {*"?#%& "} & {*resource.uri.replace("%", "", resource.uri.count("%"))}
    assert desk.told[-1] == (desk.tenant, resource.uri)
    held = await desk.resources.read(desk.call, resource.uri)
    assert held is not None
    assert "zeppelin" in (held.text or "")


async def test_an_id_is_the_same_however_its_accents_are_encoded(desk: Desk) -> None:
    await desk.say(unicodedata.normalize("NFD", "nhóm"), ("user", "one"))
    await desk.say(unicodedata.normalize("NFC", "nhóm"), ("user", "two"))
    assert await desk.all("nhóm") == [("user", "one"), ("user", "two")]
    assert await desk.resources.read(desk.call, "memory://conversation/nho%CC%81m") is not None


async def test_adding_opens_the_conversation_by_itself(desk: Desk) -> None:
    await desk.say("new", ("tool", '{"degrees": 21}'), user_id="lan", agent_id="bot")
    assert desk.told == [(desk.tenant, None), (desk.tenant, "memory://conversation/new")]
    [listed] = (await desk.service.list_(model.ListConversations(), desk.call)).conversations
    assert (listed.conversation_id, listed.user_id, listed.agent_id) == ("new", "lan", "bot")
    desk.told.clear()
    await desk.say("new", ("user", "Warm."))
    assert desk.told == [(desk.tenant, "memory://conversation/new")]


async def test_many_open_the_same_conversation_at_once(desk: Desk) -> None:
    await asyncio.gather(*(desk.say("new", ("user", f"{n}")) for n in range(20)))
    assert sorted(int(content) for _, content in await desk.all("new")) == [*range(20)]


async def listed(desk: Desk, **labels: str) -> list[str]:
    """The ids of the conversations with these labels, page by page."""
    ids: list[str] = []
    cursor = None
    while True:
        page = await desk.service.list_(
            model.ListConversations.model_validate({"limit": 2, "cursor": cursor, **labels}), desk.call
        )
        ids += [one.conversation_id for one in page.conversations]
        cursor = page.next_cursor
        if cursor is None:
            return ids


async def searched(desk: Desk, **labels: str) -> set[str]:
    hits = await desk.service.search(model.SearchMemory.model_validate({"query": "zeppelin", **labels}), desk.call)
    return {hit.conversation_id for hit in hits.results}


async def test_labels_filter_and_hide_nothing(desk: Desk) -> None:
    for id, labels in (
        ("a", {"user_id": "Lan@example.com", "agent_id": "bot"}),
        ("b", {"user_id": "lan@EXAMPLE.com"}),
        ("c", {"user_id": "minh", "agent_id": "BOT"}),
        ("d", {}),
    ):
        await desk.say(id, ("user", "A zeppelin."), **labels)
    assert await listed(desk) == ["d", "c", "b", "a"]
    assert await searched(desk) == {"a", "b", "c", "d"}
    for labels, expected in (
        ({"user_id": "lan@example.com"}, ["b", "a"]),
        ({"agent_id": "bot"}, ["c", "a"]),
        ({"user_id": "lan@example.com", "agent_id": "bot"}, ["a"]),
        ({"user_id": "nobody"}, []),
    ):
        assert await listed(desk, **labels) == expected
        assert await searched(desk, **labels) == {*expected}


async def test_labels_that_come_later_are_those_of_earlier_messages_too(desk: Desk) -> None:
    await desk.say("a", *((role, f"{content} zeppelin") for role, content in TALK))
    await desk.say("a", ("user", "A zeppelin of Lan."), user_id="lan")
    hits = await desk.service.search(model.SearchMemory(query="zeppelin", user_id="lan", limit=50), desk.call)
    assert hits.total == len(TALK) + 1
    await desk.say("a", ("user", "Of somebody else."), user_id="minh")  # one who joins changes no label
    assert await listed(desk, user_id="minh") == []
    await desk.service.get_or_create(model.GetOrCreate(conversation_id="a", user_id="minh"), desk.call)
    assert (await listed(desk, user_id="minh"), await listed(desk, user_id="lan")) == (["a"], [])
    assert (await searched(desk, user_id="minh"), await searched(desk, user_id="lan")) == ({"a"}, set())


async def test_who_said_it_and_when(desk: Desk) -> None:
    await desk.say("a", ("user", "Second."), speaker="Lan", at="2026-07-28T09:00:05+07:00")
    await desk.say("a", ("user", "First."), speaker="Minh", at="2026-07-28T02:00:00Z")
    found = await desk.service.get_all_messages(model.OfConversation(conversation_id="a"), desk.call)
    assert [(one.content, one.speaker, one.at) for one in found.messages] == [
        ("Second.", "Lan", "2026-07-28T02:00:05Z"),
        ("First.", "Minh", "2026-07-28T02:00:00Z"),
    ]
    [hit] = (await desk.service.search(model.SearchMemory(query="First"), desk.call)).results
    assert (hit.speaker, hit.at) == ("Minh", "2026-07-28T02:00:00Z")


async def context(desk: Desk, **more: Any) -> model.ConversationContext:
    return await desk.service.context(model.ReadContext.model_validate({"conversation_id": "c", **more}), desk.call)


async def test_the_context_is_the_summary_and_what_it_does_not_cover(desk: Desk) -> None:
    await desk.say("c", *TALK)
    found = await context(desk)
    assert ([one.content for one in found.messages], found.summary, found.uncovered) == ([c for _, c in TALK], "", 0)
    await desk.say("c", ("user", "An eleventh message."), speaker="Lan")
    summary = await desk.summary("c")
    found = await context(desk)
    assert summary
    assert found.summary == summary
    assert [one.content for one in found.messages] == [c for _, c in TALK[-5:]] + ["An eleventh message."]
    assert found.uncovered == 0
    assert found.messages[-1].model_dump(exclude_none=True) == {
        "role": "user",
        "content": "An eleventh message.",
        "speaker": "Lan",
    }
    assert (await context(desk, max_messages=2)).uncovered == 4
    short = await context(desk, max_characters=len("An eleventh message.") + len(TALK[-1][1]) + 1)
    assert ([one.content for one in short.messages], short.uncovered) == ([TALK[-1][1], "An eleventh message."], 4)
    assert (await context(desk, max_characters=5)).uncovered == 6
    told = (await context(desk, details=True)).messages[-1]
    assert told.id
    assert told.created_at


async def test_a_context_has_the_last_messages_also_where_a_client_has_summarised_them(desk: Desk) -> None:
    await desk.say("c", *TALK)
    await desk.service.set_summary(model.SetSummary(conversation_id="c", summary="All of it."), desk.call)
    found = await context(desk)
    assert ([one.content for one in found.messages], found.summary) == ([c for _, c in TALK[-6:]], "All of it.")
    assert found.uncovered == 0
    assert (await context(desk, max_messages=1)).uncovered == 0
