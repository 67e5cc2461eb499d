"""The file of a backup, the same for both databases. It is written and read in one pass, so a pipe will do.

    kho backup 1                          the first line, with the version of the format
    start    which Kho, which database, when, its migrations, its tables with their columns, its model
    rows     rows of one table, as a line of JSON each
    vectors  of the current model: the numbers of passages, then half-precision numbers, as they are
    end      rows and a digest for each table, and a digest over all blocks

A block is: the lengths of its head and its body, the SHA-256 of these lengths, the head and the body, then both. The
head is JSON. Whatever is changed, left out, put in another order or cut off is found: in a block by its digest, a
missing or additional block by the digest over all, and a file without its end is unfinished.
"""

import base64
import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field
from math import isfinite
from typing import IO, Any, Protocol, cast

import orjson

from kho.kernel.errors import KhoError
from kho.lib.dataclass import dataclass

FORMAT = 1
_MAGIC = b"kho backup "
_LENGTHS = struct.Struct(">II")
_DIGEST = hashlib.sha256().digest_size
BODY = 1024 * 1024
"""Bytes after which the rows of a block are enough. A block is what is in memory at a time."""
_MOST = 1024 * 1024 * 1024
"""More is in no block: the longest value that a database takes is a quarter of this. Guards against a length that is
wrong."""
_FAST = 1
"""Level of compression: beyond the first, twice the time buys a tenth of the size."""
_MARKS = (b'{"b":', b'{"f":')
"""Begin a value that is bytes, or a number that JSON does not have; a text that has it has a backslash before its
quotes."""


class DamagedBackup(KhoError):
    """The file is not a whole backup. Nothing was changed."""

    code = "DAMAGED_BACKUP"


