"""Vector index on SQLite: ordinary tables, in the same file and transaction as everything else.

A vector is a row, in half precision (cosines are accurate to 0.0002). The latest rows of an owner (a tenant in a space)
are its tail, which a search scores in full: small indexes are exact. When a tail reaches BLOCK_ROWS rows they are
packed into a block of short codes; a search compares the codes, then scores the best with their rows.

sqlite-vec was measured for this and not taken. Its vec0 spends most of a search on picking the k best of each chunk,
which grows with k: among 100,000 vectors of one tenant, 26 ms for 200 candidates by one bit per number, 66 to 97 ms for
400, and 44 ms for 100 with two filters. Here comparing all codes of three bits takes 3 to 5 ms, for any number of
candidates, with or without filters.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from kho.kernel.ports import Database, PassageRef, Row, SearchFilter, Tx, Where, each
from kho.lib.sql import number_of
from kho.storage.vector_index import base
from kho.storage.vector_index.bit_codes import (
    BlockCache,
    CodeBlock,
    Frame,
    array,
    candidates,
    encode,
    join,
    learn,
    matching,
)

if TYPE_CHECKING:
    from kho.kernel.ports import Matrix, Vector
    from kho.storage.vector_index.bit_codes import Bits, Mask

ENGINE = "sqlite"
BLOCK_ROWS = 256
"""Rows in a block. A tail has up to as many, and is scored in less than 1 ms."""
GROUP_BLOCKS = 16
"""Blocks cached and scanned as one group: fewer calls, and still small enough for the CPU's cache."""
MIN_CANDIDATES, MAX_CANDIDATES = 240, 1_600
"""Minimum and maximum number of candidates whose vectors are scored in full after the codes were compared."""
ROWS_PER_CANDIDATE = 250
"""One candidate more for this many rows: that makes 280 for 10,000 and 640 for 100,000, and these contain more than
99 % of the true top ten. The share that is needed falls with the number of rows."""
RELEARN_FACTOR = 8
"""A new frame is learnt each time the number of blocks has grown by this factor: the first texts may differ from later
ones."""
SAMPLE_SIZE = 4_096
"""Vectors from which a frame is learnt."""
CACHE_BYTES = 256 * 1024 * 1024
"""Enough for the codes of 1.4 million vectors of 384 numbers; beyond that, codes are read from the file at every
search."""

_TABLES = """
CREATE TABLE IF NOT EXISTS vectors_{n} (
    seq INTEGER PRIMARY KEY,
    owner INTEGER NOT NULL,
    block INTEGER NOT NULL,
    place INTEGER NOT NULL,
    collection INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    tags BLOB NOT NULL,
    vector BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS vectors_{n}_tail ON vectors_{n} (owner) WHERE block = 0;
CREATE TABLE IF NOT EXISTS vectors_{n}_blocks (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    owner INTEGER NOT NULL,
    place INTEGER NOT NULL,
    frame INTEGER NOT NULL,
    dead BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS vectors_{n}_owner ON vectors_{n}_blocks (owner, place);
CREATE TABLE IF NOT EXISTS vectors_{n}_codes (
    number INTEGER PRIMARY KEY,
    frame INTEGER NOT NULL,
    seqs BLOB NOT NULL,
    collections BLOB NOT NULL,
    kinds BLOB NOT NULL,
    times BLOB NOT NULL,
    tags BLOB NOT NULL,
    tag_places BLOB NOT NULL,
    codes BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS vectors_{n}_frames (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    blocks INTEGER NOT NULL,
    width REAL NOT NULL,
    centre BLOB NOT NULL
);
"""
_ANY_OF = "IN (SELECT value FROM json_each($1))"


