"""A store of a few short messages: nonsense finds next to nothing, and what is meant finds its own."""

from collections.abc import AsyncIterator, Mapping

import pytest
from tests.search.conftest import Core, T, Watched, by_meaning, doc
from tests.search.gibberish import gibberish

from kho.kernel.ports import SearchFilter
from kho.models.hash_embedder import HashEmbedder
from kho.search.query.searcher import Searcher

STORES: Mapping[str, tuple[str, ...]] = {
    "one": ("The invoice number is INV-2041.",),
    "greetings": ("ok", "Hello.", "xin chào", "你好"),
    "vi": ("Tôi bị đau răng hàm bên trái.", "Anh nên đi chụp phim.", "mua sữa"),
    "zh": ("我的牙齿很敏感。", "买牛奶"),
    "en": ("My name is An, and I have an appointment on 12/05.", "Meeting at noon.", "buy milk"),
    "mixed": (
        "Remind me of the invoice INV-2041.",
        "Chào anh An, răng nào bị đau ạ?",
        "我从小对青霉素过敏。",
        "Thanks, that helps.",
        "Let me think about it and get back to you.",
    ),
}
ASKED = (*gibberish(31), *gibberish(32), "zxqv blorp", "blorp", "asdf qwer", "zzqx vwk")


LOW = 0.35
"""The score below which a result is called of low relevance."""


@pytest.mark.parametrize("store", STORES)
async def test_nonsense_finds_nothing_by_words(core: Core, store: str) -> None:
    await core.ready(*(doc(text, text) for text in STORES[store]))
    searcher = Searcher(core.db, core.words)
    answered = {text: (await searcher.search(T, text)).hits for text in ASKED}
    assert {text: hits for text, hits in answered.items() if hits} == {}


@pytest.mark.parametrize("store", STORES)
async def test_what_nonsense_finds_with_a_model_that_cannot_tell_scores_low(core: Core, store: str) -> None:
    core = core.beside(Watched(HashEmbedder(1024)))  # with fewer numbers, words share some by chance
    await core.ready(*(doc(text, text) for text in STORES[store]))
    answered = {text: (await core.searcher.search(T, text)).hits for text in ASKED}
    loud = {text: hits[0].score for text, hits in answered.items() if hits and hits[0].score >= LOW}
    assert len(loud) <= 1, loud


@pytest.fixture(scope="module")
async def searcher() -> AsyncIterator[Searcher]:
    """All stores with the real model, a tenant each."""
    documents = (doc(text, text, tenant=name) for name, texts in STORES.items() for text in texts)
    async with by_meaning(documents) as searcher:
        yield searcher


@pytest.mark.parametrize("store", STORES)
async def test_nonsense_finds_little_by_meaning_and_scores_low(searcher: Searcher, store: str) -> None:
    found = {text: (await searcher.search(SearchFilter("s", store), text)).hits for text in ASKED}
    best = {text: hits[0].score for text, hits in found.items() if hits}
    assert {text: score for text, score in best.items() if score >= LOW} == {}
    assert len(best) < 0.2 * len(ASKED)  # 8 or 9 of 76, which look like words to the model


@pytest.mark.parametrize(
    ("store", "asked", "text"),
    [
        ("vi", "toothache", "Tôi bị đau răng hàm bên trái."),
        ("vi", "牙痛", "Tôi bị đau răng hàm bên trái."),
        ("vi", "dau rang", "Tôi bị đau răng hàm bên trái."),
        ("zh", "tooth sensitivity", "我的牙齿很敏感。"),
        ("zh", "răng ê buốt", "我的牙齿很敏感。"),
        ("zh", "mua sữa", "买牛奶"),
        ("en", "mua sữa ở đâu", "buy milk"),
        ("greetings", "greeting", "Hello."),
        ("mixed", "drug allergy", "我从小对青霉素过敏。"),
        ("mixed", "dị ứng thuốc", "我从小对青霉素过敏。"),
        ("mixed", "inv-2041", "Remind me of the invoice INV-2041."),
        ("one", "the number of the bill", "The invoice number is INV-2041."),
    ],
)
async def test_what_is_meant_is_found_in_a_tiny_store(searcher: Searcher, store: str, asked: str, text: str) -> None:
    hits = (await searcher.search(SearchFilter("s", store), asked)).hits
    assert [hit.passage.text for hit in hits][:1] == [text]
