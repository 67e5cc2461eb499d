"""Killing a hub under write load, starting it again, and counting what is missing."""

import http.client
import random
import threading
import time
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import apsw
import orjson
import psycopg
from tests.acceptance.processes import Client, Hub, Place, until

CLIENTS = 8
LONGEST_LOAD = 1.2
"""Seconds after the first answer within which the kill comes."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One record on its way. `word` stands in no other record."""

    word: str
    path: str
    record: dict[str, Any]
    body: bytes

    @classmethod
    def make(cls, by_action: bool) -> "Submission":
        word = f"w{uuid.uuid4().hex}"
        record = {
            "title": f"{'Action' if by_action else 'Call'} {word}",
            "problem_description": f"The problem of {word}.\nIn two lines, with đ, 漢字 and 👍.",
            "root_cause": "A kill.",
            "solution": f"Restart and look for {word}. " * 20,
            "keywords": ["crash", word],
        }
        if by_action:
            body = {"action": "submit_experience", "request_id": word, "payload": record}
            return cls(word, "/actions", record, orjson.dumps(body))
        body = {"jsonrpc": "2.0", "id": 1, "method": "experiences-server/submit_experience", "params": record}
        return cls(word, "/jsonrpc", record, orjson.dumps(body))

    @property
    def has_receipt(self) -> bool:
        return self.path == "/actions"


@dataclass(slots=True)
class Load:
    """Clients that submit one record after the other until the hub is gone."""

    port: int
    acknowledged: list[tuple[Submission, bytes]] = field(default_factory=list[tuple[Submission, bytes]])
    unanswered: list[Submission] = field(default_factory=list[Submission])
    refused: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    threads: list[threading.Thread] = field(default_factory=list[threading.Thread])

    def start(self) -> None:
        for number in range(CLIENTS):
            thread = threading.Thread(target=self._submit, args=(number % 4 != 3,), name=f"client-{number}")
            self.threads.append(thread)
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join()

    def _submit(self, by_action: bool) -> None:
        with Client(self.port) as client:
            while True:
                submission = Submission.make(by_action)
                try:
                    status, answer = client.post(submission.path, submission.body)
                except (OSError, http.client.HTTPException):
                    self.unanswered.append(submission)
                    return
                if status == 200:
                    self.acknowledged.append((submission, answer))
                else:
                    self.refused.append((status, answer))


@dataclass(slots=True)
class Tally:
    kills: int = 0
    acknowledged: int = 0
    unanswered: int = 0
    """On their way when the kill came: they may be there or not, but whole, and once after a retry."""
    lost: list[str] = field(default_factory=list[str])
    half: list[str] = field(default_factory=list[str])
    seconds: float = 0.0


def kill_and_count(place: Place, kills: int, seed: int) -> Tally:
    chance = random.Random(seed)
    tally = Tally()
    everything: dict[str, str] = {}
    started = time.monotonic()
    hub = Hub(place).ready()
    try:
        for _ in range(kills):
            load = Load(hub.port)
            load.start()
            until(lambda load=load: load.acknowledged, "the first answer", hub.process)
            time.sleep(chance.uniform(0, LONGEST_LOAD))  # waits for nothing: the kill shall come at any moment
            hub.kill()
            load.join()
            assert not load.refused, load.refused[0]
            hub = Hub(place).ready()
            tally.kills += 1
            tally.half += half_applied(place)  # before retries mend anything
            _examine(hub, load, tally, everything)
        there = ids_in(place)
        tally.lost += [f"{word}: gone later" for id, word in everything.items() if id not in there]
        tally.half += half_applied(place)
        hub.terminate()
    finally:
        if hub.process.poll() is None:
            hub.kill()
    tally.seconds = time.monotonic() - started
    return tally


def _examine(hub: Hub, load: Load, tally: Tally, everything: dict[str, str]) -> None:
    """Every acknowledged record is there, is whole, is found by its word, and a retry gets the first answer again."""
    tally.acknowledged += len(load.acknowledged)
    tally.unanswered += len(load.unanswered)
    expected = {submission.word: (submission, _id(answer)) for submission, answer in load.acknowledged}
    with Client(hub.port) as client:
        for submission in load.unanswered:
            if submission.has_receipt:
                status, answer = client.post(submission.path, submission.body)
                assert status == 200, answer
                expected[submission.word] = (submission, _id(answer))
                load.acknowledged.append((submission, answer))
        words = list(expected)
        found = client.batch([("query_experiences", {"keywords": word}) for word in words])
        for word, answer in zip(words, found, strict=True):
            submission, id = expected[word]
            everything[id] = word
            if [hit["id"] for hit in answer["experiences"]] != [id]:
                tally.lost.append(f"{word}: {answer['total']} found by the word")
            elif any(answer["experiences"][0].get(name) != value for name, value in submission.record.items()):
                tally.half.append(f"{word}: not what was submitted")
        for submission, answer in load.acknowledged:
            if submission.has_receipt and client.post(submission.path, submission.body) != (200, answer):
                tally.lost.append(f"{submission.word}: the receipt")


def _id(answer: bytes) -> str:
    return orjson.loads(answer)["result"]["data"]["id"]


# --- looking into the database ----------------------------------------------------------------------------------------


Rows = Callable[[str], list[tuple[Any, ...]]]


@contextmanager
def reading(place: Place) -> Generator[Rows]:
    """A function from a query to its rows, beside the hub."""
    if place.database_url is None:
        connection: Any = apsw.Connection(str(place.home / "kho.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            yield lambda sql: connection.execute(sql).fetchall()
        finally:
            connection.close()
    else:
        with psycopg.connect(place.database_url) as session:
            session.execute("SET kho.all_tenants = on")
            yield lambda sql: session.execute(sql.encode()).fetchall()


def ids_in(place: Place) -> set[str]:
    with reading(place) as rows:
        return {id for (id,) in rows("SELECT id FROM experiences")}


def half_applied(place: Place) -> list[str]:
    """Rows without index entry, entries without row, receipts without row or answer, actions without receipt."""
    with reading(place) as rows:
        records: dict[str, str] = dict(rows("SELECT id, title FROM experiences"))
        indexed = {key for (key,) in rows("SELECT key FROM passages")}
        receipts: dict[str, str] = dict(rows("SELECT request_id, answer FROM receipts"))
        problems = [f"{id}: row or index entry missing" for id in records.keys() ^ indexed]
        answered = {request: _id(answer.encode()) if answer else "" for request, answer in receipts.items()}
        problems += [f"{request}: receipt without row" for request, id in answered.items() if id not in records]
        acted = {title.split()[1] for title in records.values() if title.startswith("Action")}
        problems += [f"{word}: action or receipt missing" for word in acted ^ receipts.keys()]
        if place.database_url is None:
            entries = {seq for (seq,) in rows("SELECT seq FROM passages")}
            terms = {seq for (seq,) in rows("SELECT id FROM words_index_docsize")}
            problems += [f"index entry {seq} has no terms, or terms no entry" for seq in entries ^ terms]
            problems += [f"integrity: {said}" for (said,) in rows("PRAGMA integrity_check") if said != "ok"]
    return problems
