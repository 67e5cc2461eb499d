"""Ports: the interfaces through which the kernel and the slices use storage, models and the sanitizer, with as few
methods as possible.

SQL is written once, for both databases: parameters are `$1, $2, …`, first used in ascending order (SQLite binds them by
first appearance), times are BIGINT microseconds, JSON is TEXT, booleans are 0 and 1.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from math import log
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypedDict, TypeVar

from kho.lib.dataclass import dataclass
from kho.lib.sql import Row, Value

if TYPE_CHECKING:  # a hub with keyword search only never loads it
    import numpy as np
    from numpy.typing import NDArray

    from kho.kernel.call import Call
    from kho.kernel.errors import KhoError
    from kho.kernel.operation import Operation

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
        """Execute and return the number of changed rows."""
        ...

    def many(self, sql: str, rows: Iterable[Sequence[Value]]) -> None: ...

    def script(self, sql: str) -> None:
        """Execute several statements without parameters (migrations)."""
        ...


class Database(Protocol):
    """The database. `work` is a function of the transaction and may run again after a rollback, so it must have no
    effect outside the transaction."""

    @property
    def engine(self) -> Literal["sqlite", "postgres"]: ...

    async def read(self, work: Callable[[Tx], T], *, timeout: float | None = None) -> T:
        """Run `work` on a snapshot; past `timeout` seconds it is stopped with `errors.Timeout`."""
        ...

    async def write(self, work: Callable[[Tx], T]) -> T:
        """Run `work` in a transaction and return once it is durable. An exception rolls it back."""
        ...

    def pin(self, mark: str) -> None:
        """From now on refuse writes (Superseded) if the store's schema has another mark (storage/schema_mark.py)."""
        ...

    async def maintain(self, statement: str, **settings: str) -> None:
        """Run a statement that PostgreSQL does not allow in a transaction, such as building an index concurrently with
        writes. `settings` are PostgreSQL settings for this statement alone."""
        ...

    async def aclose(self) -> None: ...


class Lease(Protocol):
    """The right to do work that only one process at a time may do: a row with an owner and an expiry.

    A worker takes the lease, extends it before it expires, and releases it when done. If the process is killed, its
    lease expires, and the next `take` of another process succeeds. All three run in the caller's transaction, so a step
    of the work and the proof that the lease was still held commit together.
    """

    def take(self, tx: Tx, *key: Value) -> bool:
        """Take the row with this key if it is free, expired, or ours already. False while another process holds it."""
        ...

    def hold(self, tx: Tx, *key: Value) -> bool:
        """Extend a lease that we hold. False if another process has it by now, so stop working."""
        ...

    def release(self, tx: Tx, *key: Value) -> None:
        """Let another process take it at once. Does nothing to a lease that another process holds."""
        ...


class Leases(Protocol):
    """Makes leases, all with this process as their owner. Durations are microseconds."""

    @property
    def holder(self) -> str:
        """Id of this process, as other processes see it."""
        ...

    def named(self, name: str, duration: int, *, free_if: str = ...) -> Lease:
        """Return a lease that belongs to no row of a slice; its methods take no key. `free_if` is an SQL condition on
        the row of `leases` under which it may be taken before it expires."""
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
        """Return a lease on each row of a slice's own table, such as a job or a webhook. `key` names the key columns,
        `owner` and `until` those of the lease; a free row has `nobody` (NULL, or '' in quotes) as its owner. Rows
        outside of the SQL condition `where` cannot be leased."""
        ...


@dataclass(frozen=True, slots=True)
class PassageRef:
    """A passage's owner and place: the fields that a search can filter by."""

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
    """Which passages a search covers. Applied inside the index query, never after it."""

    space: str
    tenant: str
    collections: tuple[str, ...] = ()
    """Any of these; every collection if empty."""
    kinds: tuple[str, ...] = ()
    """Any of these; every kind if empty."""
    tags: tuple[str, ...] = ()
    """All of these."""
    since: int | None = None
    """Created at this time or later."""
    until: int | None = None
    """Created before this time."""
    any_tags: tuple[str, ...] = ()
    """At least one of these; no condition if empty."""


Where = SearchFilter | tuple[SearchFilter, ...]
"""One space of a tenant, or several of the same tenant, each with its own filter."""


def each(where: Where) -> tuple[SearchFilter, ...]:
    return where if isinstance(where, tuple) else (where,)


@dataclass(frozen=True, slots=True)
class WordMatches:
    found: list[tuple[int, float]]
    """(seq, score) of passages, with a score in 0..1: the share of the query's weight that each contains. Best first,
    newest first among equals."""
    rarity: dict[str, float]
    """Rarity of each query token in this tenant's space: see `rarity_of`."""
    entries: int = 0
    """Passages in this tenant's space; an estimate where they are many."""
    holders: dict[str, int] = field(default_factory=dict[str, int])
    """How many of them contain each token."""


def rarity_of(entries: int, holders: int) -> float:
    return log(1 + (entries + 10) / (holders + 1))


