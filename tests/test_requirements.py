"""Every demand in requirements.toml is shown by a test, and every test that names a demand names one of these.

The tests are read, not imported: `@pytest.mark.requirement("id", …)` on a function, a class or inside a parametrised
case counts, and so does a module's `pytestmark`.
"""

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).parent
ID = re.compile(r"\d{3}(\.[a-z0-9]+(-[a-z0-9]+)*){2}")


def named(text: str) -> Iterator[str]:
    """The ids that a test file names. An id that cannot be read off the source is an error of its own."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.requirement":
            for argument in node.args:
                if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
                    raise ValueError(f"line {node.lineno}: write the requirement's id as a plain string")
                yield argument.value


def unshown_and_unknown(demands: Iterable[str], tests: dict[str, str]) -> tuple[list[str], list[str]]:
    """Demands that no test names, and `file: id` of names that are no demand."""
    wanted = set(demands)
    found = [(file, id) for file, text in tests.items() for id in named(text)]
    return sorted(wanted - {id for _, id in found}), sorted({f"{file}: {id}" for file, id in found if id not in wanted})


@pytest.fixture(scope="module")
def manifest() -> dict[str, Any]:
    return tomllib.loads((TESTS / "requirements.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def tests() -> dict[str, str]:
    return {str(path.relative_to(TESTS)): path.read_text("utf-8") for path in sorted(TESTS.rglob("*.py"))}


def test_every_demand_is_shown(manifest: dict[str, Any], tests: dict[str, str]) -> None:
    unshown, _ = unshown_and_unknown(manifest["requirements"], tests)
    assert not unshown, f"{len(unshown)} demands have no test:\n" + "\n".join(unshown)


def test_every_name_is_a_demand(manifest: dict[str, Any], tests: dict[str, str]) -> None:
    _, unknown = unshown_and_unknown(manifest["requirements"], tests)
    assert not unknown, "not in requirements.toml:\n" + "\n".join(unknown)


def test_the_manifest_is_well_formed(manifest: dict[str, Any]) -> None:
    for id, demand in manifest["requirements"].items():
        assert ID.fullmatch(id), f"{id} is not of the form 000.part.demand"
        assert demand.keys() == {"seed", "text"}, id
        assert demand["seed"] in manifest["seeds"], f"{id}: unknown seed {demand['seed']}"
        assert id.startswith(demand["seed"] + "."), id
        assert demand["text"].endswith("."), f"{id}: write a sentence"


# The checker itself. The samples spell the marker in pieces, so that they are not taken for marks of this file.
MARK = "pytest.mark.require" + "ment"


@pytest.mark.parametrize(
    "sample",
    [
        f"@{MARK}('003.a.b')\ndef test(): ...",
        f"@{MARK}('003.a.b')\nasync def test(): ...",
        f"@{MARK}('003.a.b')\nclass TestThis: ...",
        f"@pytest.mark.parametrize('x', [pytest.param(1, marks={MARK}('003.a.b'))])\ndef test(x): ...",
        f"pytestmark = [{MARK}('003.a.b')]",
    ],
)
def test_a_mark_is_seen(sample: str) -> None:
    assert unshown_and_unknown(["003.a.b"], {"test_x.py": sample}) == ([], [])


def test_a_demand_without_a_test_is_reported() -> None:
    sample = f"@{MARK}('003.a.b')\ndef test(): ..."
    assert unshown_and_unknown(["003.a.b", "003.a.c"], {"test_x.py": sample}) == (["003.a.c"], [])


def test_an_unknown_name_is_reported() -> None:
    sample = f"@{MARK}('003.a.b', '003.a.typo')\ndef test(): ..."
    assert unshown_and_unknown(["003.a.b"], {"test_x.py": sample}) == ([], ["test_x.py: 003.a.typo"])


def test_a_name_in_a_comment_or_text_shows_nothing() -> None:
    assert unshown_and_unknown(["003.a.b"], {"test_x.py": f"# @{MARK}('003.a.b')\n'{MARK}(003.a.b)'"})[0] == ["003.a.b"]


def test_an_id_that_is_computed_is_refused() -> None:
    with pytest.raises(ValueError, match="line 1: write the requirement's id as a plain string"):
        unshown_and_unknown([], {"test_x.py": f"@{MARK}(f'003.{{part}}')\ndef test(): ..."})
