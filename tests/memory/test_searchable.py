"""Messages as `search`, `fetch` and `recent` show them."""

from tests.memory.conftest import Desk

from kho.kernel.ports import SearchFilter, Tx
from kho.kernel.searchable import FoundPassage, Item, Narrowing
from kho.memory import searchable, store
from kho.memory.store import SPACE, Labels
from kho.search.query.searcher import Searcher

GROUP = "19:abc#7/é@thread.v2"
"""A conversation's id may have any character."""


async def found(desk: Desk, query: str, about: str | None = None) -> list[Item | None]:
    """What a search over messages finds, as it is shown."""
    declared = searchable.searchable(desk.db, 10.0)
    where = declared.narrow(SearchFilter(SPACE, desk.tenant), Narrowing(about))
    assert where is not None
    hits = (await Searcher(desk.db, desk.words).search(where, query)).hits
    passages = [
        FoundPassage(p.key, p.ref.collection, p.ref.kind, p.part, p.heading, p.text, p.ref.created_at)
        for p in (hit.passage for hit in hits)
    ]
    return [*await desk.db.read(lambda tx: declared.described(tx, desk.tenant, passages))]


async def fetched(desk: Desk, id: str) -> Item | None:
    return await searchable.searchable(desk.db, 10.0).fetch(desk.call, id)


async def recent(desk: Desk, since: int | None = None, limit: int = 10) -> list[str]:
    declared = searchable.searchable(desk.db, 10.0)
    return [
        item.text
        for item in await desk.db.read(
            lambda tx: declared.recent(tx, SearchFilter(SPACE, desk.tenant, since=since), limit)
        )
    ]


async def begun(desk: Desk, id: str, *labels: str) -> None:
    await desk.db.write(lambda tx: store.create(tx, desk.tenant, id, desk.clock(), Labels(*labels)))


async def test_a_message_is_found_and_fetched_with_its_neighbours(desk: Desk) -> None:
    await begun(desk, GROUP, "lan@example.com", "clinic-bot")
    await desk.say(GROUP, *(("user", f"Message number {n}.") for n in range(1, 6)))
    await desk.say(GROUP, ("user", "The zeppelin lands at nine."), ("assistant", "x" * 5_000))
    [hit] = await found(desk, "zeppelin")
    assert hit is not None
    assert hit.id == f"{GROUP}/6"
    assert hit.title == 'user, in "Message number 1."'
    assert hit.metadata.items() >= {"conversation_id": GROUP, "role": "user", "user_id": "lan@example.com"}.items()
    whole = await fetched(desk, hit.id)
    assert whole is not None
    assert (whole.id, whole.title, whole.when) == (hit.id, hit.title, hit.when)
    assert [line[:3] for line in whole.text.split("\n") if line.startswith("[")] == ["[3]", "[4]", "[5]", "[6]", "[7]"]
    assert "[6] user, " in whole.text
    assert "lands at nine." in whole.text
    assert len(whole.text) < 2_000
    assert "x" * 5_000 in (await fetched(desk, f"{GROUP}/7") or hit).text  # the one that is asked for is whole
    part = await fetched(desk, f"{GROUP}/7#1")
    assert part is not None
    assert part.id == f"{GROUP}/7#1"
    assert part.metadata["passage"] == 1
    assert 0 < len(part.text) < 5_000
    assert set(part.text) == {"x"}


async def test_ids_that_name_no_message_are_none(desk: Desk) -> None:
    await begun(desk, "chat_1")
    await desk.say("chat_1", ("user", "Hello."))
    for id in (
        "chat_1",
        "chat_1/",
        "chat_1/0",
        "chat_1/2",
        "chat_1/1#5",
        "chat_1/x",
        "/1",
        "",
        "chat_1/" + "9" * 5_000,
    ):
        assert await fetched(desk, id) is None, id
    other = Desk(desk.db, desk.words)
    assert await fetched(other, "chat_1/1") is None
    assert await fetched(desk, "chat_1/1") is not None


async def test_what_was_deleted_after_it_was_found_is_not_described(desk: Desk) -> None:
    await begun(desk, "chat_1")
    await desk.say("chat_1", ("user", "A zeppelin."))
    passage = FoundPassage("gone", "chat_1", "user", 0, "", "A zeppelin.", 0)
    described = searchable.searchable(desk.db, 10.0).described

    def work(tx: Tx) -> list[Item | None]:
        return [*described(tx, desk.tenant, [passage, passage._replace(collection="nowhere")])]

    assert await desk.db.read(work) == [None, None]


async def test_about_narrows_to_conversations_with_that_user_or_agent(desk: Desk) -> None:
    await begun(desk, "a", "Lan@Example.com")
    await begun(desk, "b", "minh", "LAN@example.COM")
    await begun(desk, "c", "minh")
    for id in "abc":
        await desk.say(id, ("user", f"The zeppelin of {id}."))
    ids = {item and item.metadata["conversation_id"] for item in await found(desk, "zeppelin", "lan@EXAMPLE.com")}
    assert ids == {"a", "b"}
    assert len(await found(desk, "zeppelin")) == 3
    assert await found(desk, "zeppelin", "nobody") == []


async def test_recent_is_the_last_message_of_each_conversation(desk: Desk) -> None:
    for id in "abc":
        await begun(desk, id)
        await desk.say(id, ("user", f"First of {id}."), ("user", f"Last of {id}."))
        desk.clock.pass_seconds(60)
    since = desk.clock()
    await desk.say("a", ("user", "Again in a."))
    assert await recent(desk) == ["Again in a.", "Last of c.", "Last of b."]
    assert await recent(desk, limit=2) == ["Again in a.", "Last of c."]
    assert await recent(desk, since) == ["Again in a."]
    assert await recent(Desk(desk.db, desk.words)) == []
