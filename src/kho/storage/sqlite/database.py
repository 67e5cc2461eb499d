"""The embedded database: one SQLite file in WAL mode, shared by threads and by processes.

Reads run in parallel to the writer: a few threads, each read on its own connection and its own snapshot.
"""

import asyncio
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal, Self, TypeVar

import apsw

from kho.kernel import Tx, errors
from kho.kernel.call import within
from kho.lib.tenancy import reach
from kho.storage.fair_threads import FairThreads
from kho.storage.sqlite import checksums
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.transaction import SqliteTx, translate
from kho.storage.sqlite.writer import Writer
from kho.storage.unit_of_work import finish

log = logging.getLogger(__name__)

T = TypeVar("T")
_AGAIN = 0.05
"""Seconds after which a stopped read is interrupted once more."""
_SOUND_SINCE = (3, 51, 3)
_WAL_KEPT_AFTER_CHECKPOINT = 64 * 1024 * 1024
_READER_CACHE_KIB = 32 * 1024
"""Page cache of each reader: with the default of 2 MB every search of a large index reads from the file."""
_CHECKPOINT_AFTER_PAGES = 4_000
"""16 MB: a checkpoint costs two more fsyncs, so under load it should be rare."""


class ReaderPool:
    """At most `size` threads and as many connections, created on demand. Tenants take turns."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._threads = FairThreads(size, "kho-sqlite-reader")
        self._idle: list[Connection] = []
        self._closed = False

    async def read(self, work: Callable[[Tx], T], timeout: float | None) -> T:
        if self._closed:
            raise errors.DatabaseError("The database is closed.")
        loop = asyncio.get_running_loop()
        reading = _Reading()
        answer = self._threads.run(reach(), lambda: self._run(work, reading))
        try:
            return await within(timeout, answer)
        finally:
            if answer.cancelled():
                reading.stop(loop)

    def close(self) -> None:
        """Wait for running reads, then close. Blocks; safe to call again."""
        self._closed = True
        self._threads.shutdown()
        while self._idle:
            self._idle.pop().close()

    def _run(self, work: Callable[[Tx], T], reading: "_Reading") -> T:
        connection = self._take()
        try:
            connection.execute("BEGIN")
            reading.begin(connection)
            return finish(work, SqliteTx(connection, reading.is_stopped))
        except apsw.Error as error:
            raise translate(error) from error
        finally:
            reading.end()
            self._give_back(connection)

    def _take(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _give_back(self, connection: Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._idle.append(connection)
        except apsw.Error as error:
            log.warning("sqlite: a reader is replaced: %s", error)
            connection.close(True)


class _Reading:
    """Stops one read, and never the next one on the same connection: the connection is known here only from `begin` to
    `end`, and the lock keeps `stop` from acting outside of that."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._stopped = False

    def is_stopped(self) -> bool:
        return self._stopped

    def begin(self, connection: Connection) -> None:
        with self._lock:
            if self._stopped:
                raise errors.Timeout()
            self._connection = connection

    def end(self) -> None:
        with self._lock:
            self._connection = None

    def stop(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            self._stopped = True
            if self._connection is not None:
                self._connection.interrupt()
                # An interrupt just before a statement starts has no effect on it.
                loop.call_later(_AGAIN, self.stop, loop)


class Sqlite:
    """The `Database` port. Writes are grouped into one durable commit; reads see a snapshot and never wait for them."""

    def __init__(self, writer: Writer, readers: ReaderPool, scratch: tempfile.TemporaryDirectory[str] | None) -> None:
        self._writer = writer
        self._readers = readers
        self._scratch = scratch

    @classmethod
    def open(cls, path: Path | None, *, durable: bool = True, busy_timeout: float = 10.0, readers: int = 2) -> Self:
        """Open a database. `path` None is a private database for a test: a temporary file, never synced, deleted by
        `aclose`.

        `durable=False` leaves out the fsync. It exists to measure what durability costs.
        """
        refuse_broken(apsw.sqlite_lib_version())
        scratch = None
        if path is None:
            scratch = tempfile.TemporaryDirectory(prefix="kho-")
            path, durable = Path(scratch.name) / "kho.db", False
        _make_private(path)
        name = str(path)
        writer = Writer(_connect(name, busy_timeout, "FULL" if durable else "OFF"))
        return cls(writer, ReaderPool(lambda: _connect_reader(name, busy_timeout), readers), scratch)

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return "sqlite"

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        return await self._readers.read(work, timeout)

    async def write(self, work: Callable[[Tx], T]) -> T:
        return await self._writer.write(work)

    def pin(self, mark: str) -> None:
        self._writer.mark = mark

    async def maintain(self, statement: str, **settings: str) -> None:
        await self.write(lambda tx: tx.script(statement))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._readers.close)
        # Last, because the last connection to close merges the write-ahead log into the file.
        await asyncio.to_thread(self._writer.close)
        if self._scratch is not None:
            self._scratch.cleanup()


