"""How well search ranks and labels the texts of bench/sets: by keywords, by a sentence, by one in another language, and
in Vietnamese typed without marks.

    python -m bench.quality [--home FOLDER] [--held-out] [--unmarked] [--only notes …] [--json]

Each set is searched by itself, through the searcher. `first` and `in five` are the queries whose text comes first, or
among the first five. Labels are counted for first hits: how many of those that carry a label are right, and how many
of the right ones are "Relevant" or better. `--home` keeps the vectors, so that another commit can be measured on the
same ones (from a worktree, with PYTHONPATH); `--held-out` counts only queries that no constant was fitted on.
`--unmarked` stores every second Vietnamese text without its marks, as some people type them, and counts the queries
for those apart.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.recall import filled
from bench.recall_sets import Note, Query, Sets, load

from kho.app import Core, open_hub
from kho.evaluation.datasets import unmarked
from kho.evaluation.metrics import mean, ndcg
from kho.kernel.capability import Capability
from kho.kernel.ports import SearchFilter
from kho.models.settings import Embedding
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.search.query.relevance import label, of_score
from kho.settings import Search, Settings

SETS: Mapping[str, Sequence[str]] = {"facts": ("facts", "passages"), "notes": ("notes",), "prose": ("prose",)}
DEPTH = 10
GOOD = ("Highly Relevant", "Very Relevant", "Relevant")


@dataclass(slots=True)
class Figures:
    ndcg: list[float] = field(default_factory=list[float])
    first: int = 0
    in_five: int = 0
    labels: Counter[str] = field(default_factory=Counter[str])
    """Labels of first hits, and those of the right ones."""
    right: Counter[str] = field(default_factory=Counter[str])

    def add(self, found: Sequence[tuple[str, str]], wanted: str) -> None:
        """Count an answer: keys and labels, best first."""
        keys = [key for key, _ in found]
        self.ndcg.append(ndcg(keys, [wanted], DEPTH))
        self.in_five += wanted in keys[:5]
        if found:
            self.labels[found[0][1]] += 1
            if keys[0] == wanted:
                self.first += 1
                self.right[found[0][1]] += 1

    def as_json(self) -> dict[str, Any]:
        return {
            "queries": len(self.ndcg),
            "ndcg@10": round(mean(self.ndcg), 4),
            "first": self.first,
            "in_five": self.in_five,
            "labels": {name: [self.right[name], self.labels[name]] for name in self.labels},
            "right_and_relevant": round(sum(self.right[name] for name in GOOD) / max(1, self.first), 3),
        }


def ways(sets: Sets, query: Query) -> Iterable[tuple[str, str]]:
    """How a query is asked, and its text."""
    yield query.how, query.text
    if query.language == "vi" and query.how != "other language":
        yield f"{query.how}, vi", query.text
        yield f"{query.how}, vi, no marks", unmarked(query.text)
    if query.how == "other language":
        yield f"{query.language} → {sets.notes[query.note].language}", query.text
    elif query.how == "sentence":
        yield f"{query.language} → {query.language}", query.text


def typed(place: int, note: Note) -> str:
    """The text of a note, every second Vietnamese one without its marks."""
    return unmarked(note.text) if note.language == "vi" and place % 2 else note.text


async def measure(core: Core, name: str, held_out: bool, without_marks: bool) -> dict[str, Figures]:
    sets = load(names=SETS[name])
    where = SearchFilter(f"quality:{name}{':unmarked' * without_marks}", "bench")
    texts = [typed(place, note) if without_marks else note.text for place, note in enumerate(sets.notes)]
    documents = [
        prepare(Document(where.space, where.tenant, str(place), [Passage((Field(text),))]))
        for place, text in enumerate(texts)
    ]
    await core.db.write(lambda tx: core.index.put(tx, documents, anew=True))
    await filled(core)
    figures: dict[str, Figures] = {}
    for query in sets.queries:
        if held_out and sets.notes[query.note].fitted:
            continue
        answers: dict[str, list[tuple[str, str]]] = {}
        stored = ", stored without" if texts[query.note] != sets.notes[query.note].text else ""
        for how, text in ways(sets, query):
            if text not in answers:
                found = await core.searcher.search(where, text, limit=DEPTH, per_key=True)
                answers[text] = [(hit.passage.key, label(of_score(hit.score))) for hit in found.hits]
            figures.setdefault(how + stored, Figures()).add(answers[text], str(query.note))
    return figures


async def run(home: Path, names: Sequence[str], held_out: bool, without_marks: bool) -> dict[str, dict[str, Figures]]:
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    settings = Settings(home=home, database_url=None, search=Search(embedder=Embedding(provider="e5")))
    async with open_hub(settings, more=look):
        return {name: await measure(cores[0], name, held_out, without_marks) for name in names}


def show(figures: Mapping[str, Mapping[str, Figures]]) -> None:
    names = [*GOOD, "Somewhat Relevant", "Low Relevance"]
    print(
        f"{'set':8}{'asked by':44}{'queries':>8}{'nDCG@10':>9}{'first':>7}{'in five':>9}  right of first hits labelled "
        f"{', '.join(names)}; of the right ones Relevant or better"
    )
    for set_name, groups in figures.items():
        for how, one in groups.items():
            told = "  ".join(f"{one.right[name]}/{one.labels[name]}" for name in names)
            good = sum(one.right[name] for name in GOOD) / max(1, one.first)
            print(
                f"{set_name:8}{how:44}{len(one.ndcg):8}{mean(one.ndcg):9.3f}{one.first:7}{one.in_five:9}  "
                f"{told}  {good:.0%}"
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, metavar="FOLDER")
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--unmarked", action="store_true")
    parser.add_argument("--only", nargs="+", choices=[*SETS], default=[*SETS])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        figures = asyncio.run(run(options.home or Path(scratch), options.only, options.held_out, options.unmarked))
    if options.json:
        told = {name: {how: one.as_json() for how, one in groups.items()} for name, groups in figures.items()}
        print(json.dumps(told, ensure_ascii=False, indent=1))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
