"""Front matter becomes what the document says of itself; what is none stays text."""

import pytest

from kho.parsers import read
from kho.parsers.front_matter import MAX_TAGS, FileMetadata, split

BODY = "\n# Kettles\n\nCitric acid.\n"


@pytest.mark.parametrize(
    ("matter", "said"),
    [
        ("---\ntitle: Sổ tay\n---\n", FileMetadata("Sổ tay")),
        ('---\ntitle: "A: \\"b\\"" # so\n---\n', FileMetadata('A: "b"')),
        ("---\nTitle: 'It''s'\ntags: [a, \"b, c\", 'd']\n...\n", FileMetadata("It's", ("a", "b, c", "d"))),
        ("---\ntags:\n  - one\n  - two\n- three\n---\n", FileMetadata(tags=("one", "two", "three"))),
        ("---\ntags: one, two, One\n---\n", FileMetadata(tags=("one", "two"))),
        ("---\nauthor: Mai\ndate: 2026-07-28\n---\n", FileMetadata(author="Mai", published="2026-07-28")),
        (
            "---\nauthors:\n- Mai\n- Lan\ndate: 2026-07-28T10:00:00Z\n---\n",
            FileMetadata("", (), "Mai, Lan", "2026-07-28"),
        ),
        (
            "---\ntitle: Tea: a guide\nauthor: *anyone\ntags: [a\n---\n",
            FileMetadata("Tea: a guide", ("[a",), "*anyone"),
        ),
        (
            '---\ntitle: 1.10\nauthor: true\ntags: [2024, "x # y"]\n---\n',
            FileMetadata("1.10", ("2024", "x # y"), "true"),
        ),
        ("---\ndate: last week\ntitle:\n---\n", FileMetadata()),
        ("---\ndate: 2026-13-01\n---\n", FileMetadata()),
        ("---\n# a comment\nlayout: post\nnested:\n  title: no\n  tags: [x]\n\ntitle: yes\n---\n", FileMetadata("yes")),
        ("---\ntitle: >\n  folded\n  lines\n---\n", FileMetadata("folded lines")),
        (f"---\ntags: [{', '.join(map(str, range(50)))}]\n---\n", FileMetadata(tags=tuple(map(str, range(MAX_TAGS))))),
        (
            '+++\ntitle = "Hugo"\ntags = ["a", "b"]\ndate = 2026-07-28\n+++\n',
            FileMetadata("Hugo", ("a", "b"), None, "2026-07-28"),
        ),
    ],
)
def test_what_it_says_is_taken_out(matter: str, said: FileMetadata) -> None:
    assert split(matter + BODY) == (said, BODY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        BODY,
        "---\n\nA line above and one below.\n\n---\n\nText.\n",
        "---\ntitle: never closed\n\nText.\n",
        "---\n{broken\n---\nText.\n",
        "---\n  title: begins deeper\n---\nText.\n",
        "---\n--force: a flag\n---\nText.\n",
        "+++\nnot toml\n+++\nText.\n",
        "---\ntitle: nothing else\n---\n\n",
        "Text.\n---\ntitle: too late\n---\n",
        "----\ntitle: a longer line\n----\nText.\n",
    ],
)
def test_what_is_none_stays_text(text: str) -> None:
    assert split(text) == (FileMetadata(), text)


def test_a_file_is_read_without_it() -> None:
    raw = f"---\ntitle: Bình đun\ntags: [nhà]\nauthor: Mai\ndate: 2026\nsecret: umami\n---\n{BODY}".encode()
    for name in ("a.md", "a.txt"):
        found = read(raw, name)
        assert (found.title, found.tags, found.author, found.published) == ("Bình đun", ("nhà",), "Mai", "2026")
        assert found.text == BODY
