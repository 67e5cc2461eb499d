"""Recall at every search operation beside plain cosine: the notes of bench/sets in one store, each asked for by
keywords, by a sentence, and by a sentence in another language; and queries that mean nothing.

    python -m bench.recall [--door memory|mcp|http] [--only memory_search …] [--held-out] [--every N] [--json]

hit@5 is the share of queries whose note is among the first five. Plain cosine is that of the same model over the same
passages in the same run: the nearest five of the store, with no floor. `--held-out` counts only queries that no
constant was fitted on, `--every N` takes one note in N. Exit status 1 if a bar is missed.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from bench.ratios import Ratio
from bench.recall_sets import HOW, LANGUAGES, Query, Sets, load
from numpy.typing import NDArray

from kho.app import Core, open_hub
from kho.evaluation.hub_client import Ask, Door, hub_client
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.ports import Embedder, SearchFilter
from kho.memory.settings import MemorySettings
from kho.models import factory
from kho.models.settings import Embedding
from kho.search.query.relevance import label, of_score
from kho.settings import Search, Settings

FIRST = 5
BARS = {"keywords": 0.97, "sentence": 0.98, "other language": 0.97}
"""The least share of cosine's hits that every operation has to reach."""
MAX_NONSENSE = 10
"""Of a hundred queries that mean nothing, how many may be answered with anything labelled above "Low"."""
COLLECTION = "recall"
SHORT = 4
"""The short form takes one note in so many."""

Vectors = NDArray[np.float32]
Found = list[tuple[str, str]]
"""Ids and labels, best first."""


@dataclass(frozen=True, slots=True)
class Target:
    """One search operation, and how a note gets to where it looks."""

    space: str
    put: Callable[[Ask, str, str], Awaitable[str]]
    """A name and a text, to the id that answers show."""
    ask: Callable[[Ask, str], Awaitable[Found]]
    needs: str
    """The tool that notes are written with; the operation is left out where there is none."""


async def _say(ask: Ask, name: str, text: str) -> str:
    given = {"conversation_id": COLLECTION, "role": "user", "content": text, "message_id": name}
    await ask("memory_add_message", given)
    return name


async def _memory(ask: Ask, query: str) -> Found:
    answer = await ask("memory_search", {"query": query, "limit": FIRST})
    return [(hit["message_id"], label(of_score(hit["score"]))) for hit in answer["results"]]


async def _augment(ask: Ask, name: str, text: str) -> str:
    given = {"content": text, "source": name, "collection": COLLECTION, "title": name, "force": True}
    return (await ask("augment_knowledge", given))["document"]["id"]


async def _knowledge_base(ask: Ask, query: str) -> Found:
    answer = await ask("query_knowledge_base", {"query": query, "collections": COLLECTION, "top_k": FIRST})
    return [(hit["metadata"]["document_id"], hit["relevance_label"]) for hit in answer["results"]]


async def _create(ask: Ask, name: str, text: str) -> str:
    content = {"mime_type": "text/plain", "body": text}
    await ask("create_document", {"document_id": name, "content": content, "metadata": {"title": name}})
    return name


async def _knowledge(ask: Ask, query: str) -> Found:
    answer = await ask("query_knowledge", {"query": query, "top_k": FIRST})
    return [(hit["document_id"], label(of_score(hit["score"]))) for hit in answer["context"]]


async def _submit(ask: Ask, name: str, text: str) -> str:
    given = {"title": text[:100], "problem_description": text, "solution": "Noted."}
    return (await ask("submit_experience", given))["data"]["id"]


async def _experiences(ask: Ask, query: str) -> Found:
    answer = await ask("query_experiences", {"keywords": query, "limit": FIRST})
    return [(hit["id"], label(of_score(hit["relevance_score"]))) for hit in answer["data"]["experiences"]]


async def _remember(ask: Ask, name: str, text: str) -> str:
    return (await ask("remember", {"text": text}))["id"]


async def _search(ask: Ask, query: str) -> Found:
    """Among facts: the other operations keep the same notes in the same store, and one of them is enough."""
    answer = await ask("search", {"query": query, "kinds": ["fact"], "limit": FIRST})
    return [(hit["id"].removeprefix("fact:"), hit["label"]) for hit in answer["results"]]


