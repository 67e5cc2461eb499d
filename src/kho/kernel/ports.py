"""The ports: what the kernel and the slices ask of the outside, in as few verbs as will do.

SQL is written once, for both databases: parameters are `$1, $2, …`, first used in ascending order
(SQLite binds them by first appearance), times are BIGINT microseconds, JSON is TEXT, booleans are 0 and 1.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Protocol, TypeVar

T = TypeVar("T")
Value = str | int | float | bytes | None
Row = tuple[Any, ...]


class Tx(Protocol):
    """One transaction, or one consistent snapshot when only reading. Synchronous: it runs off the event loop."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]: ...

    def all(self, sql: str, *params: Value) -> list[Row]: ...

    def one(self, sql: str, *params: Value) -> Row | None: ...

    def run(self, sql: str, *params: Value) -> int:
        """Executes and returns how many rows changed."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...

    def script(self, sql: str) -> None:
        """Several statements without parameters (migrations)."""
        ...


class Database(Protocol):
    """Where everything lives. `work` is a function of the transaction and may be run again after a
    rollback, so it must have no effect outside the transaction."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]: ...

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        """Runs `work` on a snapshot; past `timeout` seconds it is stopped with `errors.Timeout`."""
        ...

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Runs `work` in a transaction and returns once it is durable. An exception rolls it back."""
        ...

    async def aclose(self) -> None: ...


class Words(Protocol):
    """A word index that lives in the same database and transaction as the rows it indexes.

    Tokens come folded (see search.fold). `head` tokens (titles, keywords) count more than `body` tokens.
    """

    def put(self, tx: Tx, space: str, tenant: str, key: str, head: Sequence[str], body: Sequence[str]) -> None: ...

    def drop(self, tx: Tx, space: str, tenant: str, key: str) -> None: ...

    def match(
        self, tx: Tx, space: str, tenant: str, tokens: Sequence[tuple[str, float]], limit: int
    ) -> list[tuple[str, float]]:
        """Keys with a score in 0..1: the share of the query's (token, importance) weight that the entry holds,
        rarer tokens weighing more. Best first, newest first among equals; at most `limit`."""
        ...
