"""Stored text, file names and errors cannot drive the terminal of whoever reads them at the command line."""

import ast
import os
import pty
import subprocess
from pathlib import Path

import orjson
import pytest
from tests.acceptance.processes import KHO, Place
from tests.timeouts import PATIENCE

from kho.doors import cli
from kho.lib.visible import escaped, one_line, visible

CLEAR, TITLE, CLIPBOARD = "\x1b[2J", "\x1b]0;owned\x07", "\x1b]52;c;ZXZpbA==\x1b\\"
C1_TITLE = "\x9d0;owned\x9c"
HOSTILE = f"kettle {CLEAR}{TITLE}{CLIPBOARD}{C1_TITLE}\x1b[31mred\x7f\rover\u202etxt.exe\u2066"
SIGNS = "\x1b\x07\x7f\r\x9b\x9c\x9d\u202e\u2066"


def stored(place: Place, title: str) -> None:
    record = orjson.dumps({"title": title, "problem_description": title, "solution": title})
    done = place.run("experiences", "submit", "--params", "-", stdin=record)
    assert done.returncode == 0, done.stderr


def on_a_terminal(place: Place, *arguments: str) -> str:
    """What a terminal is sent by a command, without what it may send by itself: colours."""
    side, other = pty.openpty()
    environment = place.environment(TERM="xterm", COLUMNS="200", PAGER="cat")
    process = subprocess.Popen([*KHO, *arguments], stdin=other, stdout=other, stderr=other, env=environment)
    os.close(other)
    shown = b""
    try:
        while more := os.read(side, 4096):
            shown += more
    except OSError:  # how Linux says that the other side has closed
        pass
    finally:
        os.close(side)
        process.wait(PATIENCE)
    return shown.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("terminal") / "home")
    stored(place, HOSTILE)
    return place


def test_stored_text_does_not_drive_a_terminal(place: Place) -> None:
    shown = on_a_terminal(place, "experiences", "query", "kettle")
    assert "␛[2J" in shown
    for sequence in (CLEAR, TITLE, CLIPBOARD, C1_TITLE, "\x1b]", "\x9d", "\x7f", "\u202e", "\u2066", "\rover"):
        assert sequence not in shown, repr(sequence)


def test_nor_does_it_in_a_pipe(place: Place) -> None:
    for arguments in (("experiences", "query", "kettle"), ("audit", "list"), ("search", "kettle")):
        done = place.run(*arguments)
        assert done.returncode == 0
        said = (done.stdout + done.stderr).decode()
        assert not set(SIGNS) & set(said), arguments


def test_nor_does_an_error_that_repeats_what_was_given(place: Place) -> None:
    for arguments in (("docs", "get", TITLE), ("experiences", "get", f"x{CLEAR}"), ("fetch", f"doc:{CLEAR}"), (TITLE,)):
        done = place.run(*arguments)
        assert done.returncode != 0
        assert done.stderr
        assert not set(SIGNS) & set((done.stdout + done.stderr).decode()), arguments


def test_json_is_safe_and_means_the_same(place: Place) -> None:
    done = place.run("experiences", "query", "kettle", "--json")
    assert not set(SIGNS) & set(done.stdout.decode())
    hit = orjson.loads(done.stdout)["data"]["experiences"][0]
    full = orjson.loads(place.run("experiences", "get", hit["id"], "--json").stdout)["data"]
    assert "\x1b]52;c;ZXZpbA==\x1b\\" in full["solution"]
    assert "\u202e" in full["solution"]


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0), 0x061C, 0x200E, 0x202A, 0x202E, 0x2066, 0x2069])
def test_every_control_character_shows_as_a_sign(code: int) -> None:
    text = f"a{chr(code)}b"
    assert (visible(text) == text) == (text in ("a\tb", "a\nb"))
    assert chr(code) not in one_line(text)
    assert orjson.loads(escaped(orjson.dumps(text).decode())) == text


def test_text_of_people_is_left_as_it_is() -> None:
    for text in ("Đường đi khó", "中文，标点", "👩‍👩‍👧 family", "فارسی‌ها", "a\tb\nc", "naïve café", "«»—…"):
        assert visible(text) == escaped(text) == text
    assert visible("two\r\nlines") == "two\nlines"


def test_the_command_line_prints_in_one_way_only() -> None:
    """Every module of it; what is printed past `terminal` would not be made visible."""
    folder = Path(cli.__file__).parent
    modules = [path for path in folder.glob("*.py") if path.name != "terminal.py"]
    assert len(modules) > 20
    for path in modules:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute):
                assert node.attr not in ("echo", "secho"), f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id != "print", f"{path.name}:{node.lineno}"
