"""An embedder without a model, for tests: hashes words and parts of words into a vector.

Texts that share words are similar. It has no semantics.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

_words = re.compile(r"\w+")


class HashEmbedder:
    def __init__(self, dimension: int = 256) -> None:
        self._dimension = dimension

    @property
    def model(self) -> str:
        return f"hash/{self._dimension}"

    async def dimension(self) -> int:
        return self._dimension

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        import numpy as np

        vectors = np.zeros((len(texts), self._dimension), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for feature in _features(text):
                number = _number(feature)
                row[(number >> 1) % self._dimension] += 1.0 if number & 1 else -1.0
            if not row.any():  # an empty text still needs a vector of length 1
                row[0] = 1.0
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    async def query(self, text: str) -> "Vector":
        [vector] = await self.passages([text])
        return vector

    async def aclose(self) -> None:
        """Does nothing: no resources."""


def _features(text: str) -> list[str]:
    features: list[str] = []
    for word in _words.findall(text.casefold()):
        features.append(word)
        marked = f"<{word}>"
        features += [marked[at : at + 3] for at in range(len(marked) - 2)]
    return features


@lru_cache(maxsize=100_000)
def _number(feature: str) -> int:
    digest = hashlib.blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")
