"""multilingual-e5-small as plain functions of texts; `embedder` runs it off the event loop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kho.models.e5.encoder import Encoder
from kho.models.e5.tokenizer import Tokenizer
from kho.models.e5.weights import WeightsFile, find

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix

QUERY = "query: "
PASSAGE = "passage: "
"""Prefixes that the model was trained with."""
MAX_WINDOWS = 8
"""A text longer than the model's window is embedded in at most this many parts, whose vectors are averaged; the rest is
ignored."""
MAX_CHARACTERS = 100_000
"""More characters cannot matter within these parts."""


class Runtime:
    def __init__(self, file: WeightsFile | None = None) -> None:
        file = file or WeightsFile(find())
        self._encoder = Encoder(file)
        self._tokenizer = Tokenizer(file.vocabulary())
        self.window = file.shape.positions - 2
        """Tokens that fit beside the begin and end tokens."""

    def vectors(self, texts: Sequence[str], prefix: str, windows: int = MAX_WINDOWS) -> "Matrix":
        """Return one vector of length 1 per text."""
        import numpy as np

        vectors = np.zeros((len(texts), self._encoder.shape.width), np.float32)
        for number, text in enumerate(texts):
            for part in self._parts(self._tokenizer.ids(prefix + text[:MAX_CHARACTERS], windows * self.window)):
                # Each part weighs as much as it has tokens of the text; the mean includes the begin and end tokens.
                vectors[number] += self._encoder.states(part).mean(axis=0) * max(1, len(part) - 2)
        return _unit(vectors)

    def _parts(self, ids: list[int]) -> list[list[int]]:
        begin, end = self._tokenizer.begin, self._tokenizer.end
        return [[begin, *ids[at : at + self.window], end] for at in range(0, len(ids), self.window)]


def _unit(vectors: "Matrix") -> "Matrix":
    import numpy as np

    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors
