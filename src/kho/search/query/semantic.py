"""Semantic search by vectors. If anything fails here, keyword search still answers."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import field, replace
from itertools import chain
from typing import TYPE_CHECKING

from cachetools import LRUCache

from kho.kernel.call import Left
from kho.kernel.errors import KhoError
from kho.kernel.ports import Database, Embedder, Vectors, Where, each
from kho.lib.dataclass import dataclass
from kho.search.calibration.calibrate import Calibration, numbers_at_hand
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import calibration_row
from kho.search.indexing.passages import StoredPassage
from kho.search.query import scoring
from kho.search.query.parsed_query import ParsedQuery
from kho.search.query.scoring import NEAREST, NEAREST_OF_ALL, Balance, ScoreParts

if TYPE_CHECKING:
    from kho.kernel.ports import Vector

log = logging.getLogger("kho.search.query")

SHARE = 0.7
"""Share of the remaining time that semantic search may take: keyword search needs some to answer alone."""
MAX_QUESTIONS = 256


@dataclass(slots=True)
class SemanticResult:
    """The result of vector search, or notes why there is none."""

    questions: "list[Vector]" = field(default_factory=list["Vector"])
    """The vector of each reading of the query, the likeliest first. Empty if there is no semantic search."""
    calibration: Calibration | None = None
    near: list[int] = field(default_factory=list[int])
    """Numbers of the nearest passages."""
    notes: tuple[str, ...] = ()


class SemanticSearch:
    def __init__(self, db: Database, vectors: Vectors, embedder: Embedder, patience: float) -> None:
        self._db = db
        self._vectors = vectors
        self._embedder = embedder
        self._patience = patience
        self._calibration: Calibration | None = None
        self._questions: LRUCache[str, Vector] = LRUCache(MAX_QUESTIONS)

    async def near(self, asked: ParsedQuery, where: Where, left: Left) -> SemanticResult:
        """Return the question's vector and the passages nearest to it."""
        try:
            calibration = await self._calibrated(left)
            if calibration is None:
                # There are no vectors yet, so do not load the model.
                problem = await self._db.read(passages.problem, timeout=left() * SHARE)
                return SemanticResult(notes=(f"Keyword search only. {problem}",) if problem else ())
            patience = min(self._patience, left() * SHARE)
            questions = [await self._question(text, patience) for text in (asked.beginning, asked.also) if text]
            model, timeout = self._embedder.model, left() * SHARE
            searches = [(one, NEAREST) for one in questions]
            # By the plain cosine, texts in the question's own language come before all others.
            searches.append((calibration.centred_question(questions[0], asked.language), NEAREST_OF_ALL))
            found = await asyncio.gather(
                *(self._vectors.nearest(model, where, one, limit, timeout=timeout) for one, limit in searches)
            )
            return SemanticResult(questions, calibration, list(dict.fromkeys(seq for one in found for seq, _ in one)))
        except (KhoError, TimeoutError) as failure:
            return SemanticResult(notes=_keywords_only(failure))

    async def vectors(
        self, meant: SemanticResult, where: Where, seqs: Sequence[int], left: Left
    ) -> "dict[int, Vector]":
        if not meant.questions or not seqs:
            return {}
        try:
            model, timeout = self._embedder.model, left()
            found = await asyncio.gather(*(self._vectors.get(model, one, seqs, timeout=timeout) for one in each(where)))
            return dict(chain.from_iterable(one.items() for one in found))
        except KhoError as failure:
            meant.questions, meant.notes = [], _keywords_only(failure)
            return {}

    async def _calibrated(self, left: Left) -> Calibration | None:
        if self._calibration is None:
            name = calibration_row(self._embedder.model)
            kept = await self._db.read(lambda tx: passages.state(tx, name), timeout=left() * SHARE)
            if kept:
                await numbers_at_hand()
                self._calibration = Calibration.load(kept)
        return self._calibration

    async def _question(self, text: str, patience: float) -> "Vector":
        known = self._questions.get(text)
        if known is None:
            async with asyncio.timeout(patience):
                known = await self._embedder.query(text)
            self._questions[text] = known
        return known


def added(
    asked: ParsedQuery,
    meant: SemanticResult,
    looked: Sequence[StoredPassage],
    parts: Sequence[ScoreParts],
    vectors: "dict[int, Vector]",
    balance: Balance,
) -> list[ScoreParts]:
    """Add the semantic scores to the score parts of passages."""
    import numpy as np

    have = [n for n, one in enumerate(looked) if one.ref.seq in vectors]
    if not have or not meant.questions or meant.calibration is None:
        return list(parts)
    rows = np.stack([vectors[looked[n].ref.seq] for n in have])
    written = [looked[n].language for n in have]
    likeness = meant.calibration.likeness(meant.questions[0], asked.language, rows, written)
    for also in meant.questions[1:]:
        likeness = likeness.or_else(meant.calibration.likeness(also, asked.language, rows, written))
    meaning = scoring.meaning(likeness, balance)
    own = (asked.language, "")
    rivals = any(one.language in own for one in looked)
    result = list(parts)
    for place, n in enumerate(have):
        result[n] = replace(
            parts[n],
            meaning=float(meaning[place]),
            between=float(likeness.between[place]),
            foreign=asked.is_sentence and written[place] not in own,
            rivals=rivals,
            unrelated=scoring.unrelated(likeness, place, asked.language, written[place]),
        )
    return result


def _keywords_only(failure: Exception) -> tuple[str, ...]:
    reason = failure.message if isinstance(failure, KhoError) else "The model is not ready yet."
    log.warning("keyword search only: %s", reason)
    return (f"Keyword search only. {reason}",)
