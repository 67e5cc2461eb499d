"""The ports: what the kernel and the slices ask of the outside, in as few verbs as will do.

SQL is written once, for both databases: parameters are `$1, $2, …`, first used in ascending order
(SQLite binds them by first appearance), times are BIGINT microseconds, JSON is TEXT, booleans are 0 and 1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypedDict, TypeVar

from kho.lib.sql import Row, Value

if TYPE_CHECKING:  # a hub that answers by words alone never loads it
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]
    Matrix = NDArray[np.float32]

T = TypeVar("T")


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

    async def maintain(self, statement: str, **settings: str) -> None:
        """Runs a statement that PostgreSQL lets no transaction hold, such as one that builds an index beside writes.
        `settings` are PostgreSQL's own, for this statement alone."""
        ...

    async def aclose(self) -> None: ...


class Lease(Protocol):
    """The right to do work that one process at a time may do: a row with an owner and an end.

    Whoever works takes the lease, holds it before the end comes, and releases it when done. A process that was killed
    does none of this: its lease runs out, and the next `take` of another process succeeds. All three run in the
    caller's transaction, so a step of the work and the proof that it was still ours to do commit together.
    """

    def take(self, tx: Tx, *key: Value) -> bool:
        """Takes the row with this key if nobody holds it, its lease has run out, or it is ours already. False while
        another process holds it."""
        ...

    def hold(self, tx: Tx, *key: Value) -> bool:
        """Moves the end of a lease that we hold. False: another process has it by now, so stop working."""
        ...

    def release(self, tx: Tx, *key: Value) -> None:
        """Lets another process take it at once. Does nothing to a lease that another process holds."""
        ...


class Leases(Protocol):
    """Makes leases; all of them are held in the name of one process. Durations are microseconds."""

    @property
    def holder(self) -> str:
        """This process, as other processes see it."""
        ...

    def named(self, name: str, duration: int, *, free_if: str = ...) -> Lease:
        """A lease that belongs to no row of a slice. Its methods take no key. `free_if` is an SQL condition on the row
        of `leases` under which it may be taken before its end."""
        ...

    def rows(
        self,
        table: str,
        key: tuple[str, ...],
        duration: int,
        *,
        owner: str = ...,
        until: str = ...,
        nobody: str = ...,
        where: str = ...,
    ) -> Lease:
        """A lease on each row of a slice's own table, such as a job or a webhook. `key` names the columns of the key,
        `owner` and `until` those of the lease; a free row has `nobody` (NULL, or '' in quotes) as its owner. Rows
        outside of the SQL condition `where` cannot be held."""
        ...


@dataclass(frozen=True, slots=True)
class PassageRef:
    """Whose a passage is and where it belongs: what a search can be narrowed by."""

    seq: int
    space: str
    """The slice, e.g. "experiences"."""
    tenant: str
    collection: str = ""
    kind: str = ""
    tags: tuple[str, ...] = ()
    created_at: int = 0


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which passages a search is about. It holds inside the index query, never after it."""

    space: str
    tenant: str
    collections: tuple[str, ...] = ()
    """Any of these; every collection when empty."""
    kinds: tuple[str, ...] = ()
    """Any of these; every kind when empty."""
    tags: tuple[str, ...] = ()
    """All of these."""
    since: int | None = None
    """Created at this time or later …"""
    until: int | None = None
    """… and before this one."""
    any_tags: tuple[str, ...] = ()
    """At least one of these; none is asked for when empty."""


@dataclass(frozen=True, slots=True)
class WordMatches:
    found: list[tuple[int, float]]
    """Passages (their seq) with a score in 0..1: the share of the query's weight that each holds. Best first,
    newest first among equals."""
    rarity: dict[str, float]
    """How rare each token of the query is in this tenant's space: log(1 + (entries + 10) / (holders + 1))."""


class WordEntry(NamedTuple):
    """The words of a passage: folded tokens (see search/text/tokens.py), each with how much it counts, which is how
    often it occurs where all places count the same. Those of the head (titles, keywords) weigh more in a match."""

    ref: PassageRef
    head: Mapping[str, float]
    body: Mapping[str, float]
    length: int
    """Tokens that its text has."""


TokenCounts = tuple[dict[str, float], int]
"""What the tokens asked for count in a passage, and how long it is."""


class Words(Protocol):
    """A word index in the same database and transaction as the rows it indexes."""

    def put(self, tx: Tx, entries: Iterable[WordEntry]) -> None:
        """Files new passages."""
        ...

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None: ...

    def match(self, tx: Tx, where: SearchFilter, tokens: Sequence[tuple[str, float]], limit: int) -> WordMatches:
        """The passages that hold most of the query's (token, importance) weight, rarer tokens weighing more."""
        ...

    def counted(
        self, tx: Tx, where: SearchFilter, seqs: Sequence[int], tokens: Iterable[str]
    ) -> dict[int, TokenCounts]:
        """What some tokens count in these passages, as far as they are here and the tenant's: a closer look, without
        reading their texts again."""
        ...


class Vectors(Protocol):
    """A vector index: one per model, so that vectors of two models never meet. Vectors have length 1."""

    async def prepare(self, model: str, dimension: int) -> None:
        """Makes the index of a model if it is missing. Another dimension under the same name is refused."""
        ...

    def put(self, tx: Tx, model: str, rows: Sequence[tuple[PassageRef, "Vector"]]) -> None:
        """Files vectors, replacing those that are there. In the caller's transaction."""
        ...

    def move(self, tx: Tx, model: str, rows: Sequence[PassageRef]) -> None:
        """The same vectors, now of another collection, with other tags or another date; as far as there are any."""
        ...

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        """Forgets passages, whatever the model."""
        ...

    async def nearest(
        self, model: str, where: SearchFilter, vector: "Vector", limit: int, *, timeout: float | None = None
    ) -> list[tuple[int, float]]:
        """The passages (their seq) whose vectors are nearest, with the cosine. Best first."""
        ...

    async def get(
        self, model: str, where: SearchFilter, seqs: Sequence[int], *, timeout: float | None = None
    ) -> dict[int, "Vector"]:
        """The vectors of these passages, of length 1, as far as they have one and belong to the space and tenant."""
        ...

    async def deliver(self) -> int:
        """Brings an index outside of the database up to date, and returns how many changes that were. One inside is
        up to date always."""
        ...

    async def aclose(self) -> None: ...


class Embedder(Protocol):
    """Text to vectors of length 1."""

    @property
    def model(self) -> str:
        """Names the model and its version: vectors under the same name may be compared."""
        ...

    async def dimension(self) -> int: ...

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        """One row per text. Raises `errors.Unavailable` when the provider fails."""
        ...

    async def query(self, text: str) -> "Vector": ...

    async def aclose(self) -> None: ...


class Reranker(Protocol):
    """A second, closer look at a few passages."""

    async def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """How well each passage answers the query, in 0..1."""
        ...

    async def aclose(self) -> None: ...


class Message(TypedDict):
    role: Literal["system", "user"]
    content: str


@dataclass(frozen=True, slots=True)
class Written:
    """What a language model answered, and what its provider says that took."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Llm(Protocol):
    async def complete(self, messages: Sequence[Message]) -> Written:
        """Raises `errors.Unavailable` when there is no answer to be had."""
        ...
