"""Two processes on one SQLite store: each files passages, embeds and asks, all at once, and each finds at once what the
other has just committed. Any error, a lock above all, ends the run.

    python -m bench.search_processes [--seconds 600]
"""

import argparse
import asyncio
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path

from kho.app import Core, open_core
from kho.kernel.background import Background
from kho.kernel.ports import SearchFilter
from kho.models.settings import Embedding
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.settings import Search, Settings
from kho.storage.migrate import OWN, migrate

WHERE = SearchFilter("bench", "t")
PACE = 0.02
"""Seconds between two writes of a process."""


def settings(folder: str) -> Settings:
    # The hash embedder costs next to nothing, so the store is what is under load.
    return Settings(home=Path(folder), search=Search(embedder=Embedding(provider="hash")))


async def work(core: Core, name: str, end: float) -> int:
    """Files, and now and then replaces and drops, until the time is up. Says each word once it is committed."""
    number = 0
    while time.time() < end:
        number += 1
        word = f"{name}{number:06d}x"
        document = Document(
            "bench", "t", f"{name}-{number % 500}", [Passage((Field(f"The word of the day is {word}."),))]
        )
        await core.db.write(lambda tx, document=document: core.index.put(tx, [prepare(document)]))
        sys.stdout.write(word + "\n")
        sys.stdout.flush()
        if number % 10 == 0:
            await core.db.write(
                lambda tx, number=number: core.index.drop(tx, "bench", "t", [f"{name}-{(number + 250) % 500}"])
            )
        assert await is_first(core, word), f"{word}: its own process does not find it"
        await asyncio.sleep(PACE)
    return number


async def is_first(core: Core, word: str) -> bool:
    found = await core.searcher.search(WHERE, word)
    return bool(found.hits) and word in found.hits[0].passage.text


async def child(folder: str, name: str, end: float) -> None:
    background = Background()
    core = open_core(settings(folder), background)
    assert core.embedding_queue is not None
    background.add(core.embedding_queue.run)
    try:
        await work(core, name, end)
    finally:
        await background.drain()
        await core.embedding_queue.aclose()
        await core.db.aclose()


async def watch(core: Core, process: Process) -> int:
    """Asks for every word that the other process says, as soon as it says it."""
    assert process.stdout is not None
    seen = 0
    async for line in process.stdout:
        word = line.decode().strip()
        assert await is_first(core, word), f"{word}: committed elsewhere, and not found here"
        seen += 1
    return seen


async def run(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        core = open_core(settings(folder), Background())
        await migrate(core.db, [OWN])
        end = time.time() + seconds
        processes = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "bench.search_processes", "--child", folder, name, str(end), stdout=PIPE
            )
            for name in ("a", "b")
        ]
        seen = await asyncio.gather(*(watch(core, process) for process in processes))
        codes = [await process.wait() for process in processes]
        assert core.embedding_queue is not None
        left = await core.embedding_queue.pending()
        await core.embedding_queue.aclose()
        await core.db.aclose()
    assert codes == [0, 0], f"a process failed: {codes}"
    print(f"{seconds:.0f} s, two writing processes and a third asking: {seen[0]} and {seen[1]} words, each found at")
    print(f"once in its own process and in another; no error; {left} passages still wait for their vectors")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "NAME", "END"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        folder, name, end = options.child
        asyncio.run(child(folder, name, float(end)))
    else:
        asyncio.run(run(options.seconds))


if __name__ == "__main__":
    main()
