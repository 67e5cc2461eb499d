"""`kill -9` in the middle of a purge: nothing of it was done, or all of it will be.

`KHO_KILLS` says how often.
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from tests.acceptance.kills import Rows, reading
from tests.acceptance.processes import KHO, Hub, Place, until
from tests.engines import schema
from tests.timeouts import PATIENCE

KILLS = int(os.environ.get("KHO_KILLS", "6"))
WORD = "zaubernuss"
PERSON = f"{WORD}-person"
CHATS, MESSAGES = 20, 30
PURGE = ("admin", "purge", "--subject", PERSON, "--yes", "--json")
TABLES = ("conversations", "messages", "passages", "words_entries", "facts")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    if request.param == "sqlite":
        yield Place(tmp_path / "home")
        return
    with schema(request.getfixturevalue("postgres_url")) as url:
        yield Place(tmp_path / "home", url)


def plant(place: Place) -> None:
    made = {"created_at": "2026-11-01T08:00:00Z"}
    chats = [{**made, "conversation_id": f"{WORD}-{chat}"} for chat in range(CHATS)]
    lines = [{**chat, "type": "conversation", "updated_at": made["created_at"], "user_id": PERSON} for chat in chats]
    lines += [
        {**chat, "type": "message", "id": f"m{number}", "role": "user", "content": f"{WORD} says it {number} times"}
        for chat in chats
        for number in range(MESSAGES)
    ]
    place.home.mkdir(mode=0o700, exist_ok=True)
    file = place.home.parent / "planted.jsonl"
    file.write_bytes(b"\n".join(map(orjson.dumps, lines)))
    done = place.run("memory", "import", str(file))
    assert done.returncode == 0, done.stderr
    kept = place.run("remember", "The ladder hangs behind the door.", "--about", "ladder")
    assert kept.returncode == 0, kept.stderr


def counts(rows: Rows) -> dict[str, int]:
    return {table: rows(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}


def begin(place: Place) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*KHO, *PURGE],
        env=place.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_killed_purge_has_done_nothing_or_is_brought_to_its_end(place: Place) -> None:
    seed = random.SystemRandom().randrange(2**32)
    chance = random.Random(seed)
    plant(place)
    started = time.monotonic()
    with begin(place) as whole:
        whole.communicate(timeout=PATIENCE)
    longest = time.monotonic() - started
    with reading(place) as rows:
        empty = counts(rows)
    cut = 0
    for turn in range(KILLS):
        plant(place)
        with reading(place) as rows:
            planted, recorded = counts(rows), rows("SELECT count(*) FROM purges")
        with begin(place) as process:
            # From when Python and Kho are loaded on; it waits for nothing: the kill shall come at any moment.
            time.sleep(chance.uniform(0.3 * longest, longest))
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=PATIENCE)
        with reading(place) as rows:
            if rows("SELECT count(*) FROM purges") == recorded:
                assert counts(rows) == planted, f"seed {seed}, turn {turn}: not recorded, but begun"
            unfinished = rows("SELECT count(*) FROM purges WHERE finished_at IS NULL") != [(0,)]
        cut += unfinished
        if unfinished and turn % 2:
            with Hub(place).ready() as hub:
                until(lambda: _finished(place), "the purge to end", hub.process)
                hub.terminate()
        else:
            again = place.run(*PURGE)
            assert again.returncode == 0, again.stderr
            assert _finished(place)
        with reading(place) as rows:
            assert counts(rows) == empty, f"seed {seed}, turn {turn}"
            assert WORD not in str(rows("SELECT actor, subject, reason, details FROM audit"))
        looked = place.run(*PURGE[:-2], "--dry-run", "--json")
        assert orjson.loads(looked.stdout)["rows"] == 0, looked.stdout


def _finished(place: Place) -> bool:
    with reading(place) as rows:
        return rows("SELECT count(*) FROM purges WHERE finished_at IS NULL") == [(0,)]
