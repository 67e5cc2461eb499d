"""A store that is re-indexed in the background while it is asked.

    python -m bench.reindexing [--rows 100000]

Fills a store with facts (hash embedder), closes it, makes it forget in which form they are indexed, as a new version of
Kho would, and opens it again. Until everything is re-indexed, words that are in one fact each are searched for: how
many are found, and how long an answer takes, beside the same before and after.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.recall import filled
from bench.search_all import Texts, run

from kho.app import Core, open_hub
from kho.evaluation.metrics import percentile
from kho.kernel.capability import Capability
from kho.kernel.hub import Hub
from kho.models.settings import Embedding
from kho.search.indexing import passages
from kho.settings import Search, Settings

BATCH = 500
ASKED = 200
FORM = "form:facts"


def word(number: int) -> str:
    return f"unique{number}word"


async def ask(hub: Hub, rows: int, until: Callable[[int], bool]) -> tuple[int, list[float]]:
    """Ask until told to stop. Return how many were not found, and the seconds of each answer."""
    missed, seconds = 0, list[float]()
    while not until(len(seconds)):
        number = len(seconds) * 7919 % rows
        started = time.perf_counter()
        found = await run(hub, "search", {"query": word(number), "kinds": ["fact"], "limit": 3})
        seconds.append(time.perf_counter() - started)
        missed += not any(word(number) in hit["text"] for hit in found["results"])
        await asyncio.sleep(0.02)  # a person or an agent at a time, not a flood
    return missed, seconds


async def measure(home: Path, rows: int) -> None:
    cores: list[Core] = []

    def look(core: Core) -> Sequence[Capability]:
        cores.append(core)
        return ()

    settings = Settings(home=home, database_url=None, search=Search(embedder=Embedding(provider="hash")))
    texts = Texts()
    async with open_hub(settings, more=look) as hub:
        for start in range(0, rows, BATCH):
            lines = [{"text": f"{word(n)} {texts.text()}"} for n in range(start, min(rows, start + BATCH))]
            await run(hub, "facts-server/import_facts", {"lines": lines})
        core = cores[-1]
        await filled(core)
        show("before", await ask(hub, rows, lambda asked: asked == ASKED))
        await core.db.write(lambda tx: tx.run("DELETE FROM search_state WHERE name = $1", FORM))
    async with open_hub(settings, more=look) as hub:
        core, started, done = cores[-1], time.perf_counter(), asyncio.Event()

        async def watch() -> None:
            while await core.db.read(lambda tx: passages.state(tx, FORM)) is None:  # noqa: ASYNC110, a table
                await asyncio.sleep(0.1)
            done.set()

        watching = asyncio.create_task(watch())
        figures = await ask(hub, rows, lambda asked: done.is_set())
        await watching
        print(f"{rows:,} re-indexed in {time.perf_counter() - started:.1f} s", file=sys.stderr)
        show("meanwhile", figures)
        show("after", await ask(hub, rows, lambda asked: asked == ASKED))
        assert core.embedding_queue is not None
        print(f"passages that wait for another vector: {await core.embedding_queue.pending()}")


def show(when: str, figures: tuple[int, list[float]]) -> None:
    missed, seconds = figures
    p50, p95 = (1000 * percentile(seconds, share) for share in (0.5, 0.95))
    print(f"{when:10} {len(seconds):6} asked, {missed} not found, p50 {p50:.1f} ms, p95 {p95:.1f} ms", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(measure(Path(home), options.rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
