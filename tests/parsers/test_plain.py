"""Text formats: what becomes of Markdown, reStructuredText, code, notebooks, tables and JSON."""

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.lib.chunking.chunker import SIZE, chunks, estimate
from kho.parsers import ParsedFile, ParserLimits, UnreadableFile, formats, is_readable, read


def of(text: str, name: str) -> ParsedFile:
    return read(text.encode(), name)


def test_importing_loads_no_parser() -> None:
    heavy = "{'pypdf', 'docx', 'lxml', 'selectolax', 'charset_normalizer'}"
    code = f"import sys, kho.parsers; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_which_names_are_taken() -> None:
    taken = [
        "a.md",
        "A.PDF",
        "x/y.docx",
        "b.HTML",
        "c.py",
        "d.ipynb",
        "e.csv",
        "f.jsonl",
        "g.yml",
        "README",
        "Makefile",
        "LICENSE-MIT",
    ]
    refused = ["a.png", "b.exe", "c.zip", "d.so", "core", "e.pyc", "readme.png", ".bashrc", ""]
    assert [name for name in taken if not is_readable(name)] == []
    assert [name for name in refused if is_readable(name)] == []
    assert all(is_readable(f"x{suffix}") for suffix in formats())
    assert {".md", ".pdf", ".docx", ".html", ".py", ".csv", ".tsv", ".toml"} <= set(formats())


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Đầu đề `x` và [liên kết](http://a) #\n\nChữ.", "Đầu đề x và liên kết"),
        ("Title\n=====\n\nText", "Title"),
        ('<h1 align="center">\n  <b>Shown</b>\n</h1>\n\nText', "Shown"),
        ("Text without a heading", "notes"),
        ("```\n# no heading\n```\n", "notes"),
    ],
)
def test_markdown_keeps_its_text_and_has_a_title(text: str, title: str) -> None:
    found = of(text, "folder/notes.md")
    assert (found.title, found.text, found.kind, found.format) == (title, text, "markdown", "markdown")


def test_plain_text_may_be_written_like_markdown() -> None:
    assert of("Only words here.\n\nAnd more.", "a.txt").kind == "text"
    assert of("# A\n\nWords.\n\n## B\n\nWords.", "README").kind == "markdown"
    assert of("# A\n\nWords.\n\n## B\n\nWords.", "README").title == "A"


@pytest.mark.parametrize(
    ("name", "text", "language"),
    [
        ("a.py", "print(1)\n", "python"),
        ("run", "#!/usr/bin/env python3\nprint(1)\n", "python"),
        ("run", "#!/bin/bash -e\necho 1\n", "sh"),
        ("run", "#!/usr/bin/env -S node\n1\n", "javascript"),
        ("Dockerfile", "FROM x\n", "dockerfile"),
        ("a.rs", "fn main() {}\n", "rust"),
        ("a.toml", "[a]\nb = 1\n", "toml"),
        ("a.yaml", "a: 1\n", "yaml"),
    ],
)
def test_code_is_left_as_it_is(name: str, text: str, language: str) -> None:
    found = of(text, name)
    assert (found.text, found.kind, found.language, found.title) == (text, "code", language, name)


RST = """\
.. _target:

=====
Guide
=====

.. a comment that nobody
   reads

Words.

Install
-------

Run::

    make setup
    make run

.. code-block:: python
   :linenos:

   import kho

Deeper
~~~~~~

More words.

Use
---

A table is no title:

====  ====
one   two
====  ====
"""


def test_restructured_text_gets_headings_and_fences() -> None:
    found = of(RST, "guide.rst")
    assert found.title == "Guide"
    assert [chunk.heading for chunk in chunks(found.text, kind=found.kind)] == [
        ("Guide",),
        ("Guide", "Install"),
        ("Guide", "Install", "Deeper"),
        ("Guide", "Use"),
    ]
    assert "Run:\n\n```\nmake setup\nmake run\n```" in found.text
    assert "```python\nimport kho\n```" in found.text
    assert "nobody" not in found.text
    assert "one   two" in found.text


