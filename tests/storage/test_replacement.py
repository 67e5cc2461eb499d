"""A database that takes the place of another: killed at any moment, the file is one of the two, whole."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.timeouts import PATIENCE

from kho.storage.sqlite.connection import connect
from kho.storage.sqlite.replacement import InUse, building, need_unused, put

KILLS = int(os.environ.get("KHO_KILLS", "10"))
CHILD = """
import sys
from pathlib import Path
from kho.storage.sqlite.replacement import put

print("begun", flush=True)
put(Path(sys.argv[1]), Path(sys.argv[2]), lambda tx: False, "", lambda done, total: None)
"""


def made(path: Path, text: str, rows: int) -> Path:
    with building(path) as tx:
        tx.script("CREATE TABLE things (text TEXT NOT NULL)")
        tx.many("INSERT INTO things (text) VALUES ($1)", ((f"{text} {number} " * 200,) for number in range(rows)))
    return path


def whole(path: Path) -> tuple[str, int]:
    """What is in the database, after SQLite has undone what was not finished."""
    connection = connect(str(path))
    try:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        [found] = connection.execute("SELECT substr(text, 1, instr(text, ' ') - 1), count(*) FROM things GROUP BY 1")
        connection.execute("PRAGMA journal_mode = WAL").fetchall()  # as every program of Kho does
        return found[0], found[1]
    finally:
        connection.close()


def test_a_kill_leaves_one_or_the_other(tmp_path: Path) -> None:
    chance, states = random.Random(9), {"old": 3_000, "new": 4_000}
    built = {name: made(tmp_path / f"{name}.db", name, rows) for name, rows in states.items()}
    path = tmp_path / "kho.db"
    put(built["old"], path, lambda tx: False, "", lambda done, total: None)
    started = time.monotonic()
    put(built["new"], path, lambda tx: False, "", lambda done, total: None)
    longest, now, kills, halfway = time.monotonic() - started, "new", 0, 0
    while kills < KILLS:
        other = "old" if now == "new" else "new"
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(built[other]), str(path)], stdout=subprocess.PIPE)
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"begun\n"
            time.sleep(chance.uniform(0, 1.2) * longest)  # waits for nothing: the kill shall come at any moment
            child.kill()
            status = child.wait(PATIENCE)
        assert status in (0, -signal.SIGKILL)
        kills += status != 0
        halfway += path.with_name("kho.db-journal").exists()
        found, count = whole(path)
        assert states[found] == count
        now = found
    assert halfway, "no kill came while pages were written"


def test_a_copy_is_kept_and_a_database_that_is_open_is_left_alone(tmp_path: Path) -> None:
    path = made(tmp_path / "kho.db", "old", 5)
    new = made(tmp_path / "new.db", "new", 7)
    other = connect(str(path))
    # As every program of Kho does when it starts: it looks which migrations there were.
    other.execute("PRAGMA journal_mode = WAL; SELECT count(*) FROM things").fetchall()
    for refuse in (
        lambda: need_unused(path),
        lambda: put(new, path, lambda tx: True, "x", lambda done, total: None),
    ):
        with pytest.raises(InUse):
            refuse()
    other.close()
    assert whole(path) == ("old", 5)
    copy = put(new, path, lambda tx: True, "restore", lambda done, total: None)
    assert copy is not None
    assert (whole(path), whole(copy)) == (("new", 7), ("old", 5))
    assert copy.stat().st_mode & 0o777 == 0o600
