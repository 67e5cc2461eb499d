"""`search` and `recent`: one list of everything, in one order."""

from pathlib import Path

import pytest
from tests.recall.conftest import ADDRESS, Desk

from kho.app import open_hub
from kho.models.settings import Embedding
from kho.settings import Search, Settings

TEXT = "The kestrel nests on the old water tower."


async def test_every_kind_is_found_in_one_list(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    await desk.do("remember", text="The weather was fine.")
    results = await desk.found("kestrel tower")
    assert {one["kind"]: one["id"] for one in results} == ids
    assert [one["score"] for one in results] == sorted((one["score"] for one in results), reverse=True)
    for one in results:
        more = {"metadata"} if one["kind"] == "message" else set[str]()
        assert one.keys() == {"id", "kind", "title", "text", "url", "when", "score", "label"} | more
        assert "kestrel" in one["text"]
        assert one["title"]
        assert 0 < one["score"] <= 1
        assert one["label"] != "Low Relevance"
        assert one["url"].startswith(f"{ADDRESS}/open/{one['id'].partition(':')[0]}:")
    assert {one["url"] for one in results} >= {f"{ADDRESS}/open/msg:chat%2F1%2F1", f"{ADDRESS}/open/doc:guide%2Fone"}


async def test_what_it_says_can_be_narrowed(desk: Desk) -> None:
    ids = await desk.fill(TEXT)

    async def kinds(**more: object) -> set[str]:
        return {one["kind"] for one in await desk.found("kestrel tower", **more)}

    assert await kinds(kinds=["fact", "message"]) == {"fact", "message"}
    assert await kinds(kinds="facts, document") == {"fact", "document"}
    assert await kinds(kinds=["kb", "exp"]) == {"research", "experience"}
    assert await kinds(about="LAN") == {"fact", "message"}  # the conversation is with this user
    assert await kinds(about="nobody") == set()
    assert await kinds(tags=["home"]) == {"fact", "research", "document"}
    assert await kinds(tags=["home", "away"]) == set()
    assert await kinds(tags="home") == {"fact", "research", "document"}
    assert await kinds(tags="home, away") == set()
    assert await kinds(about="", speaker="", tags="", since="", until="") == {*ids}
    assert await kinds(since="2020-01-01T00:00:00Z") == {*ids}
    assert await kinds(until="2020-01-01T00:00:00Z") == set()
    assert len(await desk.found("kestrel tower", limit=2)) == 2
    [one] = await desk.found("kestrel tower", limit=1, explain=True)
    assert one["explanation"]["lexical"] > 0.5
    assert await desk.found("xylophone") == []


async def test_what_somebody_said_stands_before_facts(desk: Desk) -> None:
    """A name alone may be what a fact is about; who asks what was said wants messages."""
    await desk.do("remember", text="On Monday 16 March Lan said that she prefers pnpm.", about="Lan")
    for day, speaker, text in (
        ("12", "Lan", "Good morning."),
        ("16", "Lan", "The plumber comes at noon."),
        ("16", "Tom", "I am late."),
    ):
        at = f"2026-03-{day}T09:00:00+07:00"
        await desk.do("memory_add_message", conversation_id="c", role="user", content=text, speaker=speaker, at=at)
    said = await desk.found("what did Lan say on Monday 16 March")
    assert (said[0]["text"], said[0]["label"]) == ("The plumber comes at noon.", "Highly Relevant")
    assert said[0]["metadata"] == {"role": "user", "speaker": "Lan", "at": "2026-03-16T02:00:00Z"}
    assert [one["kind"] for one in said].index("fact") > 0
    assert (await desk.found("Lan"))[0]["kind"] == "fact"
    assert {one["text"] for one in await desk.found("xylophone", speaker="lan")} == {
        "Good morning.",
        "The plumber comes at noon.",
    }
    answer = await desk.do("search", query="plumber", speaker="Bob")
    assert answer == {"results": [], "notes": ["Nobody called 'Bob' has spoken there, but Tom and Lan."]}
    assert "notes" not in await desk.do("search", query="plumber", speaker="Bob", kinds=["fact"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"query": " "}, "'query' must not be empty"),
        ({"query": "x", "kinds": []}, "'kinds' must name a kind; leave it out to search everything"),
        ({"query": "x", "kinds": ["fact", "recipe"]}, "There is no kind 'recipe'. Kinds: message, fact, experience, "),
        (
            {"query": "x", "since": "2026-02-01", "until": "2026-01-01"},
            "'since' is after the end of the period. Swap the two times",
        ),
        ({"query": "x", "limit": 0}, "'limit' must be 1 or more"),
        ({"query": "x", "kind": "fact"}, "'kind' is not a known parameter"),
    ],
)
async def test_a_query_that_cannot_be_answered_says_what_to_do(
    desk: Desk, arguments: dict[str, object], said: str
) -> None:
    error = await desk.refused("search", **arguments)
    assert said in error.message
    assert (error.code, error.status) == ("INVALID_ARGUMENT", 400)