def test_a_notebook() -> None:
    book = {
        "nbformat": 4,
        "metadata": {"language_info": {"name": "python"}},
        "cells": [
            {"cell_type": "markdown", "source": ["# Phân tích\n", "\n", "Chữ."]},
            {
                "cell_type": "code",
                "source": "print('```')",
                "outputs": [
                    {"output_type": "stream", "text": [f"line {number}\n" for number in range(500)]},
                    {"output_type": "execute_result", "data": {"text/plain": ["42"], "image/png": "AAAA"}},
                    {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": ["\x1b[31mlong"]},
                ],
            },
            {"cell_type": "raw", "source": "# not a heading"},
            "nonsense",
            {"cell_type": "code", "source": 7, "outputs": "x"},
        ],
    }
    found = of(json.dumps(book), "a.ipynb")
    assert (found.title, found.kind, found.language) == ("Phân tích", "markdown", "python")
    assert "````python\nprint('```')\n````" in found.text
    assert "line 19\n…" in found.text
    assert "line 20" not in found.text
    assert "```text\n42\n```" in found.text
    assert "ValueError: no" in found.text
    assert "\\# not a heading" in found.text


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1}', "[" * 100_000])
def test_what_is_no_notebook(text: str) -> None:
    with pytest.raises(UnreadableFile, match="not a Jupyter notebook"):
        of(text, "a.ipynb")


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_a_table_comes_apart_into_tables_that_a_passage_holds(sign: str) -> None:
    rows = [sign.join(["name", "town", "note"])]
    rows += [
        sign.join([f"person {number}", "Hà Nội", f'"said ""a | b"", line\nfor {number}"']) for number in range(300)
    ]
    found = of("\r\n".join(rows), "people.tsv" if sign == "\t" else "people.csv")
    cut = chunks(found.text, kind=found.kind)
    assert len(cut) > 10
    for chunk in cut:
        assert chunk.text.startswith("| name | town | note |\n| --- | --- | --- |\n| person")
        assert chunk.text.count("| name |") == 1
        assert chunk.content == "table"
        assert estimate(chunk.text) <= SIZE + 3
    assert '| person 7 | Hà Nội | said "a \\| b", line for 7 |' in found.text
    assert found.text.count("| person ") == 300


def test_a_wide_table_becomes_records() -> None:
    header = ",".join(f"a long name of column {number}" for number in range(60))
    found = of(
        f"{header}\n" + "\n".join(",".join(f"v{row}.{number}" for number in range(60)) for row in range(3)), "w.csv"
    )
    cut = chunks(found.text, kind=found.kind)
    assert {chunk.heading for chunk in cut} == {("Row 1",), ("Row 2",), ("Row 3",)}
    assert "- a long name of column 59: v2.59" in found.text


def test_a_table_without_a_header_counts_its_columns() -> None:
    assert of("1,an\n2,bình\n", "a.csv").text.startswith("| column 1 | column 2 |\n| --- | --- |\n| 1 | an |")


def test_a_quote_that_is_never_closed_does_not_lose_the_text() -> None:
    found = of('a,b\n"' + "word " * 60_000, "a.csv")
    assert found.text.count("word") == 60_000


def test_json_is_set_in_lines_and_letters_are_letters() -> None:
    value: dict[str, Any] = {
        "tên": "Cơ sở dữ liệu",
        "list": [1, 2.50, {"deep": []}],
        "s": 'a "quoted", {brace}: [x]',
        "e": {},
    }
    packed = of(json.dumps({**value, "fill": "x" * 500}), "a.json")
    assert json.loads(packed.text) == {**value, "fill": "x" * 500}
    assert '  "tên": "Cơ sở dữ liệu",\n  "list": [\n    1,\n    2.5,' in packed.text
    assert (packed.kind, packed.language, packed.format) == ("code", "json", "json")
    assert of('{\n "a": 1.50\n}', "a.json").text == '{\n "a": 1.50\n}'
    assert of(json.dumps(value) + "\n" + json.dumps(value), "a.jsonl").text.count("\n") == 1
    assert "Cơ sở" in of(json.dumps(value), "a.jsonl").text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.json", b"[" * 1_000_000),
        ("a.csv", b",".join(b"%c" % n for n in range(97, 123)) + b"\n" + b"a\n" * 400_000),
    ],
)
def test_a_text_that_is_many_times_its_file_is_refused(name: str, data: bytes) -> None:
    with pytest.raises(UnreadableFile, match="characters, more than"):
        read(data, name)


