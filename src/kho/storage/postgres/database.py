"""PostgreSQL as the database for several hosts, through a connection pool used from threads."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Literal, Self, TypeVar

from kho.kernel import errors
from kho.kernel.call import within
from kho.kernel.ports import Row, Tx
from kho.lib import extras
from kho.lib.dataclass import dataclass
from kho.lib.tenancy import Reach, reach
from kho.storage import schema_mark
from kho.storage.fair_threads import FairThreads
from kho.storage.postgres import sessions, tenant_wall
from kho.storage.postgres.transaction import Contended, PostgresTx, translate
from kho.storage.unit_of_work import finish

if TYPE_CHECKING:
    import psycopg
    from psycopg_pool import ConnectionPool

    Connection = psycopg.Connection[Row]

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresLimits:
    pool_size: int = 8
    connect_timeout: float = 10.0
    """Seconds that a unit of work waits for a connection."""
    lock_timeout: float = 10.0
    """Seconds that a statement waits for what another transaction has locked: writers that wait for ever would be gone
    for all others."""
    max_attempts: int = 8
    """Attempts of a write that conflicts with others on the same rows."""
    first_backoff: float = 0.005
    """Seconds before the second attempt, doubled each time. The actual pause is random, up to that."""

    @property
    def patience(self) -> str:
        return f"SET lock_timeout = {int(self.lock_timeout * 1000)}"


_DEFAULT_LIMITS = PostgresLimits()
FIRST = 1.0
"""Seconds until a server that gave no connection yet is asked why."""


class Postgres:
    """The `Database` port. A write is one READ COMMITTED transaction, a read one REPEATABLE READ snapshot."""

    def __init__(
        self, pool: "ConnectionPool[Connection]", driver_error: "type[psycopg.Error]", limits: PostgresLimits
    ) -> None:
        self._pool = pool
        self._driver_error = driver_error
        self._limits = limits
        self._reached = False
        # Separate pools, so that a write never waits for slow searches; in each, tenants take turns.
        readers = max(1, limits.pool_size * 3 // 8)
        self._readers = FairThreads(readers, "kho-postgres-reader")
        self._writers = FairThreads(max(1, limits.pool_size - readers), "kho-postgres-writer")
        self._closed = False
        self._mark: str | None = None

    @classmethod
    def open(cls, url: str, limits: PostgresLimits = _DEFAULT_LIMITS) -> Self:
        """Open the pool. Connections are made in the background: a wrong address shows at the first use."""
        try:
            import psycopg
            from psycopg_pool import ConnectionPool
        except ImportError as error:
            raise errors.DatabaseError(f"PostgreSQL needs its driver: {extras.install('postgres')}") from error
        pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            kwargs={"autocommit": True, "cursor_factory": psycopg.RawCursor},
            configure=partial(_configure, limits),
            min_size=1,
            max_size=limits.pool_size,
            timeout=limits.connect_timeout,
            open=True,
        )
        return cls(pool, psycopg.Error, limits)

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return "postgres"

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        deadline, whose = None if timeout is None else time.monotonic() + timeout, reach()
        return await within(timeout, self._in_thread(self._readers, whose, lambda: self._read(work, whose, deadline)))

    async def write(self, work: Callable[[Tx], T]) -> T:
        whose = reach()  # of the caller: the thread has no such thing
        return await self._in_thread(self._writers, whose, lambda: self._write(work, whose))

    def pin(self, mark: str) -> None:
        self._mark = mark

    async def maintain(self, statement: str, **settings: str) -> None:
        await self._in_thread(self._writers, reach(), lambda: self._maintain(statement, settings))

    async def aclose(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._writers.shutdown)
        await asyncio.to_thread(self._readers.shutdown)
        await asyncio.to_thread(self._pool.close)

    async def _in_thread(self, threads: FairThreads, whose: Reach, work: Callable[[], T]) -> T:
        if self._closed:
            raise errors.DatabaseError("The database is closed.")
        return await threads.run(whose, work)

    def _read(self, work: Callable[[Tx], T], whose: Reach, deadline: float | None) -> T:
        begin = f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{tenant_wall.said(whose)}"
        if deadline is not None:
            left = int((deadline - time.monotonic()) * 1000)
            if left <= 0:
                raise errors.Timeout()
            begin += f"; SET LOCAL statement_timeout = {left}"
        connection, _ = self._begin(begin)
        try:
            return finish(work, PostgresTx(connection, self._driver_error, deadline))
        finally:
            self._give_back(connection)

    def _write(self, work: Callable[[Tx], T], whose: Reach) -> T:
        for attempt in range(self._limits.max_attempts - 1):
            try:
                return self._write_once(work, whose)
            except Contended:
                time.sleep(random.uniform(0, self._limits.first_backoff * 2**attempt))
        return self._write_once(work, whose)

    def _write_once(self, work: Callable[[Tx], T], whose: Reach) -> T:
        begin, mark = f"BEGIN ISOLATION LEVEL READ COMMITTED{tenant_wall.said(whose)}", self._mark
        if mark is not None:  # in the same message, so that it takes no further round trip
            begin += f"; {schema_mark.READ}"
        connection, found = self._begin(begin)
        try:
            if mark is not None and mark != found:
                raise errors.Superseded
            value = finish(work, PostgresTx(connection, self._driver_error))
            self._commit(connection)
            return value
        finally:
            self._give_back(connection)

    def _maintain(self, statement: str, settings: Mapping[str, str]) -> None:
        connection = self._take()
        try:
            _command(connection, "SET lock_timeout = 0")  # it may take hours, and waits for others as long
            for name, value in settings.items():
                _command(connection, f"SET {name} = '{value}'")
            _command(connection, statement)
        except self._driver_error as error:
            raise translate(error) from error
        finally:
            with suppress(self._driver_error):  # fails if the connection is lost, and its settings with it
                for name in settings:
                    _command(connection, f"RESET {name}")
                _command(connection, self._limits.patience)
            self._give_back(connection)

    def _begin(self, statement: str) -> "tuple[Connection, str]":
        """Take a connection and begin; return it, and the text that the last command selected, if any. A connection
        that died while idle is only noticed here, before any work; then the next one is taken. After a restart of the
        server all of them may be dead."""
        others = self._limits.pool_size
        while True:
            connection = self._take()
            try:
                return connection, _last_text(connection.execute(statement.encode(), prepare=False))
            except self._driver_error as error:
                dead = connection.closed
                self._give_back(connection)
                if not dead or not others:
                    raise translate(error) from error
                log.info("postgres: a dead connection is replaced: %s", error)
                others -= 1

    def _take(self) -> "Connection":
        try:
            if not self._reached:
                return self._first()
            return self._pool.getconn()
        except self._driver_error as error:
            log.warning("postgres: %s", error)
            raise errors.DatabaseError("PostgreSQL does not answer. Nothing was changed; try again.") from error

    def _first(self) -> "Connection":
        """Take the first connection. The pool tries again and again and keeps the reason to itself, so a server that is
        not there is asked directly why."""
        try:
            connection = self._pool.getconn(timeout=min(FIRST, self._limits.connect_timeout))
        except self._driver_error:
            if (reason := self._why_not()) is not None:
                raise errors.DatabaseError(reason) from None
            connection = self._pool.getconn()
        self._reached = True
        return connection

    def _why_not(self) -> str | None:
        """Try to connect once. Return where and why that failed, without user and password; None if it worked."""
        import psycopg
        from psycopg.conninfo import conninfo_to_dict

        url = str(self._pool.conninfo)
        where = conninfo_to_dict(url)
        host, port = where.get("host") or where.get("hostaddr") or "localhost", where.get("port") or 5432
        try:
            psycopg.connect(url, connect_timeout=max(2, int(FIRST))).close()
        except psycopg.Error as error:
            log.info("postgres: %s", error)
            said = str(error).strip().partition("\n")[0]
            reason = said.rpartition("failed: ")[2].removeprefix("FATAL:").strip().rstrip(".")
            if "password" in reason or "role" in reason:
                reason = "it does not accept the user and password"
            return f"PostgreSQL at {host}, port {port}, cannot be used: {reason}. Check KHO_DATABASE_URL."
        return None

    def _commit(self, connection: "Connection") -> None:
        try:
            _command(connection, "COMMIT")
        except self._driver_error as error:
            if not connection.closed:
                raise translate(error) from error
            log.warning("postgres: lost while committing: %s", error)
            raise errors.DatabaseError(
                "The connection was lost while committing: the outcome is unknown. Read before you repeat it.",
                outcome="unknown",
            ) from error

    def _give_back(self, connection: "Connection") -> None:
        try:
            if not connection.closed and connection.pgconn.transaction_status:
                _command(connection, "ROLLBACK")
        except self._driver_error as error:
            log.warning("postgres: rollback: %s", error)
        finally:
            self._pool.putconn(connection)


def _command(connection: "Connection", statement: str) -> None:
    # Not prepared: a prepared statement holds one command, and these gain nothing from it.
    connection.execute(statement.encode(), prepare=False)


def _last_text(cursor: "psycopg.Cursor[Row]") -> str:
    while cursor.nextset():
        pass
    row = None if cursor.description is None else cursor.fetchone()
    return "" if row is None else row[0]


def _configure(limits: PostgresLimits, connection: "Connection") -> None:
    from psycopg.adapt import Buffer, Loader

    class PlainNumber(Loader):
        """Loads NUMERIC as int or float: SUM over BIGINT is NUMERIC here, but an integer in SQLite."""

        def load(self, data: Buffer) -> int | float:
            text = bytes(data).decode()
            return int(text) if text.lstrip("-").isdigit() else float(text)

    connection.adapters.register_loader("numeric", PlainNumber)
    # JIT-compiling a plan takes longer than any of our queries.
    connection.execute("SET jit = off")
    # With many short queries at once each should use one core, or all of them wait for each other.
    connection.execute("SET max_parallel_workers_per_gather = 0")
    _command(connection, limits.patience)
    connection.execute(sessions.NAME.encode())
