"""One PostgreSQL transaction, and translation of driver errors."""

import logging
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from kho.kernel import errors
from kho.kernel.ports import Row, Value
from kho.storage.sql import check_params, unstorable

if TYPE_CHECKING:
    import psycopg

log = logging.getLogger(__name__)

_SERIALIZATION_FAILURE, _DEADLOCK, _UNIQUE_VIOLATION, _QUERY_CANCELED = "40001", "40P01", "23505", "57014"
_DAMAGED = {"XX001", "XX002"}
"""A page of a table, or of an index, that is not what the server wrote."""
_PLAIN_WORDS = [
    ("08", "The connection to PostgreSQL was lost. Nothing was changed; try again."),
    ("23", "A row breaks a rule of the database. Nothing was changed."),
    ("25006", "The database is read-only here. Nothing was changed."),
    ("53100", "The disk is full. Nothing was changed; free some space, then try again."),
    ("53", "PostgreSQL has run out of resources. Nothing was changed; try again."),
    ("55P03", "The database is busy: another process is writing. Nothing was changed; try again."),
    ("57P", "PostgreSQL is stopping or starting. Nothing was changed; try again."),
]


class Contended(errors.DatabaseError):
    """Others kept changing the same rows. Nothing was changed; try again."""


def translate(error: "psycopg.Error") -> errors.KhoError:
    """Convert a driver error to one of the kernel. The message contains no host and no SQL; the log has the details."""
    state = error.sqlstate or ""
    if state == _UNIQUE_VIOLATION:
        return errors.UniqueViolation()
    if state == _QUERY_CANCELED:
        return errors.Timeout()
    if state in (_SERIALIZATION_FAILURE, _DEADLOCK):
        return Contended()
    log.warning("postgres: %s %s: %s", type(error).__name__, state, error)
    if state in _DAMAGED:
        return errors.DamagedDatabase()
    if state.startswith("22"):
        return unstorable()
    for prefix, words in _PLAIN_WORDS:
        if state.startswith(prefix):
            return errors.DatabaseError(words)
    return errors.DatabaseError("The database refused the statement. Nothing was changed.")


class PostgresTx:
    """The `Tx` port on a connection; the caller begins and commits.

    PostgreSQL answers COMMIT after a failed statement with a silent rollback, so the caller must check `failure` before
    it commits.
    """

    def __init__(
        self, connection: "psycopg.Connection[Row]", driver_error: "type[psycopg.Error]", deadline: float | None = None
    ) -> None:
        self._connection = connection
        self._driver_error = driver_error
        self._deadline = deadline
        self.failure: errors.KhoError | None = None

    @property
    def engine(self) -> Literal["sqlite", "postgres"]:
        return "postgres"

    def all(self, sql: str, *params: Value) -> list[Row]:
        cursor = self._execute(sql, params)
        return cursor.fetchall() if cursor.description else []

    def one(self, sql: str, *params: Value) -> Row | None:
        cursor = self._execute(sql, params)
        return cursor.fetchone() if cursor.description else None

    def run(self, sql: str, *params: Value) -> int:
        return max(self._execute(sql, params).rowcount, 0)

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None:
        self._check_usable()
        checked = [_prepared(sql, row) for row in rows]
        try:
            self._connection.cursor().executemany(_literal(sql), checked)
        except (self._driver_error, UnicodeEncodeError) as error:
            raise self._fail(error) from error

    def script(self, sql: str) -> None:
        self._check_usable()
        try:
            # Several statements can be sent together only if they are not prepared.
            self._connection.execute(_literal(sql), prepare=False)
        except self._driver_error as error:
            raise self._fail(error) from error

    def end(self) -> None:
        """Make the transaction unusable, even for work that kept a reference to it."""
        self.failure = self.failure or errors.DatabaseError("The transaction is over.")

    def _execute(self, sql: str, params: Sequence[Value]) -> "psycopg.Cursor[Row]":
        self._check_usable()
        values = _prepared(sql, params)
        try:
            return self._connection.execute(_literal(sql), values)
        except (self._driver_error, UnicodeEncodeError) as error:
            raise self._fail(error) from error

    def _check_usable(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._deadline is not None and monotonic() > self._deadline:
            raise errors.Timeout()

    def _fail(self, error: "psycopg.Error | UnicodeEncodeError") -> errors.KhoError:
        self.failure = unstorable() if isinstance(error, UnicodeEncodeError) else translate(error)
        return self.failure


def _prepared(sql: str, params: Sequence[Value]) -> list[Value]:
    check_params(sql, params)
    # A boolean is 0 or 1 in both databases; the driver would send PostgreSQL its own type.
    return [int(value) if isinstance(value, bool) else value for value in params]


def _literal(sql: str) -> Any:
    """Cast for the driver, which types a query as a literal string; ours come through the `Tx` port as `str`."""
    return sql
