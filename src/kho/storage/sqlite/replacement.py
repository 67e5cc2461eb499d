"""Puts a whole database in the place of another, such as a backup in that of the store.

The file is never exchanged under its name: a program that had just opened it would go on writing to the one that is
gone, with a log that the new one then takes for its own. SQLite copies the new pages into it, in one transaction, which
a kill undoes as any other.
"""

import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

import apsw

from kho.kernel.errors import DatabaseError
from kho.kernel.ports import Tx
from kho.lib.folders import held, sync_folder
from kho.storage.sqlite import backup
from kho.storage.sqlite.connection import Connection, connect
from kho.storage.sqlite.transaction import SqliteTx, translate

PAGE = 4_096
"""Bytes, as SQLite makes them."""
PAGES_AT_ONCE = 5_000
Report = Callable[[int, int], None]
_BUILDING = "restoring-"
_CARELESS = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536; BEGIN"
"""What is not finished is thrown away as a whole."""


class InUse(DatabaseError):
    """Another program has the database open."""


def need_unused(path: Path) -> None:
    """Raise InUse if another process has the database open: all of Kho's do as long as they run."""
    if path.exists():
        try:
            _alone(path).close()
        except apsw.Error as error:
            raise translate(error) from error


def is_damaged(path: Path) -> bool:
    """True if the file cannot even be opened as a database."""
    try:
        connection = connect(str(path))
        try:
            connection.set_busy_timeout(10_000)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
        finally:
            connection.close()
    except (apsw.CorruptError, apsw.NotADBError):
        return True
    except apsw.Error as error:
        raise translate(error) from error
    return False


@contextmanager
def place_to_build(home: Path) -> Generator[Path]:
    """A folder below `home` for a database that is not finished. It goes afterwards, and so do those of killed
    processes."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in home.glob(f"{_BUILDING}*"):
        with held(left) as ours:
            if ours:
                shutil.rmtree(left, ignore_errors=True)
    folder = Path(mkdtemp(prefix=_BUILDING, dir=home))
    try:
        with held(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def building(path: Path) -> Generator[SqliteTx]:
    """A transaction on a new database. It is not safe against a kill, so nobody else may know of it yet."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        connection = connect(str(path))
        try:
            # A statement that answers, as a PRAGMA does, waits until that is fetched.
            connection.execute(_CARELESS).fetchall()
            tx = SqliteTx(connection)
            yield tx
            tx.end()
            connection.execute("COMMIT")
        finally:
            connection.close(True)
    except apsw.Error as error:
        raise translate(error) from error


def put(built: Path, path: Path, look: Callable[[Tx], bool], before: str, report: Report) -> Path | None:
    """Give the database at `path` the contents of another one. Nobody else can open it meanwhile; `look` sees what it
    holds, may refuse, and says whether a copy is kept, which is returned. Reports bytes."""
    try:
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        source, target = connect(str(built)), _alone(path)
        try:
            # Held from the first transaction until the connection is closed.
            target.execute("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT").fetchall()
            copy = backup.set_aside(path, before, target) if look(SqliteTx(target)) else None
            with target.backup("main", source, "main") as copying:
                while not copying.step(PAGES_AT_ONCE):
                    report(PAGE * (copying.page_count - copying.remaining), PAGE * copying.page_count)
        finally:
            target.close()
            source.close()
    except apsw.Error as error:
        raise translate(error) from error
    return copy


def put_instead_of_damaged(built: Path, path: Path, before: str) -> Path:
    """Put a database in the place of a file that cannot be opened, and of its log. Return the copy of that file."""
    copy = backup.set_aside(path, before)
    for beside in ("-wal", "-shm", "-journal"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    with built.open("rb") as file:
        os.fsync(file.fileno())
    built.replace(path)
    sync_folder(path.parent)
    return copy


def _alone(path: Path) -> Connection:
    """Open a database that nobody else has open. It then has no log: all of it is in the file."""
    connection = connect(str(path))
    try:
        connection.execute("PRAGMA synchronous = FULL")
        mode = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    except apsw.BusyError:
        mode = None
    except apsw.Error:
        connection.close()
        raise
    if mode is None or mode[0] != "delete":
        connection.close()
        raise InUse("Another program has the store open. Nothing was changed.")
    connection.set_busy_timeout(10_000)
    return connection
