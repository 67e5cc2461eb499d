"""What a model's cosines mean.

A model puts each language into a corner of its own: texts in different languages look less alike than they are, and
unrelated texts of one language more. Taking the middle of each language off makes cosines comparable across languages,
and tells nonsense from a match. Where these middles lie, and what related and unrelated texts get, is measured
once per model on sentences of our own (probes.py).
"""

import asyncio
import sys
from base64 import b85decode, b85encode
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import orjson

from kho.kernel.ports import Embedder
from kho.search.probes import PROBES

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

VERSION = 1
"""Goes up when the probes or the measure change: what was kept is then measured anew."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What cosines of unrelated and of related texts are like."""

    unrelated: float
    related: float

    def place(self, cosines: "Array") -> "Array":
        """0 for what is unrelated on average, 1 for what is related."""
        return (cosines - self.unrelated) / max(self.related - self.unrelated, 1e-3)


@dataclass(frozen=True, slots=True)
class Calibration:
    questions: "dict[str, Array]"
    passages: "dict[str, Array]"
    """The middle of each language, and under "" of all."""
    raw: Scale
    centred: Scale

    def likeness(self, question: "Array", spoken: str, vectors: "Array", written: list[str]) -> "tuple[Array, Array]":
        """How near passages are to a question, placed on the scales: as the model has it, and between languages."""
        import numpy as np

        middles = np.stack([self.passages.get(name, self.passages[""]) for name in written])
        centred = unit(vectors - middles) @ unit(question - self.questions.get(spoken, self.questions[""]))
        return self.raw.place(vectors @ question), self.centred.place(centred)

    def dump(self) -> str:
        return orjson.dumps(
            {
                "version": VERSION,
                "questions": {name: b85encode(middle.tobytes()).decode() for name, middle in self.questions.items()},
                "passages": {name: b85encode(middle.tobytes()).decode() for name, middle in self.passages.items()},
                "raw": [self.raw.unrelated, self.raw.related],
                "centred": [self.centred.unrelated, self.centred.related],
            }
        ).decode()

    @classmethod
    def load(cls, text: str) -> "Calibration | None":
        import numpy as np

        if not is_current(text):
            return None
        kept = orjson.loads(text)
        return cls(
            {name: np.frombuffer(b85decode(middle), np.float32) for name, middle in kept["questions"].items()},
            {name: np.frombuffer(b85decode(middle), np.float32) for name, middle in kept["passages"].items()},
            Scale(*kept["raw"]),
            Scale(*kept["centred"]),
        )


def is_current(text: str | None) -> bool:
    """Whether this was measured in the way that it would be measured now."""
    return text is not None and orjson.loads(text)["version"] == VERSION


async def numbers_at_hand() -> None:
    """Loads numpy off the event loop, which would stand still for a quarter of a second."""
    if "numpy" not in sys.modules:
        await asyncio.to_thread(import_module, "numpy")


async def measure(embedder: Embedder) -> Calibration:
    import numpy as np

    questions: dict[str, Array] = {}
    passages: dict[str, Array] = {}
    for name, pairs in PROBES.items():
        passages[name] = await embedder.passages([passage for passage, _ in pairs])
        questions[name] = np.stack([await embedder.query(question) for _, question in pairs])
    question_middles = _middles(questions)
    passage_middles = _middles(passages)
    raw: list[Array] = []
    centred: list[Array] = []
    for asked in PROBES:
        for written in PROBES:
            raw.append(passages[written] @ questions[asked].T)
            centred.append(
                unit(passages[written] - passage_middles[written]) @ unit(questions[asked] - question_middles[asked]).T
            )
    return Calibration(question_middles, passage_middles, _scale(raw), _scale(centred))


def unit(vectors: "Array") -> "Array":
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def _middles(vectors: "dict[str, Array]") -> "dict[str, Array]":
    import numpy as np

    middles = {name: rows.mean(axis=0) for name, rows in vectors.items()}
    return {**middles, "": np.mean(list(middles.values()), axis=0)}


def _scale(tables: "list[Array]") -> Scale:
    """From tables of cosines whose diagonals are the pairs that belong together."""
    import numpy as np

    related = np.concatenate([table.diagonal() for table in tables])
    others = np.concatenate([table[~np.eye(len(table), dtype=bool)] for table in tables])
    return Scale(float(others.mean()), float(related.mean()))