TARGETS = {
    "search": Target("facts", _remember, _search, "remember"),
    "memory_search": Target("memory", _say, _memory, "memory_add_message"),
    "query_knowledge_base": Target("research", _augment, _knowledge_base, "augment_knowledge"),
    "query_knowledge": Target("documents", _create, _knowledge, "create_document"),
    "query_experiences": Target("experiences", _submit, _experiences, "submit_experience"),
}


@dataclass(slots=True)
class Count:
    """What one operation, and cosine over its passages, made of some queries."""

    asked: int = 0
    hits: int = 0
    empty: int = 0
    cosine: int = 0

    @property
    def ratio(self) -> float:
        return self.hits / max(1, self.cosine)

    def add(self, other: "Count") -> None:
        self.asked += other.asked
        self.hits += other.hits
        self.empty += other.empty
        self.cosine += other.cosine


@dataclass(slots=True)
class Figures:
    """One operation's."""

    counts: dict[tuple[str, str, str], Count] = field(default_factory=dict[tuple[str, str, str], Count])
    """By how it was asked, the language of the note, and its group."""
    nonsense: int = 0
    loud: list[str] = field(default_factory=list[str])
    """Queries that mean nothing and were answered above "Low"."""
    answered: int = 0
    """… and those that were answered with anything."""
    missed: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Queries, and what cosine has among the first five and the operation has not."""

    def total(self, how: str, language: str | None = None, group: str | None = None) -> Count:
        whole = Count()
        for (asked, written, kind), count in self.counts.items():
            if asked == how and language in (None, written) and group in (None, kind):
                whole.add(count)
        return whole

    def broken(self) -> list[str]:
        found = [
            f"{how}: {total.ratio:.3f} of cosine's hits, bar {bar}"
            for how, bar in BARS.items()
            for total in [self.total(how)]
            if total.asked and total.ratio < bar
        ]
        if self.nonsense and len(self.loud) * 100 > MAX_NONSENSE * self.nonsense:
            found.append(f"nonsense above Low: {len(self.loud)} of {self.nonsense}, bar {MAX_NONSENSE} of 100")
        return found


@dataclass(frozen=True, slots=True)
class Cosine:
    """Plain cosine over the passages of one space."""

    keys: Sequence[str]
    rows: Vectors

    @classmethod
    async def of(cls, core: Core, space: str, tenant: str) -> "Cosine":
        found = await core.db.read(
            lambda tx: tx.all("SELECT seq, key FROM passages WHERE space = $1 AND tenant = $2", space, tenant)
        )
        assert core.index.vectors is not None
        vectors = await core.index.vectors.get(core.model, SearchFilter(space, tenant), [int(seq) for seq, _ in found])
        assert len(vectors) == len(found)
        return cls([str(key) for _, key in found], np.stack([vectors[int(seq)] for seq, _ in found]))

    def nearest(self, question: Vectors) -> list[str]:
        """The first five documents, each at the place of its nearest passage."""
        order = [int(place) for place in np.argsort(-(self.rows @ question), kind="stable")]
        return list(dict.fromkeys(self.keys[place] for place in order))[:FIRST]


async def filled(core: Core) -> None:
    """Returns when every passage has its vector."""
    assert core.embedding_queue is not None
    while left := await core.embedding_queue.pending():  # a table, which no event tells about
        print(f"{left} passages wait for their vectors", file=sys.stderr, flush=True)
        await asyncio.sleep(5)


async def measure(sets: Sets, door: Door, only: Sequence[str], held_out: bool) -> dict[str, Figures]:
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(
            home=Path(home),
            database_url=None,
            search=Search(embedder=Embedding(provider="e5")),
            memory=MemorySettings(summarize_threshold=10_000),
        )
        embedder = factory.embedder(settings.search.embedder)
        assert embedder is not None
        cores: list[Core] = []

        def look(core: Core) -> Sequence[Capability]:
            cores.append(core)
            return ()

        async with open_hub(settings, more=look) as hub, hub_client(door, hub) as ask:
            try:
                return await _measure(sets, hub, cores[0], ask, embedder, only, held_out)
            finally:
                await embedder.aclose()


async def _measure(
    sets: Sets, hub: Hub, core: Core, ask: Ask, embedder: Embedder, only: Sequence[str], held_out: bool
) -> dict[str, Figures]:
    targets = {
        name: target
        for name, target in TARGETS.items()
        if name in only and hub.registry.tool(name) and hub.registry.tool(target.needs)
    }
    await ask("manage_collections", {"action": "create", "collection_name": COLLECTION})
    await ask("memory_get_or_create", {"conversation_id": COLLECTION})
    ids = {
        name: [await target.put(ask, f"note-{place}", note.text) for place, note in enumerate(sets.notes)]
        for name, target in targets.items()
    }
    await filled(core)
    cosines = {name: await Cosine.of(core, target.space, hub.local.tenant) for name, target in targets.items()}
    figures = {name: Figures() for name in targets}
    queries = [one for one in sets.queries if not (held_out and sets.notes[one.note].fitted)]
    for number, query in enumerate(queries):
        if number % 100 == 0:
            print(f"{number} of {len(queries)} queries", file=sys.stderr, flush=True)
        question = await embedder.query(query.text)
        for name, target in targets.items():
            found = await target.ask(ask, query.text)
            near = cosines[name].nearest(question)
            _count(figures[name], sets, query, ids[name][query.note], found, near)
    for query in sets.nonsense:
        for name, target in targets.items():
            found = await target.ask(ask, query)
            figures[name].nonsense += 1
            figures[name].answered += bool(found)
            if any(not called.startswith("Low") for _, called in found):
                figures[name].loud.append(query)
    return figures


def _count(figures: Figures, sets: Sets, query: Query, id: str, found: Found, near: Sequence[str]) -> None:
    note = sets.notes[query.note]
    count = figures.counts.setdefault((query.how, note.language, note.group), Count())
    hit = id in [one for one, _ in found[:FIRST]]
    count.add(Count(1, hit, not found, id in near))
    if id in near and not hit:
        figures.missed.append((query.text, note.text))


def show(figures: Mapping[str, Figures]) -> None:
    print(f"{'operation':22}{'asked by':16}{'notes':12}{'queries':>8}{'hit@5':>8}{'cosine':>8}{'ratio':>8}{'empty':>7}")
    for name, one in figures.items():
        for how in HOW:
            rows = [("all", one.total(how)), *((language, one.total(how, language)) for language in LANGUAGES)]
            rows += [(group, one.total(how, None, group)) for group in ("fact", "note", "passage")]
            for called, count in rows:
                if count.asked:
                    print(
                        f"{name:22}{how:16}{called:12}{count.asked:8}{count.hits / count.asked:8.3f}"
                        f"{count.cosine / count.asked:8.3f}{count.ratio:8.3f}{count.empty:7}"
                    )
        print(f"{name:22}{'nonsense':16}{'above Low':12}{len(one.loud):8} of {one.nonsense}, {one.answered} answered")
        for problem in one.broken():
            print(f"{name:22}BELOW ITS BAR: {problem}")


def as_json(figures: Mapping[str, Figures]) -> dict[str, Any]:
    return {
        name: {
            "queries": [
                {"asked_by": how, "language": language, "notes": group, "queries": count.asked, "hits": count.hits,
                 "cosine_hits": count.cosine, "empty": count.empty}
                for (how, language, group), count in one.counts.items()
            ],
            "nonsense": {"queries": one.nonsense, "answered": one.answered, "above_low": one.loud},
            "missed": one.missed,
            "broken": one.broken(),
        }
        for name, one in figures.items()
    }  # fmt: skip


def short() -> dict[str, Ratio]:
    """Cosine's hits over an operation's, so that lower is better."""
    figures = asyncio.run(measure(load(SHORT), "memory", [*TARGETS], held_out=False))
    broken = [f"{name}: {problem}" for name, one in figures.items() for problem in one.broken()]
    if broken:
        raise SystemExit("\n".join(broken))
    return {
        f"{name}, {how}: cosine's hits / its own": Ratio(total.cosine, total.hits)
        for name, one in figures.items()
        for how in HOW
        for total in [one.total(how)]
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--door", choices=("memory", "mcp", "http"), default="memory")
    parser.add_argument("--only", nargs="+", choices=[*TARGETS], default=[*TARGETS])
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = asyncio.run(measure(load(options.every), options.door, options.only, options.held_out))
    if options.json:
        print(json.dumps(as_json(figures), ensure_ascii=False, indent=1))
    else:
        show(figures)
    return int(any(one.broken() for one in figures.values()))


if __name__ == "__main__":
    raise SystemExit(main())
