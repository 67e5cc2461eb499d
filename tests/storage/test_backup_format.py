"""A backup is read as it was written, or refused: whatever was changed in it, cut off or added."""

import hashlib
import io
import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kho.storage.backup.format import Batch, DamagedBackup, NewerBackup, Reader, Start, TableStart, VectorBatch, Writer

Row = Sequence[object]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(max_size=40),
    st.sampled_from(['{"b":"YQ=="}', "a\nb", "\\", '"', 1.0, 0.1 + 0.2, b"\0", "đ 漢字 👍"]),
)
ROWS: list[Row] = [(n, f"Row {n}\nwith đ and 漢字", n / 7, bytes([n % 256]) * 9, None) for n in range(500)]


def start(*tables: str) -> Start:
    described = [TableStart(name, ("a", "b", "c", "d", "e"), 7) for name in tables]
    return Start("1.2", "sqlite", 5, [("storage", 1, "ab")], described, 500, "model", 2)


def saved(rows: Sequence[Row], *, vectors: bool = True) -> bytes:
    out = io.BytesIO()
    writer = Writer(out, start("things", "empty"))
    assert sum(writer.rows("things", rows)) == len(rows)
    if vectors:
        writer.vectors(VectorBatch([3, 2**40], b"abcdefgh"))
    writer.end()
    return out.getvalue()


def read(content: bytes) -> tuple[list[Row], list[VectorBatch], Reader]:
    reader = Reader(io.BytesIO(content))
    rows: list[Row] = []
    vectors: list[VectorBatch] = []
    for batch in reader.batches():
        if isinstance(batch, Batch):
            assert batch.table == "things"
            rows += [tuple(row) for row in batch.rows]
        else:
            vectors.append(batch)
    return rows, vectors, reader


@given(st.lists(st.tuples(VALUES, VALUES, VALUES, VALUES, VALUES), max_size=20))
def test_every_value_comes_back_with_its_type(rows: list[Row]) -> None:
    found, _, _ = read(saved(rows))
    assert found == rows
    assert [[type(value) for value in row] for row in found] == [[type(value) for value in row] for row in rows]


def test_what_is_read_is_what_was_written() -> None:
    rows, vectors, reader = read(saved(ROWS))
    assert rows == ROWS
    assert [(list(one.seqs), one.halves) for one in vectors] == [([3, 2**40], b"abcdefgh")]
    assert reader.start == start("things", "empty")
    manifest = Reader(io.BytesIO(saved(ROWS))).check()
    assert manifest == reader.manifest
    assert manifest["tables"]["things"]["rows"] == 500
    assert manifest["tables"]["empty"]["sha256"] == hashlib.sha256().hexdigest()


def test_rows_are_in_blocks_of_a_bounded_size() -> None:
    long: list[Row] = [(n, random.Random(n).randbytes(300_000), None, None, None) for n in range(12)]
    writer = Writer(io.BytesIO(), start("things"))
    assert list(writer.rows("things", long)) == [3, 3, 3, 3]  # base64 of 300 KB is 400 KB


def test_any_byte_that_is_changed_is_found() -> None:
    whole = saved(ROWS)
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 << place % 8
        with pytest.raises((DamagedBackup, NewerBackup)):
            Reader(io.BytesIO(changed)).check()


def test_a_file_that_is_cut_off_anywhere_is_unfinished() -> None:
    whole = saved(ROWS)
    for length in range(len(whole)):
        with pytest.raises(DamagedBackup):
            Reader(io.BytesIO(whole[:length])).check()
    with pytest.raises(DamagedBackup, match="a part of it is missing"):
        Reader(io.BytesIO(whole + b"x")).check()


def test_a_whole_block_that_is_missing_doubled_or_of_another_backup_is_found() -> None:
    with_it, without = saved(ROWS), saved(ROWS, vectors=False)
    place = next(n for n in range(len(without)) if with_it[n] != without[n])
    # Lengths, digest, head and body of the vectors: what the one has and the other lacks.
    block_start = max(n for n in range(place + 1) if with_it[:n] == without[:n])
    length = len(with_it) - len(without)
    assert length > 0
    for changed in (
        with_it[:block_start] + without[block_start:],
        without[:block_start] + with_it[block_start:],
        with_it[:block_start] + with_it[block_start:] * 2,
    ):
        if changed in (with_it, without):
            continue
        with pytest.raises(DamagedBackup):
            Reader(io.BytesIO(changed)).check()


def test_another_file_and_a_newer_form_are_told_apart() -> None:
    for other in (b"", b"SQLite format 3\0", b"kho backup\n", b"kho backup x\n", b"\0" * 100):
        with pytest.raises(DamagedBackup, match="not a backup of Kho"):
            Reader(io.BytesIO(other))
    with pytest.raises(NewerBackup, match="Upgrade Kho"):
        Reader(io.BytesIO(saved(ROWS).replace(b"kho backup 1\n", b"kho backup 2\n")))


def test_a_number_that_is_none_comes_back() -> None:
    rows, _, _ = read(saved([(math.nan, math.inf, -math.inf, None, "null")]))
    assert str(rows) == str([(math.nan, math.inf, -math.inf, None, "null")])
