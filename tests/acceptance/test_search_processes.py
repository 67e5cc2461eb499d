"""Several processes at one search core: they see each other at once, share the work, and a kill loses nothing."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pytest
from tests.timeouts import PATIENCE

from kho.kernel.background import Background
from kho.kernel.hub import Settled
from kho.kernel.ports import Database, SearchFilter, Vectors, Words
from kho.lib.clock import system_clock
from kho.models.hash_embedder import HashEmbedder
from kho.search.indexing.embedding_queue import BATCH, LEASE_DURATION, EmbeddingQueue
from kho.search.indexing.index import Document, Field, Index, Passage, prepare
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors

T = SearchFilter("s", "t")

CHILD = """
import asyncio, json, sys
from pathlib import Path
from kho.kernel.background import Background
from kho.lib.clock import system_clock
from kho.kernel.ports import SearchFilter
from kho.models.hash_embedder import HashEmbedder
from kho.search.indexing.embedding_queue import EmbeddingQueue
from kho.search.indexing.index import Document, Field, Index, Passage, prepare
from kho.search.query.searcher import Searcher
from kho.storage.leases import SqlLeases
from kho.lib.tenancy import in_all_tenants
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

def say(*words):
    print(json.dumps(words), flush=True)

class Gated(HashEmbedder):
    shut = False

    async def passages(self, texts):
        if self.shut:
            say("at the gate")
            await asyncio.to_thread(sys.stdin.readline)
        return await super().passages(texts)

async def main(engine, place):
    in_all_tenants().__enter__()
    if engine == "sqlite":
        db, words = Sqlite.open(Path(place)), SqliteWords()
        vectors = SqliteVectors(db)
    else:
        db, words = Postgres.open(place), PostgresWords()
        vectors = PostgresVectors(db)
    model = Gated()
    index = Index(words, vectors, model.model, system_clock)
    searcher = Searcher(db, words, vectors, model)
    embedding_queue = EmbeddingQueue(db, vectors, model, Background(), system_clock, SqlLeases(system_clock))
    say("ready")
    while line := await asyncio.to_thread(sys.stdin.readline):
        match json.loads(line):
            case ["put", key, text]:
                made = prepare(Document("s", "t", key, [Passage((Field(text),))]))
                await db.write(lambda tx: index.put(tx, [made]))
                say("done")
            case ["drop", key]:
                await db.write(lambda tx: index.drop(tx, "s", "t", [key]))
                say("done")
            case ["find", text]:
                found = await searcher.search(SearchFilter("s", "t"), text)
                say([hit.passage.key for hit in found.hits], found.pending)
            case ["settle", shut]:
                model.shut = shut
                settled = await embedding_queue.settle(lambda done, total: say("so far", done, total))
                say("settled", settled.done, settled.left, settled.elsewhere)
    await embedding_queue.aclose()
    await db.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


