"""What stands before a text, and numbers that would lose how they are written."""

import pytest

from kho.lib.front_matter import FrontMatter, find, number, toml


@pytest.mark.parametrize(
    ("text", "front"),
    [
        ("---\na: 1\n---\nx", FrontMatter("a: 1\n", False, 13)),
        ("---\r\na: 1\r\n---\r\nx", FrontMatter("a: 1\r\n", False, 16)),
        ("---\n---", FrontMatter("", False, 7)),
        ("---\na: 1\n...\nx", FrontMatter("a: 1\n", False, 13)),
        ("+++\na = 1\n...\n+++\nx", FrontMatter("a = 1\n...\n", True, 18)),
        ("--- \t\na: 1\n----\n--- \nx", FrontMatter("a: 1\n----\n", False, 21)),
        ("----\na: 1\n----\n", None),
        ("---\na: 1\n+++\n", None),
        ("\n---\na: 1\n---\n", None),
    ],
)
def test_where_it_is(text: str, front: FrontMatter | None) -> None:
    assert find(text) == front


@pytest.mark.parametrize(
    "text", ["1.10", "007", "1_000", "+1", ".5", "1E5", "0x1F", "inf", "nan", "-0", "9" * 30, "٣", "x"]
)
def test_what_a_number_would_lose_stays_a_text(text: str) -> None:
    assert number(text) == text


@pytest.mark.parametrize(
    "text", ["1", "-7", "1.1", "0.0", "-0.0", "1e-07", "1e-7", "2.5e+22", str(2**64 - 1), str(-(2**63))]
)
def test_numbers(text: str) -> None:
    found = number(text)
    assert (found, type(found)) == (float(text), float) if {*text} & {*".e"} else (int(text), int)


def test_toml_keeps_how_a_number_is_written() -> None:
    assert toml("a = 1.10\nb = 1.5\nc = inf") == {"a": "1.10", "b": 1.5, "c": "inf"}
    for broken in ("a", f"a = {'[' * 5000}"):
        with pytest.raises(ValueError, match=r"nested|Expected"):
            toml(broken)
