"""The part of apsw that is used here, with types: its own name a class that Python 3.11 does not have."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, cast

import apsw


class Cursor(Protocol):
    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...

    def close(self, force: bool = False) -> None: ...


class Connection(Protocol):
    @property
    def in_transaction(self) -> bool: ...

    def execute(self, statements: str, bindings: Sequence[Any] = ()) -> Cursor: ...

    def executemany(self, statements: str, sequenceofbindings: Iterable[Sequence[Any]]) -> Cursor: ...

    def changes(self) -> int: ...

    def set_busy_timeout(self, milliseconds: int) -> None: ...

    def interrupt(self) -> None: ...

    def close(self, force: bool = False) -> None: ...


def connect(name: str) -> Connection:
    return cast(Connection, apsw.Connection(name))
