"""Reads rows out of a database file without SQLite, page by page: what a damaged page holds is lost, and nothing else.

The program that ships with the apsw wheel has no `.recover`, and that reads a damaged log only as far as the damage.
The form of the file is documented at sqlite.org/fileformat2.html; what is free there is not looked at, so that nothing
comes back that was deleted.
"""

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Any

import apsw

from kho.lib.dataclass import dataclass
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.page_file import PageFile

INTERIOR_INDEX, INTERIOR, LEAF_INDEX, LEAF = 2, 5, 10, 13
_KINDS = {INTERIOR_INDEX, INTERIOR, LEAF_INDEX, LEAF}
_SIZES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?(\w+)[\"'`\]]?\s*\(", re.I)
_DEPTH = 40
Cell = tuple[int | None, list[Any]]
"""The rowid, None in an index, and the values of a row."""


class Unreadable(Exception):
    """A cell or a page is not what it should be."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    needed: bool
    default: str | None

    def takes(self, value: Any) -> bool:
        """True if a value may stand here, as our tables are made."""
        if value is None:
            return not self.needed
        if self.type in ("BLOB", "BYTEA"):
            return isinstance(value, bytes)
        if self.type.startswith(("BIGINT", "INT")):
            return isinstance(value, int)
        if self.type.startswith(("DOUBLE", "REAL")):
            return isinstance(value, int | float)
        return isinstance(value, str)

    def made_of(self, value: Any) -> Any:
        """Return a value that may stand here, made of one that may not."""
        if self.takes(value):
            return value
        if self.type in ("BLOB", "BYTEA"):
            return value.encode() if isinstance(value, str) else b""
        if self.type.startswith(("BIGINT", "INT", "DOUBLE", "REAL")):
            return 0
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the rows of a table lie in the file."""

    name: str
    columns: tuple[Column, ...]
    """As they stand in a row: in a table without rowid those of the key come first."""
    alias: int | None = None
    """The column that is the rowid, and empty in the row itself."""
    is_index: bool = False
    """True for a table without rowid."""

    def forced(self, cell: Cell) -> dict[str, Any] | None:
        """Return the row of a cell that is in the table's own tree, with something in the place of what is damaged."""
        rowid, values = cell
        if (rowid is None) != self.is_index:
            return None
        values = [*values, *[None] * len(self.columns)]
        return {
            column.name: rowid if place == self.alias else column.made_of(values[place])
            for place, column in enumerate(self.columns)
        }

    def row(self, cell: Cell) -> dict[str, Any] | None:
        """Return the row of a cell, or None if it cannot be one of this table."""
        rowid, values = cell
        if len(values) > len(self.columns) or (rowid is None) != self.is_index:
            return None
        row: dict[str, Any] = {}
        for place, column in enumerate(self.columns):
            value = rowid if place == self.alias else values[place] if place < len(values) else None
            if place >= len(values) and column.needed:
                if column.default is None:
                    return None
                continue  # added after the row was written
            if not column.takes(value):
                return None
            row[column.name] = value
        return row


