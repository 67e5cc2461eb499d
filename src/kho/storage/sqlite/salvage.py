"""Copies what can be read of a damaged file into a new store, table by table. The damaged file is only read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from kho.kernel.upkeep.checks import is_json
from kho.kernel.upkeep.defect import Progress
from kho.lib.dataclass import dataclass
from kho.storage.sqlite import recovery
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.recovery import Cell, Layout, Owners, RowFile

_COMMITTED = 5_000
"""Rows in one transaction."""
_STAYING = ("audit", "audit_subjects")
_STATEMENTS = "SELECT sql FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL"


@dataclass(slots=True)
class Saved:
    """What was read of a table."""

    table: str
    read: int = 0
    kept: int = 0
    """Rows that the new store took."""
    unreadable: int = 0
    """Rows of which a part is lost."""
    doubtful: int = 0
    """Rows from pages that are not as they were written, or whose end is lost: something in one may be changed."""
    expected: int | None = None
    """Rows that there were, as an index lists them; None if none can be read."""


@dataclass(slots=True)
class Wreck:
    """A damaged store: its pages, and what belongs to which table."""

    file: RowFile
    bad: frozenset[int]
    known: dict[str, Layout]
    owners: Owners

    @classmethod
    def open(cls, path: Path, bad: Iterable[int]) -> "Wreck":
        file = RowFile(path)
        file.open()
        made = recovery.schema(file)
        known = recovery.layouts([one.sql for one in made if one.kind == "table"])
        return cls(file, frozenset(bad), known, recovery.owners(file, made))

    def close(self) -> None:
        self.file.close()

    def history(self) -> dict[str, int]:
        """Return the last migration of each part of Kho that the store went through; empty if it cannot be told."""
        last: dict[str, int] = {}
        pages = self.owners.pages.get("migrations", [])
        if "migrations" in self.owners.broken or not self.bad.isdisjoint(pages):
            return {}
        for row, _ in self._rows("migrations", pages):
            if row is None:
                return {}
            last[row["slice"]] = max(row["number"], last.get(row["slice"], 0))
        return last

    def copy(self, target: Path, tables: Sequence[str], progress: Progress) -> tuple[list[Saved], int]:
        """Copy tables into a store without rows. Return what was read of each, and the rows of which it cannot be told
        what they are."""
        connection = connect(str(target))
        try:
            for name, layout in recovery.layouts([row[0] for row in connection.execute(_STATEMENTS)]).items():
                self.known.setdefault(name, layout)
            connection.execute("PRAGMA foreign_keys = OFF")
            # Rows of the audit trail come as they are, and in no order.
            triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
            places, unknown = self._assigned()
            found = [self._copied(connection, name, places, progress) for name in tables]
            self._numbers(connection)
            for _, sql in triggers:
                connection.execute(sql)
            return found, unknown
        finally:
            connection.close()

    def _copied(self, connection: Connection, name: str, places: Mapping[str, list[int]], progress: Progress) -> Saved:
        saved = Saved(name, expected=self.owners.expected.get(name))
        taken = [row[0] for row in connection.execute("SELECT name FROM pragma_table_info(?)", (name,))]
        pages = [*self.owners.pages.get(name, []), *places.get(name, [])]
        connection.execute("BEGIN")
        for number, (row, doubtful) in enumerate(self._rows(name, pages), 1):
            if row is None:
                saved.unreadable += 1
                continue
            if not saved.read:
                connection.execute(f"DELETE FROM {name}")  # what migrations put there
            saved.read += 1
            saved.doubtful += doubtful
            if name in _STAYING and not is_json(row["details"]):
                row["details"] = "{}"  # nobody may change it later
            columns = [column for column in row if column in taken]
            marks = ", ".join("?" for _ in columns)
            sql = f"INSERT OR IGNORE INTO {name} ({', '.join(columns)}) VALUES ({marks})"
            connection.execute(sql, [row[column] for column in columns])
            saved.kept += connection.changes()
            if not number % _COMMITTED:
                connection.execute("COMMIT; BEGIN")
                progress(f"Reading {name}", number, max(number, saved.expected or 0))
        connection.execute("COMMIT")
        return saved

    def _rows(self, name: str, pages: Sequence[int]) -> Iterator[tuple[dict[str, Any] | None, bool]]:
        """Yield the rows of a table, None for one that cannot be read, and whether it is from a damaged page."""
        layout = self.known.get(name)
        if layout is None:
            return
        for number in pages:
            for cell in self.file.cells(number):
                row = None if cell is None else layout.row(cell)
                doubtful = self.file.torn or not self.bad.isdisjoint((number, *self.file.chain))
                if row is None and cell is not None:
                    row, doubtful = layout.forced(cell), True
                yield row, doubtful

    def _assigned(self) -> tuple[dict[str, list[int]], int]:
        """Return which tables the pages belong to that no tree leads to, and how many rows stay without one."""
        trees = {name: one for name, one in self.known.items() if not one.is_index}
        # An ordinary index looks like a table without rowid, so something has to be missing there.
        flat = {
            name: one for name, one in self.known.items() if one.is_index and name in self.owners.broken | self._gone()
        }
        places: dict[str, list[int]] = {}
        unknown = 0
        for number in self.owners.apart:
            cells: list[Cell] = [cell for cell in self.file.cells(number) if cell is not None]
            in_tree = self.file.kind(number) == recovery.LEAF
            name = (
                recovery.fitting(cells, trees if in_tree else flat, self.owners.broken | self._gone())
                if cells
                else None
            )
            if name is not None:
                places.setdefault(name, []).append(number)
            elif in_tree:
                unknown += len(cells)
        return places, unknown

    def _gone(self) -> set[str]:
        """Return the tables of which the file does not say where they begin."""
        return self.known.keys() - self.owners.pages.keys()

    def _numbers(self, connection: Connection) -> None:
        """Go on with the numbers where the damaged store was: none may be given out twice."""
        known = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for number in self.owners.pages.get("sqlite_sequence", []):
            for cell in self.file.cells(number):
                if cell is None or len(cell[1]) != 2 or cell[1][0] not in known or not isinstance(cell[1][1], int):
                    continue
                name, last = cell[1]
                connection.execute("UPDATE sqlite_sequence SET seq = max(seq, ?) WHERE name = ?", (last, name))
                sql = "INSERT INTO sqlite_sequence (name, seq) SELECT ?, ? WHERE changes() = 0"
                connection.execute(sql, (name, last))
