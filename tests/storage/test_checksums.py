"""Checksums of the pages of a SQLite file: who writes them, and what other programs and processes do to them."""

import asyncio
import sqlite3
import sys
from pathlib import Path

from kho.kernel.ports import Tx
from kho.storage.migrate import OWN, migrate
from kho.storage.sqlite import backup, integrity, pages, vacuum, wal
from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.database import Sqlite

LONG = "x" * 900
ROWS = 6_000
"""More than SQLite keeps in memory: pages come into the file before the transaction ends."""


def fill(tx: Tx, start: int = 0, count: int = ROWS) -> None:
    rows = [("t", str(start + number), "d", LONG, 1) for number in range(count)]
    tx.many("INSERT INTO receipts (tenant, request_id, digest, answer, created_at) VALUES ($1, $2, $3, $4, $5)", rows)


def look(path: Path) -> pages.Looked:
    return pages.look(path, unheard)


def unheard(what: str, done: int, total: int) -> None:
    """Nobody looks at the progress."""


async def test_a_new_store_has_them(sqlite_path: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    await db.write(fill)
    await db.aclose()
    found = look(sqlite_path)
    assert (found.checksums, found.findings, found.readable) == (True, [], True)
    assert integrity.findings(sqlite_path, []) == []


async def test_copies_and_rewritten_files_have_them(sqlite_path: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    await db.write(fill)
    await db.write(lambda tx: tx.run("UPDATE receipts SET answer = answer || 'y'"))  # much of it is in the log only
    backup.keep(sqlite_path, "something", lambda what, done, total: None)
    assert look(backup.copies(sqlite_path)[0]).findings == []
    await vacuum.vacuum(sqlite_path)
    await db.aclose()
    assert look(sqlite_path).findings == []
    assert look(sqlite_path).checksums


async def old(path: Path) -> None:
    """A store as it was made before there were checksums."""
    path.parent.mkdir(parents=True)
    connection = connect(str(path))
    connection.execute("PRAGMA journal_mode = WAL").fetchall()
    connection.close()
    db = Sqlite.open(path)
    await migrate(db, [OWN])
    await db.write(fill)
    await db.aclose()
    assert not look(path).checksums


async def test_an_old_store_gets_them_when_nobody_else_has_it_open(sqlite_path: Path) -> None:
    await old(sqlite_path)
    other = Sqlite.open(sqlite_path)
    assert await other.read(lambda tx: tx.one("SELECT count(*) FROM receipts")) == (ROWS,)
    assert not vacuum.add_checksums(sqlite_path)
    await other.aclose()
    assert not look(sqlite_path).checksums
    assert vacuum.add_checksums(sqlite_path)
    assert (look(sqlite_path).checksums, look(sqlite_path).findings) == (True, [])
    db = Sqlite.open(sqlite_path)
    await db.write(lambda tx: fill(tx, ROWS, 10))
    assert await db.read(lambda tx: tx.one("SELECT count(*) FROM receipts")) == (ROWS + 10,)
    await db.aclose()
    assert look(sqlite_path).findings == []


WRITER = """
import asyncio, sys
from pathlib import Path
from kho.storage.sqlite.database import Sqlite
async def main():
    db = Sqlite.open(Path(sys.argv[1]))
    sql = "INSERT INTO receipts (tenant, request_id, digest, answer, created_at) VALUES ($1, $2, $3, $4, $5)"
    for number in range(150):
        await db.write(lambda tx: tx.run(sql, "t", f"{sys.argv[2]} {number}", "d", "z" * 3000, 1))
    await db.aclose()
asyncio.run(main())
"""


async def test_several_processes_write_them_while_one_looks(sqlite_path: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    await db.aclose()
    programs = [[sys.executable, "-c", WRITER, str(sqlite_path), name] for name in ("first", "second")]
    writers = [await asyncio.create_subprocess_exec(*program) for program in programs]
    ended = asyncio.gather(*(writer.wait() for writer in writers))
    looked: list[pages.Looked] = []
    while not ended.done():
        looked.append(await asyncio.to_thread(look, sqlite_path))
    assert await ended == [0, 0]
    assert len(looked) > 1
    assert [one.findings for one in looked if one.findings] == []
    assert look(sqlite_path).findings == []


async def test_what_another_program_wrote_stays_in_use(sqlite_path: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    await db.write(lambda tx: fill(tx, 0, 10))
    await db.aclose()
    other = sqlite3.connect(sqlite_path)
    other.execute("UPDATE receipts SET answer = 'short' WHERE request_id = '3'")
    other.commit()
    other.close()
    found = look(sqlite_path)
    assert [one.cure for one in found.findings] == ["salvage"], "it cannot be told from damage"
    db = Sqlite.open(sqlite_path)
    assert await db.read(lambda tx: tx.one("SELECT answer FROM receipts WHERE request_id = '3'")) == ("short",)
    await db.write(lambda tx: fill(tx, 10, 10))
    await db.aclose()


async def test_a_log_is_read_past_its_damage(sqlite_path: Path) -> None:
    db = Sqlite.open(sqlite_path)
    await migrate(db, [OWN])
    for number in range(20):
        await db.write(lambda tx, number=number: fill(tx, number, 1))
    log = sqlite_path.with_name("kho.db-wal")
    content = bytearray(log.read_bytes())
    await db.aclose()
    whole = sqlite_path.with_name("copy-wal")
    whole.write_bytes(content)
    read = wal.read(whole)
    assert (read.damaged, read.header_damaged) == (0, False)
    content[wal.HEADER + 5 * (wal.FRAME + 4096) + 2_000] ^= 1
    whole.write_bytes(content)
    damaged = wal.read(whole)
    assert (damaged.damaged, damaged.frames, damaged.pages) == (1, read.frames, read.pages)
    content[9] ^= 1
    whole.write_bytes(content)
    assert (wal.read(whole).header_damaged, wal.read(whole).pages) == (True, read.pages)
