"""Commands made from operations: several for one operation, their flags, questions, progress and completion."""

import asyncio
import json
import os
import pty
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.doors.command_line import program_of, run_in_process
from tests.doors.doors import Finished, environment, kho
from tests.doors.sample_capability import PROGRAM, Shelves
from tests.timeouts import PATIENCE

from kho.settings import Settings


@pytest.fixture
def books() -> Shelves:
    return Shelves()


def run(settings: Settings, books: Shelves, *arguments: str, name: str = "kho", stdin: bytes = b"") -> Finished:
    return run_in_process(program_of(settings, books.capability, name=name), *arguments, stdin=stdin)


# -- one operation, many commands --------------------------------------------------------------------------------------


def test_a_command_is_its_words_and_its_fixed_arguments(settings: Settings, books: Shelves) -> None:
    made = run(settings, books, "shelves", "create", "top shelf", "--type=steel", "--width", "3", "--json")
    assert (made.status, made.err) == (0, "")
    answer = json.loads(made.out)
    assert answer["action"] == "create"
    assert answer["shelves"]["top shelf"] == {"shelf_type": "steel", "width": 3}
    assert run(settings, books, "shelves", "list").out == "**list**: full, top shelf\n"
    renamed = run(settings, books, "shelves", "rename", "top shelf", "attic", "--json")
    assert list(json.loads(renamed.out)["shelves"]) == ["full", "attic"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (["--books", "a,b"], {"books": ["a", "b"]}),
        (["--books", "a", "--books", "b"], {"books": ["a", "b"]}),
        (["--books", "a, b", "--books=c"], {"books": ["a", "b", "c"]}),
        (["--books", ""], {"books": []}),
        (["--labels", "a,b"], {"labels": "a,b"}),  # the operation takes a text, and has the rule for it
        (["--labels", "a", "--labels", "b,c"], {"labels": ["a", "b", "c"]}),
        (["--locked"], {"locked": True}),
        (["--no-locked"], {"locked": False}),
        ([], {}),
    ],
)
def test_lists_and_switches(settings: Settings, books: Shelves, typed: list[str], meant: dict[str, Any]) -> None:
    assert run(settings, books, "shelves", "create", "x", *typed).status == 0
    assert books.shelves["x"] == meant


def test_arguments_from_a_file_are_joined_by_what_is_typed(settings: Settings, books: Shelves) -> None:
    given = {"action": "list", "shelf_name": "x", "width": 2, "locked": True}
    done = run(settings, books, "shelves", "create", "--width", "4", "--params", "-", stdin=json.dumps(given).encode())
    assert done.status == 0
    assert books.shelves["x"] == {"width": 4, "locked": True}


@pytest.mark.parametrize(
    "arguments",
    [
        "shelves create x --new-name y",
        "shelves create x --action list",
        "shelves create a b",
        "shelves list --type steel",
        "shelves list --yes",
        "shelves create x --type",
        "shelves",
    ],
)
def test_a_command_has_only_the_flags_that_it_shows(settings: Settings, books: Shelves, arguments: str) -> None:
    done = run(settings, books, *arguments.split())
    assert (done.status, done.out) == (2, "")


@pytest.mark.parametrize(
    "arguments",
    [
        "shelves create x --type glass",  # the operation refuses it
        "shelves create x --width wide",
        "completion tcsh",  # the parser does
        "serve --port 99999",
        "models install --from /no/such/file.whl",
        "watch . --collection x --interval 0",
        "kb import /no/such/file.jsonl",
    ],
)
def test_a_wrong_value_is_a_failure_whoever_refuses_it(settings: Settings, books: Shelves, arguments: str) -> None:
    done = run(settings, books, *arguments.split())
    assert (done.status, done.out) == (1, "")
    assert arguments.split()[-1].rpartition("/")[2] in done.err or "--type" in arguments or "--width" in arguments
    assert "error: " in done.err.lower()


def test_a_choice_is_refused_by_the_operation_and_in_its_form(settings: Settings, books: Shelves) -> None:
    told = json.loads(run(settings, books, "shelves", "create", "x", "--type", "glass", "--json").out)
    assert "shelf_type" in str(told)


def test_a_sentence_needs_no_quotes(settings: Settings, books: Shelves) -> None:
    for typed in (["count", "xin", "chào"], ["count", "xin chào"]):
        assert json.loads(run(settings, books, *typed, "--json").out) == {"words": ["xin", "chào"]}


def test_help_names_the_program_as_it_was_called(settings: Settings, books: Shelves) -> None:
    for name in ("kho", "research-agent"):
        group = run(settings, books, "shelves", "--help", name=name).out
        assert f"Usage: {name} shelves" in group
        assert "Shelves: what books stand on." in group
        assert f"Example:\n    {name} shelves create 'top shelf'" in group
        assert re.search(r"create +Make a shelf\.", group)
        shown = run(settings, books, "shelves", "create", "--help", name=name).out
        assert f"Usage: {name} shelves create [OPTIONS] NAME\n" in shown
        assert "--no-wait" in shown
        assert "--no-wait" not in run(settings, books, "shelves", "list", "--help").out
        assert "--type [wood|steel]" in shown
        example = re.search(rf"Example:\n +({name} .*)", shown)
        assert example is not None
        assert example[1] == f"{name} shelves create 'top shelf' --type steel --labels a --labels b"
        assert f"'{name} serve'" in run(settings, books, "--help", name=name).out
        assert f"  {name} doctor" in run(settings, books, "doctor", "--help", name=name).out