def test_the_names_of_columns_do_not_multiply_a_table() -> None:
    """They stand in every record: here a thousand times 200,000 characters."""
    found = read(b"x" * 100_000 + b"," + b"y" * 100_000 + b"\n" + b"a,b\n" * 1_000, "a.csv")
    assert len(found.text) < 300_000


def test_json_is_indented_by_a_few_blanks() -> None:
    found = of('{"fill": "' + "x" * 500 + '", "deep": ' + "[" * 30 + "1" + "]" * 30 + "}", "a.json")
    assert max(len(line) - len(line.lstrip()) for line in found.text.split("\n")) == 8


def test_broken_and_endless_json_is_still_text() -> None:
    assert of("[" * 200_000, "a.json").text.count("[") == 200_000
    assert '"open' in of('{"a": ' + "1," * 500 + '"open', "a.json").text


def test_nothing_and_too_much() -> None:
    with pytest.raises(UnreadableFile, match="it is empty"):
        read(b"", "a.txt")
    with pytest.raises(UnreadableFile, match="it has no text"):
        read(b"\xef\xbb\xbf \n\t\n", "a.md")
    with pytest.raises(UnreadableFile, match=r"it has 2\.0 MB, more than 1\.0 MB\. Split it"):
        read(b"a" * 2**21, "a.txt", limits=ParserLimits(size=2**20))


NAMES = st.sampled_from(
    [
        "a.md",
        "a.txt",
        "a.rst",
        "a.html",
        "a.py",
        "a.ipynb",
        "a.csv",
        "a.tsv",
        "a.json",
        "a.jsonl",
        "a",
        "a.pdf",
        "a.docx",
    ]
)
PIECES = st.sampled_from(
    [b"# A\n", b"===\n", b"A\n", b"::\n", b"  x\n", b".. a\n", b"<table>", b"<tr><td>", b"<ul><li>", b"</ul>", b"<pre>", b'"', b",", b"{", b"]", b"\n",
     b"\\u00e9", b"\\", b"%PDF-1.4\n", b"PK\x03\x04", b"PK\x05\x06", b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"\xe1\xba\xa5", b"---\n", b"title: x\n", b"<h1>", b"|"]
)  # fmt: skip


@settings(deadline=None, max_examples=500)
@given(st.lists(PIECES | st.binary(max_size=8), max_size=40).map(b"".join), NAMES)
def test_any_bytes_give_a_clean_text_or_a_reason(data: bytes, name: str) -> None:
    try:
        found = read(data, name)
    except UnreadableFile:
        return
    assert found.title
    assert found.text.strip()
    assert not any(sign < " " and sign not in "\n\t" for sign in found.text)
    found.text.encode()


@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.csv", "a.json", "a.txt"])
@pytest.mark.parametrize("unit", [" ", "\n", "::\n", "=\n", '"', "[", "\x1b]", "title:", "<h1", "\t", "::\n x\n"])
def test_endless_input_is_read_in_linear_time(name: str, unit: str) -> None:
    """A pattern that looks back for ever would not come back from this."""
    data = ("x" + unit * (60_000 // len(unit)) + "x").encode()
    assert read(data, name).text
