"""multilingual-e5-small as plain functions of texts; `e5` runs it off the event loop."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kho.models.e5_encoder import Encoder
from kho.models.e5_file import File, find
from kho.models.e5_tokens import Tokenizer

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

QUERY = "query: "
PASSAGE = "passage: "
"""The model was trained with these words in front."""
WINDOWS = 8
"""A longer text than the model takes is read in this many parts, and the vectors averaged; the rest has no say."""
CHARACTERS = 100_000
"""More cannot matter within these parts."""
STEP_TOKENS = 1024
"""How many tokens go through the layers together: enough for BLAS, little enough for the cache."""


@dataclass(frozen=True, slots=True)
class States:
    """One text as the model read it: its vector, and the state of each of its tokens."""

    vector: "Vector"
    tokens: "Matrix"
    """One row per token of the text, not of length 1. The prefix and the marks of begin and end are left out."""
    spans: list[tuple[int, int]]
    """Which characters of the text (see `e5_tokens.clean`) each row covers."""


class Runtime:
    def __init__(self, file: File | None = None) -> None:
        file = file or File(find())
        self._encoder = Encoder(file)
        self._tokenizer = Tokenizer(file.vocabulary())
        self.window = file.shape.positions - 2
        """Tokens that fit beside the marks of begin and end."""

    def count(self, text: str, prefix: str = "") -> int:
        """Tokens of a text, the marks of begin and end included."""
        return len(self._tokenizer.ids(prefix + text, len(prefix) + 4 * len(text) + 1)) + 2

    def vectors(self, texts: Sequence[str], prefix: str, windows: int = WINDOWS) -> "Matrix":
        """One vector of length 1 per text."""
        import numpy as np

        vectors = np.zeros((len(texts), self._encoder.shape.width), np.float32)
        parts = [
            (number, part)
            for number, text in enumerate(texts)
            for part in self._parts(self._tokenizer.ids(prefix + text[:CHARACTERS], windows * self.window))
        ]
        for step in self._steps(parts):
            for (number, part), states in zip(step, self._encoder.states([part for _, part in step]), strict=True):
                # Each part weighs as much as it has tokens of the text; the mean includes the two marks.
                vectors[number] += states.mean(axis=0) * max(1, len(part) - 2)
        return _unit(vectors)

    def states(self, text: str, prefix: str) -> States:
        """The first window of a text, token by token."""
        [states] = self.encode([text], prefix)
        return states

    def encode(self, texts: Sequence[str], prefix: str) -> list[States]:
        """The first window of each text, token by token: for vectors of sentences and for late interaction."""
        cuts = [self._tokenizer.tokens(prefix + text[:CHARACTERS], self.window) for text in texts]
        found: list[States] = []
        for step in self._steps([(number, self._marked(cut.ids)) for number, cut in enumerate(cuts)]):
            for (number, _), states in zip(step, self._encoder.states([part for _, part in step]), strict=True):
                found.append(_states(states, cuts[number].spans, len(prefix)))
        return found

    def _parts(self, ids: list[int]) -> list[list[int]]:
        return [self._marked(ids[at : at + self.window]) for at in range(0, len(ids), self.window)]

    def _marked(self, ids: list[int]) -> list[int]:
        return [self._tokenizer.begin, *ids, self._tokenizer.end]

    def _steps(self, parts: list[tuple[int, list[int]]]) -> Iterator[list[tuple[int, list[int]]]]:
        """Bundles parts to about the size that suits the machine."""
        step: list[tuple[int, list[int]]] = []
        size = 0
        for part in parts:
            if step and size + len(part[1]) > STEP_TOKENS:
                yield step
                step, size = [], 0
            step.append(part)
            size += len(part[1])
        if step:
            yield step


def _states(states: "Matrix", spans: list[tuple[int, int]], prefix: int) -> States:
    import numpy as np

    kept = [row for row, (_, end) in enumerate(spans) if end > prefix]
    return States(
        vector=_unit(states.mean(axis=0, keepdims=True))[0],
        tokens=states[1:-1][np.asarray(kept, np.int64)],
        spans=[(max(0, spans[row][0] - prefix), spans[row][1] - prefix) for row in kept],
    )


def _unit(vectors: "Matrix") -> "Matrix":
    import numpy as np

    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors
