"""Rerankers: over HTTP from real servers, and what is said when a local one cannot be had."""

import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response
from tests.models.model_server import serving

from kho.kernel.errors import KhoError, Unavailable
from kho.kernel.ports import Reranker
from kho.models.factory import reranker
from kho.models.settings import Reranking


def made(url: str, provider: str, batch: int = 32, **config: Any) -> Reranker:
    settings: dict[str, Any] = {"provider": provider, "url": url, "model": "m", **config}
    model = reranker(Reranking(**settings), backoff=0.001, batch=batch)
    assert model is not None
    return model


@asynccontextmanager
async def client(url: str, provider: str, **config: Any) -> AsyncGenerator[Reranker, None]:
    model = made(url, provider, **config)
    try:
        yield model
    finally:
        await model.aclose()


def by_length(texts: list[str]) -> list[tuple[int, float]]:
    """Longer is better; the best first, as servers answer."""
    return sorted(((place, len(text) / 100) for place, text in enumerate(texts)), key=lambda pair: -pair[1])


async def like_cohere(body: Any) -> Response:
    best = by_length(body["documents"])[: body["top_n"]]
    return JSONResponse({"results": [{"index": place, "relevance_score": score} for place, score in best]})


async def like_tei(body: Any) -> Response:
    return JSONResponse([{"index": place, "score": score} for place, score in by_length(body["texts"])])


@pytest.mark.parametrize("provider", ["cohere", "jina", "tei"])
async def test_scores_come_in_the_order_of_the_passages(provider: str) -> None:
    async with (
        serving(like_tei if provider == "tei" else like_cohere) as server,
        client(server.url, provider, batch=2, api_key="k") as model,
    ):
        assert await model.scores("câu hỏi", ["abc", "a", "abcdef", "", "ab"]) == [0.03, 0.01, 0.06, 0.01, 0.02]
        assert [asked.path for asked in server.asked] == ["/v1/rerank"] * 3
        assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer k"}
        assert await model.scores("q", []) == []


async def test_the_requests_are_those_of_the_protocols() -> None:
    async with serving() as server:
        for provider, answer in (("cohere", like_cohere), ("jina", like_cohere), ("tei", like_tei)):
            server.usual = answer
            async with client(server.url, provider) as model:
                await model.scores("q", ["a", "\ud800"])
        shared = {"query": "q", "model": "m", "documents": ["a", "\ufffd"], "top_n": 2}
        assert [asked.body for asked in server.asked] == [
            shared,
            shared | {"return_documents": False},
            {"query": "q", "texts": ["a", "\ufffd"], "truncate": True},
        ]


async def test_logits_go_through_the_sigmoid_from_then_on() -> None:
    async with serving() as server, client(server.url, "tei") as model:
        server.answers = [
            JSONResponse([{"index": 0, "score": 1000.0}, {"index": 1, "score": -3.0}]),
            JSONResponse([{"index": 0, "score": 0.0}]),
        ]
        assert await model.scores("q", ["a", "b"]) == pytest.approx([1.0, 1 / (1 + math.exp(3))])
        assert await model.scores("q", ["a"]) == [0.5]


@pytest.mark.parametrize(
    "wrong",
    [
        {"results": []},
        {"results": [{"index": 1, "relevance_score": 0.5}]},
        {"results": [{"index": 0, "relevance_score": 0.5}] * 2},
        {"results": [{"index": 0, "relevance_score": None}]},
        {"results": [{"index": 0, "relevance_score": "NaN"}]},
        {"results": [{"index": 0}]},
        {"message": "no"},
        [],
    ],
)
async def test_a_wrong_answer_is_refused(wrong: Any) -> None:
    async with serving() as server:
        server.answers = [JSONResponse(wrong)]
        async with client(server.url, "cohere") as model:
            with pytest.raises(Unavailable):
                await model.scores("q", ["a"])


async def test_a_busy_server_is_asked_twice() -> None:
    async with serving(like_cohere) as server:
        server.answers = [Response(status_code=503)]
        async with client(server.url, "jina") as model:
            assert await model.scores("q", ["abc"]) == [0.03]
            server.answers = [Response(status_code=503)] * 5
            with pytest.raises(Unavailable, match="503"):
                await model.scores("q", ["abc"])
            assert len(server.asked) == 4


@pytest.mark.parametrize("package", ["fastembed", "sentence-transformers"])
async def test_a_missing_package_is_named(package: str) -> None:
    async with client("", package) as model:
        with pytest.raises(Unavailable, match=f"pip install {package}"):
            await model.scores("q", ["a"])
        assert await model.scores("q", []) == []


def test_none_and_wrong_settings() -> None:
    assert reranker(Reranking()) is None
    for config, words in (
        ({"provider": "x"}, "should be 'cohere'"),
        ({"url": ""}, "needs a url"),
        ({"model": ""}, "name"),
    ):
        settings: dict[str, Any] = {"url": "http://localhost", "provider": "cohere", **config}
        with pytest.raises((KhoError, ValidationError), match=words):
            made(**settings)
