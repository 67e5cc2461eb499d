"""Fits the scales of search/query/scoring.py: from which score on a first hit is relevant, very and highly relevant.

    python -m bench.scales [--home FOLDER]

Asks short texts, prose, code and conversations (bench/sets and the Python library) without the scales. On the half to
fit on, each threshold is the lowest from which first hits, up to the next threshold, are right as often as their label
should be, and a little more. Prints the constants, what they make of the other half, and how high nonsense scores.
"""

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.ingest import call, settings
from bench.quality import SETS
from bench.recall import filled
from bench.recall_sets import load

from bench import code_questions, conversations
from kho.app import Core, open_hub
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.ports import SearchFilter
from kho.memory.settings import MemorySettings
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.indexing.passages import StoredPassage
from kho.search.query.searcher import Searcher, SearchLimits

WANTED = (0.89, 0.72, 0.48)
"""Share of right ones among first hits called highly relevant, very relevant and relevant. What is promised is 85, 65
and 40 in a hundred."""
LEAST = 6
"""Fewer first hits say nothing about a threshold."""
TENANT = "scales"
SHORT, ASKED, PROSE, CODE, TALK = "AMONG_NOTES", "ASKED_OF_NOTES", "PROSE", "AMONG_CODE", "AMONG_TALK"


@dataclass(frozen=True, slots=True)
class FirstHit:
    kind: str
    languages: str
    fitted: bool
    score: float
    right: bool
    nonsense: bool = False


@dataclass(frozen=True, slots=True)
class Asking:
    searcher: Searcher
    found: list[FirstHit]

    async def ask(
        self,
        kind: str,
        where: SearchFilter,
        text: str,
        language: str,
        fitted: bool,
        right: "Right",
        nonsense: bool = False,
    ) -> None:
        hits = (await self.searcher.search(where, text, limit=1)).hits
        if hits:
            passage, parts = hits[0].passage, hits[0].parts
            called = f"{kind}.foreign" if parts.foreign and kind != TALK else kind if kind == TALK else f"{kind}.own"
            pair = f"{language} → {passage.language}"
            self.found.append(FirstHit(called, pair, fitted, hits[0].score, right.is_(passage), nonsense))


@dataclass(frozen=True, slots=True)
class Right:
    """Which passage answers: one of these documents, or one that holds this line."""

    keys: frozenset[str] = frozenset()
    line: str = ""

    def is_(self, passage: StoredPassage) -> bool:
        if self.line:
            return self.line in (row.strip() for row in passage.text.splitlines())
        return passage.key in self.keys


async def ask_sets(core: Core, asking: Asking) -> None:
    nonsense = load().nonsense
    for name, files in SETS.items():
        sets = load(names=files)
        where = SearchFilter(f"scales:{name}", TENANT)
        documents = [
            prepare(Document(where.space, where.tenant, str(place), [Passage((Field(note.text),))]))
            for place, note in enumerate(sets.notes)
        ]
        await core.db.write(lambda tx, all=documents: core.index.put(tx, all, anew=True))
        await filled(core)
        for query in sets.queries:
            kind = PROSE if name == "prose" else SHORT if query.how == "keywords" else ASKED
            fitted = sets.notes[query.note].fitted and name != "notes"  # those are for measuring only
            right = Right(frozenset({str(query.note)}))
            await asking.ask(kind, where, query.text, query.language, fitted, right)
        for text in nonsense:
            await asking.ask(PROSE if name == "prose" else SHORT, where, text, "", True, Right(), nonsense=True)


async def ask_dialogues(hub: Hub, core: Core, asking: Asking) -> None:
    dialogues = conversations.load()
    where = SearchFilter("memory", TENANT)
    if not await core.db.read(
        lambda tx: tx.one("SELECT 1 FROM passages WHERE tenant = $1 AND space = 'memory'", TENANT)
    ):
        await conversations.Caller(hub, TENANT).tell(dialogues, conversations.FORMS["attributed"])
    await filled(core)
    for one in dialogues.questions:
        await asking.ask(TALK, where, one.text, one.language, one.fitted, Right(one.turns))


async def ask_code(hub: Hub, core: Core, asking: Asking, home: Path) -> None:
    questions = code_questions.load()
    for name, text in questions.files.items():
        path = home / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    given = {"path": str(home / "files"), "collection": code_questions.COLLECTION, "recursive": True}
    await call(hub, "ingest_documents", **given, create=True)
    await filled(core)
    where = SearchFilter("research", hub.local.tenant)
    for one in questions.questions:
        await asking.ask(CODE, where, one.text, "en", one.fitted, Right(line=one.line))


def thresholds(hits: Sequence[FirstHit]) -> list[float]:
    """Return the scores from which first hits are highly relevant, very relevant and relevant."""
    above, found = 2.0, list[float]()
    for wanted in WANTED:
        below = [one for one in hits if one.score < above]
        least = min((level for level in _levels(below) if _is_enough(below, level, wanted)), default=min(above, 1.0))
        found.append(least)
        above = least
    return found


def _levels(hits: Sequence[FirstHit]) -> Iterator[float]:
    yield from sorted({round(one.score, 2) for one in hits})


def _is_enough(hits: Sequence[FirstHit], level: float, wanted: float) -> bool:
    band = [one.right for one in hits if one.score >= level]
    return len(band) >= LEAST and sum(band) / len(band) >= wanted


def told(hits: Sequence[FirstHit], levels: Sequence[float]) -> str:
    """How many first hits of each label are right, and how many of the right ones are relevant or better."""
    bounds = [2.0, *levels, -1.0]
    bands = [[one.right for one in hits if low <= one.score < high] for high, low in pairwise(bounds)]
    good = sum(one.right for one in hits if one.score >= levels[-1]) / max(1, sum(one.right for one in hits))
    return "  ".join(f"{sum(band)}/{len(band)}" for band in bands) + f"  {good:.0%} of the right ones relevant"


def show(found: Sequence[FirstHit]) -> None:
    for kind in sorted({one.kind for one in found}):
        here = [one for one in found if one.kind == kind and not one.nonsense]
        levels = thresholds([one for one in here if one.fitted])
        held_out = [one for one in here if not one.fitted]
        loud = sorted(one.score for one in found if one.kind == kind and one.nonsense)[-3:]
        print(f"{kind}: relevant {levels[2]:.2f}, very {levels[1]:.2f}, highly {levels[0]:.2f}")
        print(f"    nonsense up to {', '.join(f'{score:.2f}' for score in loud)}")
        print(f"    held out: {told(held_out, levels)}")
        for pair in sorted({one.languages for one in held_out}):
            print(f"      {pair}: {told([one for one in held_out if one.languages == pair], levels)}")


async def run(home: Path) -> list[FirstHit]:
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    memory = MemorySettings(summarize_threshold=10_000)
    chosen = settings(home / "store", None, home, "e5").model_copy(update={"memory": memory})
    found: list[FirstHit] = []
    async with open_hub(chosen, more=look, limits=SearchLimits(scaled=False)) as hub:
        core = cores[0]
        asking = Asking(core.searcher, found)
        await ask_sets(core, asking)
        await ask_dialogues(hub, core, asking)
        await ask_code(hub, core, asking, home)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        show(asyncio.run(run((options.home or Path(scratch)).resolve())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
