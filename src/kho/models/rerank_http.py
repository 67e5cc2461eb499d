"""Rerankers over HTTP: Cohere's and Jina's protocol, which vLLM and others share, and that of Hugging Face's TEI."""

import asyncio
import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from kho.kernel.errors import Unavailable
from kho.models.http_client import ModelClient, gather_all
from kho.models.settings import Protocol
from kho.models.text import sendable

MAX_TEXT = 8_000
"""Characters of one text that are sent: rerankers read less than embedders."""
ATTEMPTS = 2
"""Few, because a caller waits, and can be answered without reranking."""


class HttpReranker:
    def __init__(
        self, service: ModelClient, protocol: Protocol, model: str = "", *, batch: int = 32, concurrency: int = 4
    ) -> None:
        self._service = service
        self._protocol: Protocol = protocol
        self._model = model
        self._batch = batch
        self._room = asyncio.Semaphore(concurrency)
        self._logits = False
        """True once this server has sent a score above 1 or below 0."""

    async def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        async def score(batch: Sequence[str]) -> list[float]:
            async with self._room:
                return await self._score(query, batch)

        starts = range(0, len(passages), self._batch)
        batches = await gather_all(score(passages[at : at + self._batch]) for at in starts)
        raw = [number for batch in batches for number in batch]
        self._logits = self._logits or any(not 0.0 <= number <= 1.0 for number in raw)
        return into_unit(raw, logits=self._logits)

    async def aclose(self) -> None:
        await self._service.aclose()

    async def _score(self, query: str, passages: Sequence[str]) -> list[float]:
        texts = [sendable(text[:MAX_TEXT]) for text in passages]
        body: dict[str, Any] = {"query": sendable(query[:MAX_TEXT])}
        if self._protocol == "tei":
            body |= {"texts": texts, "truncate": True}
        else:
            body |= {"model": self._model, "documents": texts, "top_n": len(texts)}
            if self._protocol == "jina":
                body["return_documents"] = False
        read = partial(_numbers, protocol=self._protocol, count=len(texts))
        return await self._service.post("/rerank", body, read, attempts=ATTEMPTS)


def _numbers(answer: Any, protocol: Protocol, count: int) -> list[float]:
    """Return the scores in the order of the passages; servers send the best first."""
    items, key = (answer, "score") if protocol == "tei" else (answer["results"], "relevance_score")
    found = {int(item["index"]): float(item[key]) for item in items}
    if len(items) != count or sorted(found) != list(range(count)):
        raise Unavailable(f"the reranking server sent {len(items)} scores for {count} passages")
    return [found[place] for place in range(count)]


def into_unit(numbers: Iterable[float], *, logits: bool) -> list[float]:
    """Convert logits to 0..1 with the sigmoid; leave probabilities unchanged."""
    found = list(numbers)
    if not all(map(math.isfinite, found)):
        raise Unavailable("the reranker gave a score that is not a number")
    # Written with tanh, which never overflows.
    return [0.5 + 0.5 * math.tanh(number / 2) for number in found] if logits else found
