"""What a start loads: our own modules, and packages of others. `make commands` writes the list."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FILE = Path(__file__).parent / "started.json"
CHILD = """
import sys
from kho.__main__ import main

try:
    main()
finally:
    print("loaded:", *sys.modules, file=sys.stderr)
"""
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
USUAL = {"KHO_SEARCH__EMBEDDER__PROVIDER": "none", "PATH": os.environ["PATH"]}
STARTS = {
    "--help": "",
    "docs list": "",
    "experiences query x": "",
    "stdio": json.dumps(HELLO) + "\n",
}
"""A start, and what it reads. `stdio` ends with its greeting."""


def started(home: Path, *arguments: str, stdin: str = "", **environment: str) -> tuple[str, set[str]]:
    """What it prints, and the modules that were loaded for it."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        env={**USUAL, "KHO_HOME": str(home), **environment},
    )
    return done.stdout, {*done.stderr.rpartition("loaded:")[2].split()}


def named(loaded: set[str]) -> list[str]:
    """Our modules each, others' by their packages; Python's own are left out."""
    names = {name if name.startswith("kho.") else name.partition(".")[0] for name in loaded}
    return sorted(name for name in names - {*sys.stdlib_module_names} if not name.startswith("_"))


def lists(home: Path) -> dict[str, list[str]]:
    return {words: named(started(home, *words.split(), stdin=stdin)[1]) for words, stdin in STARTS.items()}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        FILE.write_text(json.dumps(lists(Path(folder)), indent=1) + "\n", "utf-8")
