"""Remembering: what goes in can be found, the same is kept once, and what was replaced gives way to the newer."""

import asyncio
import unicodedata
from pathlib import Path

import pytest
from tests.facts.conftest import Desk, MakeDesk

from kho.app import open_hub
from kho.evaluation.hub_client import hub_client
from kho.kernel.errors import UniqueViolation
from kho.kernel.ports import Database, Tx
from kho.models.settings import Embedding
from kho.settings import Search, Settings

LANGUAGES = {
    "vi": ("Lan thích uống trà xanh vào buổi sáng.", "trà xanh"),
    "zh": ("服务器的备份每天凌晨三点开始。", "备份"),
    "en": ("We deploy on Tuesdays and never on Fridays.", "deploy"),
}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_fact_is_found_at_once(desk: Desk, language: str) -> None:
    text, query = LANGUAGES[language]
    done = await desk.do("remember", text=f"  {text}\n")
    assert done["status"] == "remembered"
    assert done["fact"] == {
        "id": done["id"],
        "text": text,
        "tags": [],
        "said_by": "somebody",
        "created_at": done["fact"]["created_at"],
        "updated_at": done["fact"]["created_at"],
        "revision": 1,
    }
    assert await desk.found(query) == [text]
    assert await desk.listed() == [text]
    assert await desk.do("get_fact", id=done["id"]) == done["fact"]


async def test_all_fields_are_kept(desk: Desk) -> None:
    later = desk.clock.later(3_600)
    done = await desk.do(
        "remember",
        "lan",
        text="Ship only from main.",
        tags=["release", " Git ", "release"],
        about="  Dự án   Kho ",
        source="https://example.com/notes",
        expires_at=later,
    )
    fact = done["fact"]
    assert (fact["about"], fact["tags"], fact["source"]) == (
        "Dự án Kho",
        ["release", "Git"],
        "https://example.com/notes",
    )
    assert (fact["expires_at"], fact["said_by"]) == (later, "lan")
    assert (await desk.trail())[-1].actor == "lan"
    assert await desk.listed(about="DU AN KHO") == ["Ship only from main."]
    assert await desk.listed(tags=["Git", "release"]) == ["Ship only from main."]
    assert await desk.listed(tags=["git"]) == []
    assert await desk.found("Kho") == ["Ship only from main."]  # whom it is about helps to find it


@pytest.mark.parametrize(
    ("text", "about", "again", "same_about"),
    [
        ("I prefer pnpm.", None, "I prefer pnpm.", None),
        ("Tôi sống ở Huế.", "Lan", unicodedata.normalize("NFD", "Tôi sống ở Huế."), "LAN"),
        ("我住在北京。", "Dự án Kho", "  我住在北京。\n", "du an  kho"),
        ("Backups run at night.", "ＫＨＯ", "Backups run at night.", "kho"),
    ],
)
async def test_the_same_is_kept_once(
    desk: Desk, text: str, about: str | None, again: str, same_about: str | None
) -> None:
    first = await desk.do("remember", text=text, about=about)
    before = await desk.everything()
    second = await desk.do("remember", "another", text=again, about=same_about)
    assert (second["status"], second["id"], second["fact"]) == ("known", first["id"], first["fact"])
    assert second["similar"] == []
    assert await desk.everything() == before
    assert desk.told == [(desk.tenant, None), (desk.tenant, f"fact://{first['id']}")]


async def test_the_same_about_somebody_else_is_another_fact(desk: Desk) -> None:
    ids = {await desk.remember("Likes tea.", about=about) for about in ("Lan", "Minh", None)}
    assert len(ids) == 3
    assert await desk.listed(about="minh") == ["Likes tea."]


async def test_new_tags_of_a_known_fact_are_added(desk: Desk) -> None:
    id = await desk.remember("We use PostgreSQL.", tags=["db"])
    done = await desk.do("remember", "lan", text="We use PostgreSQL.", tags=["db", "ops"])
    assert (done["status"], done["id"], done["fact"]["tags"], done["fact"]["revision"]) == (
        "known",
        id,
        ["db", "ops"],
        2,
    )
    assert [row.actor for row in await desk.trail()] == ["somebody", "lan"]
    assert await desk.listed(tags=["ops"]) == ["We use PostgreSQL."]
    assert await desk.found("PostgreSQL", tags=("ops",)) == ["We use PostgreSQL."]


async def test_the_same_as_a_forgotten_one_brings_it_back(desk: Desk) -> None:
    id = await desk.remember("The door code changed.")
    await desk.do("forget", id=id)
    assert await desk.found("door code") == []
    done = await desk.do("remember", text="The door code changed.")
    assert (done["status"], done["id"]) == ("restored", id)
    assert "forgotten_at" not in done["fact"]
    assert await desk.found("door code") == ["The door code changed."]
    assert [row.details.get("status") for row in await desk.trail()] == ["remembered", None, "restored"]