def test_every_example_works(settings: Settings, books: Shelves) -> None:
    books.shelves["old"] = {}
    for command in ("shelves create", "shelves list", "shelves rename", "shelves delete", "count"):
        shown = re.search(r"Example:\n +kho (.*)", run(settings, books, *command.split(), "--help").out)
        assert shown is not None
        books.shelves["old"] = {"books": ["x"]}
        assert run(settings, books, *shlex.split(shown[1])).status == 0, shown[1]


def test_a_failure_says_what_to_do(settings: Settings, books: Shelves) -> None:
    done = run(settings, books, "shelves", "rename", "nothing", "x")
    assert (done.status, done.out) == (1, "")
    assert done.err.splitlines() == [
        "error: There is no shelf 'nothing'. (SHELF_NOT_FOUND)",
        "  name: nothing",
        "  See what there is with `kho shelves list`.",
    ]
    told = json.loads(run(settings, books, "shelves", "rename", "nothing", "x", "--json").out)
    assert (told["code"], told["contract_code"], told["details"]) == ("SHELF_NOT_FOUND", -32002, "name: nothing")


# -- questions ---------------------------------------------------------------------------------------------------------


def test_without_a_terminal_nobody_is_asked(settings: Settings, books: Shelves) -> None:
    done = run(settings, books, "shelves", "delete", "full", stdin=b"y\n")
    assert (done.status, done.out) == (1, "")
    assert "error: 1 book of 'full' would be lost." in done.err
    assert "Add --yes to do it all the same." in done.err
    assert "full" in books.shelves
    told = run(settings, books, "shelves", "delete", "full", "--json")
    assert (told.status, json.loads(told.out)["code"]) == (1, "SHELF_NOT_EMPTY")
    assert run(settings, books, "shelves", "delete", "full", "--yes").status == 0
    assert books.shelves == {}


def test_what_needs_no_confirming_is_done_at_once(settings: Settings, books: Shelves) -> None:
    books.shelves["empty"] = {}
    assert run(settings, books, "shelves", "delete", "empty").status == 0
    assert run(settings, books, "shelves", "delete", "empty").err.startswith("error: There is no shelf 'empty'.")


async def on_a_terminal(home: Path, *arguments: str, typed: bytes = b"") -> Finished:
    """A real process on a terminal; all that it shows there is `err`."""
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *PROGRAM,
        *arguments,
        env=environment(home, {"TERM": "xterm", "COLUMNS": "100"}),
        stdin=theirs,
        stdout=asyncio.subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, typed)
    assert process.stdout is not None
    shown = b""
    try:
        async with asyncio.timeout(PATIENCE):
            while piece := await asyncio.to_thread(_read, ours):
                shown += piece
            out = await process.stdout.read()
            status = await process.wait()
    finally:
        os.close(ours)
        if process.returncode is None:
            process.kill()
            await process.wait()
    return Finished(status, out.decode(), shown.decode())


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how a terminal says that nobody writes to it any more
        return b""


@pytest.mark.parametrize(("answer", "status", "left"), [(b"y\n", 0, "**delete**: none"), (b"n\n", 1, "")])
async def test_somebody_at_a_terminal_is_asked(home: Path, answer: bytes, status: int, left: str) -> None:
    done = await on_a_terminal(home, "shelves", "delete", "full", typed=answer)
    assert "1 book of 'full' would be lost." in done.err
    assert "Go on? [y/N]" in done.err
    assert (done.status, done.out.strip()) == (status, left)


async def test_with_json_nobody_is_asked(home: Path) -> None:
    done = await on_a_terminal(home, "shelves", "delete", "full", "--json")
    assert (done.status, json.loads(done.out)["code"], done.err) == (1, "SHELF_NOT_EMPTY", "")


# -- progress ----------------------------------------------------------------------------------------------------------


async def test_progress_is_a_bar_on_a_terminal(home: Path) -> None:
    done = await on_a_terminal(home, "count", "a", "b")
    assert (done.status, done.out) == (0, 'words: ["a","b"]\n')
    assert "step [3]" in done.err
    assert "3/3" in done.err


async def test_progress_is_silent_with_json(home: Path) -> None:
    done = await on_a_terminal(home, "count", "a", "--json")
    assert (json.loads(done.out), done.err) == ({"words": ["a"]}, "")


def test_progress_is_silent_without_a_terminal(settings: Settings, books: Shelves) -> None:
    done = run(settings, books, "count", "a")
    assert (done.status, done.out, done.err) == (0, 'words: ["a"]\n', "")


# -- completion --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("name", ["kho", "research-agent"])
def test_the_completion_script_is_for_the_program_as_it_was_called(
    settings: Settings, books: Shelves, shell: str, name: str
) -> None:
    done = run(settings, books, "completion", shell, name=name)
    assert done.status == 0
    assert f"_{name.upper().replace('-', '_')}_COMPLETE={shell}_complete" in done.out
    assert name in done.out
    assert not settings.home.exists()


async def complete(home: Path, words: str) -> list[str]:
    asked: Mapping[str, str] = {
        "_KHO_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = await kho(home, env=asked)
    assert done.status == 0
    return [line.partition(",")[2] for line in done.out.splitlines()]


async def test_the_program_completes_commands_and_flags(home: Path) -> None:
    assert await complete(home, "kho exp") == ["experiences"]
    assert "query" in await complete(home, "kho experiences ")
    assert "--limit" in await complete(home, "kho experiences query --l")
