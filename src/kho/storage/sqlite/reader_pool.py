"""Reading beside the writer: a few threads, each read on its own connection and its own snapshot."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import apsw

from kho.kernel import errors
from kho.kernel.ports import Tx
from kho.storage.sqlite.connection import Connection
from kho.storage.sqlite.transaction import SqliteTx, translate
from kho.storage.unit_of_work import finish, within

log = logging.getLogger(__name__)

T = TypeVar("T")
_AGAIN = 0.05


class ReaderPool:
    """At most `size` threads and as many connections, made when first needed."""

    def __init__(self, connect: Callable[[], Connection], size: int) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="kho-sqlite-reader")
        self._idle: list[Connection] = []
        self._closed = False

    async def read(self, work: Callable[[Tx], T], timeout: float | None) -> T:
        if self._closed:
            raise errors.DatabaseError("The database is closed.")
        loop = asyncio.get_running_loop()
        reading = _Reading()
        answer = loop.run_in_executor(self._threads, self._run, work, reading)
        try:
            return await within(timeout, answer)
        finally:
            if answer.cancelled():
                reading.stop(loop)

    def close(self) -> None:
        """Lets the reads under way finish. Blocks; safe to call again."""
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
    """Stops one read, and never the one that follows it on the same connection: the connection is known
    here only from `begin` to `end`, and the lock keeps `stop` from acting across either."""

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