async def test_the_same_at_the_same_moment_is_kept_once(desk: Desk) -> None:
    said = [desk.do("remember", f"caller {n}", text="Everybody says this.", tags=["t"]) for n in range(12)]
    answers = await asyncio.gather(*said)
    assert len({answer["id"] for answer in answers}) == 1
    assert sorted(answer["status"] for answer in answers) == ["known"] * 11 + ["remembered"]
    assert await desk.listed() == ["Everybody says this."]
    assert len(await desk.trail()) == 1


async def test_the_loser_of_a_race_is_told_that_it_is_known(
    desk: Desk, shared_database: Database, make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for an equal fact and the insert, another process stores one: the unique index decides."""
    other = make_desk()
    other.tenant = desk.tenant
    looked = asyncio.Event()
    wins = asyncio.Event()
    write = shared_database.write
    attempts = 0

    async def slow(work: object) -> object:
        """The first attempt finds nothing, and is then told by the database that there is one."""
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            looked.set()
            await wins.wait()
            raise UniqueViolation
        return await write(work)  # type: ignore[arg-type]  # whatever the service writes

    monkeypatch.setattr(shared_database, "write", slow)
    late = asyncio.create_task(desk.do("remember", text="First come, first served."))
    await looked.wait()
    first = await other.do("remember", text="First come, first served.")
    wins.set()
    assert (await late)["status"] == "known"
    assert (await late)["id"] == first["id"]
    assert attempts == 3


async def test_nothing_is_left_of_a_write_that_fails(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    old = await desk.remember("I live in Đà Nẵng.")
    before = await desk.everything()

    def fails(tx: Tx, *_: object, **__: object) -> None:
        raise RuntimeError("the machine stops here")

    monkeypatch.setattr("kho.kernel.call.record", fails)
    for arguments in ({"text": "Never stored."}, {"text": "I moved to Huế.", "replaces": old}):
        await desk.refused("remember", **arguments)
    await desk.refused("forget", id=old)
    await desk.refused("update_fact", id=old, text="Never changed.")
    monkeypatch.undo()
    assert await desk.everything() == before
    assert await desk.found("never stored") == []
    assert await desk.found("Đà Nẵng") == ["I live in Đà Nẵng."]


# -- replacing ---------------------------------------------------------------------------------------------------------


async def test_the_newer_is_shown_and_history_keeps_both(desk: Desk) -> None:
    old = await desk.remember("I live in Đà Nẵng.", about="me")
    done = await desk.do("remember", "lan", text="I moved to Huế.", about="me", replaces=old)
    assert done["status"] == "replaced"
    assert "I live in Đà Nẵng." in done["message"]
    assert await desk.listed(about="me") == ["I moved to Huế."]
    assert await desk.found("Đà Nẵng") == []
    assert await desk.found("Huế") == ["I moved to Huế."]
    assert (await desk.do("get_fact", id=old))["replaced_by"] == done["id"]
    for id in (old, done["id"]):
        history = await desk.do("fact_history", id=id)
        assert history["id"] == done["id"]
        said = [(one["text"], one["said_by"], one["state"]) for one in history["entries"]]
        assert said == [("I moved to Huế.", "lan", "current"), ("I live in Đà Nẵng.", "somebody", "replaced")]
    row = (await desk.trail())[-1]
    assert (row.subject, row.details) == (done["id"], {"status": "replaced", "replaces": old})


async def test_replacing_what_was_replaced_is_a_conflict_that_shows_the_newest(desk: Desk) -> None:
    first = await desk.remember("The server is called alpha.")
    second = await desk.remember("The server is called beta.", replaces=first)
    third = await desk.remember("The server is called gamma.", replaces=second)
    for operation, arguments in (
        ("remember", {"text": "The server is called delta.", "replaces": first}),
        ("update_fact", {"id": first, "text": "The server is called delta."}),
        ("forget", {"id": first}),
        ("restore_fact", {"id": second}),
    ):
        error = await desk.refused(operation, **arguments)
        assert (error.code, error.status) == ("CONFLICT", 409)
        assert error.details == {"newer": {"id": third, "text": "The server is called gamma."}}
        assert "gamma" in error.message


async def test_only_one_of_several_who_replace_at_once_succeeds(desk: Desk) -> None:
    old = await desk.remember("The meeting is on Monday.")
    days = ("Tuesday", "Wednesday", "Thursday", "Friday")
    calls = [desk.ask("remember", {"text": f"The meeting is on {day}.", "replaces": old}, desk.call()) for day in days]
    answers = await asyncio.gather(*calls)
    done = [answer for answer in answers if isinstance(answer, dict)]
    assert [answer["status"] for answer in done] == ["replaced"]
    assert await desk.listed() == [done[0]["fact"]["text"]]


async def test_what_was_replaced_can_become_true_again(desk: Desk) -> None:
    first = await desk.remember("I live in Đà Nẵng.")
    second = await desk.remember("I live in Huế.", replaces=first)
    third = await desk.do("remember", text="I live in Đà Nẵng.", replaces=second)
    assert third["status"] == "replaced"
    assert third["id"] not in (first, second)
    assert await desk.listed() == ["I live in Đà Nẵng."]
    history = await desk.do("fact_history", id=first)
    assert [one["id"] for one in history["entries"]] == [third["id"], second, first]


async def test_a_fact_that_is_there_can_take_the_place_of_another(desk: Desk) -> None:
    """The way the reply to `remember` asks for: call again, with what it supersedes."""
    old = await desk.remember("Deploys are on Monday.")
    new = await desk.remember("Deploys are on Tuesday.")
    done = await desk.do("remember", text="Deploys are on Tuesday.", replaces=old)
    assert (done["status"], done["id"]) == ("replaced", new)
    assert await desk.listed() == ["Deploys are on Tuesday."]
    assert (await desk.do("remember", text="Deploys are on Tuesday.", replaces=new))["status"] == "known"


async def test_only_what_is_there_can_be_replaced(desk: Desk, make_desk: MakeDesk) -> None:
    assert (await desk.refused("remember", text="New.", replaces="no-such-id")).code == "NOT_FOUND"
    foreign = await make_desk().remember("Of another tenant.")
    assert (await desk.refused("remember", text="New.", replaces=foreign)).code == "NOT_FOUND"
    gone = await desk.remember("Gone.")
    await desk.do("forget", id=gone)
    error = await desk.refused("remember", text="New.", replaces=gone)
    assert error.code == "NOT_FOUND"
    assert "restore_fact" in error.guidance


# -- similar -----------------------------------------------------------------------------------------------------------


async def test_up_to_three_similar_facts_are_shown(desk: Desk) -> None:
    texts = [f"Lan likes green tea from {place}." for place in ("Thái Nguyên", "Lâm Đồng", "Hà Giang", "Phú Thọ")]
    ids = [await desk.remember(text, about="Lan") for text in texts]
    await desk.remember("The printer is on the second floor.")
    done = await desk.do("remember", text="Lan likes green tea from Sơn La.")
    assert len(done["similar"]) == 3
    assert {one["id"] for one in done["similar"]} <= {*ids}
    assert done["similar"][0].keys() == {"id", "text", "about", "when"}
    assert "replaces" in done["message"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("我喜欢喝绿茶。", "我喜欢喝红茶。"),
        ("Tôi thích uống trà xanh.", "Tôi thích uống trà sen."),
        ("We use PostgreSQL 16 in production.", "We use PostgreSQL 17 in production."),
    ],
)
async def test_similar_in_every_language(desk: Desk, old: str, new: str) -> None:
    id = await desk.remember(old)
    done = await desk.do("remember", text=new)
    assert [one["id"] for one in done["similar"]] == [id]


async def test_what_only_sounds_alike_is_not_similar(tmp_path: Path) -> None:
    """A model that has to choose would be led to replace a fact that is still true."""
    search = Search(patience=60, timeout=60, embedder=Embedding(provider="e5"))
    async with (
        open_hub(Settings(home=tmp_path, search=search), only=["facts"]) as hub,
        hub_client("memory", hub) as ask,
    ):
        for text in APART:
            await ask("remember", {"text": text})
        assert hub.backlog is not None
        assert (await hub.backlog.settle(lambda done, total: None)).left == 0
        for text in ("Con trai tôi học lớp ba trường Kim Đồng.", "Tôi nghe nhạc Trịnh khi nấu ăn."):
            assert (await ask("remember", {"text": text}))["similar"] == []
        done = await ask("remember", {"text": "The office closes at five on Fridays."})
        assert [one["text"] for one in done["similar"]] == ["The office closes at six."]


APART = (
    "The office closes at six.",
    "Ông nội để lại cho tôi chiếc đồng hồ quả lắc.",
    "Tôi ăn chay vào ngày rằm và mồng một.",
    "我每月给奶奶寄一千块钱。",
    "Tom is allergic to shrimp.",
    "We deploy only on Mondays.",
)


async def test_neither_itself_nor_what_is_gone_is_similar(desk: Desk) -> None:
    replaced = await desk.remember("The release train leaves on Monday.")
    forgotten = await desk.remember("The release train leaves on Tuesday.")
    await desk.remember("The release train leaves on Friday.", expires_at=desk.clock.later(60))
    await desk.do("forget", id=forgotten)
    desk.clock.pass_seconds(120)
    done = await desk.do("remember", text="The release train leaves on Wednesday.", replaces=replaced)
    assert done["similar"] == []
    assert (await desk.do("remember", text="A song about the sea."))["similar"] == []
