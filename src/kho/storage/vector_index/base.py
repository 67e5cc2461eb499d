"""Shared by the vector indexes: checks of vectors, the registry of models, and filters.

All vectors are normalised to length 1, so that a dot product is the cosine on every engine.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from kho.kernel import PassageRef, SearchFilter, Tx, errors
from kho.lib.dataclass import dataclass
from kho.lib.sql import number_of

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector

MAX_DIMENSION = 4_000
"""The widest vector that pgvector's index takes in half precision; no model in use is wider."""
BATCH_SIZE = 500
"""Numbers in one statement, rows in one request."""


@dataclass(frozen=True, slots=True)
class Model:
    number: int
    dimension: int


def register(tx: Tx, engine: str, model: str, dimension: int) -> Model:
    """Return the model, registering it if it is new. Raises for another dimension under the same name."""
    if not 1 <= dimension <= MAX_DIMENSION:
        raise errors.InvalidParams(f"A vector has 1 to {MAX_DIMENSION} numbers; the model {model!r} gives {dimension}.")
    # Two processes may do this at once: one of them inserts.
    sql = "INSERT INTO vector_models (engine, model, dimension) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
    tx.run(sql, engine, model, dimension)
    known = find(tx, engine, model)
    if known.dimension != dimension:
        raise errors.InvalidParams(
            f"The model {model!r} is known with {known.dimension} numbers per vector, not {dimension}. "
            "Give another version of a model another name."
        )
    return known


def look_up(tx: Tx, engine: str, model: str) -> Model | None:
    row = tx.one("SELECT number, dimension FROM vector_models WHERE engine = $1 AND model = $2", engine, model)
    return None if row is None else Model(row[0], row[1])


def find(tx: Tx, engine: str, model: str) -> Model:
    known = look_up(tx, engine, model)
    if known is None:
        raise errors.InvalidParams(f"There is no vector index for the model {model!r}: prepare it first.")
    return known


def registered(tx: Tx, engine: str) -> list[Model]:
    rows = tx.all("SELECT number, dimension FROM vector_models WHERE engine = $1 ORDER BY number", engine)
    return [Model(row[0], row[1]) for row in rows]


def latest(rows: "Sequence[tuple[PassageRef, Vector]]") -> "list[tuple[PassageRef, Vector]]":
    """Keep one row per passage: the last one, if it occurs twice."""
    return list({filed.seq: (filed, vector) for filed, vector in rows}.values())


def matrix(model: str, dimension: int, vectors: "Sequence[Vector]") -> "Matrix":
    """Return the vectors as rows of length 1. Raises for a vector that cannot be compared."""
    import numpy as np

    for vector in vectors:
        if np.shape(vector) != (dimension,):
            raise errors.InvalidParams(
                f"A vector of the model {model!r} has {dimension} numbers; one of shape {np.shape(vector)} was given."
            )
    if not vectors:
        return np.zeros((0, dimension), np.float32)
    # In double precision: the square of a large float32 may overflow a float32.
    rows = np.stack(vectors).astype(np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or not (lengths > 0).all():
        raise errors.InvalidParams("A vector must have finite numbers that are not all zero.")
    return (rows / lengths).astype(np.float32)


def vector_of(model: str, dimension: int, vector: "Vector") -> "Vector":
    return matrix(model, dimension, [vector])[0]


class IndexFilter:
    """Filters of a search, as numbers."""

    def __init__(self, where: SearchFilter) -> None:
        self.collections = [number_of(name) for name in where.collections]
        self.kinds = [number_of(name) for name in where.kinds]
        self.tags = [number_of(tag) for tag in dict.fromkeys(where.tags)]
        self.any_tags = [number_of(tag) for tag in dict.fromkeys(where.any_tags)]
        self.since = where.since
        self.until = where.until

    @property
    def any(self) -> bool:
        times = self.since is not None or self.until is not None
        return bool(times or self.collections or self.kinds or self.tags or self.any_tags)

    def sql(self) -> str:
        """Return all filters but the tags, as SQL conditions. The numbers are our own digests, so they are safe in the
        text."""
        conditions = ""
        if self.collections:
            conditions += f" AND collection IN ({', '.join(map(str, self.collections))})"
        if self.kinds:
            conditions += f" AND kind IN ({', '.join(map(str, self.kinds))})"
        if self.since is not None:
            conditions += f" AND created_at >= {int(self.since)}"
        if self.until is not None:
            conditions += f" AND created_at < {int(self.until)}"
        return conditions


def best_first(seqs: Any, cosines: Any, limit: int) -> list[tuple[int, float]]:
    """Convert arrays of numbers and cosines to the result: best first, newest first among equals."""
    import numpy as np

    order = np.lexsort((-seqs, -cosines))[:limit]
    return [(int(seqs[place]), min(1.0, max(-1.0, float(cosines[place])))) for place in order]


Nearest = list[tuple[int, float]]


async def of_all(searches: Iterable[Awaitable[Nearest]], limit: int) -> Nearest:
    """Search several spaces at once and return the nearest of all."""
    found = chain.from_iterable(await asyncio.gather(*searches))
    return sorted(found, key=lambda one: (-one[1], -one[0]))[:limit]
