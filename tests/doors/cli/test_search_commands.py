"""The commands about search: `kho eval`, `kho doctor`, and how a command waits for vectors."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.doors.cli.test_cli import run
from tests.doors.doors import kho

from kho.app import open_database, open_hub
from kho.doctor import change
from kho.doors.cli.embedding_progress import for_vectors
from kho.doors.cli.progress import time_left
from kho.kernel.hub import Settled
from kho.kernel.ports import Tx
from kho.lib.clock import SECOND, system_clock
from kho.lib.tenancy import in_all_tenants
from kho.parsers import landlock
from kho.search.indexing.embedding_queue import LEASE
from kho.settings import Settings, whereabouts

RECORD = {"title": "Kettle", "problem_description": "It overheats", "solution": "Descale it"}


@pytest.fixture
def hashed(settings: Settings) -> Settings:
    """A hub with vectors."""
    return change(settings, {"search": {"embedder": {"provider": "hash"}}})


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    file = tmp_path / "questions.json"
    texts = {"cat": "Con mèo ngủ trên mái nhà.", "dog": "A dog chases the red car."}
    asked = [["q1", "con mèo ngủ", ["cat"]], ["q2", "red car", ["dog"]]]
    file.write_text(json.dumps({"corpus": texts, "queries": asked}), "utf-8")
    return file


def submit(settings: Settings, *options: str) -> Any:
    return run(settings, "experiences", "submit", "--params", "-", *options, stdin=json.dumps(RECORD).encode())


async def write(settings: Settings, work: Callable[[Tx], Any]) -> None:
    db, _ = open_database(settings)
    try:
        with in_all_tenants():
            await db.write(work)
    finally:
        await db.aclose()


async def hold_the_lease(settings: Settings) -> None:
    """As a running hub would."""
    async with open_hub(settings):
        pass  # now there are tables
    until = system_clock() + 600 * SECOND
    row = (LEASE, "4711:another", until)
    await write(settings, lambda tx: tx.run("INSERT INTO leases (name, owner, until) VALUES ($1, $2, $3)", *row))


async def test_eval_through_a_door_warns_of_nothing(settings: Settings, questions: Path) -> None:
    asked = await kho(settings.home, "eval", str(questions), "--config", "words", "--door", "mcp")
    assert (asked.status, "not listed" in asked.err) == (0, False)


# -- eval --------------------------------------------------------------------------------------------------------------


def test_eval_prints_a_row_for_each_task_and_configuration(settings: Settings, questions: Path) -> None:
    done = run(settings, "eval", str(questions), "--config", "default", "--config", "words", "--strip-marks")
    assert done.status == 0
    head, first, second = done.out.splitlines()
    assert (
        head.split()
        == "task configuration nDCG@10 Recall@5 MRR queries empty p50 ms p95 ms CPU ms difference better worse".split()
    )
    assert first.split()[:8] == ["questions,", "no", "marks", "default", "1.000", "1.000", "1.000", "2"]
    assert second.split()[3] == "words"
    assert second.split()[-3:] == ["+0.000", "0", "0"]
    assert "Asking questions, no marks (words): 2 to do" in done.err
    assert not settings.home.exists()


@pytest.mark.parametrize("door", ["memory", "mcp", "http"])
def test_eval_answers_in_json_at_every_door(hashed: Settings, questions: Path, door: str) -> None:
    done = run(hashed, "eval", str(questions), "--door", door, "--limit", "1", "--json")
    assert done.status == 0
    report = json.loads(done.out)
    [row] = report["rows"]
    assert (report["door"], row["task"], row["queries"], row["mrr"]) == (door, "questions", 1, 1.0)


def test_eval_says_what_is_wrong_with_a_file(settings: Settings, questions: Path) -> None:
    questions.write_text('{"corpus": {"1": "x"}, "queries": [["q", "x", ["1"]], ["q2", "x"]]}')
    done = run(settings, "eval", str(questions))
    assert (done.status, done.out) == (1, "")
    assert f'error: {questions}: "queries", entry 2: it is not [id, question, [relevant ids]]' in done.err
    assert run(settings, "eval", str(questions), "--config", "best").status == 1
    assert run(settings, "eval", "nowhere.json").status == 1


# -- waiting -----------------------------------------------------------------------------------------------------------


def test_a_write_waits_for_its_vectors(hashed: Settings) -> None:
    done = submit(hashed, "--json")
    assert done.status == 0
    assert json.loads(done.out)["success"] is True
    found = json.loads(run(hashed, "doctor", "--json").out)
    assert (found["spaces"], found["pending"]) == ({"experiences": 1}, 0)
    assert (found["wanted_model"], found["current"]) == ("hash/256", True)


async def test_a_running_hub_goes_on_with_them(hashed: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    await hold_the_lease(hashed)
    for options, expected in (
        ((), "1 passage waits for vectors; the running hub computes them.\n"),
        (("--no-wait",), "2 passages wait for vectors; the next hub computes them. Keyword search finds them now.\n"),
    ):
        done = await in_thread(lambda options=options: submit(hashed, "--json", *options))
        assert done.status == 0
        assert json.loads(done.out)["success"] is True
        assert done.err.endswith(expected)


async def test_an_import_waits_too(hashed: Settings, tmp_path: Path) -> None:
    await hold_the_lease(hashed)
    lines = tmp_path / "in.jsonl"
    lines.write_text("\n".join(json.dumps({**RECORD, "title": f"Kettle {n}"}) for n in range(3)))
    done = await in_thread(lambda: run(hashed, "experiences", "import", str(lines), "--json"))
    assert json.loads(done.out) == {"imported": 3, "unchanged": 0}
    assert "3 passages wait for vectors; the running hub computes them." in done.err
    again = await in_thread(lambda: run(hashed, "experiences", "query", "kettle"))
    assert again.err == ""  # what reads does not wait


async def in_thread(work: Callable[[], Any]) -> Any:
    """A command runs a loop of its own."""
    return await asyncio.to_thread(work)


@dataclass
class Waiting:
    """A backlog in a given state."""

    settled: Settled
    asked: int = 0

    async def pending(self) -> int:
        return self.settled.done + self.settled.left

    async def settle(self, progress: Callable[[int, int], None]) -> Settled:
        self.asked += 1
        progress(0, await self.pending())
        return self.settled


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        (Settled(0, 0), ""),
        (Settled(3, 0), ""),
        (
            Settled(1, 1, elsewhere=True),
            "1 passage waits for vectors; the running hub computes them.\n",
        ),
        (
            Settled(2, 0, problem="qdrant cannot be reached"),
            "The vectors have not reached the index server yet: qdrant cannot be reached\n"
            "Keyword search finds the passages meanwhile; the next hub tries again.\n",
        ),
        (
            Settled(0, 2, problem="models.example.org cannot be reached"),
            "2 passages wait for vectors: models.example.org cannot be reached\n"
            "Keyword search finds them meanwhile; the next hub tries again.\n",
        ),
    ],
)
async def test_what_became_of_them_is_said(
    settings: Settings, settled: Settled, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with open_hub(settings) as hub:
        backlog = Waiting(settled)
        await for_vectors(replace(hub, backlog=backlog), wait=True)
        assert backlog.asked == (1 if settled.done + settled.left else 0)
        await for_vectors(replace(hub, backlog=None), wait=True)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", expected)


async def test_a_running_hub_is_left_to_do_it(settings: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    async with open_hub(settings) as hub:
        backlog = Waiting(Settled(3, 0))
        waiting = replace(hub, backlog=backlog)
        assert await for_vectors(waiting, wait=True, running_hub=lambda: "http://127.0.0.1:8001", patience=0.2) == 3
        assert backlog.asked == 0
        assert await for_vectors(waiting, wait=True, running_hub=lambda: "") == 0
        assert backlog.asked == 1
    said = "3 passages wait for vectors; the running hub computes them. Keyword search finds them now.\n"
    assert capsys.readouterr().err == said


def test_what_waited_and_is_done_is_not_told_as_waiting(
    hashed: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "tea.md").write_text("Sencha and matcha.")
    assert run(hashed, "collections", "create", "papers").status == 0
    done = run(hashed, "kb", "add-folder", str(tmp_path / "notes"), "--collection", "papers")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("1 chunk indexed.\n")
    left = run(hashed, "kb", "add-folder", str(tmp_path / "notes"), "--collection", "papers", "--force", "--no-wait")
    assert left.status == 0


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "left"),
    [
        (0, 90, 8.0, ""),
        (24, 96, 8.0, "0:24 left"),
        (96, 96, 30.0, ""),
        (1, None, 1.0, ""),
        (1, 3601, 2.0, "2:00:00 left"),
    ],
)
def test_the_time_left_is_known_from_the_first_part_on(done: float, total: float, elapsed: float, left: str) -> None:
    assert time_left(done, total, elapsed) == left


def test_a_folder_with_files_that_fail_or_are_unknown(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "tea.md").write_text("Sencha and matcha.")
    for name in ("a.bin", "b.BIN", "c", ".hidden.bin"):
        (notes / name).write_bytes(bytes(range(256)))
    assert run(settings, "collections", "create", "papers").status == 0
    add = ("kb", "add-folder", str(notes), "--collection", "papers")
    done = run(settings, *add)
    assert done.status == 0  # an unknown kind is no failure
    assert "- not read: 3 files of kinds that Kho cannot read (2 .bin, 1 without an ending)\n" in done.out
    (notes / "broken.docx").write_text("just words")
    failed = run(settings, *add)
    assert failed.status == 1
    assert f"Failed:\n- `{notes}/broken.docx`: It is not a DOCX file" in failed.out
    answer = run(settings, *add, "--json")
    job = json.loads(answer.out)["job"]
    assert (answer.status, job["failed"], job["skipped"]) == (1, 1, {".bin": 2, "": 1})
    assert run(settings, "kb", "job-status", job["job_id"]).status == 0  # reading about it is no failure


# -- doctor ------------------------------------------------------------------------------------------------------------


def test_doctor_says_that_all_is_well(settings: Settings, hashed: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 4)  # on a system that has what it should
    submit(settings)
    done = run(settings, "doctor")
    assert done.status == 0
    assert [line for line in done.out.splitlines() if not line.startswith("Warning: Python ")] == [
        f"The database answers. It is {settings.home / 'kho.db'}.",
        "Passages indexed: 1 of experiences.",
        "No model is set: keyword search only.",
    ]
    later = run(hashed, "doctor")  # the model came after the record
    assert later.status == 0
    assert "There are no vectors yet; 'kho serve' or 'kho doctor --repair' computes them." in later.out


def test_doctor_says_that_nothing_confines_the_readers(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(run(settings, "doctor", "--json").out)["landlock"] == landlock.abi()
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    done = run(settings, "doctor")
    assert "could see other files of this user: this system has no Landlock" in done.out
    assert done.status == 0
    monkeypatch.setattr(landlock, "abi", lambda: 4)
    assert "Landlock" not in run(settings, "doctor").out


def test_doctor_says_whose_vectors_are_still_there(settings: Settings, hashed: Settings) -> None:
    submit(hashed)
    longer = change(hashed, {"search": {"embedder": {"dimension": 64}}})
    done = run(longer, "doctor")
    assert "The vectors are still those of hash/256 in the database; 'kho serve' or" in done.out


async def test_doctor_says_what_waits_and_why(hashed: Settings) -> None:
    await hold_the_lease(hashed)
    await in_thread(lambda: submit(hashed, "--no-wait"))
    held = await in_thread(lambda: run(hashed, "doctor"))
    assert held.status == 0
    assert "Passages that wait for vectors: 1. Keyword search finds them meanwhile." in held.out
    assert "Process 4711 is computing vectors." in held.out
    await write(hashed, lambda tx: tx.run("UPDATE vector_queue SET problem = $1", "models.example.org answered 401"))
    sick = await in_thread(lambda: run(hashed, "doctor", "--json"))
    found = json.loads(sick.out)
    assert (sick.status, found["ok"], found["problem"]) == (1, False, "models.example.org answered 401")


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
async def test_repair_files_everything_anew(hashed: Settings, engine: str, request: pytest.FixtureRequest) -> None:
    chosen = hashed
    if engine == "postgres":
        chosen = change(hashed, {"database_url": request.getfixturevalue("postgres_schema_url")})
    await in_thread(lambda: submit(chosen))

    def damage(tx: Tx) -> None:
        """Every index is lost, and nobody noticed."""
        tx.run("DELETE FROM vector_queue")
        tx.run("DELETE FROM passages")

    await write(chosen, damage)
    lost = await in_thread(lambda: run(chosen, "experiences", "query", "kettle", "--json"))
    assert json.loads(lost.out)["data"]["total"] == 0
    done = await in_thread(lambda: run(chosen, "doctor", "--repair"))
    assert done.status == 0, done.err
    assert done.out.startswith("Everything was re-indexed.\n")
    assert "Passages indexed: 1 of experiences." in done.out
    assert "No passage waits for vectors." in done.out
    found = await in_thread(lambda: run(chosen, "experiences", "query", "kettle", "--json"))
    assert json.loads(found.out)["data"]["total"] == 1


def test_doctor_of_a_database_that_does_not_answer(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    away = settings.model_copy(update={"home": tmp_path / "file" / "home"})
    done = run(away, "doctor")
    assert done.status == 1
    assert done.out.startswith("The database does not answer: The database file cannot be made")
    assert f"The database is {away.home / 'kho.db'}." in done.out
    assert json.loads(run(away, "doctor", "--json").out)["ok"] is False


@pytest.mark.parametrize("flags", [(), ("--repair",)])
async def test_doctor_of_a_damaged_file_says_what_can_be_done(home: Path, flags: tuple[str, ...]) -> None:
    await kho(home, "remember", "Hello.", "--no-wait")
    file = home / "kho.db"
    content = bytearray(file.read_bytes())
    for page in range(3 * 4096, len(content), 4096):
        content[page : page + 2000] = b"\xff" * 2000
    file.write_bytes(content)
    (home / "kho.db-wal").unlink(missing_ok=True)
    done = await kho(home, "doctor", *flags)
    assert (done.status, "Traceback" in done.err) == (1, False)
    assert done.out.startswith("The database is damaged")
    assert "run 'kho doctor'." not in done.out
    assert "'kho doctor --salvage NEW_FOLDER'" in done.out
    assert file.read_bytes() == content
    listed = await kho(home, "facts", "list")
    assert (listed.status, listed.err.count("\n")) == (1, 1), "no line of the log before it"
    assert "'kho doctor' says what can be done." in listed.err


def test_doctor_tells_a_setting_from_the_database(settings: Settings) -> None:
    for changes, told in [
        ({"embedder": {"provider": "openai"}}, "KHO_SEARCH__EMBEDDER__MODEL"),
        ({"embedder": {"provider": "hash"}, "vectors": {"engine": "qdrant"}}, "KHO_SEARCH__VECTORS__QDRANT_URL"),
    ]:
        done = run(change(settings, {"search": changes}), "doctor")
        assert done.status == 1
        assert done.out.startswith("The settings are not valid: ")
        assert told in done.out


def test_where_the_data_is_comes_without_the_password(settings: Settings) -> None:
    shared = change(settings, {"database_url": "postgresql://kho:s3cret@db.example.org:5432/store?sslmode=require"})
    assert whereabouts(shared) == "PostgreSQL at db.example.org/store"
