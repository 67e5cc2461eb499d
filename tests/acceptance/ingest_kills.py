"""Killing an ingest at random moments, starting again, and comparing what comes of it with an undisturbed one."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
from tests.acceptance.kills import reading
from tests.acceptance.processes import Place
from tests.timeouts import PATIENCE

CHILD = Path(__file__).with_name("ingest_child.py")
EXPIRED = 31
"""Seconds after which a killed process has lost its jobs."""

Snapshot = dict[str, Any]


def write_corpus(folder: Path, files: int) -> None:
    """Files of several kinds whose words fall off as in real text; a few cannot be read."""
    chance = random.Random(7)
    words = [f"w{chance.randrange(10**6)}" for _ in range(3_000)]
    for n in range(files):
        body = [" ".join(words[int(chance.paretovariate(0.4)) % 3_000] for _ in range(60)) for _ in range(8)]
        name, text = {
            0: (f"m{n}.md", f"# Note {n}\n\n" + "\n\n## Part\n\n".join(body)),
            1: (f"t{n}.txt", "\n\n".join(body)),
            2: (f"c{n}.py", "".join(f"def f{i}():\n    return '{part}'\n\n\n" for i, part in enumerate(body))),
            3: (f"v{n}.csv", "a,b\n" + "".join(f"{i},{part}\n" for i, part in enumerate(body))),
        }[n % 4]
        path = folder / f"part{n % 3}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if n % 50 != 49 else "", "utf-8")
        os.utime(path, (1_700_000_000, 1_700_000_000))  # a file that was only just written is looked at twice


class Child:
    def __init__(self, place: Place, folder: Path, mode: str, ahead: int = 0) -> None:
        where = ["sqlite", str(place.home / "kho.db")] if place.database_url is None else ["pg", place.database_url]
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), *where, str(folder), mode, str(ahead)],
            stdout=subprocess.PIPE,
            text=True,
            env=place.environment(),
        )
        assert self._process.stdout is not None
        self._said = self._process.stdout

    def begun(self) -> Self:
        assert self._said.readline() == "begun\n"
        return self

    def over(self) -> dict[str, int]:
        """The counts of the last job, when none is left."""
        line = self._said.readline()
        assert line.startswith("over "), line
        assert self._process.wait(PATIENCE) == 0
        return json.loads(line.removeprefix("over "))

    def kill(self) -> bool:
        """False if it was over already."""
        self._process.send_signal(signal.SIGKILL)
        return self._process.wait(PATIENCE) == -signal.SIGKILL

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        self._said.close()


@dataclass(slots=True)
class Tally:
    kills: int = 0
    documents: int = 0
    chunks: int = 0
    half: list[str] = field(default_factory=list[str])
    """Documents that were not whole after a kill."""
    differing: list[str] = field(default_factory=list[str])
    """What is not as in the undisturbed run."""
    seconds: float = 0.0


def kill_and_compare(folder: Path, reference: Place, place: Place, kills: int, seed: int) -> Tally:
    chance = random.Random(seed)
    tally = Tally()
    started = time.monotonic()
    with Child(reference, folder, "begin").begun() as child:
        child.over()
    longest = 2 * (time.monotonic() - started) / (kills + 1)
    wanted = snapshot(reference)
    mode, ahead = "begin", 0
    while tally.kills < kills:
        with Child(place, folder, mode, ahead).begun() as child:
            time.sleep(chance.uniform(0, longest))  # waits for nothing: the kill shall come at any moment
            killed = child.kill()
        tally.kills += killed
        tally.half += half_there(place)
        mode, ahead = chance.choice(["begin", "resume"]) if killed else "force", ahead + EXPIRED
    with Child(place, folder, "finish", ahead).begun() as child:
        counts = child.over()
    found = snapshot(place)
    tally.documents, tally.chunks = len(found["documents"]), len(found["passages"])
    tally.half += half_there(place)
    tally.differing = [name for name in wanted if found[name] != wanted[name]]
    if counts["added"] or counts["changed"] or counts["unchanged"] != tally.documents:
        tally.differing.append(f"a last run still found something to do: {counts}")
    tally.seconds = time.monotonic() - started
    return tally


def snapshot(place: Place) -> Snapshot:
    """Everything that is kept, without what may differ: ids, numbers and times."""
    # On PostgreSQL the tokens come first; some entries have a mark behind them that depends on their number.
    tokens = "w.tokens" if place.database_url is None else "w.terms[1:length(w.counts)]::text"
    with reading(place) as rows:
        return {
            "documents": rows(
                "SELECT path, title, format, cut, hash, size, mtime, chunks, kinds, language FROM research_documents "
                "ORDER BY path"
            ),
            "texts": [
                (path, hashlib.sha256(bytes(text)).hexdigest())
                for path, text in rows(
                    "SELECT d.path, t.text FROM research_texts AS t LEFT JOIN research_documents AS d ON d.id = t.id "
                    "ORDER BY d.path"
                )
            ],
            "bands": rows(
                "SELECT d.path, b.band FROM similarity_bands AS b LEFT JOIN research_documents AS d "
                "ON d.id = b.key ORDER BY d.path, b.band"
            ),
            "passages": rows(
                "SELECT d.path, p.part, p.digest, p.heading, p.text FROM passages AS p LEFT JOIN research_documents "
                "AS d ON d.id = p.key ORDER BY d.path, p.part"
            ),
            "words": [
                (path, part, tokens, bytes(counts), length)
                for path, part, tokens, counts, length in rows(
                    f"SELECT d.path, p.part, {tokens}, w.counts, w.length FROM words_entries AS w "
                    "LEFT JOIN passages AS p ON p.seq = w.seq LEFT JOIN research_documents AS d ON d.id = p.key "
                    "ORDER BY d.path, p.part"
                )
            ],
        }


def half_there(place: Place) -> list[str]:
    """Documents without all of their passages, words or text."""
    with reading(place) as rows:
        problems = rows(
            "SELECT d.path FROM research_documents AS d WHERE d.chunks <> (SELECT count(*) FROM passages AS p "
            "JOIN words_entries AS w ON w.seq = p.seq WHERE p.key = d.id) "
            "OR NOT EXISTS (SELECT 1 FROM research_texts AS t WHERE t.id = d.id)"
        )
        lost = rows(
            "SELECT p.key FROM passages AS p WHERE NOT EXISTS (SELECT 1 FROM research_documents AS d WHERE d.id = p.key)"
        )
        if place.database_url is None:
            lost += [(said,) for (said,) in rows("PRAGMA integrity_check") if said != "ok"]
            lost += rows("SELECT seq FROM words_entries EXCEPT SELECT id FROM words_index_docsize")
    return [str(one) for (one,) in [*problems, *lost]]


@contextmanager
def schema(url: str, name: str) -> Generator[str]:
    """A URL whose connections see a schema of their own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
        yield f"{url}&options=-csearch_path%3D{name},public"
        connection.execute(f"DROP SCHEMA {name} CASCADE".encode())
