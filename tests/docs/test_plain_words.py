"""What people and models read is in the users' words: none of the builders' own, and no phrase that was stumbled over."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kho import slices
from kho.doors.cli import parameters

ROOT = Path(__file__).resolve().parents[2]
FOR_BUILDERS = ("adding-a-capability.md", "performance.md")
PAGES = [ROOT / "README.md", *(page for page in sorted((ROOT / "docs").glob("*.md")) if page.name not in FOR_BUILDERS)]
BUILDERS = re.compile(r"\b(doors?|slices?|eras?|filed|anew|lately|for want of|the house|left without|is no [A-Z]\w+)\b")
STUMBLED = (
    "that it is not it",
    "that there is not",
    "come along",
    "Nobody is asked about",
    "Say how the store",
)
CODE = re.compile(r"```.*?```|`[^`]*`", re.DOTALL)
LINKS = re.compile(r"\]\([^)]*\)")


def complaints(text: str) -> list[str]:
    plain = " ".join(LINKS.sub("]", CODE.sub("", text)).split())
    return [found[0] for found in BUILDERS.finditer(plain)] + [phrase for phrase in STUMBLED if phrase in plain]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_users_words(page: Path) -> None:
    assert complaints(page.read_text()) == []


def test_operations_use_the_users_words() -> None:
    found = {(where, one) for where, text in _described() for one in complaints(text)}
    assert not {(where, one) for where, one in found if not (where.startswith("audit_log") and one == "slice")}


def test_parameters_that_have_a_flag_are_described() -> None:
    bare = [
        f"{command.words} {parameters.flag(command, field)}"
        for capability in slices.describe(slices.SLICES).capabilities
        for operation in capability.operations
        for command in operation.cli
        for field in parameters.flagged(operation, command)
        if not parameters.specs(operation)[field].get("description")
        and "enum" not in parameters.specs(operation)[field]
    ]
    assert bare == []


@pytest.mark.parametrize("text", ["It is no DOCX file.", "the most lately used first", "Served at every door."])
def test_a_slip_is_noticed(text: str) -> None:
    assert complaints(text)


def test_contracts_are_explained_once_and_linked() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    assert all(number in index.partition("## Contracts")[2] for number in ("000", "001", "002", "003", "004"))
    for page in PAGES:
        first = re.search(r"\W[Cc]ontract\s00[0-4]", text := page.read_text())
        assert first is None or page.name == "README.md" or "(index.md#contracts)" in text, page.name


def _described() -> Iterator[tuple[str, str]]:
    for capability in slices.describe(slices.SLICES).capabilities:
        yield capability.name, capability.summary
        for operation in capability.operations:
            name = operation.tool or operation.name
            yield name, f"{operation.summary} {operation.description}"
            yield from ((f"{name}.{path}", text) for path, text in _fields(operation.input_schema))
            yield from (
                (command.words, f"{command.summary} {command.group} {command.asks}") for command in operation.cli
            )


def _fields(schema: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, spec in cast(dict[str, Any], schema.get("properties", {})).items():
        if isinstance(spec, dict):
            inner = cast(dict[str, Any], spec)
            yield name, str(inner.get("description", ""))
            yield from _fields(inner)