def refuse_foreign(path: Path) -> None:
    """Reject a file that another program keeps its data in, or of which only the log is left, before anything in it is
    changed."""
    if not path.is_file() or not path.stat().st_size:
        log_path = path.with_name(f"{path.name}-wal")
        if log_path.is_file() and log_path.stat().st_size:  # all that is left, and SQLite would delete it
            raise errors.DamagedDatabase
        return
    try:
        connection = connect(str(path))
        try:
            connection.set_busy_timeout(10_000)
            tables = connection.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()
            # Others have a table called migrations too, but not with a hash of each.
            ours = connection.execute("SELECT 1 FROM pragma_table_info('migrations') WHERE name = 'sha256'").fetchone()
        finally:
            connection.close()
    except apsw.Error as error:
        raise translate(error) from error
    if tables and tables[0] and not ours:
        raise errors.DatabaseError(
            f"The file {path.name} in the data folder is a database of another program. Nothing was changed. "
            "Choose another folder for Kho: set KHO_HOME."
        )


def refuse_broken(version: str) -> None:
    """Reject a SQLite whose WAL-reset bug can corrupt a file that two connections write (3.7.0 to 3.51.2)."""
    if tuple(int(part) for part in version.split(".")) < _SOUND_SINCE:
        raise errors.DatabaseError(
            f"SQLite {version} can corrupt the database (WAL-reset bug, fixed in 3.51.3). "
            "Install the apsw wheel from PyPI, which brings a newer one: pip install --upgrade apsw"
        )


def _make_private(path: Path) -> None:
    """Create the database file with private permissions: SQLite gives the -wal and -shm files its mode."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Only ever a new file: closing a second descriptor of a file in use would drop its locks in this process.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError as error:
        if not path.parent.is_dir():
            raise errors.DatabaseError("The data folder (KHO_HOME) is a file: name a folder.") from error
        with suppress(PermissionError):
            path.chmod(0o600)
    except OSError as error:
        log.warning("sqlite: %s", error)
        raise errors.DatabaseError("The database file cannot be made: check the data folder (KHO_HOME).") from error


def _connect(name: str, busy_timeout: float, synchronous: Literal["FULL", "OFF"]) -> Connection:
    try:
        connection = connect(name)
        connection.set_busy_timeout(int(busy_timeout * 1000))
        if checksums.vfs() and not Path(name).stat().st_size:
            connection.reserve_bytes("main", checksums.RESERVED)  # before the first page is written
        _use_wal(connection, busy_timeout)
        connection.execute("PRAGMA checksum_verification = OFF")  # see checksums.py
        connection.execute(
            f"PRAGMA synchronous = {synchronous};"
            "PRAGMA foreign_keys = ON;"
            "PRAGMA mmap_size = 0;"
            f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_AFTER_PAGES};"
            f"PRAGMA journal_size_limit = {_WAL_KEPT_AFTER_CHECKPOINT}"
        )
    except apsw.Error as error:
        raise translate(error) from error
    return connection


def _connect_reader(name: str, busy_timeout: float) -> Connection:
    connection = _connect(name, busy_timeout, "FULL")
    connection.execute(f"PRAGMA query_only = ON; PRAGMA cache_size = -{_READER_CACHE_KIB}")
    return connection


def _use_wal(connection: Connection, busy_timeout: float) -> None:
    """Switch to WAL, with retries: two processes that open a new file at once collide, and SQLite does not wait
    here."""
    deadline = time.monotonic() + busy_timeout
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)
