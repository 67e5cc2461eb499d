"""Types for the part of apsw that is used here: its own stubs refer to a class that Python 3.11 does not have."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, cast

import apsw

from kho.storage.sqlite import checksums


class Cursor(Protocol):
    def __iter__(self) -> Iterator[tuple[Any, ...]]: ...

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def close(self, force: bool = False) -> None: ...


class Backup(Protocol):
    def __enter__(self) -> "Backup": ...

    def __exit__(self, *failure: object) -> bool | None: ...

    def step(self, npages: int = -1) -> bool: ...

    @property
    def remaining(self) -> int: ...

    @property
    def page_count(self) -> int: ...


class Connection(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: Sequence[Any] = ()) -> Cursor: ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Any]]) -> Cursor: ...

    def changes(self) -> int: ...

    def set_busy_timeout(self, milliseconds: int) -> None: ...

    def backup(self, databasename: str, sourceconnection: "Connection", sourcedatabasename: str) -> Backup: ...

    def reserve_bytes(self, schema: str | None = None, reserve: int = -1) -> int: ...

    def interrupt(self) -> None: ...

    def close(self, force: bool = False) -> None: ...


def connect(name: str) -> Connection:
    return cast(Connection, apsw.Connection(name, vfs=checksums.vfs()))


def checked(connection: Connection) -> bool:
    """True if the pages of this database have checksums."""
    connection.execute("SELECT count(*) FROM sqlite_master").fetchall()  # the header is read with the first statement
    return connection.reserve_bytes("main") == checksums.RESERVED