async def test_the_newer_of_two_facts_is_shown(desk: Desk) -> None:
    old = await desk.do("remember", text="I live in Đà Nẵng.", about="Lan")
    new = await desk.do("remember", text="I moved to Huế and live there.", about="Lan", replaces=f"fact:{old['id']}")
    assert new["status"] == "replaced"
    assert [one["id"] for one in await desk.found("where I live")] == [f"fact:{new['id']}"]
    assert await desk.found("Đà Nẵng") == []
    replaced = await desk.do("fetch", id=f"fact:{old['id']}")
    assert replaced["metadata"]["replaced_by"] == new["id"]


async def test_a_search_raises_no_query_count(desk: Desk) -> None:
    id = (await desk.fill(TEXT))["experience"]
    for _ in range(2):
        assert any(one["id"] == id for one in await desk.found("kestrel tower"))
        assert (await desk.do("fetch", id=id))["metadata"]["query_count"] == 0
    assert (await desk.do("get_experience", id=id))["data"]["query_count"] == 0


async def test_ids_that_two_kinds_share_hide_nothing(desk: Desk) -> None:
    """They are unique within a kind only."""
    for tool, method in (("facts", "import_facts"), ("experiences", "import_experiences")):
        operation = desk.hub.registry.methods[f"{tool}-server/{method}"]
        record = {"id": "same", "title": TEXT, "problem_description": TEXT, "solution": TEXT}
        lines = {"lines": [{"id": "same", "text": TEXT}]} if tool == "facts" else {"experiences": [record]}
        assert (await desk.hub.registry.call(operation, lines, desk.call)).error is None
    assert {one["id"] for one in await desk.found("kestrel tower")} == {"fact:same", "exp:same"}


async def test_recent_shows_what_changed_last_first(desk: Desk) -> None:
    ids = await desk.fill(TEXT)
    results = (await desk.do("recent"))["results"]
    assert {one["kind"]: one["id"] for one in results} == ids
    whens = [one["when"] for one in results]
    assert whens == sorted(whens, reverse=True)
    for one in results:
        assert one.keys() - {"metadata"} == {"id", "kind", "title", "text", "url", "when"}
        assert "kestrel" in one["text"]
    await desk.do("update_fact", id=ids["fact"], text="The kestrel has left.")
    [first] = (await desk.do("recent", limit=1))["results"]
    assert (first["id"], first["text"]) == (ids["fact"], "The kestrel has left.")
    since = first["when"]
    assert [one["id"] for one in (await desk.do("recent", since=since))["results"]] == [ids["fact"]]
    assert [one["kind"] for one in (await desk.do("recent", kinds=["document"]))["results"]] == ["document"]
    assert "There is no kind 'x'" in (await desk.refused("recent", kinds=["x"])).message
    assert (await desk.do("recent", since="2100-01-01T00:00:00Z"))["results"] == []


async def test_recent_of_one_project(desk: Desk) -> None:
    """As in `search`: facts about it, and conversations that are labelled with it; the other kinds have no subject."""
    await desk.fill(TEXT)
    fact = await desk.do("remember", text="The shop is deployed on Fridays.", about="The Shop")
    await desk.do("remember", text="The garden is watered on Mondays.", about="garden")
    for conversation, user in (("c-1", "the shop"), ("c-2", "garden")):
        await desk.do("memory_get_or_create", conversation_id=conversation, user_id=user)
        await desk.do("memory_add_message", conversation_id=conversation, role="user", content="Ship it.")
    for about in ("The Shop", "the SHOP"):
        found = (await desk.do("recent", about=about))["results"]
        assert [one["id"] for one in found] == ["msg:c-1/1", f"fact:{fact['id']}"]
    assert (await desk.do("recent", about="the shop", kinds=["document"]))["results"] == []
    assert (await desk.do("recent", about="the shop", since="2100-01-01T00:00:00Z"))["results"] == []


async def test_long_passages_are_cut_to_what_was_asked_for(desk: Desk) -> None:
    long = "Nothing of interest here. " * 400 + TEXT
    await desk.do("submit_experience", title="Notes", problem_description=long, solution="Read it.")
    [one] = await desk.found("kestrel tower")
    assert len(one["text"]) < 2_100
    assert "kestrel" in one["text"]
    [one] = (await desk.do("recent"))["results"]
    assert len(one["text"]) < 510


async def test_it_says_that_vectors_are_missing(tmp_path: Path) -> None:
    search = Search(embedder=Embedding(provider="hash"))
    settings = Settings(home=tmp_path / "home", database_url=None, search=search)
    async with open_hub(settings, only=["facts", "recall"]) as hub:  # as for a command: nothing computes vectors
        desk = Desk(hub)
        await desk.do("remember", text=TEXT)
        await desk.as_("globex").do("remember", text=TEXT)
        await desk.as_("globex").do("remember", text="The kettle is on.")
        answer = await desk.do("search", query="kestrel")
        assert (len(answer["results"]), answer["vectors_pending"]) == (1, 1)
        assert "vectors_pending" not in await desk.do("search", query="kestrel", kinds=["document"])
