"""An environment with the wheel, what it needs in the pinned versions, and nothing of this repository."""

import os
import subprocess
import sys
from pathlib import Path

from tests.fuse import loopback_only
from tests.timeouts import PATIENCE

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
LEFT_OUT = ("KHO_", "PYTHON", "VIRTUAL_ENV", "MAKE")
"""Beginnings of variables that would lead back here."""


def run(*command: str | Path, env: dict[str, str], cwd: Path, stdin: str = "") -> str:
    """What the command prints; it must end well."""
    done = subprocess.run(command, env=env, cwd=cwd, input=stdin, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def environment(home: Path, *path: Path, **more: str) -> dict[str, str]:
    """The variables of a shell that finds programs in `path` and the system's own folders."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    found = os.pathsep.join([*map(str, path), "/usr/local/bin", "/usr/bin", "/bin"])
    # No test searches the web; nothing is downloaded but packages.
    own = {"KHO_HOME": str(home), "KHO_TOOLBOX__SEARCH_PROXY": "http://127.0.0.1:9"}
    return {**kept, "PATH": found, **own, **more}


def make(target: str, folder: Path) -> None:
    """`make wheel` or `make bundle`, with its result in the folder."""
    # It may fetch packages, which nothing else in the tests may: without its report the fuse of the tests is not put in.
    left_out = ("MAKE", loopback_only.REPORT)
    own = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    run("make", "--silent", target, f"DIST={folder}", env=own, cwd=ROOT)


def install(wheel: Path, folder: Path) -> Path:
    """A new virtual environment with the wheel; gives the folder of its programs."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)}
    python = folder / "bin" / "python"
    run(UV, "venv", "--quiet", "--python", base_python(), folder, env=own, cwd=folder.parent)
    pip = (UV, "pip", "install", "--quiet", "--python", python)
    run(*pip, "--require-hashes", "-r", ROOT / "requirements" / "runtime.txt", env=own, cwd=folder.parent)
    run(*pip, "--no-index", wheel, env=own, cwd=folder.parent)  # refused, if the pinned are not all that it needs
    return python.parent


def base_python() -> str:
    """The Python that this environment was made from."""
    return str(getattr(sys, "_base_executable", sys.executable))
