"""Several processes at one word index: nothing is lost, and each sees what the other has committed."""

import subprocess
import sys

import pytest
from tests.timeouts import PATIENCE

from kho.kernel.ports import Database, SearchFilter, Words

WRITER = """
import asyncio, sys
from pathlib import Path
from kho.kernel.ports import WordEntry, PassageRef
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.database import Sqlite
from kho.storage.word_index.postgres import PostgresWords
from kho.storage.word_index.sqlite import SqliteWords

async def main(engine, place, first):
    first = int(first)
    db, words = (Sqlite.open(Path(place)), SqliteWords()) if engine == "sqlite" else (Postgres.open(place), PostgresWords())
    # Batches of both processes are mixed, and every tenth entry is dropped again.
    batches = [range(start + first, start + 60, 2) for start in range(1, 600, 60)]
    file = lambda seq: WordEntry(
        PassageRef(seq, "s", f"t{seq % 3}", created_at=seq), {"shared": 1}, {f"by{first}": 1, f"n{seq}": 1}, 2
    )
    await asyncio.gather(*(db.write(lambda tx, batch=batch: words.put(tx, map(file, batch))) for batch in batches))
    await db.write(lambda tx: words.drop(tx, [seq for batch in batches for seq in batch if seq % 10 < 2]))
    await db.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


def write_at_once(*arguments: str) -> list[int]:
    processes = [subprocess.Popen([sys.executable, "-c", WRITER, *arguments, first]) for first in "01"]
    return [process.wait(PATIENCE) for process in processes]


async def test_two_processes_write_at_once(db: Database, words: Words, request: pytest.FixtureRequest) -> None:
    place = str(request.getfixturevalue("sqlite_path" if db.engine == "sqlite" else "postgres_schema_url"))
    assert write_at_once(db.engine, place) == [0, 0]
    for tenant in range(3):
        where = SearchFilter("s", f"t{tenant}")
        answer = await db.read(lambda tx, where=where: words.match(tx, where, [("shared", 1.0)], 999))
        assert answer.found == [(seq, 1.0) for seq in range(600, 0, -1) if seq % 3 == tenant and seq % 10 >= 2]
    for seq in (2, 599):
        where = SearchFilter("s", f"t{seq % 3}")
        by = [("by1" if seq % 2 == 0 else "by0", 1.0), (f"n{seq}", 1.0)]
        answer = await db.read(lambda tx, where=where, by=by: words.match(tx, where, by, 1))
        assert answer.found == [(seq, 0.8)]
