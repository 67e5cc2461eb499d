"""The document tree: how fast it takes and changes documents, and how fast it answers as it grows.

    python -m bench.documents [--sizes 1k,10k,100k] [--clients 16] [--queries 200] [--database sqlite|postgres] [--json]

One hub in this process, its store on disk with durable commits, as many callers at once as `--clients`. Beside creating
and updating stands the least that a durable store can do: a row with the same text put into a bare table through the
same database, committed as durably. CPU is this process's, over all threads.

Answers are quoted (no language model) and go by words and meaning; vectors come from the hash embedder, whose own time
is next to nothing. Each document is a page of three sections, some hundred words; a hundred of them share a parent.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from bench.experiences import Corpus, percentile, postgres
from bench.ratios import Ratio, against_loop

from kho.app import open_database, open_hub
from kho.kernel.call import Call
from kho.kernel.hub import Hub
from kho.kernel.ports import Database, Tx
from kho.models.settings import Embedding
from kho.settings import Search, Settings

CHANGES = 500
"""Updates that are measured at each size, of half the documents at most."""


def settings(home: Path, url: str | None) -> Settings:
    return Settings(home=home, database_url=url, search=Search(embedder=Embedding(provider="hash")))


def page(corpus: Corpus, number: int) -> str:
    """The number is in it, so that it can be asked for."""
    sections = "\n\n".join(f"## {corpus.text(3)}\n\n{corpus.text(40)}." for _ in range(3))
    return f"# {corpus.text(4)}\n\nTài liệu ref{number:06}x. {sections}"


async def at_once(clients: int, count: int, work: Callable[[int], Awaitable[None]]) -> tuple[float, float]:
    """How many per second, and the CPU of one in microseconds."""
    numbers = iter(range(count))

    async def client() -> None:
        for number in numbers:
            await work(number)

    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(client() for _ in range(clients)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return count / wall, 1e6 * cpu / count


async def bare(db: Database, clients: int, corpus: Corpus) -> tuple[float, float]:
    """What a durable row costs."""
    await db.write(lambda tx: tx.script("CREATE TABLE bare (number BIGINT PRIMARY KEY, body TEXT NOT NULL)"))
    texts = [page(corpus, number) for number in range(2_000)]

    async def put(number: int) -> None:
        def work(tx: Tx) -> int:
            return tx.run("INSERT INTO bare (number, body) VALUES ($1, $2)", number, texts[number])

        await db.write(work)

    return await at_once(clients, len(texts), put)


class Bench:
    def __init__(self, hub: Hub, clients: int, queries: int) -> None:
        self._hub = hub
        self._clients = clients
        self._queries = queries
        self._corpus = Corpus()
        self._random = random.Random(1)
        self._size = 0
        self._shelves: set[str] = set()

    async def call(self, action: str, **payload: Any) -> Any:
        operation = self._hub.registry.action(action)
        assert operation is not None
        outcome = await self._hub.registry.call(operation, payload, Call(self._hub.local))
        if outcome.error is not None:
            raise outcome.error
        return outcome.result

    async def grow(self, size: int) -> dict[str, float]:
        first, count = self._size, size - self._size

        for shelf in range(first // 100, size // 100 + 1):
            if f"shelf-{shelf}" not in self._shelves:
                self._shelves.add(f"shelf-{shelf}")
                await self.call("create_document", document_id=f"shelf-{shelf}", content={"body": f"Kệ {shelf}"})

        async def create(number: int) -> None:
            number += first
            await self.call(
                "create_document",
                document_id=f"doc-{number}",
                parent_id=f"shelf-{number // 100}",
                content={"body": page(self._corpus, number)},
                metadata={"title": self._corpus.text(4), "tags": [f"t{number % 7}"]},
            )

        creates, create_cpu = await at_once(self._clients, count, create)
        self._size = size

        async def update(_: int) -> None:
            number = self._random.randrange(size)
            await self.call(
                "update_document", document_id=f"doc-{number}", patch={"content": {"body": page(self._corpus, number)}}
            )

        updates, update_cpu = await at_once(self._clients, min(CHANGES, size // 2), update)
        if self._hub.backlog is not None:
            await self._hub.backlog.settle(lambda done, total: None)
        return {
            "documents": size,
            "creates/s": creates,
            "create CPU µs": create_cpu,
            "updates/s": updates,
            "update CPU µs": update_cpu,
            **await self.ask(),
        }

    async def ask(self) -> dict[str, float]:
        """One at a time: what a caller waits for. Half the questions name a page, half are words from the corpus."""
        times: list[float] = []
        found, asked = 0, 0
        cpu = time.process_time()
        for turn in range(self._queries):
            number = self._random.randrange(self._size)
            exact = turn % 2 == 0
            query = f"ref{number:06}x" if exact else self._corpus.text(5)
            started = time.perf_counter()
            answer = await self.call("query_knowledge", query=query)
            times.append(time.perf_counter() - started)
            asked += exact
            found += exact and bool(answer.context) and answer.context[0].document_id == f"doc-{number}"
        cpu = time.process_time() - cpu
        return {
            "query p50 ms": 1e3 * percentile(times, 0.5),
            "query p95 ms": 1e3 * percentile(times, 0.95),
            "query CPU ms": 1e3 * cpu / len(times),
            "found": found / max(asked, 1),
        }


async def run(chosen: Settings, sizes: list[int], clients: int, queries: int) -> tuple[list[dict[str, float]], float]:
    db, _ = open_database(chosen)
    try:
        floor, _ = await bare(db, clients, Corpus())
    finally:
        await db.aclose()
    async with open_hub(chosen) as hub:
        bench = Bench(hub, clients, queries)
        figures: list[dict[str, float]] = []
        for size in sizes:
            figures.append(await bench.grow(size))
            print(f"{size:,} documents", file=sys.stderr)
        return figures, floor


def short() -> dict[str, Ratio]:
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as folder:
        (found,), _ = asyncio.run(run(settings(Path(folder) / "home", None), [300], clients=8, queries=60))
    assert found["found"] == 1, "what one document alone names was not first"
    cpu = {"create": found["create CPU µs"] / 1e6, "update": found["update CPU µs"] / 1e6}
    return {**against_loop({**cpu, "question": found["query CPU ms"] / 1e3})}


def number(text: str) -> int:
    return int(text.lower().replace("k", "000").replace("m", "000000"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="1k,10k")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = sorted(number(one) for one in options.sizes.split(","))
    with (
        tempfile.TemporaryDirectory(prefix="kho-bench-") as folder,
        postgres() if options.database == "postgres" else nullcontext() as url,
    ):
        figures, floor = asyncio.run(run(settings(Path(folder) / "home", url), sizes, options.clients, options.queries))
    if options.json:
        print(json.dumps({"figures": figures, "bare_rows_per_second": floor}))
        return 0
    print("  ".join(f"{name:>14}" for name in figures[0]))
    for one in figures:
        print("  ".join(f"{value:14,.2f}" if value < 100 else f"{value:14,.0f}" for value in one.values()))
    print(f"a bare durable row: {floor:,.0f}/s; creates/s over that: {figures[-1]['creates/s'] / floor:.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