class SqliteVectors:
    """The `Vectors` port."""

    def __init__(self, db: Database, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._db = db
        self._cache = BlockCache(cache_bytes)

    async def prepare(self, model: str, dimension: int) -> None:
        def work(tx: Tx) -> None:
            tx.script(_TABLES.format(n=base.register(tx, ENGINE, model, dimension).number))

        await self._db.write(work)

    def put(self, tx: Tx, model: str, rows: "Sequence[tuple[PassageRef, Vector]]") -> None:
        known = base.find(tx, ENGINE, model)
        rows = base.latest(rows)
        halves = base.matrix(model, known.dimension, [vector for _, vector in rows]).astype("<f2")
        _put(tx, known, [(filed, half.tobytes()) for (filed, _), half in zip(rows, halves, strict=True)])

    def move(self, tx: Tx, model: str, rows: Sequence[PassageRef]) -> None:
        known = base.look_up(tx, ENGINE, model)
        for start in range(0, len(rows) if known else 0, base.BATCH_SIZE):
            assert known is not None
            some = {filed.seq: filed for filed in rows[start : start + base.BATCH_SIZE]}
            # A block contains the filter columns of its rows, so changed rows leave it.
            _put(tx, known, [(some[seq], vector) for seq, vector in _rows(tx, known, list(some))])

    def drop(self, tx: Tx, seqs: Sequence[int]) -> None:
        for known in base.registered(tx, ENGINE):
            for owner in _forget(tx, known, seqs):
                _pack(tx, known, owner)

    async def nearest(
        self, model: str, where: Where, vector: "Vector", limit: int, *, timeout: float | None = None
    ) -> list[tuple[int, float]]:
        if limit < 1:
            return []
        return await self._db.read(lambda tx: self._near(tx, model, where, vector, limit), timeout=timeout)

    async def get(
        self, model: str, where: SearchFilter, seqs: Sequence[int], *, timeout: float | None = None
    ) -> "dict[int, Vector]":
        return await self._db.read(lambda tx: _get(tx, model, where, seqs), timeout=timeout)

    async def deliver(self) -> int:
        return 0

    async def aclose(self) -> None:
        """Does nothing: only the database is open, and others use it."""

    def _near(self, tx: Tx, model: str, where: Where, vector: "Vector", limit: int) -> list[tuple[int, float]]:
        known = base.look_up(tx, ENGINE, model)
        if known is None:
            return []
        query = base.vector_of(model, known.dimension, vector)
        frames = {frame.number: encode(frame, query[None, :]) for frame in _frames(tx, known)}
        sql = f"SELECT number, place, frame, dead FROM vectors_{known.number}_blocks WHERE owner = $1 ORDER BY place"
        rows: list[Row] = []
        packed: list[tuple[int, base.IndexFilter, list[Row]]] = []
        for one in each(where):
            row = tx.one("SELECT number FROM vector_owners WHERE space = $1 AND tenant = $2", one.space, one.tenant)
            if row is not None:
                index_filter = base.IndexFilter(one)
                rows += _tail(tx, known, row[0], index_filter)
                packed.append((row[0], index_filter, tx.all(sql, row[0])))
        size = BLOCK_ROWS * sum(len(blocks) for _, _, blocks in packed)
        count = max(min(MIN_CANDIDATES + size // ROWS_PER_CANDIDATE, MAX_CANDIDATES), 4 * limit)
        groups = (
            (block, matching(index_filter, block, alive))
            for owner, index_filter, blocks in packed
            for block, alive in self._groups(tx, known, owner, blocks)
        )
        rows += _rows(tx, known, candidates(groups, frames, count).tolist())
        return _scored(rows, known, query, limit)

    def _groups(
        self, tx: Tx, known: base.Model, owner: int, rows: list[Row]
    ) -> "Iterator[tuple[CodeBlock, Mask | None]]":
        """Yield the blocks of an owner, with a mask of those that are alive if some are not."""
        import numpy as np

        for (place, frame), group in groupby(rows, lambda row: (row[1] // GROUP_BLOCKS, row[2])):
            members = list(group)
            block = self._cache.get(
                (known.number, owner, place, frame),
                tuple(row[0] for row in members),
                lambda numbers: _load(tx, known, numbers),
            )
            dead = b"".join(row[3] for row in members)
            yield block, np.unpackbits(array(dead, "u1")) == 0 if any(dead) else None


def halves(known: base.Model) -> str:
    """Return the SELECT of a model's vectors with their numbers, for a backup."""
    return f"SELECT seq, vector FROM vectors_{known.number}"


def put_halves(tx: Tx, model: str, dimension: int, rows: Sequence[tuple[PassageRef, bytes]]) -> None:
    """Store vectors of a backup, which are of half precision and of length 1 already."""
    known = base.register(tx, ENGINE, model, dimension)
    tx.script(_TABLES.format(n=known.number))
    _put(tx, known, rows)


def _put(tx: Tx, known: base.Model, rows: Sequence[tuple[PassageRef, bytes]]) -> None:
    _forget(tx, known, [filed.seq for filed, _ in rows])
    owners = {key: _owner(tx, *key) for key in {(filed.space, filed.tenant) for filed, _ in rows}}
    tx.many(
        f"INSERT INTO vectors_{known.number} (seq, owner, block, place, collection, kind, created_at, tags, "
        "vector) VALUES ($1, $2, 0, 0, $3, $4, $5, $6, $7)",
        (
            (
                filed.seq,
                owners[filed.space, filed.tenant],
                number_of(filed.collection),
                number_of(filed.kind),
                filed.created_at,
                _tags(filed.tags),
                half,
            )
            for filed, half in rows
        ),
    )
    for owner in owners.values():
        _pack(tx, known, owner)


def _owner(tx: Tx, space: str, tenant: str) -> int:
    tx.run("INSERT INTO vector_owners (space, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING", space, tenant)
    row = tx.one("SELECT number FROM vector_owners WHERE space = $1 AND tenant = $2", space, tenant)
    assert row is not None
    return row[0]


def _tags(tags: Iterable[str]) -> bytes:
    return b"".join(number_of(tag).to_bytes(8, "little", signed=True) for tag in dict.fromkeys(tags))


def _tail(tx: Tx, known: base.Model, owner: int, index_filter: base.IndexFilter) -> list[Row]:
    """Return the rows of the tail that pass the filter: number and vector."""
    wanted, some = (_set(tags) for tags in (index_filter.tags, index_filter.any_tags))
    sql = f"SELECT seq, vector, tags FROM vectors_{known.number} WHERE owner = $1 AND block = 0{index_filter.sql()}"
    rows = tx.all(sql, owner)
    if not wanted and not some:
        return [row[:2] for row in rows]
    tagged = ((row[:2], _eights(row[2])) for row in rows)
    return [row for row, tags in tagged if wanted <= tags and (not some or not some.isdisjoint(tags))]


def _set(tags: Sequence[int]) -> set[bytes]:
    return {tag.to_bytes(8, "little", signed=True) for tag in tags}


def _eights(data: bytes) -> set[bytes]:
    return {data[start : start + 8] for start in range(0, len(data), 8)}


def _rows(tx: Tx, known: base.Model, seqs: Sequence[int]) -> list[Row]:
    return tx.all(f"SELECT seq, vector FROM vectors_{known.number} WHERE seq {_ANY_OF}", json.dumps(seqs))


def _get(tx: Tx, model: str, where: SearchFilter, seqs: Sequence[int]) -> "dict[int, Vector]":
    known = base.look_up(tx, ENGINE, model)
    if known is None:
        return {}
    sql = (
        f"SELECT seq, vector FROM vectors_{known.number} WHERE seq {_ANY_OF} "
        "AND owner = (SELECT number FROM vector_owners WHERE space = $2 AND tenant = $3)"
    )
    rows = tx.all(sql, json.dumps(list(seqs)), where.space, where.tenant)
    vectors = base.matrix(model, known.dimension, list(_matrix((row[1] for row in rows), known)))
    return {row[0]: vector for row, vector in zip(rows, vectors, strict=True)}


def _scored(rows: list[Row], known: base.Model, query: "Vector", limit: int) -> list[tuple[int, float]]:
    import numpy as np

    if not rows:
        return []
    seqs = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    return base.best_first(seqs, _matrix((row[1] for row in rows), known) @ query, limit)


def _matrix(vectors: Iterable[bytes], known: base.Model) -> "Matrix":
    return array(b"".join(vectors), "<f2").reshape(-1, known.dimension).astype("f4")


def _frames(tx: Tx, known: base.Model) -> list[Frame]:
    rows = tx.all(f"SELECT number, centre, width FROM vectors_{known.number}_frames ORDER BY number")
    return [Frame(number, array(centre, "<f4"), width) for number, centre, width in rows]


def _load(tx: Tx, known: base.Model, numbers: Sequence[int]) -> CodeBlock:
    rows = tx.all(
        "SELECT number, frame, seqs, collections, kinds, times, tags, tag_places, codes "
        f"FROM vectors_{known.number}_codes WHERE number {_ANY_OF}",
        json.dumps(numbers),
    )
    by_number = {row[0]: _block(row) for row in rows}
    return join([by_number[number] for number in numbers])


def _block(row: Row) -> CodeBlock:
    seqs, collections, kinds, times, tags = (array(data, "<i8") for data in row[2:7])
    codes: Bits = array(row[8], "u8").reshape(-1, len(seqs))
    return CodeBlock(row[1], seqs, collections, kinds, times, tags, array(row[7], "<u2"), codes)


def _forget(tx: Tx, known: base.Model, seqs: Sequence[int]) -> set[int]:
    """Delete rows, and mark them dead in their blocks. A block of which less than half is left is dissolved, and its
    rows go back to the tail, so that deletions degrade neither speed nor size. Returns the owners of such blocks."""
    table = f"vectors_{known.number}"
    dead: dict[int, list[int]] = {}
    for start in range(0, len(seqs), base.BATCH_SIZE):
        some = json.dumps(list(seqs[start : start + base.BATCH_SIZE]))
        rows = tx.all(f"SELECT block, place FROM {table} WHERE seq {_ANY_OF}", some)
        for block, place in rows:
            if block:
                dead.setdefault(block, []).append(place)
        if rows:
            tx.run(f"DELETE FROM {table} WHERE seq {_ANY_OF}", some)
    return {owner for block, places in dead.items() for owner in _bury(tx, table, block, places)}


def _bury(tx: Tx, table: str, block: int, places: Iterable[int]) -> list[int]:
    row = tx.one(f"SELECT owner, dead FROM {table}_blocks WHERE number = $1", block)
    assert row is not None
    dead = bytearray(row[1])
    for place in places:
        dead[place >> 3] |= 0x80 >> (place & 7)
    if 2 * int.from_bytes(dead, "big").bit_count() <= BLOCK_ROWS:
        tx.run(f"UPDATE {table}_blocks SET dead = $1 WHERE number = $2", bytes(dead), block)
        return []
    codes = tx.one(f"SELECT seqs FROM {table}_codes WHERE number = $1", block)
    assert codes is not None
    seqs = json.dumps(array(codes[0], "<i8").tolist())
    # Some of these rows may be in another block by now, or in none.
    tx.run(f"UPDATE {table} SET block = 0, place = 0 WHERE seq {_ANY_OF} AND block = $2", seqs, block)
    tx.run(f"DELETE FROM {table}_blocks WHERE number = $1", block)
    tx.run(f"DELETE FROM {table}_codes WHERE number = $1", block)
    return [row[0]]


def _pack(tx: Tx, known: base.Model, owner: int) -> None:
    """Pack a long tail into blocks."""
    table = f"vectors_{known.number}"
    length = tx.one(f"SELECT count(*) FROM {table} WHERE owner = $1 AND block = 0", owner)
    for _ in range((length[0] if length else 0) // BLOCK_ROWS):
        sql = (
            f"SELECT seq, collection, kind, created_at, tags, vector FROM {table} "
            "WHERE owner = $1 AND block = 0 ORDER BY seq LIMIT $2"
        )
        rows = tx.all(sql, owner, BLOCK_ROWS)
        vectors = _matrix((row[5] for row in rows), known)
        frame = _frame(tx, known, vectors)
        sql = (
            f"INSERT INTO {table}_blocks (owner, place, frame, dead) "
            f"SELECT $1, 1 + coalesce(max(place), 0), $2, $3 FROM {table}_blocks WHERE owner = $1"
        )
        tx.run(sql, owner, frame.number, bytes(BLOCK_ROWS // 8))
        sql = (
            f"INSERT INTO {table}_codes (number, frame, seqs, collections, kinds, times, tags, tag_places, codes) "
            "VALUES (last_insert_rowid(), $1, $2, $3, $4, $5, $6, $7, $8)"
        )
        tx.run(sql, frame.number, *_columns(rows), encode(frame, vectors).tobytes())
        newest = tx.one(f"SELECT max(number) FROM {table}_blocks")
        assert newest is not None
        sql = f"UPDATE {table} SET block = $1, place = $2 WHERE seq = $3"
        tx.many(sql, ((newest[0], place, row[0]) for place, row in enumerate(rows)))


def _columns(rows: list[Row]) -> Iterator[bytes]:
    """Yield the seqs, collections, kinds, times, tags and places of the tags, each as bytes."""
    import numpy as np

    for column in range(4):
        yield np.array([row[column] for row in rows], "<i8").tobytes()
    yield b"".join(row[4] for row in rows)
    places: Any = chain.from_iterable([place] * (len(row[4]) // 8) for place, row in enumerate(rows))
    yield np.array(list(places), "<u2").tobytes()


def _frame(tx: Tx, known: base.Model, vectors: "Matrix") -> Frame:
    """Return the newest frame, or learn a new one if there are many more vectors by now than it was learnt from."""
    import numpy as np

    table = f"vectors_{known.number}"
    row = tx.one(f"SELECT number, centre, width, blocks FROM {table}_frames ORDER BY number DESC LIMIT 1")
    count = tx.one(f"SELECT count(*) FROM {table}_blocks")
    blocks = 1 + (count[0] if count else 0)
    if row is not None and blocks < RELEARN_FACTOR * row[3]:
        return Frame(row[0], array(row[1], "<f4"), row[2])
    ends = tx.one(f"SELECT min(seq), max(seq) FROM {table}")
    assert ends is not None
    spread = sorted({ends[0] + (ends[1] - ends[0]) * step // SAMPLE_SIZE for step in range(SAMPLE_SIZE + 1)})
    sample = _matrix((vector for _, vector in _rows(tx, known, spread)), known)
    frame = learn(0, np.concatenate([sample, vectors]) if row is None else sample)
    sql = f"INSERT INTO {table}_frames (blocks, width, centre) VALUES ($1, $2, $3)"
    tx.run(sql, blocks, frame.width, frame.centre.astype("<f4").tobytes())
    number = tx.one(f"SELECT max(number) FROM {table}_frames")
    assert number is not None
    return Frame(number[0], frame.centre, frame.width)
