"""The contract's performance tests: response times, memory under load, concurrent and large questions.

    python -m bench.research [--documents 2000] [--queries 2000] [--clients 32] [--door memory|mcp|http]
                             [--embedder none|hash|e5]
    python -m bench.research --data FILE.json … [--limit 200] [--title]

The first form fills a store of its own with generated documents and asks through the tools by name. The second puts an
evaluation set (see docs/search.md) into a collection with `augment_knowledge`, asks every question with
`query_knowledge_base`, and prints nDCG@10 beside what the search core itself makes of the same store: they must be the
same, or something is lost on the way. `--title` names each document by its id instead of its first line.
"""

import argparse
import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from bench.experiences import Corpus, percentile
from bench.ratios import Ratio, against_loop

from kho.app import Core, open_hub
from kho.evaluation.hub_client import Ask, Door, hub_client
from kho.evaluation.metrics import mean, ndcg
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.kernel.ports import SearchFilter
from kho.models.settings import Embedding
from kho.settings import Search, Settings

SIMPLE, COMPLEX = 5.0, 30.0
"""The contract's limits, in seconds: for simple operations and for questions."""
COLLECTION = "bench"
SPACE = "research"
SHOWN = 10
LARGE, CONTEXT = 10_000, 100_000
"""Characters of the largest question and of the largest context."""


@dataclass(frozen=True)
class Opened:
    hub: Hub
    core: Core
    ask: Ask


@asynccontextmanager
async def opened(home: str, embedder: str, door: Door) -> AsyncGenerator[Opened, None]:
    chosen = Embedding.model_validate({"provider": embedder})
    settings = Settings(home=Path(home), database_url=None, search=Search(embedder=chosen))
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    async with open_hub(settings, more=look) as hub, hub_client(door, hub) as ask:
        await ask("manage_collections", {"action": "create", "collection_name": COLLECTION})
        yield Opened(hub, cores[0], ask)


async def settled(core: Core) -> None:
    """Comes back when every passage has its vector."""
    # The queue is a table, which no event tells about.
    while core.embedding_queue is not None and await core.embedding_queue.pending():  # noqa: ASYNC110
        await asyncio.sleep(0.2)


def resident() -> float:
    """Memory of this process, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Questions:
    """Words drawn as in the documents; no question comes twice, so no answer is remembered."""

    def __init__(self, seed: int) -> None:
        self._corpus = Corpus(seed)
        self._number = seed * 1_000_000

    def __call__(self, words: int = 5) -> str:
        self._number += 1
        return f"{self._corpus.text(words)} {self._number}"

    def large(self, characters: int) -> str:
        text = self(characters // 3)
        return text[-characters:]


@dataclass(frozen=True)
class Figure:
    name: str
    seconds: Sequence[float]
    cpu: float
    limit: float

    def __str__(self) -> str:
        shares = "  ".join(f"p{share} {percentile(self.seconds, share / 100) * 1e3:7.1f} ms" for share in (50, 95))
        worst, each = max(self.seconds), self.cpu / len(self.seconds) * 1e3
        kept = "" if worst <= self.limit else f"  OVER THE LIMIT of {self.limit:.0f} s"
        most = f"max {worst * 1e3:7.1f} ms  CPU {each:6.1f} ms{kept}"
        return f"  {self.name:32} {len(self.seconds):5} calls  {shares}  {most}"


async def timed(
    name: str, ask: Ask, tool: str, arguments: Callable[[], dict[str, Any]], calls: int, limit: float, clients: int = 1
) -> Figure:
    """So many calls, by so many callers that each wait for their answer."""
    seconds: list[float] = []
    left = iter(range(calls))

    async def caller() -> None:
        for _ in left:
            given = arguments()
            began = time.perf_counter()
            await ask(tool, given)
            seconds.append(time.perf_counter() - began)

    cpu = time.process_time()
    await asyncio.gather(*(caller() for _ in range(clients)))
    figure = Figure(name, seconds, time.process_time() - cpu, limit)
    print(figure, flush=True)
    return figure


async def fill(ask: Ask, documents: int) -> None:
    corpus = Corpus()
    chance = random.Random(1)
    for number in range(documents):
        sections = [f"## {corpus.text(3)}\n\n{corpus.text(120)}" for _ in range(chance.randint(1, 4))]
        text = "\n\n".join([f"# {corpus.text(4)}", *sections])
        given = {"content": text, "source": f"bench:{number}", "collection": COLLECTION, "force": True}
        await ask("augment_knowledge", given)


async def load(documents: int, queries: int, clients: int, door: Door, embedder: str) -> bool:
    """Whether the contract's limits were kept."""
    with tempfile.TemporaryDirectory() as home:
        async with opened(home, embedder, door) as at:
            began = time.perf_counter()
            await fill(at.ask, documents)
            took = time.perf_counter() - began
            await settled(at.core)
            print(f"{documents} documents, {took / documents * 1e3:.1f} ms each; door {door}, embedder {embedder}")
            return await measure(at.ask, queries, clients)


