"""What a model's cosines mean.

A model puts each language into a corner of its own: texts in different languages look less alike than they are, and
unrelated texts of one language more. Taking the middle of each language off makes cosines comparable across languages,
and tells nonsense from a match. Where these middles lie, and what related and unrelated texts get, is measured
once per model on sentences of our own (probes.py).

A short text is near to everything, nonsense included, so one floor for all passages would be too low for these or too
high for the others. What nonsense gets is therefore told of each passage by itself, and how much a
question is like nonsense decides how far above that it has to come.
"""

import asyncio
import sys
from base64 import b85decode, b85encode
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

import orjson

from kho.kernel.ports import Embedder
from kho.search.calibration.probes import NONSENSE, PROBES
from kho.search.text.language import language

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

VERSION = 2
"""Goes up when the probes or the measure change: what was kept is then measured anew."""
APART = 5.0
"""Standard deviations by which a question that looks like nonsense has to come nearer to a passage than nonsense does
on average; a question that does not, by so much less."""
LIKE_NONSENSE = 3
"""Pieces of nonsense that are nearest to a question: a script has some of its own."""
TELLS = 0.1
"""How much nearer each piece of nonsense is to the others than questions are, if the model tells it at all."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What cosines of unrelated and of related texts are like."""

    unrelated: float
    related: float

    def place(self, cosines: "Array") -> "Array":
        """0 for what is unrelated on average, 1 for what is related."""
        return (cosines - self.unrelated) / max(self.related - self.unrelated, 1e-3)


@dataclass(frozen=True, slots=True)
class Likeness:
    """How near passages are to a question, placed on the scales."""

    raw: "Array"
    """As the model has it."""
    between: "Array"
    """Between languages."""
    noise: "Array"
    """Up to where nonsense comes, between languages, with each passage."""


@dataclass(frozen=True, slots=True)
class Calibration:
    questions: "dict[str, Array]"
    passages: "dict[str, Array]"
    """The middle of each language, and under "" of all."""
    nonsense: "Array"
    """Questions that mean nothing, a row each, without the middle of their language."""
    raw: Scale
    centred: Scale
    hollow: Scale | None
    """What real questions have in common with nonsense, and what nonsense has. None if the model cannot tell them."""

    def likeness(self, question: "Array", spoken: str, vectors: "Array", written: list[str]) -> Likeness:
        import numpy as np

        middles = np.stack([self.passages.get(name, self.passages[""]) for name in written])
        centred = unit(vectors - middles)
        asked = unit(question - self.questions.get(spoken, self.questions[""]))
        between = centred @ asked
        nonsense = centred @ self.nonsense.T
        noise = nonsense.mean(axis=1) + APART * self._hollowness(asked) * nonsense.std(axis=1)
        return Likeness(self.raw.place(vectors @ question), self.centred.place(between), self.centred.place(noise))

    def _hollowness(self, asked: "Array") -> float:
        """0 for a question like any other, 1 for one that is like nonsense, or if that cannot be told."""
        return 1.0 if self.hollow is None else max(0.0, float(self.hollow.place(_nearest(self.nonsense @ asked))))

    def dump(self) -> str:
        return orjson.dumps(
            {
                "version": VERSION,
                "questions": {name: b85encode(middle.tobytes()).decode() for name, middle in self.questions.items()},
                "passages": {name: b85encode(middle.tobytes()).decode() for name, middle in self.passages.items()},
                "nonsense": b85encode(self.nonsense.tobytes()).decode(),
                "raw": [self.raw.unrelated, self.raw.related],
                "centred": [self.centred.unrelated, self.centred.related],
                "hollow": self.hollow and [self.hollow.unrelated, self.hollow.related],
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
            np.frombuffer(b85decode(kept["nonsense"]), np.float32).reshape(len(NONSENSE), -1),
            Scale(*kept["raw"]),
            Scale(*kept["centred"]),
            Scale(*kept["hollow"]) if kept["hollow"] else None,
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
    middle = question_middles[""]
    nonsense = np.stack(
        [unit(await embedder.query(text) - question_middles.get(language(text), middle)) for text in NONSENSE]
    )
    hollow = _hollow(np.concatenate([unit(questions[name] - question_middles[name]) for name in PROBES]), nonsense)
    return Calibration(question_middles, passage_middles, nonsense, _scale(raw), _scale(centred), hollow)


def unit(vectors: "Array") -> "Array":
    import numpy as np

    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def _hollow(questions: "Array", nonsense: "Array") -> Scale | None:
    import numpy as np

    usual = float(_nearest(questions @ nonsense.T).mean())
    others = _nearest(nonsense @ nonsense.T - 2 * np.eye(len(nonsense), dtype=np.float32))
    return Scale(usual, float(others.mean())) if others.min() - usual >= TELLS else None


def _nearest(cosines: "Array") -> "Array":
    """The mean of the highest few."""
    import numpy as np

    return np.sort(cosines, axis=-1)[..., -LIKE_NONSENSE:].mean(axis=-1)


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
