"""How the program starts: a command loads no more than it needs, because loading takes longer than most commands."""

import subprocess
import sys
from pathlib import Path

import pytest

from kho import __version__

CHILD = """
import sys
from kho.__main__ import main

try:
    main()
finally:
    print(*{name.partition(".")[0] for name in sys.modules}, file=sys.stderr)
"""
HEAVY = {"mcp", "numpy", "openai", "psycopg", "rich", "uvicorn", "websockets"}


def started(home: Path, *arguments: str) -> tuple[str, set[str]]:
    """What it prints, and the packages that were loaded for it."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={"KHO_HOME": str(home), "KHO_SEARCH__EMBEDDER__PROVIDER": "none"},
    )
    return done.stdout, {*done.stderr.split()}


def test_the_version_needs_nothing(tmp_path: Path) -> None:
    said, loaded = started(tmp_path, "--version")
    assert said == f"kho, version {__version__}\n"
    assert not loaded & {"pydantic", "click", "apsw", *HEAVY}
    # Among other words the command line answers, and says the same.
    assert started(tmp_path, "--version", "serve")[0] == said


@pytest.mark.parametrize(
    "arguments", [("--help",), ("memory", "list", "--help"), ("memory", "list", "--json"), ("memory", "list")]
)
def test_a_command_loads_neither_the_web_nor_a_model(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    said, loaded = started(tmp_path, *arguments)
    assert said
    assert not loaded & HEAVY
