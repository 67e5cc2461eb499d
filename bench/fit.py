"""Fits the numbers of search/query/scoring.py that depend on what people store and ask, on bench/sets.

    python -m bench.fit

Prints the constants to put there, fitted on one half of the notes, and what they do to the other half:

- UNRELATED, by the languages of query and passage: how close unrelated texts come (mean and half a standard deviation),
  but never more than what all but two in a hundred of the right notes reach.
- HOLLOW and DOUBTFUL: how much keywords that mean something look like nonsense, at most and in one case of ten.
- AMONG_NOTES: hit@5 among the notes for several shares of the words in the score.

The scales of scores are fitted by `python -m bench.scales`.
"""

import asyncio
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from bench.recall_sets import LANGUAGES, Sets, load
from numpy.typing import NDArray

from kho.app import Core, open_hub
from kho.kernel.capability import Capability
from kho.kernel.ports import Embedder, SearchFilter
from kho.models import factory
from kho.models.settings import Embedding
from kho.search.calibration.calibrate import Calibration, measure
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.query import scoring
from kho.search.query.searcher import Searcher
from kho.search.text.language import language
from kho.settings import Search, Settings

LOST = 0.02
"""Share of the right notes that a floor may cost where nothing else was found."""
LEANS = (0.2, 0.3, 0.4, 0.5)
FIRST = 5
SPACE = "fit"

Vectors = NDArray[np.float32]


class Remembering:
    """An embedder that is asked the same queries again and again."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._queries: dict[str, Vectors] = {}
        self.model = embedder.model
        self.dimension = embedder.dimension
        self.passages = embedder.passages
        self.aclose = embedder.aclose

    async def query(self, text: str) -> Vectors:
        if text not in self._queries:
            self._queries[text] = await self._embedder.query(text)
        return self._queries[text]


@dataclass(frozen=True, slots=True)
class Asked:
    """A query beside all notes."""

    note: int | None
    """The place of the right one; None for nonsense."""
    fitted: bool
    keywords: bool
    language: str
    between: Vectors
    hollowness: float


@dataclass(frozen=True, slots=True)
class Pair:
    """Likeness in a pair of languages."""

    right: Vectors
    others: Vectors

    @property
    def floor(self) -> float:
        near = float(self.others.mean() + self.others.std() / 2)
        return round(min(near, float(np.quantile(self.right, LOST))), 2)


async def ask(sets: Sets, embedder: Embedder, calibration: Calibration) -> list[Asked]:
    notes = await embedder.passages([note.text for note in sets.notes])
    written = [note.language for note in sets.notes]
    texts: list[tuple[str, int | None, bool]] = [
        (query.text, query.note, query.how == "keywords") for query in sets.queries
    ]
    texts += [(text, None, False) for text in sets.nonsense]
    found: list[Asked] = []
    for number, (text, note, keywords) in enumerate(texts):
        if number % 100 == 0:
            print(f"{number} of {len(texts)} queries", file=sys.stderr, flush=True)
        spoken = language(text)
        likeness = calibration.likeness(await embedder.query(text), spoken, notes, written)
        assert likeness.hollowness is not None
        fitted = number % 2 == 0 if note is None else sets.notes[note].fitted
        found.append(Asked(note, fitted, keywords, spoken, likeness.between, likeness.hollowness))
    return found


def pairs(sets: Sets, asked: Iterable[Asked]) -> dict[tuple[str, str], Pair]:
    written = np.array([note.language for note in sets.notes])
    right: dict[tuple[str, str], list[float]] = {}
    others: dict[tuple[str, str], list[Vectors]] = {}
    for one in asked:
        if one.note is not None and one.language in LANGUAGES:
            pair = one.language, str(written[one.note])
            right.setdefault(pair, []).append(float(one.between[one.note]))
            others.setdefault(pair, []).append(
                np.delete(one.between, one.note)[np.delete(written, one.note) == pair[1]]
            )
    return {pair: Pair(np.array(right[pair], np.float32), np.concatenate(others[pair])) for pair in sorted(right)}


def floors(sets: Sets, asked: Sequence[Asked]) -> None:
    fitted = pairs(sets, (one for one in asked if one.fitted))
    held_out = pairs(sets, (one for one in asked if not one.fitted))
    print("UNRELATED: Mapping[tuple[str, str], float] = {")
    for pair, here in fitted.items():
        there = held_out[pair]
        print(
            f'    ("{pair[0]}", "{pair[1]}"): {here.floor},  # of {len(there.right)} held out right ones '
            f"{int((there.right < here.floor).sum())} are below, of the others {(there.others < here.floor).mean():.0%}"
        )
    print("}")
    print(f"UNRELATED_ELSEWHERE = {min(pair.floor for pair in fitted.values())}")


def nonsense(asked: Sequence[Asked]) -> None:
    meant = [one.hollowness for one in asked if one.fitted and one.keywords]
    held_out = [one.hollowness for one in asked if not one.fitted and one.keywords]
    hollow = [one.hollowness for one in asked if one.note is None]
    for name, share in (("HOLLOW", 1.0), ("DOUBTFUL", 0.9)):
        level = round(float(np.quantile(meant, share)), 2)
        keywords, told = (np.array(held_out) >= level).mean(), (np.array(hollow) >= level).mean()
        print(f"{name} = {level}  # reached by {keywords:.1%} of the keywords held out, and {told:.0%} of nonsense")


async def leans(sets: Sets, core: Core, embedder: Embedder) -> None:
    where = SearchFilter(SPACE, "fit")
    notes = [
        prepare(Document(where.space, where.tenant, str(place), [Passage((Field(note.text),))]))
        for place, note in enumerate(sets.notes)
    ]
    await core.db.write(lambda tx: core.index.put(tx, notes))
    assert core.embedding_queue is not None
    while left := await core.embedding_queue.pending():  # a table, which no event tells about
        print(f"{left} passages wait for their vectors", file=sys.stderr, flush=True)
        await asyncio.sleep(5)
    for lean in LEANS:
        setattr(scoring, "AMONG_NOTES", scoring.Balance(lean))  # noqa: B010, a constant everywhere else
        searcher = Searcher(core.db, core.searcher.words, core.index.vectors, embedder)
        hits = {True: 0, False: 0}
        for query in sets.queries:
            found = await searcher.search(where, query.text, limit=FIRST, per_key=True)
            hits[sets.notes[query.note].fitted] += str(query.note) in [hit.passage.key for hit in found.hits]
        print(f"AMONG_NOTES = {lean}  # hit@5: {hits[True]}, held out {hits[False]}, of {len(sets.queries)} in all")


async def fit() -> None:
    sets = load()
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    with TemporaryDirectory() as home:
        settings = Settings(home=Path(home), database_url=None, search=Search(embedder=Embedding(provider="e5")))
        model = factory.embedder(settings.search.embedder)
        assert model is not None
        embedder = Remembering(model)
        async with open_hub(settings, more=look):
            try:
                asked = await ask(sets, embedder, await measure(embedder))
                floors(sets, asked)
                nonsense(asked)
                await leans(sets, cores[0], embedder)
            finally:
                await embedder.aclose()


if __name__ == "__main__":
    asyncio.run(fit())
