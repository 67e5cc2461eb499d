"""No text makes a reader look at it again and again: what is done in the hub, and holds its interpreter, is linear."""

import subprocess
import sys

import pytest

from kho.lib.chunking.sentences import sentences
from kho.parsers import read

HOSTILE = {
    "dots.txt": "'.' * 250_000",
    "dots.md": "'Wait' + '...?!' * 50_000",
    "numbers.csv": "('1 ' * 30_000 + 'x,2\\n') * 4",
    "quotes.json": "'\"\\\\' * 125_000",
    "open.json": "'{\"a\": \"' + '\\\\\"' * 120_000",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_small_file_takes_no_hours(name: str) -> None:
    """In a process of its own, which can be ended: a pattern that is matched in the hub cannot. Each of these took
    minutes to days."""
    code = (
        "from kho.lib.chunking.chunker import chunks\nfrom kho.parsers import read\n"
        f"found = read(({HOSTILE[name]}).encode(), {name!r})\n"
        "print(sum(1 for _ in chunks(found.text, kind=found.kind)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True, timeout=120)
    assert int(done.stdout) > 0


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("One... Two.", [7, 11]),
        ('He said "no!" Then left.', [14, 24]),
        ("a...b c?!d e.) F", [15, 16]),
        ("What?!\u201d So.", [8, 11]),
        ("...", [3]),
        ("End.", [4]),
        ("v1.2.3 is out. Yes", [15, 18]),
        ("好。」再见！", [3, 6]),
    ],
)
def test_sentences_end_where_they_did(text: str, ends: list[int]) -> None:
    assert [stop for _, stop in sentences(text, 0, len(text))] == ends


def test_json_and_numbers_are_read_as_before() -> None:
    line = '{"a":"x\\"y","b":[1,2],"c":"\\u01b0"}'
    assert read(f"[{line}{f',{line}' * 20}]".encode(), "a.json").text.startswith(
        '[\n  {\n    "a": "x\\"y",\n    "b": [\n      1,\n      2\n    ],\n    "c": "ư"\n  },'
    )
    for first, named in (("1,250.5 %", True), ("-3", True), ("+ 7", True), ("Q1", False), (".", False), ("1a", False)):
        shown = read(f"{first};x\n2;y\n".encode(), "a.csv").text
        assert ("column 1" in shown) == named