class WordEntry(NamedTuple):
    """Words of a passage: folded tokens (see search/text/tokens.py), each with its weight, which is its number of
    occurrences if all places count the same. Tokens of the head (titles, keywords) weigh more in a match."""

    ref: PassageRef
    head: Mapping[str, float]
    body: Mapping[str, float]
    length: int
    """Number of tokens in its text."""


TokenCounts = tuple[dict[str, float], int]
"""Weights of the requested tokens in a passage, and its length."""


class Words(Protocol):
    """Word index in the same database and transaction as the rows it indexes."""

    def put(self, tx: Tx, entries: Iterable[WordEntry]) -> None:
        """Index new passages."""
        ...

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None: ...

    def match(self, tx: Tx, where: SearchFilter, tokens: Sequence[tuple[str, float]], limit: int) -> WordMatches:
        """Find the passages with most of the query's (token, importance) weight; rarer tokens weigh more."""
        ...

    def in_time(self, tx: Tx, where: SearchFilter, limit: int, *, newest_first: bool = False) -> list[int]:
        """Return the passages that match a filter, in the order of time."""
        ...

    def counted(
        self, tx: Tx, where: SearchFilter, seqs: Sequence[int], tokens: Iterable[str]
    ) -> dict[int, TokenCounts]:
        """Return token weights in those of these passages that are indexed and belong to the tenant, for a second
        ranking without reading their texts again."""
        ...


class Vectors(Protocol):
    """Vector index: one per model, so that vectors of two models are never compared. Vectors have length 1."""

    async def prepare(self, model: str, dimension: int) -> None:
        """Create the index of a model if it is missing. Raises for another dimension under the same name."""
        ...

    def put(self, tx: Tx, model: str, rows: Sequence[tuple[PassageRef, "Vector"]]) -> None:
        """Store vectors, replacing existing ones, in the caller's transaction."""
        ...

    def move(self, tx: Tx, model: str, rows: Sequence[PassageRef]) -> None:
        """Update collection, tags or date of existing vectors; passages without a vector are ignored."""
        ...

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        """Delete passages from the indexes of all models."""
        ...

    async def nearest(
        self, model: str, where: Where, vector: "Vector", limit: int, *, timeout: float | None = None
    ) -> list[tuple[int, float]]:
        """Return (seq, cosine) of the passages with the nearest vectors, best first; of several spaces, the nearest of
        all."""
        ...

    async def get(
        self, model: str, where: SearchFilter, seqs: Sequence[int], *, timeout: float | None = None
    ) -> dict[int, "Vector"]:
        """Return the vectors, of length 1, of those of these passages that have one and belong to the space and
        tenant."""
        ...

    async def deliver(self) -> int:
        """Bring an index outside of the database up to date and return the number of changes. Does nothing for an index
        inside the database, which is always up to date."""
        ...

    async def aclose(self) -> None: ...


class Embedder(Protocol):
    """Converts text to vectors of length 1."""

    @property
    def model(self) -> str:
        """Name of the model and its version: vectors under the same name are comparable."""
        ...

    async def dimension(self) -> int: ...

    async def passages(self, texts: Sequence[str]) -> "Matrix":
        """Return one row per text. Raises `errors.Unavailable` when the provider fails."""
        ...

    async def query(self, text: str) -> "Vector": ...

    async def aclose(self) -> None: ...


class Reranker(Protocol):
    """Rescores a few passages more precisely."""

    async def scores(self, query: str, passages: Sequence[str]) -> list[float]:
        """Return how well each passage answers the query, in 0..1."""
        ...

    async def aclose(self) -> None: ...


class PromptMessage(TypedDict):
    role: Literal["system", "user"]
    content: str


@dataclass(frozen=True, slots=True)
class Written:
    """Answer of a language model, and the token counts that its provider reports."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Llm(Protocol):
    async def complete(self, messages: Sequence[PromptMessage]) -> Written:
        """Raises `errors.Unavailable` if there is no answer."""
        ...


Policy = Literal["off", "warn", "refuse"]
"""What becomes of a text with a secret in it."""
Personal = Literal["kept", "told", "refused"]
"""What a slice does with personal data: nothing; it tells callers of a shared hub; or it refuses it there, and tells
this machine's user."""


class Screen(Protocol):
    """The sanitizer, which looks at what a call brings before it is stored."""

    async def screen(self, operation: "Operation", params: Any, call: "Call") -> None:
        """Look at every text of the parameters. Raises what the operation's contract says for a text that must not be
        stored; otherwise leaves warnings on the call."""
        ...

    async def screen_file(self, capability: str, name: str, content: Any, *, stored: bool = True) -> list[str]:
        """Look at every text of what a file brings, as of parameters, and return what is to be said about it. Raises
        NotSanitized if the slice refuses secrets. `stored` is False if it is only tried whether it could be stored."""
        ...

    async def redact(self, error: "KhoError", arguments: Any) -> None:
        """Mask the secrets in an error, and those that the caller's arguments held: an error may quote them."""
        ...

    def mask(self, text: str) -> str:
        """Return a short text without its secrets."""
        ...

    def tell(self, call: "Call", places: Sequence[str]) -> None:
        """Leave a warning about secrets on a call."""
        ...
