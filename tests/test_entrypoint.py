"""How the program starts: a command loads no more than it needs, because loading takes longer than most commands."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.started import FILE, HELLO, USUAL, lists, started
from tests.timeouts import PATIENCE

from kho import __version__

WORKER = """
import asyncio, importlib, sys
from kho import app
from kho.doors.http import server
from kho.settings import Settings

async def serve(settings):
    async with app.open_hub(settings, serving=True):
        pass

settings = Settings()
for name in app.modules(settings):
    importlib.import_module(name)
before = set(sys.modules)
app.asgi
asyncio.run(serve(settings))
print(*sorted(name for name in set(sys.modules) - before if name.partition(".")[0] in ("kho", "psycopg", "pydantic")))
"""
HEAVY = {"mcp", "numpy", "openai", "psycopg", "rich", "uvicorn", "websockets"}


def test_the_version_needs_nothing(tmp_path: Path) -> None:
    said, loaded = started(tmp_path, "--version")
    assert said == f"kho, version {__version__}\n"
    assert not loaded & {"pydantic", "click", "apsw", *HEAVY}
    # Among other words the command line answers, and says the same.
    assert started(tmp_path, "--version", "serve")[0] == said


@pytest.mark.parametrize(
    "arguments", [("--help",), ("memory", "list", "--help"), ("memory", "list", "--json"), ("memory", "list")]
)
def test_a_command_loads_neither_the_web_nor_a_model(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    said, loaded = started(tmp_path, *arguments)
    assert said
    assert not loaded & HEAVY


def test_a_start_loads_what_is_listed_and_no_more(tmp_path: Path) -> None:
    """A module that comes makes a start slower: it is listed on purpose, with `make commands`, or left out."""
    known = json.loads(FILE.read_text("utf-8"))
    for words, loaded in lists(tmp_path).items():
        assert sorted({*loaded} - {*known[words]}) == [], f"kho {words} loads more than tests/started.json lists"
        # Others' packages load helpers of theirs only where these happen to be installed: of them, less is no news.
        gone = sorted(name for name in {*known[words]} - {*loaded} if name.startswith("kho."))
        assert gone == [], f"kho {words} loads less: `make commands` writes the list"


def test_help_loads_no_slice_and_a_command_its_own() -> None:
    known = json.loads(FILE.read_text("utf-8"))
    slices = {"audit", "devices", "documents", "experiences", "facts", "memory", "research", "toolbox"}

    def loaded(words: str) -> set[str]:
        parts = (name.split(".") for name in known[words] if name.startswith("kho."))
        return {room for _, room, *rest in parts if room in slices and rest and rest != ["settings"]}

    assert loaded("--help") == set()
    assert loaded("stdio") == set()
    assert loaded("docs list") == {"documents"}
    assert loaded("experiences query x") == {"experiences"}
    assert "pydantic" not in known["--help"]


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_a_worker_finds_everything_imported(
    tmp_path: Path, database: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are copies of a process that imported app.modules(); each would import alone what is not among them."""
    monkeypatch.setenv("KHO_HOME", str(tmp_path))
    if database == "postgres":
        monkeypatch.setenv("KHO_DATABASE_URL", request.getfixturevalue("postgres_schema_url"))
    done = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_was_asked_before_stdin_ends_is_answered(tmp_path: Path) -> None:
    """As `kho stdio < messages` does."""
    record = {"title": "Ấm đun", "problem_description": "Lạnh.", "solution": "Cắm điện."}
    messages: list[dict[str, Any]] = [
        HELLO,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}},
        {
            "jsonrpc": "2.0",
            "id": 3,
            "method": "tools/call",
            "params": {"name": "submit_experience", "arguments": record},
        },
    ]
    said, _ = started(tmp_path, "stdio", stdin="".join(json.dumps(one) + "\n" for one in messages))
    answers = {answer["id"]: answer for answer in map(json.loads, said.splitlines()) if "id" in answer}
    assert answers.keys() == {1, 2, 3}
    assert all("result" in answer for answer in answers.values()), answers
    assert "Ấm đun" in started(tmp_path, "experiences", "query", "Ấm đun", "--json")[0]


def test_an_interrupt_ends_stdio_at_once(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "kho", "stdio"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**USUAL, "KHO_HOME": str(tmp_path)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(HELLO).encode() + b"\n")
        process.stdin.flush()
        assert b"instructions" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        assert (process.returncode, said) == (-signal.SIGINT, b"")