class Child:
    def __init__(self, engine: str, place: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD, engine, place], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, *words: Any) -> list[Any]:
        self.say(*words)
        return self.hear()

    def say(self, *words: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()

    def hear(self) -> list[Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the process ended with {self._process.wait(PATIENCE)}"
        return json.loads(line)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        assert self.hear() == ["ready"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


@dataclass
class Mine:
    """This process' share of the core."""

    db: Database
    words: Words
    place: str

    def __post_init__(self) -> None:
        self.model = HashEmbedder()
        self.vectors: Vectors = SqliteVectors(self.db) if self.db.engine == "sqlite" else PostgresVectors(self.db)
        self.index = Index(self.words, self.vectors, self.model.model, system_clock)
        self.searcher = Searcher(self.db, self.words, self.vectors, self.model)
        self.ahead = 0
        self.embedding_queue = EmbeddingQueue(
            self.db, self.vectors, self.model, Background(), self.clock, SqlLeases(self.clock)
        )

    def clock(self) -> int:
        return system_clock() + self.ahead

    def child(self) -> Child:
        return Child(self.db.engine, self.place)

    async def put(self, *texts: tuple[str, str]) -> None:
        made = [prepare(Document("s", "t", key, [Passage((Field(text),))])) for key, text in texts]
        await self.db.write(lambda tx: self.index.put(tx, made))

    async def find(self, text: str) -> list[str]:
        return [hit.passage.key for hit in (await self.searcher.search(T, text)).hits]

    async def settle(self) -> Settled:
        return await self.embedding_queue.settle(lambda done, total: None)

    async def standing(self) -> tuple[set[int], set[int], set[int]]:
        """All passages, those that wait, and those that have a vector."""
        rows = await self.db.read(lambda tx: tx.all("SELECT seq FROM passages"))
        waiting = await self.db.read(lambda tx: tx.all("SELECT seq FROM vector_queue"))
        every = {row[0] for row in rows}
        return every, {row[0] for row in waiting}, set(await self.vectors.get(self.model.model, T, sorted(every)))


@pytest.fixture
async def mine(db: Database, words: Words, request: pytest.FixtureRequest) -> AsyncIterator[Mine]:
    place = str(request.getfixturevalue("sqlite_path" if db.engine == "sqlite" else "postgres_schema_url"))
    mine = Mine(db, words, place)
    yield mine
    await mine.embedding_queue.aclose()


async def test_two_processes_see_each_other_at_once(mine: Mine) -> None:
    with mine.child() as child:
        for n in range(20):
            assert child.ask("put", f"theirs{n}", f"The zebra crossing theirs{n}x") == ["done"]
            assert (await mine.find(f"theirs{n}x"))[:1] == [f"theirs{n}"]
            await mine.put((f"mine{n}", f"The okapi crossing mine{n}x"))
            assert child.ask("find", f"mine{n}x")[0][:1] == [f"mine{n}"]
        assert child.ask("drop", "mine3") == ["done"]
        assert "mine3" not in await mine.find("okapi crossing")
        await mine.put(("theirs3", "Nothing of the kind"))
        assert "theirs3" not in child.ask("find", "zebra crossing")[0]
        # A vector that this process filed counts in the other's next answer.
        assert child.ask("find", "okapi")[1] == 39
        assert (await mine.settle()).left == 0
        assert child.ask("find", "okapi")[1] == 0


async def test_one_of_two_processes_fills_and_the_other_takes_over_when_it_is_killed(mine: Mine) -> None:
    await mine.put(*((f"d{n}", f"Text number {n}") for n in range(BATCH + 6)))
    with mine.child() as child:
        assert child.ask("settle", True) == ["so far", 0, BATCH + 6]
        assert child.hear() == ["at the gate"]
        assert await mine.settle() == Settled(0, BATCH + 6, elsewhere=True)
        child.kill()
    assert (await mine.settle()).elsewhere  # it might come back
    mine.ahead = LEASE_DURATION + 1
    assert await mine.settle() == Settled(BATCH + 6, 0)
    every, waiting, filled = await mine.standing()
    assert (waiting, filled) == (set[int](), every)


async def test_the_other_takes_over_at_once_when_one_is_done(mine: Mine) -> None:
    await mine.put(("a", "The bridge is closed."))
    with mine.child() as child:
        child.say("settle", False)
        while (heard := child.hear())[0] != "settled":
            assert heard[0] == "so far"
        assert heard == ["settled", 1, 0, False]
        await mine.put(("b", "The museum is open."))
        assert await mine.settle() == Settled(1, 0)


async def test_a_kill_in_the_middle_of_filling_loses_nothing(mine: Mine) -> None:
    count = 12 * BATCH
    await mine.put(*((f"d{n}", f"Text number {n} of many") for n in range(count)))
    for batches in (1, 3, 2):
        with mine.child() as child:
            child.say("settle", False)
            for _ in range(batches + 1):
                assert child.hear()[0] == "so far"
            child.kill()
        every, waiting, filled = await mine.standing()
        assert len(every) == count
        assert waiting | filled == every
        assert not waiting & filled
        # The next one need not wait until the lease of the killed one has run out.
        await mine.db.write(lambda tx: tx.run("DELETE FROM leases"))
    assert (await mine.settle()).left == 0
    every, waiting, filled = await mine.standing()
    assert (waiting, filled) == (set[int](), every)
    assert (await mine.find("number 200"))[:1] == ["d200"]
