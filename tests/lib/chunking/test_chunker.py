"""Chunking: documents to passages."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kho.lib.chunking.chunker import OVERLAP, SIZE, Chunk, Content, Kind, chunks, estimate, kind_of


def words(text: str) -> int:
    return len(text.split())


def said(chunk: Chunk) -> tuple[tuple[str, ...], str]:
    """By which the vector of a passage is known."""
    return chunk.heading, chunk.text


def prose(seed: str, sentences: int) -> str:
    return " ".join(f"The {seed} sentence number {number} says a little more." for number in range(sentences))


MARKDOWN = """\
---
title: A guide
---

# Guide

Welcome to the guide.

## Install ##

Run this:

```sh
# not a heading
make setup
```

| name | value |
|------|-------|
| a    | 1     |

Usage
-----

- first
- second

  still second

### Deep

<div>
block
</div>

# Empty
# Other

Last words.
"""


def test_markdown_is_cut_at_headings_and_knows_its_path() -> None:
    found = [(chunk.heading, chunk.text) for chunk in chunks(MARKDOWN)]
    assert found == [
        ((), "---\ntitle: A guide\n---"),
        (("Guide",), "Welcome to the guide."),
        (
            ("Guide", "Install"),
            "Run this:\n\n```sh\n# not a heading\nmake setup\n```\n\n| name | value |\n|------|-------|\n| a    | 1     |",
        ),
        (("Guide", "Usage"), "- first\n- second\n\n  still second"),
        (("Guide", "Usage", "Deep"), "<div>\nblock\n</div>"),
        (("Empty",), "# Empty"),
        (("Other",), "Last words."),
    ]


def test_a_passage_says_where_it_is() -> None:
    for chunk in chunks(MARKDOWN):
        assert MARKDOWN[chunk.start : chunk.end] == chunk.text


def test_titles_without_text_share_passages() -> None:
    small = "".join(f"t{number}\n=\n" for number in range(20_000))
    found = chunks(small, kind="markdown")
    assert len(found) < 1_000, "a passage for each would be 20,000"
    assert covered(small, found).split() == []
    assert {chunk.heading for chunk in found} == {()}
    assert max(estimate(chunk.text) for chunk in found) <= SIZE


def test_titles_without_text_have_the_heading_that_they_share() -> None:
    text = "# A\n## B\n### C\n### D\n## E\ntext\n## F\n# G\n## H\n"
    assert [(chunk.heading, chunk.text) for chunk in chunks(text, kind="markdown")] == [
        (("A", "B"), "### C\n### D"),
        (("A", "E"), "text"),
        ((), "## F\n# G\n## H"),
    ]


def test_a_list_that_is_too_long_ends_at_one_more() -> None:
    text = "".join(f"# T{number}\nx\n" for number in range(50))
    assert len(chunks(text, kind="markdown")) == 50
    assert [len(chunks(text, kind="markdown", most=most)) for most in (1, 49, 50, 51)] == [2, 50, 50, 50]
    assert len(chunks("A sentence of words. " * 9_000, kind="text", most=7)) == 8


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert [chunk.heading for chunk in chunks("# A\n\n~~~py\n# B\n```\n# C", kind="markdown")] == [("A",)]


def test_a_long_table_is_split_by_rows_and_each_part_has_the_header() -> None:
    rows = "".join(f"| row {number} | value {number} |\n" for number in range(40))
    header = "| name | value |\n|---|---|\n"
    found = chunks(f"# T\n\n{header}{rows}", size=60, count=words)
    assert len(found) > 3
    for chunk in found:
        assert chunk.text.startswith(header)
        assert words(chunk.text) <= 60
    assert "".join(chunk.text.removeprefix(header) + "\n" for chunk in found) == rows


def test_a_long_fence_is_split_by_lines_and_each_part_is_a_fence() -> None:
    body = "".join(f"call({number}) # do it\n" for number in range(60))
    found = chunks(f"Text\n\n```python\n{body}```\n", size=50, count=words, kind="markdown")[1:]
    assert len(found) > 3
    for chunk in found:
        assert chunk.text.startswith("```python\n")
        assert chunk.text.endswith("\n```")
        assert words(chunk.text) <= 52
    assert "".join(chunk.text.removeprefix("```python\n").removesuffix("```") for chunk in found) == body


PYTHON = '''\
"""A module."""

import os


# Adds.
@cache
def add(a, b):
    return a + b


class Shop:
    """Sells."""

    def open(self):
        x = 1

        return x

    # Closes.
    def close(self):
        return 2
'''


def test_code_keeps_comments_and_decorators_with_their_definition() -> None:
    found = chunks(PYTHON, size=12, count=words)
    texts = [chunk.text for chunk in found]
    assert "# Adds.\n@cache\ndef add(a, b):\n    return a + b" in texts
    assert "    # Closes.\n    def close(self):\n        return 2" in "\n".join(texts)
    assert {chunk.heading for chunk in found if "def open" in chunk.text} == {("class Shop",)}
    assert chunks(PYTHON, size=500)[0].text == PYTHON.strip()


@pytest.mark.parametrize(
    "source",
    [
        'package main\n\nimport "fmt"\n\n// Hi says hi.\nfunc Hi() {\n\tfmt.Println(1)\n\n\tfmt.Println(2)\n}\n\nfunc Bye() {\n\tfmt.Println(3)\n}\n',
        "use std::io;\n\n/// Doc.\n#[inline]\npub fn hi() -> u8 {\n    1\n}\n\nimpl Foo {\n    fn bye() {}\n}\n",
        "import x from 'y';\n\n/** Doc. */\nexport function hi() {\n  return 1;\n}\n\nconst bye = () => {\n  return 2;\n};\n",
        "#include <a.h>\n\n/* Doc. */\nstruct hi {\n  int x;\n};\n\nstatic int bye(void)\n{\n  return 2;\n}\n",
    ],
)
def test_other_languages_come_apart_at_their_definitions(source: str) -> None:
    found = [chunk.text for chunk in chunks(source, size=11, count=words)]
    documented = [text for text in found if "Doc." in text or "says hi" in text]
    assert documented
    assert all("hi" in text.lower().replace("says hi", "") for text in documented)
    assert not any("hi" in text.lower() and "bye" in text.lower() for text in found)


def test_plain_text_is_cut_at_sentences_and_says_the_last_one_again() -> None:
    text = prose("plain", 30)
    found = chunks(text, size=60, count=words, kind="text")
    assert len(found) > 3
    for before, chunk in pairwise(found):
        assert words(chunk.text) <= 60
        assert chunk.start < before.end < chunk.end
        assert text[chunk.start :].startswith("The plain sentence")
        assert words(text[chunk.start : before.end]) <= 9


def test_without_overlap_nothing_is_said_twice() -> None:
    text = prose("plain", 30)
    found = chunks(text, size=60, overlap=0, count=words, kind="text")
    assert " ".join(chunk.text for chunk in found) == text


def test_a_change_in_one_section_leaves_the_passages_of_the_others() -> None:
    sections = "".join(f"\n## Part {name}\n\n{prose(name, 20)}\n" for name in "abcde")
    before = chunks(f"# Title\n\nIntro.\n{sections}", size=80, count=words)
    after = chunks(f"# Title\n\nA new paragraph on top.\n\nIntro.\n{sections}", size=80, count=words)
    assert [said(chunk) for chunk in before[1:]] == [said(chunk) for chunk in after[1:]]
    assert said(before[0]) != said(after[0])


def test_a_paragraph_on_top_of_a_plain_text_shifts_only_the_first_passages() -> None:
    text = "\n\n".join(prose(f"paragraph{number}", 2) for number in range(200))
    before = {said(chunk) for chunk in chunks(text, size=100, count=words, kind="text")}
    after = {said(chunk) for chunk in chunks(f"{prose('new', 3)}\n\n{text}", size=100, count=words, kind="text")}
    assert len(before - after) <= len(before) // 5


def test_equal_sections_are_passages_of_their_own() -> None:
    found = chunks("# A\n\nSame.\n\n# A\n\nSame.\n")
    assert said(found[0]) == said(found[1])
    assert found[0].end <= found[1].start


def test_the_heading_tells_equal_texts_apart() -> None:
    one, other = chunks("# A\n\nSame.\n\n# B\n\nSame.\n")
    assert said(one) != said(other)


@pytest.mark.parametrize(
    "text", ["a" * 5_000, "数" * 3_000, "e\u0301" * 2_000, "👨\u200d👩\u200d👧" * 500, "a\u0301\u0302" * 1_000]
)
def test_the_last_resort_is_length_and_never_cuts_a_character(text: str) -> None:
    found = chunks(text)
    assert len(found) > 3
    assert "".join(chunk.text for chunk in found) == text
    for chunk in found:
        assert estimate(chunk.text) <= SIZE + 5
        assert not unicodedata.combining(chunk.text[0])
        assert chunk.text[0] != "\u200d"
        assert chunk.text[-1] != "\u200d"


@pytest.mark.parametrize("text", ["", " \n\t", "\n" * 100, "#", "# \n## \n"])
def test_nothing_gives_nothing(text: str) -> None:
    assert chunks(text) == []


def test_nonsense_sizes_are_refused() -> None:
    with pytest.raises(ValueError, match="size"):
        chunks("x", size=0)
    with pytest.raises(ValueError, match="overlap"):
        chunks("x", overlap=1.0)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("def f(x):\n    return x\n\nprint(f(1))\n", "code"),
        ("# A comment, no title\nimport os\n\nx = os.path.join(1)\n\n\ndef f():\n    return x\n", "code"),
        ("int main(void)\n{\n  return 0;\n}\n#include <a>\n", "code"),
        ("# Title\n\nText.", "markdown"),
        ("Text.\n\n```py\nimport os\nx = 1\n```\n", "markdown"),
        ("- one\n- two\n", "markdown"),
        ("Just a text.\n\nAnd another; with a list of things, (in brackets)\nand more.", "text"),
        ("从前有座山。\n山里有座庙。", "text"),
        ("Let us import goods from France.\nClass begins at nine.", "text"),
        ("", "text"),
    ],
)
def test_the_kind_is_told_from_the_text(text: str, kind: Kind) -> None:
    assert kind_of(text) == kind


TABLE = "| name | value |\n|---|---|\n" + "".join(f"| row {number} | value {number} |\n" for number in range(5))
FENCE = "```python\n" + "".join(f"call({number})\n" for number in range(12)) + "```\n"


@pytest.mark.parametrize(
    ("text", "kind", "content"),
    [
        ("A sentence, and another one.", "text", "prose"),
        ("- one\n- two\n", "markdown", "prose"),
        ("# Only a title", "markdown", "prose"),
        (PYTHON, "code", "code_block"),
        (FENCE, "markdown", "code_block"),
        (TABLE, "markdown", "table"),
        (f"Look:\n\n{FENCE}", "markdown", "code_block"),
        (f"Look:\n\n{TABLE}\nThat is all.\n", "markdown", "table"),
        (f"{prose('long', 8)}\n\n{TABLE}", "markdown", "prose"),
    ],
)
def test_a_passage_is_what_most_of_it_is(text: str, kind: Kind, content: Content) -> None:
    assert [chunk.content for chunk in chunks(text, kind=kind, size=500)] == [content]


def test_the_parts_of_a_long_table_a_fence_and_a_definition_stay_what_they_are() -> None:
    text = f"# T\n\n{prose('some', 3)}\n\n{TABLE * 9}\n{FENCE.replace('call', 'long call ' * 9)}\n{prose('more', 3)}\n"
    found = [chunk.content for chunk in chunks(text, kind="markdown", size=40, count=words)]
    assert [one for one, other in pairwise([*found, ""]) if one != other] == ["prose", "table", "code_block", "prose"]
    assert {chunk.content for chunk in chunks(PYTHON, kind="code", size=8, count=words)} == {"code_block"}


PIECES = st.sampled_from(
    [
        "# A\n", "## B ##\n", "Title\n===\n", "x\n---\n", "---\n", "```\n", "```py\n", "~~~\n", "| a | b |\n", "|---|---|\n", "- item\n", "  more\n",
        "1. one\n", "<div>\n", "> quote\n", "\n", "\n\n", "def f():\n", "    return 1\n", "@x\n", "// c\n", "}\n", "A sentence. ", "Và một câu nữa! ",
        "数据库连接失败。", "word ", "x" * 50, "e\u0301" * 20, "\r\n", "\r", "\ud800", "\x00", "\t", "\u2028", "\x0b", "a\u00a0b",
    ]
)  # fmt: skip
DOCUMENT = st.lists(PIECES | st.text(max_size=8), max_size=40).map("".join)
KINDS = st.sampled_from(["auto", "markdown", "code", "text"])


def covered(text: str, found: list[Chunk]) -> str:
    """What no passage and no heading holds."""
    rest = list(text)
    for chunk in found:
        for place in range(chunk.start, chunk.end):
            rest[place] = " "
    return "".join(rest)


@settings(deadline=None, max_examples=400)
@given(DOCUMENT, KINDS, st.integers(1, 60))
def test_every_word_is_in_a_passage_or_in_a_heading(text: str, kind: Kind, size: int) -> None:
    found = chunks(text, kind=kind, size=size)
    left = covered(text, found)
    if kind in ("code", "text"):
        assert not left.strip()
    titles = {word for chunk in found for title in chunk.heading for word in title.split()}
    for word in left.split():
        assert word in titles or not word.strip("#=-"), (word, found)


@settings(deadline=None, max_examples=400)
@given(DOCUMENT, KINDS, st.integers(1, 60))
def test_passages_follow_each_other_and_overlap_by_their_share_only(text: str, kind: Kind, size: int) -> None:
    first = last = 0
    for chunk in chunks(text, kind=kind, size=size):
        assert first <= chunk.start < chunk.end <= len(text)
        assert last < chunk.end
        again = text[chunk.start : last]
        assert not again or estimate(again) <= round(size * OVERLAP)
        assert text[chunk.start : chunk.end] in chunk.text
        assert chunk.text.strip()
        first, last = chunk.start, chunk.end


@settings(deadline=None)
@given(DOCUMENT, KINDS)
def test_the_same_document_gives_the_same_passages(text: str, kind: Kind) -> None:
    assert chunks(text, kind=kind) == chunks(text, kind=kind)


@pytest.mark.parametrize(
    "unit",
    ["a", "\n", "a\n", "# ", "```\n", "|", "|-\n", "- \n", ". ", "\u0301", ">\n", "<a\n", "  ", "@a\n", "{\n", "---\n"],
)
def test_endless_input_is_read_in_linear_time(unit: str) -> None:
    """A scanner that looks back for ever would not come back from this."""
    chunks(unit * (60_000 // len(unit)))