@dataclass(slots=True)
class RowFile(PageFile):
    """A database file, read row by row."""

    chain: list[int] = field(default_factory=list[int])
    """The further pages of the row that was read last."""
    torn: bool = False
    """True if the end of that row is lost."""

    def cells(self, number: int) -> Iterator[Cell | None]:
        """Yield the rows in a page; None for one that cannot be read. Then the file may have it as it was before."""
        lost = False
        for cell in self._cells(number, self.page(number)):
            lost = lost or cell is None
            yield cell
        if number in self.log.broken or (lost and number in self.log.pages):
            yield from (cell for cell in self._cells(number, self.earlier(number)) if cell is not None)

    def _cells(self, number: int, content: bytes) -> Iterator[Cell | None]:
        start = 100 if number == 1 else 0
        if len(content) < self.size or content[start] not in _KINDS:
            return
        kind = content[start]
        if kind == INTERIOR:
            return
        inner = kind == INTERIOR_INDEX
        for pointer in _pointers(content, start, inner=inner):
            self.chain, self.torn = [], False
            try:
                yield self._cell(content, pointer + 4 * inner, is_table=kind == LEAF)
            except (Unreadable, IndexError):
                yield None

    def children(self, number: int) -> list[int]:
        """Return the pages below a page. Raises Unreadable if it is none of a tree."""
        content = self.page(number)
        start = 100 if number == 1 else 0
        if len(content) < self.size or content[start] not in _KINDS:
            raise Unreadable
        if content[start] in (LEAF, LEAF_INDEX):
            return []
        below = [_number(content, pointer) for pointer in _pointers(content, start, inner=True)]
        return [*below, _number(content, start + 8)]

    def kind(self, number: int) -> int:
        content = self.page(number)
        return content[100 if number == 1 else 0] if content else 0

    def _cell(self, content: bytes, at: int, *, is_table: bool) -> Cell:
        length, at = _varint(content, at)
        rowid = None
        if is_table:
            rowid, at = _varint(content, at)
            rowid -= (rowid >> 63) << 64
        most = self.usable - 35 if is_table else (self.usable - 12) * 64 // 255 - 23
        if length > self.count * self.size:
            raise Unreadable
        local = length
        if length > most:
            least = (self.usable - 12) * 32 // 255 - 23
            local = least + (length - least) % (self.usable - 4)
            local = least if local > most else local
        if at + local > self.usable:
            raise Unreadable
        payload = content[at : at + local]
        if local < length:
            payload += self._overflow(_number(content, at + local), length - local)
        return rowid, _record(payload)

    def _overflow(self, number: int, left: int) -> bytes:
        found: list[bytes] = []
        while left > 0:
            self.chain.append(number)
            content = self.page(number)
            if not content or number in self.free:
                self.torn = True  # the rest is lost, and what there is of the row is kept
                return b"".join(found) + bytes(left)
            part = content[4 : 4 + min(left, self.usable - 4)]
            found.append(part)
            left -= len(part)
            number = _number(content, 0)
        return b"".join(found)


def _number(content: bytes, at: int) -> int:
    return int.from_bytes(content[at : at + 4], "big")


def _pointers(content: bytes, start: int, *, inner: bool) -> Iterator[int]:
    """Yield where the cells of a page begin, as far as that can be."""
    first = start + (12 if inner else 8)
    count = int.from_bytes(content[start + 3 : start + 5], "big")
    end = min(first + 2 * count, len(content) - 1)
    for at in range(first, end, 2):
        pointer = int.from_bytes(content[at : at + 2], "big")
        if first <= pointer < len(content) - 3:
            yield pointer


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(8):
        byte = content[at + place]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + place + 1
    return value << 8 | content[at + 8], at + 9


