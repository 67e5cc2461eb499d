"""Lets SQLite check the structure of the file: its trees, its indexes against the tables, the word index."""

import re
from collections.abc import Sequence
from pathlib import Path

import apsw

from kho.kernel.upkeep.defect import Finding
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.transaction import translate

MOST = 100
"""Problems that SQLite lists; one is enough to know."""
_OF_AN_INDEX = re.compile(
    r"(row \d+ missing from index|wrong # of entries in index|non-unique entry in index"
    r"|row \d+ values differ from index|malformed inverted index)"
)
"""What is wrong with an index only, which can be made again from its table."""


def findings(path: Path, bad: Sequence[int]) -> list[Finding]:
    """Check the file. `bad` are pages known to be damaged: it is said whose they are."""
    try:
        connection = connect(str(path))
        try:
            connection.set_busy_timeout(10_000)
            connection.execute("PRAGMA query_only = ON; PRAGMA checksum_verification = OFF")
            found = _structure(connection)
            return [*_owners(connection, bad), *found]
        finally:
            connection.close()
    except apsw.Error as error:
        return [Finding(translate(error).message if _is_passing(error) else "SQLite cannot read the file.")]


def _is_passing(error: apsw.Error) -> bool:
    return isinstance(error, apsw.BusyError | apsw.LockedError | apsw.CantOpenError | apsw.ReadOnlyError)


def _structure(connection: Connection) -> list[Finding]:
    told = [row[0] for row in connection.execute(f"PRAGMA integrity_check({MOST})").fetchall()]
    lines = [line for text in told if text != "ok" for line in text.splitlines() if line and not line.startswith("***")]
    of_index = [line for line in lines if _OF_AN_INDEX.search(line)]
    broken = len(lines) - len(of_index)
    found: list[Finding] = []
    if broken:
        first = next(line for line in lines if line not in of_index)
        more = " or more" if broken >= MOST else ""
        found.append(Finding(f"The structure of the file is broken in {broken}{more} places. The first: {first}."))
    if of_index:
        found.append(Finding(f"An index is not that of its table: {of_index[0]}.", "", len(of_index), "repair"))
    return found


def _owners(connection: Connection, bad: Sequence[int]) -> list[Finding]:
    """Say which tables and indexes damaged pages belong to."""
    if not bad:
        return []
    wanted = {*bad}
    owners: dict[str, int] = {}
    try:
        for name, page in connection.execute("SELECT name, pageno FROM dbstat"):
            if page in wanted:
                owners[name] = owners.get(name, 0) + 1
    except apsw.Error:  # as far as it can be read
        pass
    return [Finding(f"Damaged pages of {name}: {count:,}.", name, count) for name, count in sorted(owners.items())]
