"""Rewrites the SQLite file, so that nothing is left of deleted rows.

SQLite keeps deleted rows in pages that it has not reused, the word index keeps the terms of a deleted passage until it
merges its segments, and the write-ahead log keeps old pages until it starts over. Copies made before a migration
(backup.py) contain everything deleted since, so they are removed.
"""

import asyncio
import time
from pathlib import Path

import apsw

from kho.kernel.errors import DatabaseError
from kho.storage.sqlite import checksums
from kho.storage.sqlite.backup import copies
from kho.storage.sqlite.connection import Connection, checked, connect
from kho.storage.sqlite.transaction import translate

BUSY_TIMEOUT = 60
"""Seconds to wait for other connections to finish their reads and writes."""


async def vacuum(path: Path) -> None:
    """Rewrite the file. Takes as long as copying it, and as much disk space. Others can read meanwhile, but not
    write."""
    await asyncio.to_thread(_wipe, str(path))


def _wipe(name: str) -> None:
    # A separate connection: VACUUM cannot run in a transaction, and the writer's transactions are shared.
    try:
        connection = connect(name)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT * 1000)
            connection.execute("INSERT INTO words_index (words_index) VALUES ('optimize')")
            connection.execute("PRAGMA checksum_verification = OFF")
            connection.execute("VACUUM")
            emptied = _empty_log(connection)
            for copy in copies(Path(name)):
                copy.unlink()
            if not emptied:
                raise DatabaseError("Others keep the database busy, so old pages are left in its log. Try again.")
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error) from error


def _empty_log(connection: Connection) -> bool:
    """Return False if others keep the log busy until the end."""
    end = time.monotonic() + BUSY_TIMEOUT
    while True:
        # For readers and writers it waits by itself; while another connection does the same it is busy at once.
        busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy is not None and not busy[0]:
            return True
        if time.monotonic() > end:
            return False
        time.sleep(0.05)


def add_checksums(path: Path) -> bool:
    """Rewrite a file without checksums, so that its pages have them. False if nobody can do that here, or others have
    it open: they would go on to write pages without."""
    if checksums.vfs() is None:
        return False
    connection = connect(str(path))
    try:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        if checked(connection):
            return True
        connection.reserve_bytes("main", checksums.RESERVED)
        # In WAL mode: the header is the first page that comes into the file, and the pages after it get theirs.
        connection.execute("PRAGMA journal_mode = WAL").fetchall()
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return checked(connection)
    except apsw.BusyError:
        return False
    finally:
        connection.close()
