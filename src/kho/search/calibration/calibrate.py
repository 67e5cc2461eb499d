"""Calibration of an embedding model: what its cosines mean.

A model puts each language into its own region: texts in different languages look less alike than they are, and
unrelated texts of one language more. Subtracting the mean of each language makes cosines comparable across languages,
and separates nonsense from a match. These means, and the cosines of related and unrelated texts, are measured once per
model on sentences of our own (probes.py).

A short text is close to everything, including nonsense, so one threshold for all passages would be too low for short
ones or too high for the others. So the similarity to nonsense is measured for each passage, and the more a question
resembles nonsense, the further above that it has to come.
"""

import asyncio
import sys
from base64 import b85decode, b85encode
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import orjson

from kho.kernel.ports import Embedder
from kho.lib.dataclass import dataclass
from kho.search.calibration.probes import NONSENSE, PROBES
from kho.search.text.language import language

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

VERSION = 2
"""Increased when the probes or the measure change: stored calibrations are then measured again."""
APART = 5.0
"""Number of standard deviations by which a question that looks like nonsense has to be closer to a passage than
nonsense is on average; less for a question that looks less like nonsense."""
LIKE_NONSENSE = 3
"""Number of nearest nonsense strings that a question is compared with: each script has some of its own."""
TELLS = 0.1
"""Minimum difference between nonsense and questions in similarity to other nonsense, for the model to be able to tell
them apart."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Mean cosines of unrelated and of related texts."""

    unrelated: float
    related: float

    def place(self, cosines: "Array") -> "Array":
        """Rescale cosines: 0 for the mean of unrelated texts, 1 for that of related ones."""
        return (cosines - self.unrelated) / max(self.related - self.unrelated, 1e-3)


@dataclass(frozen=True, slots=True)
class Likeness:
    """Similarity of passages to a question, rescaled."""

    raw: "Array"
    """Plain cosine of the model."""
    between: "Array"
    """Cosine after subtracting the mean of each language."""
    noise: "Array"
    """Highest `between` that nonsense reaches with each passage."""
    hollowness: float | None
    """How much the question is like nonsense: 0 for an ordinary one, 1 for nonsense. None if the model cannot tell."""

    def or_else(self, other: "Likeness") -> "Likeness":
        """Of two readings of a question, take the one that is closer to each passage. `other` is the less likely."""
        import numpy as np

        return replace(self, raw=np.maximum(self.raw, other.raw), between=np.maximum(self.between, other.between))


@dataclass(frozen=True, slots=True)
class Calibration:
    questions: "dict[str, Array]"
    passages: "dict[str, Array]"
    """Mean vector of each language, and of all under ""."""
    nonsense: "Array"
    """Vectors of meaningless questions, one per row, minus the mean of their language."""
    raw: Scale
    centred: Scale
    hollow: Scale | None
    """Similarity to nonsense of real questions (unrelated) and of nonsense (related). None if the model cannot tell
    them apart."""

    def likeness(self, question: "Array", spoken: str, vectors: "Array", written: list[str]) -> Likeness:
        import numpy as np

        middles = np.stack([self.passages.get(name, self.passages[""]) for name in written])
        centred = unit(vectors - middles)
        asked = self.centred_question(question, spoken)
        between = centred @ asked
        nonsense = centred @ self.nonsense.T
        hollow = None if self.hollow is None else max(0.0, float(self.hollow.place(_nearest(self.nonsense @ asked))))
        noise = nonsense.mean(axis=1) + APART * (1.0 if hollow is None else hollow) * nonsense.std(axis=1)
        place = self.centred.place
        return Likeness(self.raw.place(vectors @ question), place(between), place(noise), hollow)

    def centred_question(self, question: "Array", spoken: str) -> "Array":
        """Return a question without what all of its language have in common: the nearest to it are near in any."""
        middle = self.questions.get(spoken, self.questions[""])
        # A server that suddenly answers with another number of dimensions is found out where vectors are compared.
        return unit(question - middle) if middle.shape == question.shape else question

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
    """True if this was measured with the current version."""
    return text is not None and orjson.loads(text)["version"] == VERSION


async def numbers_at_hand() -> None:
    """Import numpy off the event loop, which it would block for a quarter of a second."""
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
    """Return the mean of the highest few."""
    import numpy as np

    return np.sort(cosines, axis=-1)[..., -LIKE_NONSENSE:].mean(axis=-1)


def _middles(vectors: "dict[str, Array]") -> "dict[str, Array]":
    import numpy as np

    middles = {name: rows.mean(axis=0) for name, rows in vectors.items()}
    return {**middles, "": np.mean(list(middles.values()), axis=0)}


def _scale(tables: "list[Array]") -> Scale:
    """Compute the scale from tables of cosines whose diagonals are the related pairs."""
    import numpy as np

    related = np.concatenate([table.diagonal() for table in tables])
    others = np.concatenate([table[~np.eye(len(table), dtype=bool)] for table in tables])
    return Scale(float(others.mean()), float(related.mean()))