class NewerBackup(KhoError):
    """The backup was made by a newer Kho. Nothing was changed."""

    code = "NEWER_BACKUP"


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one table."""

    table: str
    rows: Iterable[Sequence[Any]]


@dataclass(frozen=True, slots=True)
class VectorBatch:
    seqs: Sequence[int]
    """Numbers of the passages."""
    halves: bytes
    """Their vectors, one after the other: half precision, the low byte first."""


@dataclass(frozen=True, slots=True)
class TableStart:
    name: str
    columns: tuple[str, ...]
    last: int | None
    """The last number that the database gave to a row, if it counts them: it is not given again."""


@dataclass(frozen=True, slots=True)
class Start:
    kho: str
    engine: str
    at: int
    """Time of the snapshot."""
    migrations: Sequence[tuple[str, int, str]]
    """Slice, number and SHA-256 of those that the store had gone through."""
    tables: Sequence[TableStart]
    """Those that others refer to come first."""
    rows: int
    """Of all tables, and vectors."""
    model: str = ""
    """Whose vectors come along; empty if none do."""
    dimension: int = 0

    @classmethod
    def of(cls, head: dict[str, Any]) -> "Start":
        tables = [TableStart(one["name"], tuple(one["columns"]), one["last"]) for one in head["tables"]]
        migrations = [(slice, number, sha) for slice, number, sha in head["migrations"]]
        more: dict[str, Any] = {"tables": tables, "migrations": migrations}
        return cls(**(head | more))

    def columns(self, table: str) -> tuple[str, ...]:
        return next(one.columns for one in self.tables if one.name == table)


class Source(Protocol):
    """A store to be loaded: a backup, or another database. It can be read again from the start."""

    @property
    def start(self) -> Start: ...

    def batches(self) -> Iterator[Batch | VectorBatch]: ...


Manifest = dict[str, Any]
"""What the end of a backup says of its contents."""
Bytes = Callable[[int], None]
"""Hears how many bytes have been read or written so far."""


@dataclass(slots=True)
class _Sums:
    """Counts and digests, kept while a backup is written, and again while it is read."""

    all: Any = field(default_factory=hashlib.sha256)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def add(self, table: str, rows: int, body: bytes) -> None:
        one = self.tables.setdefault(table, {"rows": 0, "bytes": 0, "sha256": hashlib.sha256()})
        one["rows"] += rows
        one["bytes"] += len(body)
        one["sha256"].update(body)

    def end(self) -> Manifest:
        tables = {name: {**one, "sha256": one["sha256"].hexdigest()} for name, one in self.tables.items()}
        vectors = tables.pop(_VECTORS, None)
        return {"tables": tables, "vectors": vectors, "sha256": self.all.hexdigest()}


_VECTORS = "\0vectors"
"""Among the sums; no table is called so."""


class Writer:
    """Writes a backup to a file or pipe. Only `end` makes it whole."""

    def __init__(self, out: IO[bytes], start: Start) -> None:
        self._out = out
        self._sums = _Sums()
        self.written = 0
        self._put(_MAGIC + b"%d\n" % FORMAT)
        self._block({"start": asdict(start)}, b"")
        for table in start.tables:
            self._sums.add(table.name, 0, b"")

    def rows(self, table: str, rows: Iterable[Sequence[Any]]) -> Iterator[int]:
        """Write rows, in as many blocks as needed. Yields how many rows are in each block, once it is written."""
        lines: list[bytes] = []
        size = 0
        for row in rows:
            line = orjson.dumps(row, default=_marked)
            if b"null" in line:  # JSON has no numbers that are none, or endless
                line = orjson.dumps([_finite(value) for value in row], default=_marked)
            lines.append(line)
            size += len(line) + 1
            if size >= BODY:
                yield self._rows(table, lines)
                lines, size = [], 0
        if lines:
            yield self._rows(table, lines)

    def vectors(self, batch: VectorBatch) -> None:
        body = struct.pack(f"<{len(batch.seqs)}q", *batch.seqs) + batch.halves
        self._sums.add(_VECTORS, len(batch.seqs), body)
        self._block({"vectors": len(batch.seqs)}, body)

    def end(self) -> Manifest:
        manifest = self._sums.end()
        self._block({"end": manifest}, b"")
        self._out.flush()
        return manifest

    def _rows(self, table: str, lines: list[bytes]) -> int:
        body = b"\n".join(lines)
        self._sums.add(table, len(lines), body)
        self._block({"rows": len(lines), "table": table, "length": len(body)}, zlib.compress(body, _FAST))
        return len(lines)

    def _block(self, head: Mapping[str, Any], body: bytes) -> None:
        said = orjson.dumps(head)
        lengths = _LENGTHS.pack(len(said), len(body))
        digest = hashlib.sha256(lengths + said)
        digest.update(body)
        self._sums.all.update(digest.digest())
        self._put(lengths + digest.digest() + said)
        self._put(body)

    def _put(self, content: bytes) -> None:
        self._out.write(content)
        self.written += len(content)


class Reader:
    """Reads a backup once, and raises DamagedBackup or NewerBackup where it is not what it should be."""

    def __init__(self, file: IO[bytes], heard: Bytes = lambda done: None) -> None:
        self._file = file
        self._heard = heard
        self._sums = _Sums()
        self._read = 0
        self.manifest: Manifest | None = None
        """Known at the end."""
        self._first_line()
        head, _, digest = self._block()
        if "start" not in head:
            raise DamagedBackup("The backup does not begin as one does: it is damaged. Nothing was changed.")
        self.start = Start.of(head["start"])
        self._sums.all.update(digest)
        for table in self.start.tables:
            self._sums.add(table.name, 0, b"")

    def batches(self) -> Iterator[Batch | VectorBatch]:
        """Yield everything up to the end, checked block by block; the end is reached only if all of it is whole."""
        for head, body in self._blocks():
            if "rows" in head:
                yield Batch(head["table"], _values(body))
            else:
                count = head["vectors"]
                yield VectorBatch(struct.unpack_from(f"<{count}q", body), body[8 * count :])

    def check(self) -> Manifest:
        """Read all of it, and return what it holds."""
        for _ in self._blocks():
            pass
        assert self.manifest is not None
        return self.manifest

    def _blocks(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        while True:
            head, body, digest = self._block()
            if "end" in head:
                self.manifest = self._sums.end()
                if head["end"] != self.manifest or self._file.read(1):
                    raise DamagedBackup("The backup is not whole: a part of it is missing. Nothing was changed.")
                return
            self._sums.all.update(digest)
            if "rows" in head:
                body = _unpacked(body, head["length"])
                self._sums.add(head["table"], head["rows"], body)
            else:
                self._sums.add(_VECTORS, head["vectors"], body)
            yield head, body

    def _first_line(self) -> None:
        line = self._file.read(len(_MAGIC) + 2)
        self._read = len(line)
        version = line.removeprefix(_MAGIC).strip()
        if not line.startswith(_MAGIC) or not version.isdigit() or (len(version) == 1 and line[-1:] != b"\n"):
            raise DamagedBackup("This is not a backup of Kho. Nothing was changed.")
        if line != _MAGIC + b"%d\n" % FORMAT:
            raise NewerBackup(
                "The backup has a newer form than this Kho reads. Nothing was changed. Upgrade Kho, then restore it."
            )

    def _block(self) -> tuple[dict[str, Any], bytes, bytes]:
        lengths = self._exactly(_LENGTHS.size)
        head_size, body_size = _LENGTHS.unpack(lengths)
        if head_size + body_size > _MOST:
            raise _damaged(self._read)
        began = self._read
        digest = self._exactly(_DIGEST)
        said = self._exactly(head_size)
        body = self._exactly(body_size)
        counted = hashlib.sha256(lengths + said)
        counted.update(body)
        if counted.digest() != digest:
            raise _damaged(began)
        self._heard(self._read)
        return orjson.loads(said), body, digest

    def _exactly(self, size: int) -> bytes:
        """Read so many bytes. They are read in pieces: a length that is wrong must not take the memory."""
        pieces: list[bytes] = []
        while size:
            piece = self._file.read(min(size, BODY))
            if not piece:
                raise DamagedBackup("The backup is unfinished: its end is missing. Nothing was changed.")
            self._read += len(piece)
            size -= len(piece)
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _damaged(place: int) -> DamagedBackup:
    return DamagedBackup(f"The backup is damaged, at byte {place:,}. Nothing was changed. Take another one.")


def _unpacked(body: bytes, length: int) -> bytes:
    unpacking = zlib.decompressobj()
    unpacked = unpacking.decompress(body, length + 1)
    if len(unpacked) != length:
        raise DamagedBackup("The backup is damaged: a block has another length than it says. Nothing was changed.")
    return unpacked


def _marked(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"b": base64.b64encode(value).decode()}
    raise TypeError(f"A backup holds no {type(value).__name__}.")


def _finite(value: Any) -> Any:
    return {"f": repr(value)} if isinstance(value, float) and not isfinite(value) else value


def _unmarked(value: dict[str, str]) -> bytes | float:
    return base64.b64decode(value["b"]) if "b" in value else float(value["f"])


def _values(body: bytes) -> list[list[Any]]:
    rows: list[list[Any]] = orjson.loads(b"[" + body.replace(b"\n", b",") + b"]")
    if any(mark in body for mark in _MARKS):
        for row in rows:
            for place, value in enumerate(row):
                if isinstance(value, dict):
                    row[place] = _unmarked(cast(dict[str, str], value))
    return rows


class SavedSource:
    """A backup in a file that stays open, as a `Source`."""

    def __init__(self, file: IO[bytes], heard: Bytes) -> None:
        self._file = file
        self._heard = heard
        self._file.seek(0)
        self.start = Reader(self._file).start

    def batches(self) -> Iterator[Batch | VectorBatch]:
        self._file.seek(0)
        return Reader(self._file, self._heard).batches()
