"""One SQLite transaction, and translation of driver errors."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import apsw

from kho.kernel import errors
from kho.kernel.ports import Row, Value
from kho.storage.sql import check_params, unstorable
from kho.storage.sqlite.connection import Connection

log = logging.getLogger(__name__)

_DUPLICATE = {apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY, apsw.SQLITE_CONSTRAINT_ROWID}
_UNREADABLE = {apsw.SQLITE_IOERR_DATA, apsw.SQLITE_IOERR_CORRUPTFS, apsw.SQLITE_IOERR_SHORT_READ}
_PLAIN_WORDS: list[tuple[type[apsw.Error], str]] = [
    (apsw.ConstraintError, "A row breaks a rule of the database. Nothing was changed."),
    (apsw.FullError, "The disk is full. Nothing was changed; free some space, then try again."),
    (apsw.IOError, "The disk reported an error. Nothing was changed."),
    (apsw.CantOpenError, "The database file cannot be opened: check that its folder exists and is yours."),
    (apsw.ReadOnlyError, "The database is read-only here. Nothing was changed."),
]


class Busy(errors.DatabaseError):
    """The database is busy: another process is writing. Nothing was changed; try again."""


def translate(error: apsw.Error) -> errors.KhoError:
    """Convert a driver error to one of the kernel. The message contains no path and no SQL; the log has the details."""
    if isinstance(error, apsw.InterruptError):
        return errors.Timeout()
    if isinstance(error, apsw.ConstraintError) and getattr(error, "extendedresult", 0) in _DUPLICATE:
        return errors.UniqueViolation()
    log.warning("sqlite: %s: %s", type(error).__name__, error)
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return Busy()
    if isinstance(error, apsw.CorruptError | apsw.NotADBError) or getattr(error, "extendedresult", 0) in _UNREADABLE:
        return errors.DamagedDatabase()
    for kind, words in _PLAIN_WORDS:
        if isinstance(error, kind):
            return errors.DatabaseError(words)
    return errors.DatabaseError("The database refused the statement. Nothing was changed.")


class SqliteTx:
    """The `Tx` port on a connection; the caller begins and commits.

    After a failed statement the transaction is lost, as on PostgreSQL: `failure` says why, and the caller must check it
    before it commits.
    """

    def __init__(self, connection: Connection, stopped: Callable[[], bool] | None = None) -> None:
        self._connection = connection
        self._stopped = stopped
        self.failure: errors.KhoError | None = None

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return "sqlite"

    def all(self, sql: str, *params: Value) -> list[Row]:
        return self._fetch(sql, params)

    def one(self, sql: str, *params: Value) -> Row | None:
        rows = self._fetch(sql, params, only_first=True)
        return rows[0] if rows else None

    def run(self, sql: str, *params: Value) -> int:
        self._fetch(sql, params)
        return self._connection.changes()

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._check_usable()
        try:
            self._connection.executemany(sql, _checked(sql, rows)).fetchall()
        except (apsw.Error, UnicodeEncodeError, OverflowError) as error:
            raise self._fail(error) from error

    def script(self, sql: str) -> None:
        self._check_usable()
        try:
            self._connection.execute(sql).fetchall()
        except apsw.Error as error:
            raise self._fail(error) from error

    def end(self) -> None:
        """Make the transaction unusable, even for work that kept a reference to it."""
        self.failure = self.failure or errors.DatabaseError("The transaction is over.")

    def _fetch(self, sql: str, params: Sequence[Value], *, only_first: bool = False) -> list[Row]:
        self._check_usable()
        check_params(sql, params)
        try:
            cursor = self._connection.execute(sql, params)
            if not only_first:
                return cursor.fetchall()
            row = cursor.fetchone()
            # A statement left half-read would keep its snapshot open after the commit.
            cursor.close(True)
            return [] if row is None else [row]
        except (apsw.Error, UnicodeError, OverflowError) as error:
            raise self._fail(error) from error

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._stopped is not None and self._stopped():
            raise errors.Timeout()

    def _fail(self, error: apsw.Error | ValueError | OverflowError) -> errors.KhoError:
        if isinstance(error, apsw.Error):
            self.failure = translate(error)
        else:  # a text that is read and is none: nothing of the kind can be written
            self.failure = errors.DamagedDatabase() if isinstance(error, UnicodeDecodeError) else unstorable()
        return self.failure


def _checked(sql: str, rows: Iterable[Sequence[Value]]) -> Iterator[Sequence[Value]]:
    for row in rows:
        check_params(sql, row)
        yield row
