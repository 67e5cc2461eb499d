"""Rewrites the embedded database's file, so that nothing is left of rows that were deleted.

SQLite keeps deleted rows in pages that it has not used again, the word index keeps the terms of a deleted passage until
it merges its segments, and the write-ahead log keeps old pages until it starts over. Copies made before a migration
(backup.py) hold all that was deleted since, so they are removed.
"""

import asyncio
from pathlib import Path

import apsw

from kho.kernel.errors import DatabaseError
from kho.storage.sqlite.backup import copies
from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.transaction import translate

BUSY_TIMEOUT = 60
"""Seconds to wait for other connections to finish what they write or read."""


async def vacuum(path: Path) -> None:
    """Takes as long as copying the file does, and as much room on the disk. Others read meanwhile, but do not write."""
    await asyncio.to_thread(_wipe, str(path))


def _wipe(name: str) -> None:
    # A connection of its own: VACUUM runs in no transaction, and the writer's are shared with others.
    try:
        connection = connect(name)
        try:
            connection.set_busy_timeout(BUSY_TIMEOUT * 1000)
            connection.execute("INSERT INTO words_index (words_index) VALUES ('optimize')")
            connection.execute("VACUUM")
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            for copy in copies(Path(name)):
                copy.unlink()
            if busy is None or busy[0]:
                raise DatabaseError("Others keep the database busy, so old pages are left in its log. Try again.")
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error) from error