async def measure(ask: Ask, queries: int, clients: int) -> bool:
    questions = Questions(1)
    context = questions.large(2_000)
    named = {"collections": COLLECTION}
    await timed("warming up", ask, "query_knowledge_base", lambda: {"query": questions()}, 20, COMPLEX)
    figures = [
        await timed("a question", ask, "query_knowledge_base", lambda: {"query": questions()}, 200, COMPLEX),
        await timed(
            "of a collection", ask, "query_knowledge_base", lambda: {"query": questions(), **named}, 200, COMPLEX
        ),
        await timed(
            "explained, with neighbours",
            ask,
            "query_knowledge_base",
            lambda: {"query": questions(), "explain": True, "neighbours": 1},
            100,
            COMPLEX,
        ),
        await timed(
            "in a context of 2 kB",
            ask,
            "query_knowledge_base",
            lambda: {"query": questions(), "document_context": context},
            100,
            COMPLEX,
        ),
        await timed("of 10 kB", ask, "query_knowledge_base", lambda: {"query": questions.large(LARGE)}, 50, COMPLEX),
        await timed(
            "of 10 kB in a context of 100 kB",
            ask,
            "query_knowledge_base",
            lambda: {"query": questions.large(LARGE), "document_context": questions.large(CONTEXT)},
            20,
            COMPLEX,
        ),
        await timed("manage_collections list", ask, "manage_collections", lambda: {"action": "list"}, 200, SIMPLE),
        await timed(
            "manage_collections info",
            ask,
            "manage_collections",
            lambda: {"action": "info", "collection_name": COLLECTION},
            200,
            SIMPLE,
        ),
    ]
    before = resident()
    name = f"{clients} callers at once"
    figures.append(
        await timed(name, ask, "query_knowledge_base", lambda: {"query": questions()}, queries, COMPLEX, clients)
    )
    print(f"  memory {before:.0f} MB before these {queries} questions, {resident():.0f} MB after")
    kept = all(max(figure.seconds) <= figure.limit for figure in figures)
    print(f"  contract {'kept' if kept else 'NOT KEPT'}")
    return kept


async def compare(name: str, data: dict[str, Any], limit: int | None, by_id: bool, door: Door, embedder: str) -> bool:
    """Whether the tool's answers are as good as the core's."""
    questions = data["queries"]
    number = min(limit or len(questions), len(questions))
    asked = [questions[place * len(questions) // number] for place in range(number)]
    through: list[float] = []
    straight: list[float] = []
    with tempfile.TemporaryDirectory() as home:
        async with opened(home, embedder, door) as at:
            ids: dict[str, str] = {}
            for id, text in data["corpus"].items():
                given = {"content": text, "source": id, "collection": COLLECTION, "force": True}
                put = await at.ask("augment_knowledge", {**given, "title": id} if by_id else given)
                ids[put["document"]["id"]] = id
            await settled(at.core)
            for _, question, relevant in asked:
                given = {"query": question, "collections": COLLECTION, "top_k": SHOWN}
                answer = await at.ask("query_knowledge_base", given)
                through.append(ndcg([item["source_document"] for item in answer["results"]], relevant, SHOWN))
                found = await at.core.searcher.search(SearchFilter(SPACE, at.hub.local.tenant), question, limit=SHOWN)
                straight.append(ndcg([ids[hit.passage.key] for hit in found.hits], relevant, SHOWN))
    same = through == straight
    print(
        f"{name}: nDCG@10 {mean(through):.4f} through query_knowledge_base ({door}), {mean(straight):.4f} from the "
        f"core, {len(asked)} questions: {'the same' if same else 'NOT THE SAME'}",
        flush=True,
    )
    return same


def short() -> dict[str, Ratio]:
    return asyncio.run(_short())


async def _short() -> dict[str, Ratio]:
    questions, count = Questions(1), 100
    with tempfile.TemporaryDirectory() as home:
        async with opened(home, "none", "mcp") as at:
            cpu = time.process_time()
            await fill(at.ask, count)
            cpu = time.process_time() - cpu
            for calls in (10, count):  # the first ones warm up
                figure = await timed(
                    "a question", at.ask, "query_knowledge_base", lambda: {"query": questions()}, calls, COMPLEX
                )
            listed = await timed("list", at.ask, "manage_collections", lambda: {"action": "list"}, count, SIMPLE)
    named = {"augment_knowledge": cpu, "query_knowledge_base": figure.cpu, "manage_collections list": listed.cpu}
    return against_loop({name: used / count for name, used in named.items()})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=2_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--door", choices=("memory", "mcp", "http"), default="mcp")
    parser.add_argument("--embedder", choices=("none", "hash", "e5"))
    parser.add_argument("--data", type=Path, nargs="+")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--title", action="store_true")
    options = parser.parse_args()
    if options.data:
        model = options.embedder or "e5"
        sets = {one.stem: orjson.loads(one.read_bytes()) for one in options.data}
        good = [
            asyncio.run(compare(name, data, options.limit, options.title, options.door, model))
            for name, data in sets.items()
        ]
        sys.exit(not all(good))
    chosen = options.embedder or "none"
    sys.exit(not asyncio.run(load(options.documents, options.queries, options.clients, options.door, chosen)))