def _record(payload: bytes) -> list[Any]:
    end, at = _varint(payload, 0)
    types: list[int] = []
    while at < end:
        type, at = _varint(payload, at)
        types.append(type)
    values: list[Any] = []
    if not types or end > len(payload):
        raise Unreadable
    at = end
    for type in types:
        # A length that is damaged leaves nothing for the values after it; those before it are kept.
        size = min(_SIZES.get(type, max(0, type - 12) // 2), len(payload) - at)
        values.append(_value(type, payload[at : at + size]))
        at += size
    return values


def _value(type: int, content: bytes) -> Any:
    if type in (8, 9):
        return type - 8
    if 1 <= type <= 6:
        return int.from_bytes(content, "big", signed=True)
    if type == 7 and len(content) == 8:
        return _real(content)
    if type < 12:
        return None
    return content.decode("utf-8", "replace").replace("\0", "") if type & 1 else content


def _real(content: bytes) -> float:
    return struct.unpack(">d", content)[0]


# -- which table a page belongs to -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tree:
    """The pages that were found from a root."""

    pages: list[int] = field(default_factory=list[int])
    whole: bool = True
    """False if a page that should be in it is none of a tree, or belongs to another one."""


def walk(file: RowFile, root: int, taken: set[int]) -> Tree:
    tree = Tree()
    level = [root]
    for _ in range(_DEPTH):
        below: list[int] = []
        for number in level:
            if number in taken or number in file.free or not 0 < number <= file.count:
                tree.whole = False
                continue
            try:
                below += file.children(number)
            except Unreadable:
                tree.whole = False
                continue
            taken.add(number)
            tree.pages.append(number)
        if not below:
            break
        level = below
    return tree


@dataclass(frozen=True, slots=True)
class Made:
    """A row of sqlite_schema."""

    kind: str
    name: str
    table: str
    root: int
    sql: str


def schema(file: RowFile) -> list[Made]:
    """Return what the file says of its tables and indexes, as far as it can be read."""
    found: list[Made] = []
    for number in walk(file, 1, set()).pages:
        for cell in file.cells(number):
            if cell is not None and len(cell[1]) == 5 and isinstance(cell[1][3], int):
                kind, name, table, root, sql = cell[1]
                found.append(Made(kind, name, table, root, sql or ""))
    return found


def layouts(statements: Sequence[str]) -> dict[str, Layout]:
    """Return how the tables of these statements lie in a file."""
    found: dict[str, Layout] = {}
    for sql in statements:
        if (match := _CREATED.match(sql)) is None:
            continue
        scratch = connect(":memory:")
        try:
            scratch.execute(sql)
            found[match[1]] = _layout(scratch, match[1], sql)
        except apsw.Error:  # damaged; the table of a new store stands for it
            continue
        finally:
            scratch.close()
    return found


def _layout(scratch: Connection, name: str, sql: str) -> Layout:
    told = scratch.execute(
        'SELECT name, upper(type), "notnull", dflt_value, pk FROM pragma_table_info(?)', (name,)
    ).fetchall()
    is_index = sql.rstrip().upper().endswith("WITHOUT ROWID")
    if is_index:
        told = [*sorted((one for one in told if one[4]), key=lambda one: one[4]), *(one for one in told if not one[4])]
    key = [place for place, one in enumerate(told) if one[4]]
    alias = key[0] if not is_index and len(key) == 1 and told[key[0]][1] == "INTEGER" else None
    columns = tuple(Column(name, type, bool(needed or key), default) for name, type, needed, default, key in told)
    return Layout(name, columns, alias, is_index)


@dataclass(slots=True)
class Owners:
    """Which table each page belongs to."""

    pages: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    expected: dict[str, int] = field(default_factory=dict[str, int])
    """Rows that an index of the table lists, where one is whole."""
    apart: list[int] = field(default_factory=list[int])
    """Pages with rows that no tree leads to."""
    broken: set[str] = field(default_factory=set[str])
    """Tables of whose tree something is missing."""


def owners(file: RowFile, made: Sequence[Made]) -> Owners:
    found, taken = Owners(), set[int]()
    walk(file, 1, taken)
    for one in made:
        if one.kind != "table" or not one.root:
            continue
        tree = walk(file, one.root, taken)
        found.pages[one.name] = tree.pages
        if not tree.whole:
            found.broken.add(one.name)
    for one in made:
        if one.kind != "index":
            continue
        tree = walk(file, one.root, taken)
        counts = [[cell is not None for cell in file.cells(number)] for number in tree.pages]
        if tree.whole and all(map(all, counts)) and " WHERE " not in one.sql.upper():
            found.expected[one.table] = max(found.expected.get(one.table, 0), sum(map(len, counts)))
    found.apart = [
        number
        for number in range(2, file.count + 1)
        if number not in taken and number not in file.free and file.kind(number) in (LEAF, LEAF_INDEX)
    ]
    return found


def fitting(cells: Sequence[Cell], known: dict[str, Layout], broken: set[str]) -> str | None:
    """Return the table whose rows these are, if it can be told: rows of one page are of one table."""
    found = [name for name, layout in known.items() if all(layout.row(cell) is not None for cell in cells)]
    exact = [name for name in found if all(len(values) == len(known[name].columns) for _, values in cells)]
    for names in (found, exact, [name for name in exact or found if name in broken]):
        if len(names) == 1:
            return names[0]
    return None
