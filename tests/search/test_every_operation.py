"""What every operation that searches has to keep: words that nobody has do not hide the record, keywords find short
notes, and a search without vectors says so."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from bench.recall import COLLECTION, TARGETS

from kho.app import open_hub
from kho.evaluation.hub_client import Ask, hub_client
from kho.models.settings import Embedding
from kho.settings import Search, Settings

NOTES = (
    "I prefer pnpm over npm.",
    "My daughter is allergic to peanuts.",
    "The invoice of the plumber is filed under QX7 in the blue folder.",
    "Xe máy của tôi cần thay nhớt sau mỗi hai nghìn cây số.",
    "The staging server is called blorptrix and lives in the cellar.",
    "我早餐只吃燕麦和水果。",
    "Stand-up is at a quarter past nine, cameras on.",
    "Freeze bread in slices; it goes straight from the freezer into the toaster.",
)
WORDS = {"QX7": 2, "blorptrix": 4}
FORMS = ("{}", "title:{}", "-{}", "foo bar {}", "{}'; DROP TABLE x; --", "wibble-{}", "{} zzqx", "where is foo {}")

Ids = Mapping[str, list[str]]


@asynccontextmanager
async def stored(settings: Settings, *, settle: bool) -> AsyncGenerator[tuple[Ask, Ids]]:
    async with open_hub(settings) as hub, hub_client("memory", hub) as ask:
        await ask("manage_collections", {"action": "create", "collection_name": COLLECTION})
        await ask("memory_get_or_create", {"conversation_id": COLLECTION})
        ids = {
            name: [await target.put(ask, f"note-{place}", text) for place, text in enumerate(NOTES)]
            for name, target in TARGETS.items()
        }
        if settle:
            assert hub.backlog is not None
            assert (await hub.backlog.settle(lambda done, total: None)).left == 0
        yield ask, ids


@pytest.fixture(scope="module", params=["sqlite", "postgres", "sqlite with the model"])
async def asking(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Ask, Ids]]:
    url = request.getfixturevalue("module_schema_url") if request.param == "postgres" else None
    by_meaning = request.param.endswith("model")
    search = Search(patience=60, timeout=60, embedder=Embedding(provider="e5" if by_meaning else "none"))
    settings = Settings(home=tmp_path_factory.mktemp("home"), database_url=url, search=search)
    async with stored(settings, settle=by_meaning) as both:
        yield both


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("operation", TARGETS)
async def test_words_that_nobody_has_weigh_nothing(
    asking: tuple[Ask, Ids], operation: str, word: str, form: str
) -> None:
    ask, ids = asking
    found = await TARGETS[operation].ask(ask, form.format(word))
    assert [id for id, _ in found][:1] == [ids[operation][WORDS[word]]]


@pytest.fixture(scope="module")
async def by_meaning(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Ask, Ids]]:
    search = Search(patience=60, timeout=60, embedder=Embedding(provider="e5"))
    async with stored(Settings(home=tmp_path_factory.mktemp("home"), search=search), settle=True) as both:
        yield both


@pytest.mark.parametrize(
    ("keywords", "place"),
    [
        ("package manager", 0),
        ("food allergy", 1),
        ("bảo dưỡng xe", 3),
        ("饮食习惯", 5),
        ("daily meeting", 6),
        ("breakfast", 5),
        ("xe may", 3),
    ],
)
@pytest.mark.parametrize("operation", TARGETS)
async def test_keywords_find_a_short_note(
    by_meaning: tuple[Ask, Ids], operation: str, keywords: str, place: int
) -> None:
    ask, ids = by_meaning
    found = await TARGETS[operation].ask(ask, keywords)
    assert ids[operation][place] in [id for id, _ in found][:3]


@pytest.mark.parametrize("operation", TARGETS)
async def test_nonsense_is_never_called_relevant(by_meaning: tuple[Ask, Ids], operation: str) -> None:
    ask, _ = by_meaning
    for nonsense in ("qzxv wkjh plmf", "asdfghjkl", "khụych ngoẵm", "甴曱嚿", "ZQ-99821-KX"):
        assert {label for _, label in await TARGETS[operation].ask(ask, nonsense)} <= {"Low Relevance"}, nonsense


async def test_while_vectors_are_missing_the_reply_says_so(tmp_path: Path) -> None:
    # Nobody listens there.
    embedder = Embedding(provider="openai", url="http://127.0.0.1:9/v1", model="none")
    async with stored(Settings(home=tmp_path, search=Search(embedder=embedder)), settle=False) as (ask, _):
        memory = await ask("memory_search", {"query": "peanuts"})
        base = await ask("query_knowledge_base", {"query": "peanuts", "collections": COLLECTION})
        knowledge = await ask("query_knowledge", {"query": "peanuts"})
        experiences = await ask("query_experiences", {"keywords": "peanuts"})
    assert base["query_refinement"]["vectors_pending"] == len(NOTES)
    for notes in (memory["notes"], base["query_refinement"]["notes"], knowledge["degraded"]):
        assert _says_so(notes), notes
    # The contract fixes these fields.
    assert {*experiences["data"]} == {"experiences", "total", "limit", "offset"}


def _says_so(notes: Any) -> bool:
    return any("vectors; until then" in note or note.startswith("Keyword search only") for note in notes)


async def test_the_first_example_of_the_readme(by_meaning: tuple[Ask, Ids]) -> None:
    """It shares one common word with what it has to find."""
    ask, ids = by_meaning
    first, *_ = await TARGETS["search"].ask(ask, "which package manager do I like")
    assert first in {(ids["search"][0], label) for label in ("Relevant", "Very Relevant", "Highly Relevant")}
