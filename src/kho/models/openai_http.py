"""Embeddings of any server that speaks OpenAI's protocol: OpenAI, Ollama, vLLM, TEI, LM Studio and others."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from kho.kernel.errors import Unavailable
from kho.models.service import Service, together
from kho.models.texts import named, sendable

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

TEXT = 24_000
"""Characters of one text that are sent. Servers refuse what is longer than their model reads."""
REQUEST = 200_000
"""Characters in one request."""
QUERY_ATTEMPTS = 2
"""Somebody waits, and can be answered by words."""


@dataclass(frozen=True, slots=True)
class Wanted:
    model: str
    dimension: int | None = None
    """How long the vectors are. Learnt from the server when it is not said here."""
    ask_dimension: bool = False
    """Asks for that length: for models that can shorten their vectors. Others refuse it."""
    query_prefix: str = ""
    passage_prefix: str = ""
    batch: int = 64
    concurrency: int = 4


class OpenAIEmbedder:
    def __init__(self, service: Service, wanted: Wanted) -> None:
        self._service = service
        self._wanted = wanted
        self._dimension = wanted.dimension
        self._room = asyncio.Semaphore(wanted.concurrency)

    @property
    def model(self) -> str:
        """The server's address is no part of it: a model may move. What changes its vectors is."""
        shortened = self._wanted.dimension if self._wanted.ask_dimension else None
        return named(f"openai/{self._wanted.model}", self._wanted.passage_prefix, shortened)

    async def dimension(self) -> int:
        if self._dimension is None:
            await self.query("dimension")
        if self._dimension is None:
            raise AssertionError("an answer tells the dimension")
        return self._dimension

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        import numpy as np

        prefix = self._wanted.passage_prefix
        if not texts:
            return np.empty((0, await self.dimension()), np.float32)

        async def embed(batch: list[str]) -> "Matrix":
            async with self._room:
                return await self._embed(batch)

        return np.concatenate(await together(embed(batch) for batch in self._batches(texts, prefix)))

    async def query(self, text: str) -> "Vector":
        [vector] = await self._embed([self._wanted.query_prefix + text[:TEXT]], QUERY_ATTEMPTS)
        return vector

    async def aclose(self) -> None:
        await self._service.aclose()

    def _batches(self, texts: Sequence[str], prefix: str) -> Iterator[list[str]]:
        batch: list[str] = []
        size = 0
        for text in texts:
            text = prefix + text[:TEXT]
            if batch and (len(batch) >= self._wanted.batch or size + len(text) > REQUEST):
                yield batch
                batch, size = [], 0
            batch.append(text)
            size += len(text)
        yield batch

    async def _embed(self, texts: list[str], attempts: int | None = None) -> "Matrix":
        wanted = self._wanted
        body: dict[str, Any] = {
            "model": wanted.model,
            "input": [sendable(text) for text in texts],
            "encoding_format": "float",
        }
        if wanted.ask_dimension and wanted.dimension:
            body["dimensions"] = wanted.dimension
        vectors = await self._service.post("/embeddings", body, partial(_vectors, count=len(texts)), attempts=attempts)
        if self._dimension is None:
            self._dimension = vectors.shape[1]
        if vectors.shape[1] != self._dimension:
            raise Unavailable(f"{wanted.model} gave {vectors.shape[1]} numbers a vector instead of {self._dimension}")
        return vectors


def _vectors(answer: Any, count: int) -> "Matrix":
    """Puts the vectors in the order of the texts and gives them length 1."""
    import numpy as np

    items = answer["data"]
    if len(items) != count:
        raise Unavailable(f"the embedding server sent {len(items)} vectors for {count} texts")
    places = [item["index"] for item in items]
    if sorted(places) != list(range(count)):
        raise Unavailable("the embedding server did not number its vectors properly")
    rows: list[Any] = [None] * count
    for place, item in zip(places, items, strict=True):
        rows[place] = item["embedding"]
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        raise Unavailable("the embedding server sent vectors of different lengths")
    vectors = np.asarray(rows, np.float64)  # null becomes NaN; ValueError on words
    if vectors.ndim != 2:
        raise Unavailable("the embedding server sent vectors of vectors")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not lengths.all():
        raise Unavailable("the embedding server sent a vector that is no direction")
    return (vectors / lengths).astype(np.float32)
