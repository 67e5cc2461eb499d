"""One consistent view of a whole store, read row by row while others write: all tenants, and nothing kept in memory."""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import apsw

from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Row, Tx
from kho.lib import extras
from kho.lib.tenancy import ALL
from kho.storage.postgres import tenant_wall
from kho.storage.postgres.transaction import PostgresTx
from kho.storage.postgres.transaction import translate as translate_postgres
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.transaction import SqliteTx, translate

if TYPE_CHECKING:
    import psycopg


class Snapshot(Tx, Protocol):
    def rows(self, select: str) -> Iterator[Row]:
        """Yield the rows of a SELECT one by one. Nothing else can be asked before the last."""
        ...


@contextmanager
def of_sqlite(path: Path) -> Generator[Snapshot]:
    """Open a view of the database at `path`. It is on a connection of its own, for the thread that opens it."""
    try:
        connection = connect(str(path))
        try:
            connection.set_busy_timeout(10_000)
            connection.execute("PRAGMA query_only = ON; BEGIN; SELECT 1 FROM sqlite_master").fetchall()
            yield _OfSqlite(connection)
        finally:
            connection.close(True)
    except apsw.Error as error:
        raise translate(error) from error


class _OfSqlite(SqliteTx):
    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._reading = connection

    def rows(self, select: str) -> Iterator[Row]:
        return iter(self._reading.execute(select))


@contextmanager
def of_postgres(url: str) -> Generator[Snapshot]:
    """Open a view of the database at `url`, on a connection of its own."""
    try:
        import psycopg
    except ImportError as error:
        raise DatabaseError(f"PostgreSQL needs its driver: {extras.install('postgres')}") from error
    try:
        with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
            # It takes as long as the store is large, however short the server's limits are.
            begin = (
                f"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY{tenant_wall.said(ALL)}; "
                "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0"
            )
            connection.execute(begin.encode(), prepare=False)
            yield _OfPostgres(connection, psycopg.Error)
            connection.execute(b"ROLLBACK")
    except psycopg.Error as error:
        raise translate_postgres(error) from error


class _OfPostgres(PostgresTx):
    def __init__(self, connection: "psycopg.Connection[Row]", driver_error: "type[psycopg.Error]") -> None:
        super().__init__(connection, driver_error)
        self._reading = connection

    def rows(self, select: str) -> Iterator[Row]:
        # COPY sends one row after the other, where a SELECT would be kept in memory as a whole.
        cursor = self._reading.cursor()
        types = cursor.execute(f"{select} LIMIT 0".encode()).description or ()
        copying: Any = f"COPY ({select}) TO STDOUT (FORMAT BINARY)".encode()
        with cursor.copy(copying) as copy:
            copy.set_types([column.type_code for column in types])
            yield from copy.rows()
