"""Which files are meant."""

import unicodedata

import pytest

from kho.research.errors import InvalidDocumentRequest
from kho.research.ingest.globs import MAX_LENGTH, MAX_PATTERNS, Patterns


@pytest.mark.parametrize(
    ("include", "wanted", "others"),
    [
        (None, ["a.md", "b/c"], []),
        ("", ["a.md"], []),
        ("*.md", ["a.md", "deep/er/b.md", "README.MD"], ["a.mdx", "md", "a.md/b.txt"]),
        ("*.md, *.txt", ["a.md", "b/c.txt"], ["c.pdf"]),
        (["*.md", "notes/*.txt"], ["a.md", "notes/b.txt"], ["b.txt", "notes/deep/b.txt", "x/notes/b.txt"]),
        ("*.{md,txt}", ["a.md", "a.txt"], ["a.{md", "txt}"]),
        ("{a,b{c,d}}.md", ["a.md", "bc.md", "bd.md"], ["b.md", "c.md"]),
        ("{a}{,b}.md,{c", ["a.md", "ab.md", "{c"], ["c", "b.md"]),
        ("**/x/*.md", ["x/a.md", "b/x/a.md", "b/c/x/a.md"], ["x/y/a.md"]),
        ("docs/**", ["docs/a", "docs/b/c"], ["x/docs/a", "a"]),
        ("./docs/*.md", ["docs/a.md"], ["a.md"]),
        ("docs/", ["docs/a", "x/docs/b/c"], ["a"]),
        ("?.md", ["a.md", "đ.md"], ["ab.md"]),
        ("[ab].md", ["a.md", "b.md"], ["c.md"]),
        ("[z-a", ["[z-a"], ["z"]),
        ("!*.tmp", ["a.md"], ["a.tmp", "b/c.tmp"]),
        ("*.md,!drafts/", ["a.md"], ["drafts/a.md", "x/drafts/a.md"]),
        ("*Ghi chú*", ["Ghi chú 1.md", unicodedata.normalize("NFD", "GHI CHÚ")], ["Ghi chu"]),
    ],
)
def test_patterns(include: str | list[str] | None, wanted: list[str], others: list[str]) -> None:
    patterns = Patterns.of(include)
    assert [path for path in [*wanted, *others] if patterns.wants(path)] == wanted


def test_what_is_excluded_is_left_out_with_all_that_is_in_it() -> None:
    patterns = Patterns.of("*.md", exclude="drafts, old/**, *.draft.md")
    assert patterns.wants("a.md")
    assert not patterns.wants("a.draft.md")
    assert [path for path in ("drafts", "x/drafts", "old", "x/old", "new") if patterns.excludes(path)] == [
        "drafts", "x/drafts", "old",
    ]  # fmt: skip


@pytest.mark.parametrize("name", [".git", ".venv", ".hidden.md", "node_modules", "__pycache__", "venv", "Node_Modules"])
def test_hidden_and_junk_are_left_out_unless_named(name: str) -> None:
    assert Patterns.of("*").leaves_out(name)
    assert Patterns.of("**/*.md").leaves_out(name)
    assert not Patterns.of(f"{name}/**/*.md").leaves_out(name)
    assert not Patterns.of(f"*.md, {name}").leaves_out(name)


def test_a_hidden_name_is_named_by_a_pattern_that_begins_with_a_dot() -> None:
    assert not Patterns.of(".*").leaves_out(".notes")
    assert not Patterns.of(".n*/*.md").leaves_out(".notes")
    assert Patterns.of(".n*").leaves_out(".git")


def test_no_pattern_takes_long() -> None:
    assert not Patterns.of("*a" * 60 + "b").wants("a" * 250)
    assert not Patterns.of("**/" * 60 + "b").wants("a/" * 120 + "a")


@pytest.mark.parametrize(
    ("include", "exclude", "parameter"),
    [
        ("{a,b}" * 40, None, "patterns"),
        (None, "{a,b}" * 60, "exclude"),
        ("{a,{b,{c,d}}}" * 30, None, "patterns"),
        ("{" + "a," * MAX_PATTERNS + "b}", None, "patterns"),
        ([f"{number}.md" for number in range(MAX_PATTERNS + 1)], None, "patterns"),
        ("{a}" * MAX_LENGTH, None, "patterns"),
    ],
)
def test_too_many_patterns_are_refused_before_they_are_made(
    include: str | list[str] | None, exclude: str | None, parameter: str
) -> None:
    """Forty pairs of braces are 2**40 patterns: whoever makes them to count them does not come back."""
    with pytest.raises(InvalidDocumentRequest) as refused:
        Patterns.of(include, exclude)
    assert refused.value.details["parameter"] == parameter


def test_as_many_patterns_as_are_allowed() -> None:
    tens = "{" + ",".join("0123456789") + "}"
    assert len(set(Patterns.of(tens * 2).include)) == MAX_PATTERNS
    assert Patterns.of("{a}" * 1_000).include == ("a" * 1_000,)
