"""The one thread that writes: all waiting writes are committed together, with one fsync."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import field
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import apsw

from kho.kernel import Tx, errors
from kho.lib.dataclass import dataclass
from kho.storage import schema_mark
from kho.storage.sqlite.connection import Connection
from kho.storage.sqlite.transaction import SqliteTx, translate
from kho.storage.unit_of_work import CapturedError, finish

log = logging.getLogger(__name__)

T = TypeVar("T")
MAX_GROUP = 256


@dataclass(slots=True, eq=False)
class WriteJob:
    """One caller's work, and its result."""

    work: Callable[[Tx], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any] = field(init=False)
    value: Any = None
    error: BaseException | None = None
    attempted: bool = False

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()

    def attempt(self, connection: Connection) -> None:
        self.value, self.attempted = None, True
        with CapturedError() as caught:
            self.value = finish(self.work, SqliteTx(connection))
        self.error = caught.error

    def settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        elif self.attempted:
            self.future.set_result(self.value)
        else:
            self.future.set_exception(errors.DatabaseError("The database stopped before this was written."))


class Writer:
    """Owns the write connection. The thread starts with the first write."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._queue: SimpleQueue[WriteJob | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._thread: threading.Thread | None = None
        self.mark: str | None = None
        """The schema that is written to; None: whichever it is."""

    async def write(self, work: Callable[[Tx], T]) -> T:
        job = WriteJob(work, asyncio.get_running_loop())
        with self._lock:
            if self._closed:
                raise errors.DatabaseError("The database is closed.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kho-sqlite-writer", daemon=True)
                self._thread.start()
            self._queue.put(job)
        return cast(T, await job.future)

    def close(self) -> None:
        """Write what is queued, then close the connection. Blocks; safe to call again."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        try:
            while self._serve_next_batch():
                pass
        finally:
            # Reached on close, and if this thread ever fails: no caller may wait for a thread that is gone.
            with self._lock:
                self._closed = True
            _deliver([job for job in self._take_waiting() if job is not None])

    def _serve_next_batch(self) -> bool:
        taken = [self._queue.get(), *self._take_waiting()]
        jobs = [job for job in taken if job is not None and not job.future.cancelled()]
        try:
            self._commit(jobs)
        finally:
            _deliver(jobs)
        return None not in taken

    def _take_waiting(self) -> list[WriteJob | None]:
        waiting: list[WriteJob | None] = []
        try:
            while len(waiting) < MAX_GROUP - 1:
                waiting.append(self._queue.get_nowait())
        except Empty:
            pass
        return waiting

    def _commit(self, jobs: list[WriteJob]) -> None:
        done = 0
        try:
            if len(jobs) > 1 and self._commit_together(jobs):
                return
            for job in jobs:
                self._commit_alone(job)
                done += 1
        except errors.KhoError as refusal:
            # The transaction did not even begin: no job is to blame, and each would only wait as long again.
            for job in jobs[done:]:
                job.error = type(refusal)(refusal.message)

    def _commit_together(self, jobs: list[WriteJob]) -> bool:
        """Commit jobs in one transaction. False if the group as a whole could not be committed; then nothing was
        written."""
        self._begin()
        try:
            for job in jobs:
                self._connection.execute("SAVEPOINT job")
                job.attempt(self._connection)
                if not self._connection.in_transaction:
                    return False  # on a full or failing disk SQLite rolls back everything
                if job.error is not None:
                    self._connection.execute("ROLLBACK TO job")
                self._connection.execute("RELEASE job")
            self._connection.execute("COMMIT")
        except apsw.Error as error:
            log.warning("sqlite: %d writes could not be committed together, each is tried alone: %s", len(jobs), error)
            self._roll_back()
            return False
        return True

    def _commit_alone(self, job: WriteJob) -> None:
        self._begin()
        job.attempt(self._connection)
        if job.error is None:
            try:
                self._connection.execute("COMMIT")
            except apsw.Error as error:
                job.error = translate(error)
        self._roll_back()

    def _begin(self) -> None:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            row = None if self.mark is None else self._connection.execute(schema_mark.READ).fetchone()
        except apsw.Error as error:
            self._roll_back()
            raise translate(error) from error
        if self.mark is not None and self.mark != (row[0] if row else ""):
            self._roll_back()
            raise errors.Superseded()

    def _roll_back(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK")
        except apsw.Error as error:
            log.warning("sqlite: rollback: %s", error)


def _deliver(jobs: list[WriteJob]) -> None:
    for loop in {job.loop for job in jobs}:
        try:
            loop.call_soon_threadsafe(_settle_all, [job for job in jobs if job.loop is loop])
        except RuntimeError:
            log.warning("sqlite: the event loop closed before its writes were answered")


def _settle_all(jobs: list[WriteJob]) -> None:
    for job in jobs:
        job.settle()
