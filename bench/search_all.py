"""What one search over everything costs beside the searches of single slices, in the same run over the same store.

    python -m bench.search_all [--items 100000] [--queries 200] [--embedder hash|none|e5] [--database URL] [--json]

The store has equally many facts, messages, experience records, research texts and documents, of thirty words each.
Every query is new, so that no cached list answers it, and is put to each operation in turn, in an order that rotates.
The bar: the 95th percentile of `search` is at most 1.5 times that of the slowest single search. Exit status 1 if not.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Any

from kho.app import open_hub
from kho.evaluation.metrics import percentile
from kho.kernel.call import Call
from kho.kernel.hub import Hub
from kho.models.settings import Embedding
from kho.settings import Search, Settings

BAR = 1.5
VOCABULARY, WORDS, BATCH, AT_ONCE = 20_000, 30, 1_000, 50
SINGLE = {
    "memory_search": ("query", {"limit": 10}),
    "query_experiences": ("keywords", {"limit": 10}),
    "query_knowledge_base": ("query", {"top_k": 10}),
    "query_knowledge": ("query", {"top_k": 10}),
}
"""The searches of single slices: the parameter of the query, and the others. Facts have none of their own."""
OVER_ALL = "search"


class Texts:
    """Texts whose words are as unevenly common as those of a language."""

    def __init__(self) -> None:
        self._random = random.Random(14)
        syllables = [a + b for a in "bcdfghklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "en", "on")]
        self._words = ["".join(self._random.sample(syllables, 3)) for _ in range(VOCABULARY)]
        self._weights = [*accumulate(1 / (rank + 10) for rank in range(VOCABULARY))]

    def text(self, length: int = WORDS) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=length)) + "."

    def query(self) -> str:
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=3))


async def run(hub: Hub, method: str, arguments: Mapping[str, Any]) -> Any:
    operation = hub.registry.tool(method) or hub.registry.methods[method]
    outcome = await hub.registry.call(operation, dict(arguments), Call(hub.local))
    if outcome.error is not None:
        raise outcome.error
    return outcome.value


async def fill(hub: Hub, texts: Texts, each: int) -> None:
    await run(hub, "manage_collections", {"action": "create", "collection_name": "bench"})
    for start in range(0, each, BATCH):
        size = min(BATCH, each - start)
        await run(hub, "facts-server/import_facts", {"lines": [{"text": texts.text()} for _ in range(size)]})
        of = {
            "type": "message",
            "conversation_id": f"chat-{start}",
            "role": "user",
            "created_at": "2026-07-28T09:00:00Z",
        }
        said = [{**of, "id": f"m{number}", "content": texts.text()} for number in range(size)]
        conversation = {
            "type": "conversation",
            "conversation_id": f"chat-{start}",
            "created_at": "2026-07-28T09:00:00Z",
            "updated_at": "2026-07-28T09:00:00Z",
        }
        await run(hub, "memory-server/memory/import", {"lines": [conversation]})
        await run(hub, "memory-server/memory/import", {"lines": said})
        records = [
            {"title": texts.text(6), "problem_description": texts.text(12), "solution": texts.text(12)}
            for _ in range(size)
        ]
        await run(hub, "experiences-server/import_experiences", {"experiences": records})
        for _ in range(0, size, AT_ONCE):
            added = [
                {"content": texts.text(), "source": "bench", "collection": "bench", "force": True}
                for _ in range(AT_ONCE)
            ]
            await asyncio.gather(*(run(hub, "augment_knowledge", one) for one in added))
            written = [{"content": {"body": texts.text()}} for _ in range(AT_ONCE)]
            await asyncio.gather(*(run(hub, "create_document", one) for one in written))
        print(f"{5 * (start + size):,} items", file=sys.stderr, flush=True)


async def measure(hub: Hub, texts: Texts, queries: int) -> dict[str, list[float]]:
    asked = {OVER_ALL: ("query", {"limit": 10}), **SINGLE}
    took: dict[str, list[float]] = {name: [] for name in asked}
    names = [*asked]
    for number in range(-10, queries):  # the first are to warm up
        query = texts.query()
        for name in names[number % len(names) :] + names[: number % len(names)]:
            parameter, others = asked[name]
            began = time.perf_counter()
            await run(hub, name, {parameter: query, **others})
            if number >= 0:
                took[name].append(time.perf_counter() - began)
    return took


async def bench(items: int, queries: int, embedder: Any, database: str | None) -> dict[str, Any]:
    texts = Texts()
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as home:
        search = Search(embedder=Embedding(provider=embedder))
        settings = Settings(home=Path(home), database_url=database, search=search)
        async with open_hub(settings) as hub:
            await fill(hub, texts, items // 5)
            left = 0
            if hub.backlog is not None:
                await hub.backlog.settle(lambda done, total: None)
                left = await hub.backlog.pending()
            took = await measure(hub, texts, queries)
    p95 = {name: percentile(times, 0.95) * 1e3 for name, times in took.items()}
    slowest = max(SINGLE, key=lambda name: p95[name])
    return {
        "items": items,
        "queries": queries,
        "embedder": embedder,
        "vectors_pending": left,
        "p50_ms": {name: round(percentile(times, 0.5) * 1e3, 1) for name, times in took.items()},
        "p95_ms": {name: round(one, 1) for name, one in p95.items()},
        "slowest": slowest,
        "ratio": round(p95[OVER_ALL] / p95[slowest], 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--embedder", choices=("hash", "none", "e5"), default="hash")
    parser.add_argument("--database", help="postgresql://…; an SQLite file if left out")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = asyncio.run(bench(options.items, options.queries, options.embedder, options.database))
    if options.json:
        print(json.dumps(found))
    else:
        for name, p95 in found["p95_ms"].items():
            print(f"{name:24} p50 {found['p50_ms'][name]:8.1f} ms   p95 {p95:8.1f} ms")
        print(f"search / {found['slowest']}: {found['ratio']} (bar {BAR})")
    return 0 if found["ratio"] <= BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
